/** The only source of time. It is passed in, so that tests can stop time. */
export interface Clock {
  /** Milliseconds since 1970-01-01 UTC. */
  nowMs(): number;
  /** Milliseconds on a scale that never jumps and is the same for all threads. Only differences have a meaning. */
  monotonicMs(): number;
}

/** The origin of this thread's `performance.now`, which differs between threads. */
const beginMs = Number(process.hrtime.bigint()) / 1e6 - performance.now();

export const systemClock: Clock = {
  nowMs: Date.now,
  monotonicMs: () => beginMs + performance.now(),
};

/**
 * Timers for delays that decide what a part does next. They are passed in, so that tests can advance time by hand. Timeouts of sockets
 * do not use them.
 */
export interface Timers {
  /** Calls back once. Returns a function that cancels it. */
  after(delayMs: number, callback: () => void): () => void;
  /** Calls back repeatedly, the first time after one interval. Returns a function that ends it. */
  every(intervalMs: number, callback: () => void): () => void;
}

/** The clock and the timers of a process. */
export interface ProcessTime {
  clock: Clock;
  timers: Timers;
}

function timersOfNode(isHeld: boolean): Timers {
  const held = (timer: NodeJS.Timeout): NodeJS.Timeout => (isHeld ? timer : timer.unref());
  return {
    after(delayMs, callback) {
      const timer = held(setTimeout(callback, delayMs));
      return () => clearTimeout(timer);
    },
    every(intervalMs, callback) {
      const timer = held(setInterval(callback, intervalMs));
      return () => clearInterval(timer);
    },
  };
}

/** Timers of Node. A running timer keeps the process alive, so it must be canceled. */
export const systemTimers = timersOfNode(true);

/** The same timers without keeping the process alive. */
export const unrefTimers = timersOfNode(false);

/** Returns the result of `work`, or `late` if that takes longer than `timeoutMs`. */
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

/** Chosen: the interval at which the clock is read. A gap between two readings counts as at most twice this. */
const beatMs = 50;

let beat: NodeJS.Timeout | undefined;
let lastMs = 0;
let countedMs = 0;

/**
 * The time for waiting on another party, in milliseconds of which only differences have a meaning. Time during which this thread is
 * blocked does not count, because it can receive nothing. Before a timeout is decided, input that has arrived is read: the check phase
 * of Node's event loop comes after the one that reads sockets.
 * https://nodejs.org/en/learn/asynchronous-work/event-loop-timers-and-nexttick
 */
export function unblockedMs(): number {
  const nowMs = performance.now();
  if (beat === undefined) {
    lastMs = nowMs;
    beat = setInterval(look, beatMs).unref();
  }
  return countedMs + Math.min(nowMs - lastMs, 2 * beatMs);
}

function look(): void {
  countedMs = unblockedMs();
  lastMs = performance.now();
}

/** Timers for deciding that another party is silent. */
export const unblockedTimers: Timers = {
  after: (delayMs, callback) => afterAttended(delayMs, callback, true),
  every: ticksAfterReading(systemTimers),
};

/** The same timers without keeping the process alive. */
export const unrefUnblockedTimers: Pick<Timers, 'after'> = {
  after: (delayMs, callback) => afterAttended(delayMs, callback, false),
};

function afterAttended(delayMs: number, callback: () => void, isHeld: boolean): () => void {
  const dueMs = unblockedMs() + delayMs;
  let timer: NodeJS.Timeout;
  let check: NodeJS.Immediate | undefined;
  const wait = (ms: number): void => {
    timer = setTimeout(fire, ms);
    if (!isHeld) timer.unref();
  };
  function fire(): void {
    const leftMs = dueMs - unblockedMs();
    // Timers of Node may fire a fraction of a millisecond early.
    if (leftMs >= 1) wait(leftMs);
    else check = setImmediate(callback);
  }
  wait(delayMs);
  return () => {
    clearTimeout(timer);
    clearImmediate(check);
  };
}

/**
 * The same for counting ticks: each tick comes after waiting input was read. Ticks missed while the thread was blocked are not repeated,
 * so they count as one.
 */
export function ticksAfterReading(timers: Pick<Timers, 'every'>): Timers['every'] {
  return (intervalMs, callback) => {
    let check: NodeJS.Immediate | undefined;
    const end = timers.every(intervalMs, () => {
      check = setImmediate(callback);
    });
    return () => {
      end();
      clearImmediate(check);
    };
  };
}
