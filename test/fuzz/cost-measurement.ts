/** Measures the CPU time of inputs: its growth with the size of an input, and its minimum for one input. */
import { cpuMs } from '../support/cpu-time.ts';

export const maxGrowth = 2.5;
/** The minimum of one measurement of the smallest input. If the system counts CPU time in ticks of a millisecond, this is several ticks. */
const minMs = 5;
/** Rounds of each attempt. The first attempt is cheap, and nearly always enough. More rounds remove the effects of other work on caches. */
const roundsOfAttempts = [1, 3, 5, 5, 5];

/**
 * Returns the mean growth of CPU time of two doublings: 2 if it is linear, 4 if it is quadratic. It is the mean, because V8 changes its
 * representation at some sizes and caches end at others, which increases the time once. It is the minimum of several attempts, which end
 * at the first good one.
 */
export function growth(runs: readonly (() => void)[]): number {
  let best = Number.POSITIVE_INFINITY;
  for (const rounds of roundsOfAttempts) {
    const times = timesFor(runs[0]!);
    const spent = runs.map(() => 0);
    for (let round = 0; round < rounds; round += 1) {
      for (const [i, run] of runs.entries()) spent[i]! += cpuMs(() => repeat(run, times));
    }
    const grown = Math.sqrt(spent.at(-1)! / spent[0]!);
    best = Math.min(best, grown || best);
    if (best < maxGrowth) break;
  }
  return best;
}

/** Returns the number of runs in a measurement. */
function timesFor(run: () => void): number {
  let times = 1;
  while ([1, 2, 3].some(() => wallMs(() => repeat(run, times)) < minMs)) times *= 2;
  return times;
}

function wallMs(run: () => void): number {
  const startMs = performance.now();
  run();
  return performance.now() - startMs;
}

/**
 * Returns the milliseconds of CPU time of a run, each with its own input: the minimum of a few batches, of which the first one is a
 * warm-up. They end at the first batch below `bound`. It creates the inputs of a batch before the measurement.
 */
export function minCpuMs<Input>(
  bound: number,
  make: (salt: number) => Input,
  run: (input: Input) => void,
): number {
  const batch = 5;
  let min = Number.POSITIVE_INFINITY;
  for (let round = 0; round < 8 && min >= bound; round += 1) {
    const inputs = Array.from({ length: batch }, (_, i) => make(round * batch + i));
    min = Math.min(min, cpuMs(() => inputs.forEach(run)) / batch);
  }
  return min;
}

function repeat(run: () => void, times: number): void {
  for (let i = 0; i < times; i += 1) run();
}

export const doubled = (n: number): number[] => [n, 2 * n, 4 * n];
