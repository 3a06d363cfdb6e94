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
  nowMs: Date.now,
  monotonicMs: () => beginMs + performance.now(),
};

/** Delays that decide what a part does next. Passed in, so that tests move time by hand; mere bounds on sockets are not. */
export interface Timers {
  /** Calls back once. Returns what calls it off. */
  after(delayMs: number, callback: () => void): () => void;
  /** Calls back again and again, the first time after one interval. Returns what ends it. */
  every(intervalMs: number, callback: () => void): () => void;
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

/** Timers of Node. A set timer keeps the process alive: who sets one calls it off. */
export const systemTimers = timersOfNode(true);

/** The same, which do not keep the process alive. */
export const looseTimers = timersOfNode(false);

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

/** Chosen: how often the clock looks. A gap between two looks counts as twice this at most. */
const beatMs = 50;

let beat: NodeJS.Timeout | undefined;
let lastMs = 0;
let countedMs = 0;

/**
 * Time as somebody may count it who waits for another. While this thread stands still it hears nobody, so that time is
 * left out; and when it is time to judge, what has come meanwhile is read first: the check phase of Node's event loop comes
 * after the one that reads sockets. https://nodejs.org/en/learn/asynchronous-work/event-loop-timers-and-nexttick
 *
 * Milliseconds, of which only differences mean something.
 */
export function attendedMs(): number {
  const nowMs = performance.now();
  if (beat === undefined) {
    lastMs = nowMs;
    beat = setInterval(look, beatMs).unref();
  }
  return countedMs + Math.min(nowMs - lastMs, 2 * beatMs);
}

function look(): void {
  countedMs = attendedMs();
  lastMs = performance.now();
}

/** Timers for judging somebody silent. */
export const attendedTimers: Timers = {
  after: (delayMs, callback) => afterAttended(delayMs, callback, true),
  every: ticksAfterReading(systemTimers),
};

/** The same, which do not keep the process alive. */
export const looseAttendedTimers: Pick<Timers, 'after'> = {
  after: (delayMs, callback) => afterAttended(delayMs, callback, false),
};

function afterAttended(delayMs: number, callback: () => void, isHeld: boolean): () => void {
  const dueMs = attendedMs() + delayMs;
  let timer: NodeJS.Timeout;
  let check: NodeJS.Immediate | undefined;
  const wait = (ms: number): void => {
    timer = setTimeout(fire, ms);
    if (!isHeld) timer.unref();
  };
  function fire(): void {
    const leftMs = dueMs - attendedMs();
    // Timers of Node may come a part of a millisecond early.
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
 * The same for who counts ticks: each comes after what waited to be read. Ticks that a standstill swallowed are not made up
 * for, so that it counts as one.
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
