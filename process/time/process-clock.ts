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
