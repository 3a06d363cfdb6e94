/** Counters with ledgers of leases, in memory and as plainly as can be: what a script does to one counter. */
import type { FoldedRun } from '../../limiter/stores/folded-run.ts';

export class LedgerModel {
  /** Undefined: missing. */
  value: number | undefined;
  /** By limiter: its last message, what that was granted, and what it had spent before. */
  readonly grants = new Map<string, { last: number; granted: number; spent: number }>();
  /** Hits that ops added, without those that they took back, as far as they could. */
  counted = 0;

  get outstanding(): number {
    let total = 0;
    for (const { granted } of this.grants.values()) total += granted;
    return total;
  }

  /** Applies a run of one op or several and answers it. */
  apply(run: FoldedRun): void {
    const { lease } = run;
    if (lease === undefined) {
      const before = this.value ?? 0;
      this.#move(run, 0);
      run.answer(before);
      return;
    }
    if (this.value === undefined) this.grants.clear();
    const own = this.grants.get(lease.limiter) ?? { last: 0, granted: 0, spent: lease.spent };
    const isNewer = lease.sequence > own.last;
    if (isNewer) {
      const spent = Math.min(Math.max(0, lease.spent - own.spent), own.granted);
      if (this.value !== undefined) this.value = Math.max(0, this.value - (own.granted - spent));
      this.grants.set(lease.limiter, { last: lease.sequence, granted: 0, spent: lease.spent });
    }
    const before = this.value ?? 0;
    const outstanding = this.outstanding;
    const after = this.#move(run, Math.min(outstanding, before));
    let granted = 0;
    if (isNewer && this.value !== undefined && lease.want >= 2) {
      const others = [...this.grants].filter(
        ([limiter, { granted: some }]) => limiter !== lease.limiter && some > 0,
      );
      const left = lease.limit - after;
      const sharers = others.length + 1;
      if (left >= sharers * lease.max) granted = Math.min(lease.want, lease.max, Math.floor(left / sharers));
    }
    if (isNewer) {
      this.grants.set(lease.limiter, { last: lease.sequence, granted, spent: lease.spent });
      if (granted > 0) this.value = after + granted;
      if (granted === 0 && lease.forgets) this.grants.delete(lease.limiter);
    }
    if (this.value === undefined) this.grants.clear();
    run.answerLeased(before, outstanding, granted);
  }

  /** Adds to what is above the floor; gives the value. */
  #move({ shift, low, high, ttlSeconds }: FoldedRun, floor: number): number {
    const before = this.value ?? 0;
    const after = floor + Math.min(high, Math.max(low, before - floor + shift));
    if (this.value === undefined && ttlSeconds === 0) return after;
    this.value = after;
    this.counted += after - before;
    return after;
  }
}
