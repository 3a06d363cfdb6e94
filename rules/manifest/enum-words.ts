/** Enums of rules as Kubernetes spells them. */
import type { RuleAlgorithm } from '../algorithms/algorithm.ts';
import { algorithmNames, algorithmsWith } from '../algorithms/registry.ts';
import { expiries } from '../budget-fields.ts';
import { hitsUnits } from '../model.ts';
import { enumName } from '../spelling.ts';

export const algorithmEnum: readonly string[] = algorithmNames.map(enumName);
export const hitsUnitEnum: readonly string[] = hitsUnits.map(enumName);
export const expiryEnum: readonly string[] = expiries.map(enumName);

/** The algorithms that may have a burst. */
export const burstAlgorithms = enumsWith(({ hasBurst }) => hasBurst);
/** The algorithms that a calendar may stand beside. */
export const calendarAlgorithms = enumsWith(({ steady }) => steady === undefined);
/** The algorithms whose limits can be leased. */
export const leasedAlgorithms = enumsWith(({ countsAllHits }) => countsAllHits);

function enumsWith(has: (algorithm: RuleAlgorithm) => boolean): string[] {
  return algorithmsWith(has).map(enumName);
}
