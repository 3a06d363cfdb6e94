import type { Rule } from '../model.ts';
import { patternMatches } from '../pattern-matches.ts';
import type { Entry } from '../request.ts';

/** How an entry finds a rule of a level: by key and value, by a pattern, or by its key alone. */
export type FoundHow = 'exact' | 'wildcard' | 'key';

export interface FoundRule {
  /** Position in the level. */
  index: number;
  rule: Rule;
  how: FoundHow;
}

/** What the matcher compares: `key`, or `key_value`. */
export function compositeOf({ key, value }: Pick<Rule, 'key' | 'value'>): string {
  return value === '' ? key : `${key}_${value}`;
}

/** All rules of a level that an entry fits, the one that the matcher takes first. */
export function rulesFor(level: readonly Rule[], { key, value }: Entry): FoundRule[] {
  const text = `${key}_${value}`;
  const found: FoundRule[] = [];
  const keyOnly: FoundRule[] = [];
  for (const [index, rule] of level.entries()) {
    const composite = compositeOf(rule);
    if (composite === text) found.unshift({ index, rule, how: 'exact' });
    else if (composite.includes('*') && patternMatches(composite, text))
      found.push({ index, rule, how: 'wildcard' });
    else if (composite === key) keyOnly.push({ index, rule, how: 'key' });
  }
  return [...found, ...keyOnly];
}

/** Whether some text matches both patterns. */
export function patternsOverlap(a: string, b: string): boolean {
  /** `reach[j]`: the first i characters of `a` and the first j of `b` can stand for one text. */
  let reach = Array.from({ length: b.length + 1 }, (_, j) => /^\**$/.test(b.slice(0, j)));
  for (const unit of a.split('')) {
    const next = [reach[0]! && unit === '*'];
    for (let j = 1; j <= b.length; j++) {
      const other = b[j - 1];
      if (unit === '*' || other === '*') next[j] = reach[j]! || next[j - 1]! || reach[j - 1]!;
      else next[j] = reach[j - 1]! && unit === other;
    }
    reach = next;
  }
  return reach[b.length]!;
}

/** A character that the text does not hold. */
export function characterOutside(text: string): string {
  let code = 0xe000;
  while (text.includes(String.fromCharCode(code))) code++;
  return String.fromCharCode(code);
}
