import { readFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import { outOfTime } from './second-tries.ts';

/**
 * How many threads compete for each processor, at least 1: of the last minute's mean and of this moment the higher. Times
 * that a program has to start, or to do something, are multiplied by it. 1 where the system has no /proc. proc(5), loadavg.
 */
export function machineLoad(): number {
  const [mean, , , runnable] = loadWords();
  return Math.max(1, Math.max(Number(mean), Number.parseInt(runnable!, 10)) / availableParallelism());
}

function loadWords(): string[] {
  try {
    return readFileSync('/proc/loadavg', 'latin1').split(' ');
  } catch {
    return ['0', '0', '0', '0'];
  }
}

/** The end of a wait. The load is measured at each look, since it may rise during the wait, and the highest counts. */
export class LoadedDeadline {
  readonly #startMs = performance.now();
  readonly #timeoutMs: number;
  #load = 1;

  /** `timeoutMs`: on a machine with nothing else to do. */
  constructor(timeoutMs: number) {
    this.#timeoutMs = timeoutMs;
  }

  get isOver(): boolean {
    const waitedMs = performance.now() - this.#startMs;
    if (waitedMs <= this.#timeoutMs * this.#load) return false;
    this.#load = Math.max(this.#load, machineLoad());
    return waitedMs > this.#timeoutMs * this.#load;
  }

  /** For what has to be done by now. @throws where the deadline is over */
  assertInTime(): void {
    if (!this.isOver) return;
    const tookMs = Math.round(performance.now() - this.#startMs);
    const bound = `${this.#timeoutMs} ms, multiplied by the load of the machine, ${this.#load.toFixed(1)}`;
    throw outOfTime(new Error(`took ${tookMs} ms: more than ${bound}`));
  }
}

/** Asks every `intervalMs` until the answer is true. Throws `failure()` when `timeoutMs`, multiplied by the machine's load, is over. */
export async function untilTrue(
  isTrue: () => Promise<boolean> | boolean,
  { timeoutMs, intervalMs, failure }: { timeoutMs: number; intervalMs: number; failure: () => Error },
): Promise<void> {
  const deadline = new LoadedDeadline(timeoutMs);
  while (!(await isTrue())) {
    if (deadline.isOver) throw outOfTime(failure());
    await sleep(intervalMs);
  }
}
