import { compositeOf, type Entry, type Rule } from '../../rules/model.ts';
import type { IndexedLevel } from './domain-side.ts';

/** Chosen: patterns with this many stars, or this long, are rare, and have many merges. */
const maxMerges = 64;
const longestPair = 2_000;

/**
 * Returns what two patterns have in common, as patterns: `a*` and `*b` make `a*b`. A text that matches both patterns, and none of
 * some other patterns, exists exactly if a merge with a foreign character for each star matches none of these others.
 * `isComplete`: there are no other merges.
 */
function patternMerges(a: string, b: string): { merges: string[]; isComplete: boolean } {
  if (!canBeginAlike(a, b)) return { merges: [], isComplete: true };
  if (isPrefix(a) && isPrefix(b)) return { merges: [a.length > b.length ? a : b], isComplete: true };
  if (a.length + b.length > longestPair) return { merges: [], isComplete: false };
  const merger = new Merger(a, b);
  const merges = [...merger.from(0, 0)];
  return { merges, isComplete: merger.isComplete };
}

/** Returns whether the only star is at the end, as in most patterns. */
export function isPrefix(pattern: string): boolean {
  return pattern.indexOf('*') === pattern.length - 1;
}

function canBeginAlike(a: string, b: string): boolean {
  const [headA = '', headB = ''] = [a.split('*', 1)[0], b.split('*', 1)[0]];
  return headA.length < headB.length ? headB.startsWith(headA) : headA.startsWith(headB);
}

class Merger {
  isComplete = true;
  readonly #a: string;
  readonly #b: string;
  /** Merges of the remainders of both patterns, by where the remainders begin. */
  readonly #rests = new Map<number, ReadonlySet<string>>();

  constructor(a: string, b: string) {
    this.#a = a;
    this.#b = b;
  }

  from(i: number, j: number): ReadonlySet<string> {
    const place = i * (this.#b.length + 1) + j;
    let rest = this.#rests.get(place);
    if (rest === undefined) {
      rest = this.#merged(i, j);
      this.#rests.set(place, rest);
    }
    return rest;
  }

  #merged(i: number, j: number): ReadonlySet<string> {
    const [unitA = '', unitB = ''] = [this.#a[i], this.#b[j]];
    if (unitA === '' && unitB === '') return new Set(['']);
    const found = new Set<string>();
    if (unitA === '*' && unitB === '*') {
      this.#add(found, '*', this.from(i + 1, j));
      this.#add(found, '*', this.from(i, j + 1));
    } else if (unitA === '*') {
      this.#add(found, '', this.from(i + 1, j));
      if (unitB !== '') this.#add(found, unitB, this.from(i, j + 1));
    } else if (unitB === '*') {
      this.#add(found, '', this.from(i, j + 1));
      if (unitA !== '') this.#add(found, unitA, this.from(i + 1, j));
    } else if (unitA === unitB) {
      this.#add(found, unitA, this.from(i + 1, j + 1));
    }
    return found;
  }

  #add(found: Set<string>, first: string, rests: ReadonlySet<string>): void {
    for (const rest of rests) {
      if (found.size >= maxMerges) {
        this.isComplete = false;
        return;
      }
      // Two stars that meet are one.
      found.add(first === '*' && rest.startsWith('*') ? rest : first + rest);
    }
  }
}

/**
 * The rules of another level that the requests of a rule find. The requests that are tried stand for all requests. Exceptions are
 * requests that contain a star, and requests whose key and value, joined by `_`, look like a rule of another key. Longer keys
 * that a pattern such as `user=*` also matches are tried, too.
 */
export interface Overlaps {
  /** The rules without repetition; the rule of the plainest request is first. Undefined stands for no rule. */
  rules: Set<Rule | undefined>;
  /** The rules that only requests with a longer key find, which no rule names. */
  byLongerKey: ReadonlySet<Rule | undefined>;
  /** True if there cannot be other rules. */
  isComplete: boolean;
}

/** Chosen: the number of patterns of one level that a rule is compared with. */
const maxPatterns = 500;

/** The rules of `other` for entries that find `rule` in `own`, its level. */
export function overlappingRules(
  rule: Rule,
  own: IndexedLevel,
  other: IndexedLevel,
  filling: string,
): Overlaps {
  const candidates = new Candidates(rule, filling, new Set([...own.plainKeys, ...other.plainKeys]));
  candidates.addPlain();
  const patterns = other.patternsLike(candidates.pattern);
  for (const pattern of patterns.slice(0, maxPatterns)) candidates.addCollision(compositeOf(pattern));
  const rules = new Set<Rule | undefined>();
  const byLongerKey = new Set<Rule | undefined>();
  const longerKey = unnamedKey(rule, filling);
  const inOrder = candidates.entries.toSorted(
    (a, b) => Number(a.key === longerKey) - Number(b.key === longerKey),
  );
  for (const entry of inOrder) {
    if (own.find(entry) !== rule) continue;
    const met = other.find(entry);
    if (rules.has(met) || (met !== undefined && !takesKey(met, entry.key))) continue;
    rules.add(met);
    if (entry.key === longerKey) byLongerKey.add(met);
  }
  if (rules.size === 0) {
    for (const entry of spellings(compositeOf(rule))) {
      if (own.find(entry) === rule) rules.add(other.find(entry));
    }
  }
  return { rules, byLongerKey, isComplete: candidates.isComplete && patterns.length <= maxPatterns };
}

/**
 * Returns a key that stands for all longer keys that no rule names and whose requests the rule matches, as `user=*` matches those
 * of `user_id`.
 */
function unnamedKey({ key, value }: Rule, filling: string): string | undefined {
  return !key.includes('*') && value.startsWith('*') ? `${key}_${filling}` : undefined;
}

/**
 * Returns whether a rule matches requests of a key: through its own key, through a pattern in its key, or because it also matches
 * a longer key, as `user=*` does with `user_id`.
 */
function takesKey(rule: Rule, key: string): boolean {
  if (rule.key === key) return true;
  return compositeOf(rule).includes('*') && (rule.key.includes('*') || key.startsWith(`${rule.key}_`));
}

/** Returns the entries whose joined key and value are this text. They find a rule that its own key does not find. */
function spellings(composite: string): Entry[] {
  const entries: Entry[] = [];
  if (composite.includes('*')) return entries;
  for (let at = composite.indexOf('_'); at !== -1; at = composite.indexOf('_', at + 1)) {
    entries.push({ key: composite.slice(0, at), value: composite.slice(at + 1) });
  }
  return entries;
}

/** Entries that may find a rule. */
class Candidates {
  readonly entries: Entry[] = [];
  /** A pattern that matches the joined text of each entry. */
  readonly pattern: string;
  isComplete = true;
  readonly #rule: Rule;
  readonly #filling: string;
  /** Keys of other rules whose requests the rule can match: `user_id` if the rule is `user=*`. */
  readonly #otherKeys: string[];

  constructor(rule: Rule, filling: string, keys: ReadonlySet<string>) {
    const composite = compositeOf(rule);
    this.pattern = rule.value === '' && !composite.includes('*') ? `${composite}_*` : composite;
    this.#rule = rule;
    this.#filling = filling;
    const isPattern = composite.includes('*');
    const { key } = rule;
    this.#otherKeys = isPattern
      ? [...keys].filter((one) => one !== key && (key.includes('*') || one.startsWith(`${key}_`)))
      : [];
    const longerKey = unnamedKey(rule, filling);
    if (longerKey !== undefined) this.#otherKeys.push(longerKey);
  }

  /** The patterns, without those that others already cover. */
  addPlain(): void {
    if (this.#rule.key.includes('*')) this.addCollision('*_*');
    else this.#addText(this.pattern, this.#rule.key);
    for (const key of this.#otherKeys) this.#addKey(this.pattern, key);
  }

  /** The patterns that the other pattern also matches. */
  addCollision(other: string): void {
    const { key } = this.#rule;
    for (const merge of this.#merges(this.pattern, other)) {
      if (key.includes('*')) this.#addSplit(merge);
      else this.#addText(merge, key);
      for (const one of this.#otherKeys) this.#addKey(merge, one);
    }
  }

  #addKey(pattern: string, key: string): void {
    for (const merge of this.#merges(pattern, `${key}_*`)) this.#addText(merge, key);
  }

  #merges(a: string, b: string): string[] {
    const { merges, isComplete } = patternMerges(a, b);
    if (!isComplete) this.isComplete = false;
    return merges;
  }

  /** Adds an entry for each `_` that can separate key and value, including one within a star. */
  #addSplit(pattern: string): void {
    for (const merge of this.#merges(pattern, '*_*')) {
      for (let at = merge.indexOf('_'); at !== -1; at = merge.indexOf('_', at + 1)) {
        this.#addText(merge, merge.slice(0, at));
      }
    }
  }

  /** Adds an entry for a text. Both the text and its key may be patterns. */
  #addText(pattern: string, key: string): void {
    const fill = (text: string) => text.replaceAll('*', this.#filling);
    this.entries.push({ key: fill(key), value: fill(pattern.slice(key.length + 1)) });
  }
}
