/**
 * Rules that no entry finds, by the order in which the matcher looks: the very text, the first pattern that fits, the key
 * alone. A rule with a value is always found by that value, written out, stars included; so of a pattern, requests that
 * carry the pattern itself can be left.
 */
import type { Rule } from '../model.ts';
import { FirstPattern } from './first-pattern.ts';
import { characterOutside, compositeOf } from './rule-level.ts';

/** A rule whose entries all find another rule of its level first. */
export interface UnreachableRule {
  /** Its position in the level. */
  index: number;
  /** Position of the pattern that takes its entries. */
  takenBy: number;
  /** `key`: a rule without value, whose key finds it with no value. `wildcard`: a pattern within an earlier one. */
  kind: 'key' | 'wildcard';
}

/**
 * Those of one level, in their order. Each is asked for with a character that no rule has in the place of its stars, or of
 * its value: only the star of another pattern can take that one, and who takes it takes anything.
 */
export function unreachableRules(level: readonly Rule[]): UnreachableRule[] {
  const composites = level.map(compositeOf);
  const patterns = new FirstPattern(composites);
  const foreign = characterOutside(composites.join(''));
  const found: UnreachableRule[] = [];
  for (const [index, composite] of composites.entries()) {
    const isPattern = composite.includes('*');
    if (!isPattern && level[index]!.value !== '') continue;
    const takenBy = patterns.indexFor(
      isPattern ? composite.replaceAll('*', foreign) : `${composite}_${foreign}`,
    );
    if (takenBy === undefined || takenBy === index) continue;
    found.push({ index, takenBy, kind: isPattern ? 'wildcard' : 'key' });
  }
  return found;
}
