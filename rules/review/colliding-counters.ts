/**
 * Finds rules whose counters could share a compatible key. Such a key joins domain, keys and values with `_`. A rule that matches any
 * value, or a pattern, has as many keys as callers invent values. Keys of entries come from the configuration, so they are those of the
 * rules. Two rules collide if some text is a key of both. The same list of entries is not a collision, because it finds only one rule.
 * Counters of a single rule are not compared.
 *
 * It compares only rules whose keys begin alike, up to a bound of steps. 100,000 rules take 0.4 to 1.2 s of CPU time, so processes that
 * answer requests run it in a separate thread.
 */
import { arePlainLimits, compositeOf, type Rule, type RuleSource } from '../model.ts';
import { sharedPattern } from '../sharing.ts';

/** A rule with a limit that is counted, and its location. */
export interface CollidingRule {
  /** The position in the list of sources. */
  source: number;
  /** The path to the rule, in the spelling of rule files. */
  path: readonly (string | number)[];
  /** The keys of its counters, with `*` for any text: `bank_ip_*_`. */
  keys: string;
}

/** The rule that stands first in front. */
export interface CollisionPair {
  first: CollidingRule;
  second: CollidingRule;
}

export interface Collisions {
  /** The first ones. */
  pairs: readonly CollisionPair[];
  /** The number of all pairs that were found. */
  count: number;
  /** False if there may be more. */
  isComplete: boolean;
}

export interface CollisionBounds {
  /** The maximum number of pairs that are stored. */
  pairs: number;
  /** The maximum number of steps. Comparing two rules takes about as many steps as both have characters, and at most the product. */
  steps: number;
  /** Stores one pair for each two sources, also for pairs within one source. */
  onePerSources?: boolean;
}

/** Chosen: a little more than a second of CPU time at most. */
export const collisionBounds: CollisionBounds = { pairs: 1_000, steps: 10_000_000 };

/** Chosen, in bytes: two rules of 4,000 characters each. */
const longestTable = 32 * 1024 * 1024;

/** Stands for any text in place of characters. A lower number is the end of an entry, by its level. */
const anyText = -1;
const firstEntryEnd = -2;
const star = 0x2a;

interface Counted {
  source: number;
  domain: string;
  /** The rules from the top level down. */
  chain: readonly Rule[];
  path: readonly (string | number)[];
  /** The beginning that all its keys share. */
  prefix: string;
  hasAnyText: boolean;
}

export function collidingCounters(
  sources: readonly RuleSource[],
  bounds: CollisionBounds = collisionBounds,
): Collisions {
  const counted = countedRules(sources);
  const order = new Map(counted.map((one, index) => [one, index]));
  const sorted = counted.toSorted((a, b) => (a.prefix < b.prefix ? -1 : a.prefix > b.prefix ? 1 : 0));
  const comparison = new Comparison(bounds.steps);
  const pairs: CollisionPair[] = [];
  const sourcesStored = new Set<number>();
  let count = 0;
  for (const [index, one] of sorted.entries()) {
    for (let next = index + 1; next < sorted.length; next++) {
      const other = sorted[next]!;
      if (!mayMeet(one, other)) break;
      if (comparison.isOver) return { pairs, count, isComplete: false };
      if (!comparison.meet(one, other)) continue;
      count++;
      if (pairs.length >= bounds.pairs) continue;
      const [first, second] = order.get(one)! < order.get(other)! ? [one, other] : [other, one];
      const ofSources = first.source * sources.length + second.source;
      if (bounds.onePerSources && sourcesStored.has(ofSources)) continue;
      sourcesStored.add(ofSources);
      pairs.push({ first: collidingRule(first), second: collidingRule(second) });
    }
  }
  return { pairs, count, isComplete: !comparison.passedOver };
}

/**
 * Compares the beginnings of the keys. The beginning of `one` is the lower text. If this one cannot meet the other, those after
 * it cannot, either.
 */
function mayMeet(one: Counted, other: Counted): boolean {
  return one.hasAnyText ? other.prefix.startsWith(one.prefix) : other.prefix === one.prefix;
}

function collidingRule(one: Counted): CollidingRule {
  const { source, path } = one;
  const keys = tokensOf(one).filter((token) => token >= anyText);
  return { source, path, keys: String.fromCharCode(...keys.map((token) => (token < 0 ? star : token))) };
}

function countedRules(sources: readonly RuleSource[]): Counted[] {
  const found: Counted[] = [];
  const walk = (above: Counted, level: readonly Rule[]): void => {
    for (const [index, rule] of level.entries()) {
      const start = above.hasAnyText ? [] : entryTokens(rule);
      const end = start.indexOf(anyText);
      const literal = end < 0 ? start : start.slice(0, end);
      const here = {
        ...above,
        chain: [...above.chain, rule],
        path: [...above.path, 'descriptors', index],
        prefix: above.prefix + String.fromCharCode(...literal),
        hasAnyText: above.hasAnyText || end >= 0,
      };
      if (hasCompatibleKey(rule)) found.push(here);
      if (rule.descriptors.length > 0) walk(here, rule.descriptors);
    }
  };
  for (const [source, { domain, descriptors }] of sources.entries()) {
    walk({ source, domain, chain: [], path: [], prefix: `${domain}_`, hasAnyText: false }, descriptors);
  }
  return found;
}

/**
 * Returns whether the counters have compatible keys. Counters that the Go service does not know have unambiguous keys, whatever
 * COUNTER_KEYS is. They cannot collide.
 */
function hasCompatibleKey({ limits }: Rule): boolean {
  return limits.length > 0 && arePlainLimits(limits) && !limits[0]!.unlimited;
}

/** The keys of a rule, character by character. */
function tokensOf({ domain, chain }: Counted): number[] {
  const tokens = codesOf(`${domain}_`);
  for (const [level, rule] of chain.entries()) tokens.push(...entryTokens(rule), firstEntryEnd - level);
  return tokens;
}

/** Returns the tokens of `key_value_`. A pattern that values share stands for itself. */
function entryTokens(rule: Rule): number[] {
  const composite = compositeOf(rule);
  if (isKeyOnly(rule)) return [...codesOf(`${composite}_`), anyText, ...codesOf('_')];
  const codes = codesOf(`${composite}_`);
  return sharedPattern(rule) === undefined ? codes.map((code) => (code === star ? anyText : code)) : codes;
}

function codesOf(text: string): number[] {
  return Array.from({ length: text.length }, (_, index) => text.charCodeAt(index));
}

function isKeyOnly({ key, value }: Rule): boolean {
  return value === '' && !key.includes('*');
}

/** Finds out whether some text is a key of two rules, by following both at the same time. */
class Comparison {
  #stepsLeft: number;
  #seen = new Uint8Array(4096);
  /** True if two rules together were too long to be compared. */
  passedOver = false;
  #last: { one: Counted; tokens: number[] } | undefined;

  constructor(steps: number) {
    this.#stepsLeft = steps;
  }

  get isOver(): boolean {
    return this.#stepsLeft <= 0;
  }

  meet(one: Counted, other: Counted): boolean {
    if (this.#last?.one !== one) this.#last = { one, tokens: tokensOf(one) };
    const [a, b] = [this.#last.tokens, tokensOf(other)];
    const isOneDomain = one.domain === other.domain;
    const parting = isOneDomain ? partingLevel(one.chain, other.chain) : 0;
    const [mine, its] = [one.chain[parting], other.chain[parting]];
    // `a_b` with the value c and `a` with b_c are two entries with one text, and each finds the rule of its key.
    const maySplit = mine !== undefined && its !== undefined && isKeyOnly(mine) && isKeyOnly(its);
    return this.#walk(a, b, { inStep: isOneDomain, parting, maySplit });
  }

  /**
   * `inStep`: entries have ended at the same places so far, so they are the same. If the rules differ, such entries find only one
   * of them.
   */
  #walk(
    a: readonly number[],
    b: readonly number[],
    { inStep, parting, maySplit }: { inStep: boolean; parting: number; maySplit: boolean },
  ): boolean {
    const width = b.length + 1;
    const size = (a.length + 1) * width * 2;
    this.#stepsLeft -= (a.length + b.length) / 4 + size / 256;
    if (size > longestTable) {
      this.passedOver = true;
      return false;
    }
    if (this.#seen.length < size) this.#seen = new Uint8Array(size * 2);
    else this.#seen.fill(0, 0, size);
    const waiting: number[] = [];
    const go = (i: number, j: number, same: number): void => {
      const state = (i * width + j) * 2 + same;
      if (this.#seen[state] === 1) return;
      this.#seen[state] = 1;
      waiting.push(state);
    };
    go(0, 0, inStep ? 1 : 0);
    for (let state = waiting.pop(); state !== undefined; state = waiting.pop()) {
      this.#stepsLeft--;
      const same = state % 2;
      const i = Math.floor(state / 2 / width);
      const j = Math.floor(state / 2) % width;
      if (i === a.length && j === b.length && same === 0) return true;
      const [x = Number.NaN, y = Number.NaN] = [a[i], b[j]];
      if (x < anyText && y < anyText) {
        const parts = same === 1 && x === firstEntryEnd - parting;
        if (!parts || maySplit) go(i + 1, j + 1, parts ? 0 : same);
      } else if (x < anyText) go(i + 1, j, 0);
      else if (y < anyText) go(i, j + 1, 0);
      else {
        if (x === anyText) go(i + 1, j, same);
        if (y === anyText) go(i, j + 1, same);
        if (x === y) go(i + 1, j + 1, same);
        else if (x === anyText && y >= 0) go(i, j + 1, same);
        else if (y === anyText && x >= 0) go(i + 1, j, same);
      }
    }
    return false;
  }
}

/** The first level on which two rules, or those above them, are not one. */
function partingLevel(one: readonly Rule[], other: readonly Rule[]): number {
  let level = 0;
  while (level < one.length && one[level] === other[level]) level++;
  return level;
}
