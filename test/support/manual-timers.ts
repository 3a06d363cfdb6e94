import type { Timers } from '../../process/time/clock.ts';

interface Entry {
  dueMs: number;
  everyMs: number | undefined;
  callback: () => void;
}

/** Time that moves only when the test says so. */
export class ManualTimers implements Timers {
  readonly #entries = new Set<Entry>();
  #nowMs = 0;

  get nowMs(): number {
    return this.#nowMs;
  }

  /** How many timers are set. */
  get size(): number {
    return this.#entries.size;
  }

  after(delayMs: number, callback: () => void): () => void {
    return this.#add({ dueMs: this.#nowMs + delayMs, everyMs: undefined, callback });
  }

  every(intervalMs: number, callback: () => void): () => void {
    return this.#add({ dueMs: this.#nowMs + intervalMs, everyMs: intervalMs, callback });
  }

  /** Moves time on to the timer that is due next of those that fire once; throws when none is set. */
  advanceToNext(): void {
    const once = [...this.#entries].filter(({ everyMs }) => everyMs === undefined);
    const dueMs = Math.min(...once.map((entry) => entry.dueMs));
    if (!Number.isFinite(dueMs)) throw new Error('no timer is set');
    this.advance(dueMs - this.#nowMs);
  }

  /** Moves time on and fires what falls due on the way, in order. */
  advance(ms: number): void {
    const end = this.#nowMs + ms;
    for (;;) {
      let next: Entry | undefined;
      for (const entry of this.#entries) {
        if (entry.dueMs <= end && (next === undefined || entry.dueMs < next.dueMs)) next = entry;
      }
      if (next === undefined) break;
      this.#nowMs = next.dueMs;
      if (next.everyMs === undefined) this.#entries.delete(next);
      else next.dueMs += next.everyMs;
      next.callback();
    }
    this.#nowMs = end;
  }

  #add(entry: Entry): () => void {
    this.#entries.add(entry);
    return () => this.#entries.delete(entry);
  }
}
