/** Time that passes as fast as there is something to do, for all processes of a simulation in one thread. */
import type { Clock, Timers } from '../../process/time/clock.ts';

interface Entry {
  dueMs: number;
  /** Entries of one moment keep their order. */
  number: number;
  /** Undefined: called off. */
  callback: (() => void) | undefined;
}

/** Chosen: so many moments at one time are a loop that waits for nothing. */
const maxRounds = 10_000;

export class VirtualTime implements Timers {
  #heap: Entry[] = [];
  #number = 0;
  #nowMs = 0;

  get nowMs(): number {
    return this.#nowMs;
  }

  /** Whole milliseconds, so that more falls into one moment. */
  after(delayMs: number, callback: () => void): () => void {
    const dueMs = this.#nowMs + Math.max(0, Math.ceil(delayMs));
    const entry: Entry = { dueMs, number: this.#number++, callback };
    this.#push(entry);
    return () => {
      entry.callback = undefined;
    };
  }

  every(intervalMs: number, callback: () => void): () => void {
    let callOff: () => void;
    const next = (): void => {
      callOff = this.after(intervalMs, () => {
        next();
        callback();
      });
    };
    next();
    return () => callOff();
  }

  /** What is due until then happens, and after each moment what follows from it. */
  async advance(ms: number): Promise<void> {
    const endMs = this.#nowMs + ms;
    await settled();
    let rounds = 0;
    while (this.#heap.length > 0 && this.#heap[0]!.dueMs <= endMs) {
      const { dueMs } = this.#heap[0]!;
      rounds = dueMs > this.#nowMs ? 0 : rounds + 1;
      if (rounds > maxRounds) throw new Error(`time stands still at ${dueMs} ms`);
      this.#nowMs = dueMs;
      let isAny = false;
      while (this.#heap.length > 0 && this.#heap[0]!.dueMs <= dueMs) {
        const { callback } = this.#pop();
        if (callback === undefined) continue;
        isAny = true;
        callback();
      }
      if (isAny) await settled();
    }
    this.#nowMs = endMs;
  }

  #push(entry: Entry): void {
    const heap = this.#heap;
    let at = heap.push(entry) - 1;
    while (at > 0) {
      const parent = (at - 1) >> 1;
      if (isBefore(heap[parent]!, entry)) break;
      heap[at] = heap[parent]!;
      at = parent;
    }
    heap[at] = entry;
  }

  #pop(): Entry {
    const heap = this.#heap;
    const first = heap[0]!;
    const last = heap.pop()!;
    const size = heap.length;
    if (size === 0) return first;
    let at = 0;
    for (;;) {
      let child = 2 * at + 1;
      if (child >= size) break;
      if (child + 1 < size && isBefore(heap[child + 1]!, heap[child]!)) child += 1;
      if (isBefore(last, heap[child]!)) break;
      heap[at] = heap[child]!;
      at = child;
    }
    heap[at] = last;
    return first;
  }
}

function isBefore(a: Entry, b: Entry): boolean {
  return a.dueMs < b.dueMs || (a.dueMs === b.dueMs && a.number < b.number);
}

/** Promises that wait for nothing but promises have settled. */
function settled(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

/** Chosen: any time of the wall clock at which simulations begin. */
export const epochMs = Date.parse('2027-01-01T00:00:00Z');

/** One process: its clock may be wrong, it may stand still, and after its end nothing of it happens any more. */
export class SimulatedProcess {
  readonly #time: VirtualTime;
  readonly #held: (() => void)[] = [];
  #state: 'running' | 'frozen' | 'dead' = 'running';
  #skewMs = 0;
  readonly #skews: { sinceMs: number; skewMs: number }[] = [{ sinceMs: 0, skewMs: 0 }];
  #latestMs = 0;
  #frozenMs = 0;
  /** The last time in which it stood still. */
  pause: { beginMs: number; endMs: number } | undefined;
  readonly clock: Clock = {
    nowMs: () => epochMs + this.#time.nowMs + this.#skewMs,
    monotonicMs: () => this.#time.nowMs,
  };
  readonly timers: Timers = {
    after: (delayMs, callback) => this.#after(delayMs, callback),
    every: (intervalMs, callback) => {
      let callOff: () => void;
      const next = (): void => {
        callOff = this.#after(intervalMs, () => {
          next();
          callback();
        });
      };
      next();
      return () => callOff();
    },
  };

  constructor(time: VirtualTime) {
    this.#time = time;
  }

  /** How far its wall clock is ahead. */
  set skewMs(ms: number) {
    this.#latestMs = this.latestMs;
    this.#skewMs = ms;
    this.#skews.push({ sinceMs: this.#time.nowMs, skewMs: ms });
  }

  /** The first time of the simulation at which its wall clock showed this. */
  timeOf(wallMs: number): number {
    const times = this.#skews.map(({ skewMs }) => wallMs - epochMs - skewMs);
    const isShown = (ms: number, index: number): boolean => {
      const untilMs = this.#skews[index + 1]?.sinceMs ?? Number.POSITIVE_INFINITY;
      return ms >= this.#skews[index]!.sinceMs - 1 && ms <= untilMs;
    };
    return times.find(isShown) ?? this.#time.nowMs;
  }

  /** The latest time that its wall clock ever showed, as a time of the simulation. */
  get latestMs(): number {
    return Math.max(this.#latestMs, this.#time.nowMs + this.#skewMs);
  }

  get isRunning(): boolean {
    return this.#state === 'running';
  }

  get isDead(): boolean {
    return this.#state === 'dead';
  }

  /** Something comes to it: at once, when it goes on, or never. */
  deliver(callback: () => void): void {
    if (this.#state === 'running') callback();
    else if (this.#state === 'frozen') this.#held.push(callback);
  }

  freeze(): void {
    if (this.#state !== 'running') return;
    this.#state = 'frozen';
    this.#frozenMs = this.#time.nowMs;
  }

  thaw(): void {
    if (this.#state !== 'frozen') return;
    this.#state = 'running';
    this.pause = { beginMs: this.#frozenMs, endMs: this.#time.nowMs };
    for (const callback of this.#held.splice(0)) this.#time.after(0, () => this.deliver(callback));
  }

  kill(): void {
    this.#state = 'dead';
    this.#held.length = 0;
  }

  #after(delayMs: number, callback: () => void): () => void {
    let isOff = false;
    const callOff = this.#time.after(delayMs, () =>
      this.deliver(() => {
        if (!isOff) callback();
      }),
    );
    return () => {
      isOff = true;
      callOff();
    };
  }
}
