/**
 * Time as somebody may count it who waits for another. While this thread stands still it hears nobody, so that time is
 * left out; and when it is time to judge, what has come meanwhile is read first: the check phase of Node's event loop comes
 * after the one that reads sockets. https://nodejs.org/en/learn/asynchronous-work/event-loop-timers-and-nexttick
 */
import { systemTimers, type Timers } from './clock.ts';

/** Chosen: how often the clock looks. A gap between two looks counts as twice this at most. */
const beatMs = 50;

let beat: NodeJS.Timeout | undefined;
let lastMs = 0;
let countedMs = 0;

/** Milliseconds, of which only differences mean something, without those in which this thread stood still. */
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
  after(delayMs, callback) {
    const dueMs = attendedMs() + delayMs;
    let timer = setTimeout(fire, delayMs);
    let check: NodeJS.Immediate | undefined;
    function fire(): void {
      const leftMs = dueMs - attendedMs();
      // Timers of Node may come a part of a millisecond early.
      if (leftMs < 1) check = setImmediate(callback);
      else timer = setTimeout(fire, leftMs);
    }
    return () => {
      clearTimeout(timer);
      clearImmediate(check);
    };
  },
  every: ticksAfterReading(systemTimers),
};

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
