/** The thread in which a target is fuzzed; `fuzzing.ts` starts it and watches over it. */
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { parentPort, workerData } from 'node:worker_threads';
import { type Finding, FuzzLoop } from './fuzz-loop.ts';
import type { FuzzTarget } from './fuzz-target.ts';
import { InputSlot } from './input-slot.ts';

export interface FuzzWorkerData {
  /** The module whose `fuzzTargets` has the target. */
  targetsUrl: string;
  target: string;
  corpus: Uint8Array[];
  slot: SharedArrayBuffer;
  seed: number;
  /** 0 replays the corpus and nothing else. */
  seconds: number;
  /** How many inputs to run at least, the corpus included, unless the time is up before. */
  inputs: number;
  maxInputBytes: number;
  maxGrowthBytes: number;
  /** From one message about the progress to the next. */
  progressMs: number;
}

/** How far a turn got: inputs run, different outcomes, blocks of code reached. */
export interface FuzzProgress {
  runs: number;
  outcomes: number;
  blocks: number;
}

export interface FuzzResult extends FuzzProgress {
  finding: Finding | undefined;
  novel: Uint8Array[];
}

export type FuzzMessage = { progress: FuzzProgress } | { result: FuzzResult };

setFlagsFromString('--expose-gc');
const collectGarbage = runInNewContext('gc') as () => void;

function heapBytes(): number {
  collectGarbage();
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
}

const data = workerData as FuzzWorkerData;
const { fuzzTargets } = (await import(data.targetsUrl)) as { fuzzTargets: readonly FuzzTarget[] };
const target = fuzzTargets.find(({ name }) => name === data.target);
if (target === undefined) throw new Error(`no target is named ${data.target}`);
const slot = new InputSlot(data.slot);
const loop = new FuzzLoop({ ...data, target, slot, heapBytes });

function send(message: FuzzMessage): void {
  parentPort?.postMessage(message);
}

function reached(): FuzzProgress {
  const { runs, outcomes, blocks } = loop;
  return { runs, outcomes, blocks };
}

function fuzz(): Finding | undefined {
  const endMs = performance.now() + 1000 * data.seconds;
  let nextCheckMs = performance.now() + 1000;
  let nextProgressMs = performance.now() + data.progressMs;
  const replayed = loop.replay();
  if (replayed !== undefined) return replayed;
  while (performance.now() < endMs && loop.runs < data.inputs && !slot.isStopped) {
    const finding = loop.step(16) ?? (performance.now() < nextCheckMs ? undefined : loop.checkGrowth());
    if (finding !== undefined) return finding;
    if (performance.now() >= nextCheckMs) nextCheckMs = performance.now() + 1000;
    if (performance.now() >= nextProgressMs) {
      send({ progress: reached() });
      nextProgressMs += data.progressMs;
    }
  }
  // So that a turn that ends before its first second looks at memory, too.
  return data.seconds > 0 ? loop.checkGrowth() : undefined;
}

const finding = fuzz();
loop.close();
send({ result: { finding, ...reached(), novel: loop.novel } });
