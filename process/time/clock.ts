/** The one source of time. Passed in, so that tests run with time standing still. */
export interface Clock {
  /** Milliseconds since 1970-01-01 UTC. */
  nowMs(): number;
  /** Milliseconds on a scale that never jumps, and is the same for all threads; only differences mean something. */
  monotonicMs(): number;
}

/** Where a thread's `performance.now` begins is its own affair. */
const beginMs = Number(process.hrtime.bigint()) / 1e6 - performance.now();

export const systemClock: Clock = {
  nowMs: () => Date.now(),
  monotonicMs: () => beginMs + performance.now(),
};

/** Delays that decide what a part does next. Passed in, so that tests move time by hand; mere bounds on sockets are not. */
export interface Timers {
  /** Calls back once. Returns what calls it off. */
  after(delayMs: number, callback: () => void): () => void;
  /** Calls back again and again, the first time after one interval. Returns what ends it. */
  every(intervalMs: number, callback: () => void): () => void;
}

/** Timers of Node. A set timer keeps the process alive: who sets one calls it off. */
export const systemTimers: Timers = {
  after(delayMs, callback) {
    const timer = setTimeout(callback, delayMs);
    return () => clearTimeout(timer);
  },
  every(intervalMs, callback) {
    const timer = setInterval(callback, intervalMs);
    return () => clearInterval(timer);
  },
};

/** What `work` settles with, or `late` when that takes longer than `timeoutMs`. */
export async function inTime<T, L>(
  timers: Timers,
  timeoutMs: number,
  work: Promise<T>,
  late: L,
): Promise<T | L> {
  let callOff = (): void => {};
  const timeIsUp = new Promise<L>((resolve) => {
    callOff = timers.after(timeoutMs, () => resolve(late));
  });
  try {
    return await Promise.race([work, timeIsUp]);
  } finally {
    callOff();
  }
}
