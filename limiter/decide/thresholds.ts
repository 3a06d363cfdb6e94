/** The hits at which a limit is near, and those at which answers carry a mark. */
import { maxUint32 } from '../../rules/model.ts';

/**
 * Returns the hits above which a limit is near. It uses 32-bit floats, as the Go service does. A result above the limit (16777219 with a
 * ratio of 1) is replaced by the limit. Limits above 32 bits, which the Go service does not support, are computed exactly.
 */
export function nearThreshold(requestsPerUnit: number, ratio: number): number {
  if (requestsPerUnit > maxUint32) return Math.min(requestsPerUnit, Math.floor(requestsPerUnit * ratio));
  const product = Math.fround(Math.fround(requestsPerUnit) * Math.fround(ratio));
  return Math.min(requestsPerUnit, Math.floor(product));
}

/** The percentages of a limit at which answers carry a mark, and the number of hits that reaches each of them. Both lists ascend. */
export interface WarningMarks {
  readonly percents: readonly number[];
  readonly hits: readonly number[];
}

/** Returns the marks, or undefined if there are none. They are exact up to 2^53 - 1: a single product would be rounded. */
export function marksOf(percents: readonly number[], capacity: number): WarningMarks | undefined {
  if (percents.length === 0) return undefined;
  const hundreds = Math.floor(capacity / 100);
  const rest = capacity % 100;
  const hits = percents.map((percent) => hundreds * percent + Math.ceil((rest * percent) / 100));
  // With a limit of 0, the first hit reaches every threshold.
  return { percents, hits: hits.map((needed) => Math.max(1, needed)) };
}

/** Returns the number of reached thresholds. */
export function marksReached({ hits }: WarningMarks, used: number): number {
  let reached = 0;
  while (reached < hits.length && used >= hits[reached]!) reached++;
  return reached;
}
