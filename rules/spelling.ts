/** Rule files and manifests spell fields and words differently: `requests_per_unit` and `token_bucket`, `requestsPerUnit` and `TokenBucket`. */

import { algorithmNames } from './algorithms/registry.ts';
import { fields } from './language/tables.ts';

/** `rateLimit` for `rate_limit`, whose spelling the validator's paths have. */
export function fieldName<Step extends string | number>(step: Step): Step | string {
  return typeof step === 'number' ? step : (fields.get(step)?.manifestName ?? step);
}

/** `SlidingWindow` for `sliding_window`, `MicroDollars` for `micro-dollars`: enums as Kubernetes spells them. */
export function enumName(word: string): string {
  return word.replace(/(?:^|[_-])([a-z])/g, (_, letter: string) => letter.toUpperCase());
}

const manifestSpellings = new Map([
  ...[...fields.values()].map(({ name, manifestName }) => [name, manifestName] as const),
  ...algorithmNames.map((name) => [name, enumName(name)] as const),
]);

/** A message about rules in the words of manifests, `rateLimits` for `rate_limits`; what is in quotes stays. */
export function manifestWords(text: string): string {
  return text.replace(/'[^']*'|\b[a-z]+(?:_[a-z]+)+\b/g, (word) => manifestSpellings.get(word) ?? word);
}
