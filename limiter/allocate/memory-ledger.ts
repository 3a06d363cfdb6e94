/** The ledger of one counter in memory: does what `luaLeases` does with messages about shares, for limiters of one process. */
import type { LeaseTerms } from '../stores/operation.ts';

interface CounterShares {
  last: number;
  granted: number;
  spent: number;
  charged: number;
  hungry: number;
  livesUntilMs: number;
}

export class MemoryLedger {
  readonly #entries = new Map<string, CounterShares>();

  /** Answers the message and returns the counter's new value. */
  apply(lease: LeaseTerms, before: number, nowMs: number): number {
    const { limiter, sequence, spent, keeps, want, limit, charged, hungry, livesMs } = lease;
    const own = this.#entries.get(limiter);
    const mine = own?.granted ?? 0;
    let value = before;
    lease.granted = 0;
    if (sequence > (own?.last ?? 0)) {
      const newlySpent = Math.min(mine, Math.max(0, spent - (own?.spent ?? spent)));
      const left = Math.max(0, value - mine + newlySpent);
      const granted = keeps + Math.min(want, Math.max(0, limit - left - keeps));
      value = left + granted;
      lease.granted = granted;
      const livesUntilMs = nowMs + livesMs;
      this.#entries.set(limiter, {
        ...{ last: sequence, granted, spent, hungry, livesUntilMs },
        // The sums are from before the message.
        charged: charged + granted - keeps,
      });
    }
    lease.top = value;
    lease.othersCharged = 0;
    lease.othersHungry = 0;
    for (const [name, other] of this.#entries) {
      if (name === limiter || other.livesUntilMs <= nowMs) continue;
      lease.othersCharged += other.charged;
      lease.othersHungry += other.hungry;
    }
    return value;
  }
}
