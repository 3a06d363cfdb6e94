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
