import { compositeOf, type Entry, type Rule, type RuleSource } from '../model.ts';
import { commonLength, isMistyped, plainName, similarNameHint } from '../rule-error.ts';
import { type FoundHow, type PlacedRule, placedRules, rulesFor } from './rule-level.ts';

/** Chosen: of hundreds of values for a key, a person wants to see the nearest. */
const shown = 5;

/** Returns the rules that an entry nearly matches: the same key, or one that differs in case, by small marks or in one place. */
function nearRules(rules: readonly PlacedRule[], { key, value }: Entry): PlacedRule[] {
  const ranked: { placed: PlacedRule; rank: number }[] = [];
  for (const placed of rules) {
    const { rule } = placed;
    const isSameKey = rule.key === key;
    if (!isSameKey && !isMistyped(plainName(rule.key), plainName(key))) continue;
    const isSameValue = rule.value === value || plainName(rule.value) === plainName(value);
    const common = commonLength(rule.value, value);
    ranked.push({ placed, rank: (isSameValue ? 0 : 1_000_000) + (isSameKey ? 0 : 500_000) - common });
  }
  return ranked
    .sort((a, b) => a.rank - b.rank)
    .slice(0, shown)
    .map(({ placed }) => placed);
}

/**
 * The reason why a descriptor finds its rule: the matcher's steps, one entry after the other, with the other rules of each level.
 * It is a walk over the rules as written, separate from the compiled table, so that it has their places in files. Tests require
 * the same answer from both.
 */
export interface Explanation {
  /** A step for each entry, up to the one that found nothing. */
  steps: ExplainedStep[];
  outcome: MatchOutcome;
}

export interface ExplainedStep {
  entry: Entry;
  /** Undefined if no rule of the level fits. */
  found: { placed: PlacedRule; how: FoundHow } | undefined;
  /** Other rules that fit and come later in the matcher's order. */
  passedOver: { placed: PlacedRule; how: FoundHow }[];
  /** Rules of the level that look alike and do not fit, the first few. */
  near: PlacedRule[];
  /** The first few of the others. */
  others: PlacedRule[];
  /** The number of rules of the level, fitting or not. */
  levelSize: number;
}

export type MatchOutcome =
  /** `placed` has a limit, or is unlimited. */
  | { kind: 'found'; placed: PlacedRule }
  /** The last entry found a rule that has none. `below`: rules below it that a longer descriptor could find. */
  | { kind: 'rule-without-limit'; placed: PlacedRule; below: number }
  /** No rule of the level fits the entry at this position. */
  | { kind: 'no-rule'; position: number }
  /** The rule that the entry before found has no rules below it. */
  | { kind: 'too-deep'; position: number }
  | { kind: 'no-entries' };

/** `top`: the first level of the domain, in the matcher's order. */
export function explainDescriptor(top: readonly PlacedRule[], entries: readonly Entry[]): Explanation {
  const steps: ExplainedStep[] = [];
  let level = top;
  let last: PlacedRule | undefined;
  for (const [position, entry] of entries.entries()) {
    if (level.length === 0 && last !== undefined) return { steps, outcome: { kind: 'too-deep', position } };
    const step = stepOf(level, entry);
    steps.push(step);
    if (step.found === undefined) return { steps, outcome: { kind: 'no-rule', position } };
    last = step.found.placed;
    level = placedRules(last.rule.descriptors, last.source, last.path);
  }
  if (last === undefined) return { steps, outcome: { kind: 'no-entries' } };
  if (last.rule.limits.length > 0) return { steps, outcome: { kind: 'found', placed: last } };
  return { steps, outcome: { kind: 'rule-without-limit', placed: last, below: level.length } };
}

function stepOf(level: readonly PlacedRule[], entry: Entry): ExplainedStep {
  const fitting = rulesFor(
    level.map(({ rule }) => rule),
    entry,
  ).map(({ index, how }) => ({ placed: level[index]!, how }));
  const [found, ...passedOver] = fitting;
  const unfit = level.filter((placed) => fitting.every((one) => one.placed !== placed));
  const near = nearRules(unfit, entry);
  const others = unfit.filter((placed) => !near.includes(placed)).slice(0, shown);
  return { entry, found, passedOver, near, others, levelSize: level.length };
}

/** Returns why a rule does not fit an entry. */
export function unfitWords({ rule }: PlacedRule, { key }: Entry): string {
  // Rules that a limiter reports have key and value in one text.
  const isOfKey = rule.key === key || rule.key.startsWith(`${key}_`);
  if (!isOfKey && !rule.key.includes('*')) return 'another key';
  return rule.value.includes('*') || rule.key.includes('*') ? 'another pattern' : 'another value';
}

/**
 * Returns which entry of a descriptor has a key that no rule at its place has. Undefined if each key is known, as far as the
 * entries lead. `top`: the first level of the domain.
 */
export function unknownKeyWords(
  domain: string,
  top: readonly Rule[],
  entries: readonly Entry[],
): string | undefined {
  let level = top;
  for (const [index, entry] of entries.entries()) {
    const found = rulesFor(level, entry)[0];
    if (found === undefined) {
      if (level.length === 0 || level.some((rule) => mayHaveKey(compositeOf(rule), entry.key)))
        return undefined;
      const place = index === 0 ? '' : ` at level ${index + 1}`;
      const known = [...level.map(({ key }) => key), ...level.flatMap(keysWithin)];
      return `no rule of ${JSON.stringify(domain)} has the key ${JSON.stringify(entry.key.slice(0, 100))}${place}${similarNameHint(entry.key, known)}`;
    }
    level = found.rule.descriptors;
  }
  return undefined;
}

/** A table of rules knows key and value joined by `_` only. */
function mayHaveKey(composite: string, key: string): boolean {
  const star = composite.indexOf('*');
  return (
    composite === key ||
    composite.startsWith(`${key}_`) ||
    (star >= 0 && `${key}_`.startsWith(composite.slice(0, star)))
  );
}

/** The texts that may be the key where key and value are joined. */
function keysWithin(rule: Rule): string[] {
  const parts = compositeOf(rule).split('_');
  return parts.slice(1).map((_, n) => parts.slice(0, n + 1).join('_'));
}

/** Returns the name of a rule: `key`, `key=value`. */
export function ruleName({ rule }: Pick<PlacedRule, 'rule'>): string {
  return rule.value === '' ? rule.key : `${rule.key}=${rule.value}`;
}

/** Returns why an outcome is no limit. */
export function noLimitWords(outcome: Exclude<MatchOutcome, { kind: 'found' }>): string {
  switch (outcome.kind) {
    case 'no-entries':
      return 'the descriptor has no entries';
    case 'no-rule':
      return `no rule matches at level ${outcome.position + 1}, and the limiter does not go back to a higher level`;
    case 'too-deep':
      return `there are no rules below it, and the descriptor has an entry for level ${outcome.position + 1}`;
    case 'rule-without-limit':
      return outcome.below > 0
        ? 'the rule has no limit of its own, only rules below it for longer descriptors'
        : 'the rule has no limit, so these requests pass';
  }
}

/** The rules of a source that have a limit: each by its path as `listedRules` writes it, and where it stands. */
export function* limitedRules({ domain, descriptors }: RuleSource): Generator<{
  path: string;
  place: readonly (string | number)[];
  rule: Rule;
}> {
  const open = placedRules(descriptors, 0, []).map((placed) => ({ parent: domain, placed }));
  for (let next = open.shift(); next !== undefined; next = open.shift()) {
    const { rule, path: place } = next.placed;
    const path = `${next.parent}.${compositeOf(rule)}`;
    if (rule.limits.length > 0) yield { path, place, rule };
    open.unshift(...placedRules(rule.descriptors, 0, place).map((placed) => ({ parent: path, placed })));
  }
}
