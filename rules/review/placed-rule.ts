import type { Rule } from '../model.ts';

/** A rule and where it stands. */
export interface PlacedRule {
  rule: Rule;
  /** Position in a list of sources. */
  source: number;
  /** From the root of the source, in the spelling of rule files. */
  path: readonly (string | number)[];
}

/** The rules of one list, which stands below `parent`. */
export function placedRules(
  rules: readonly Rule[],
  source: number,
  parent: readonly (string | number)[],
): PlacedRule[] {
  return rules.map((rule, index) => ({ rule, source, path: [...parent, 'descriptors', index] }));
}
