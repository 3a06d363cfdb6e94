import type { FuzzResult } from './fuzz-worker.ts';
import { type FuzzingOptions, fuzzTarget } from './fuzzing.ts';

/** Fuzzes one of the targets with a planted defect. */
export function findPlanted(
  target: string,
  bounds: Partial<FuzzingOptions> = { hangMs: 1500 },
): Promise<FuzzResult> {
  const targetsUrl = new URL('./planted-targets.ts', import.meta.url).href;
  return fuzzTarget({
    ...{ targetsUrl, target, corpus: [], seed: 5, inputs: 1_000_000, maxGrowthBytes: 8_000_000 },
    ...bounds,
  });
}
