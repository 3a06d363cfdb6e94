import type { KindsOf } from '../finding-kinds.ts';
import { compositeOf, type Entry, patternMatches, type Rule } from '../model.ts';

/** How an entry finds a rule of a level: by key and value, by a pattern, or by its key alone. */
export type FoundHow = 'exact' | 'wildcard' | 'key';

export interface FoundRule {
  /** The position in the level. */
  index: number;
  rule: Rule;
  how: FoundHow;
}

/** Returns all rules of a level that match an entry; the one that the matcher takes is first. */
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

/** Returns whether some text matches both patterns. */
export function patternsOverlap(a: string, b: string): boolean {
  /** `reach[j]`: whether the first i characters of `a` and the first j of `b` can stand for one text. */
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

interface Pattern {
  /** The position in the level. */
  index: number;
  composite: string;
}

/** Finds the first of many patterns that a text matches. It looks them up by their beginnings, so that it does not try all of them. */
export class FirstPattern {
  /** Patterns by the text before their first star. */
  readonly byPrefix = new Map<string, Pattern[]>();
  readonly #lengths: number[];

  /** Takes the composites of a level and ignores those without a star. */
  constructor(composites: readonly string[]) {
    for (const [index, composite] of composites.entries()) {
      const star = composite.indexOf('*');
      if (star === -1) continue;
      const prefix = composite.slice(0, star);
      const patterns = this.byPrefix.get(prefix);
      if (patterns === undefined) this.byPrefix.set(prefix, [{ index, composite }]);
      else patterns.push({ index, composite });
    }
    this.#lengths = [...new Set([...this.byPrefix.keys()].map(({ length }) => length))];
  }

  /** Returns the position in the level, or undefined. */
  indexFor(text: string): number | undefined {
    let first: number | undefined;
    for (const length of this.#lengths) {
      if (length > text.length) continue;
      for (const { index, composite } of this.byPrefix.get(text.slice(0, length)) ?? []) {
        if (first !== undefined && index > first) break;
        if (patternMatches(composite, text)) first = index;
      }
    }
    return first;
  }
}

/**
 * Warns about keys and values that are literal texts and look like something else. It reports only texts that are hardly intended
 * as they are.
 */
export function literalTexts(rules: readonly PlacedRule[]): RuleWarning[] {
  return rules.flatMap((placed) =>
    (['key', 'value'] as const).flatMap((field): RuleWarning[] => {
      const { rule } = placed;
      const found = field === 'value' ? lookOf(rule) : spacesAround(rule.key);
      if (found === undefined) return [];
      const text = `'${rule[field]}' ${found.look} but is compared literally`;
      return [warningAt(placed, [field], { code: 'literal-pattern', text, hint: found.hint })];
    }),
  );
}

interface Look {
  look: string;
  hint: string;
}

function lookOf({ key, value }: PlacedRule['rule']): Look | undefined {
  if (isCidr(value) && !/mask|cidr|net|range|prefix|block/i.test(key)) {
    const hint =
      "each request has a single address; to limit ranges, use Envoy's masked_remote_address and a rule with that key";
    return { look: 'looks like a range of addresses', hint };
  }
  if (regularExpression.test(value)) {
    return {
      look: 'looks like a regular expression',
      hint: '* stands for any text, and all other characters for themselves',
    };
  }
  return spacesAround(value);
}

function spacesAround(text: string): Look | undefined {
  if (text === text.trim()) return undefined;
  return {
    look: 'begins or ends with white space',
    hint: 'an entry must have the same white space; remove it',
  };
}

const ipv4Range = /^\d{1,3}(?:\.\d{1,3}){3}\/(?:[12]?\d|3[0-2])$/;
const ipv6Range = /^(?=[^/]*:[^/]*:)[\da-f:]+\/\d{1,3}$/i;

function isCidr(value: string): boolean {
  return ipv4Range.test(value) || ipv6Range.test(value);
}

/** The signs of a regular expression, which no path or name has: an anchor, `.*` behind a slash or before an end, classes, groups. */
const regularExpression =
  /^\^|\/\.[*+]|\.[*+]\$$|\\[dwsDWS](?:[+*{)]|$)|\\\.|\[\^?(?:[a-zA-Z]-[a-zA-Z]|0-9)[^\]]*\]|\(\?[:=!i]/;

/** A rule and where it stands. */
export interface PlacedRule {
  rule: Rule;
  /** The position in a list of sources. */
  source: number;
  /** The path from the root of the source, in the spelling of rule files. */
  path: readonly (string | number)[];
}

/** Something that is accepted, and hardly intended. */
export interface RuleWarning {
  code: RuleWarningCode;
  /** The position in the list of reviewed sources. */
  source: number;
  /** The path to the value, in the spelling of rule files. */
  path: readonly (string | number)[];
  text: string;
  hint: string;
  /** Another rule that the warning names. */
  other?: { source: number; path: readonly (string | number)[] };
}

export type RuleWarningCode = KindsOf<'review'>;

/** A warning about what stands `below` a rule. */
export function warningAt(
  { source, path }: PlacedRule,
  below: readonly (string | number)[],
  words: Pick<RuleWarning, 'code' | 'text' | 'hint' | 'other'>,
): RuleWarning {
  return { ...words, source, path: [...path, ...below] };
}

/** The rules of one list, which stands below `parent`. */
export function placedRules(
  rules: readonly Rule[],
  source: number,
  parent: readonly (string | number)[],
): PlacedRule[] {
  return rules.map((rule, index) => ({ rule, source, path: [...parent, 'descriptors', index] }));
}
