import { fieldName } from '../manifest/read-spec.ts';

/** Paths in a rule file and in a manifest say the same in two spellings. */

/** `['spec', 'descriptors', 0, 'rateLimit']` for `['descriptors', 0, 'rate_limit']`. */
export function manifestPath(path: readonly (string | number)[]): (string | number)[] {
  return ['spec', ...camelCasePath(path)];
}

/** As proto3 JSON spells the same fields. */
export function camelCasePath(path: readonly (string | number)[]): (string | number)[] {
  return path.map(fieldName);
}
