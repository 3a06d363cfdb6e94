/** Finds what is odd about rules that are loaded together. */
import { compositeOf, type Rule, type RuleSource, rulesOnPath } from '../model.ts';
import type { RuleError } from '../rule-error.ts';
import type { CollidingRule, CollisionPair } from './colliding-counters.ts';
import { limitWarnings } from './limit-warnings.ts';
import {
  characterOutside,
  FirstPattern,
  literalTexts,
  type PlacedRule,
  placedRules,
  type RuleWarning,
  type RuleWarningCode,
  warningAt,
} from './rule-level.ts';

/** The index of a level, made once. */
interface LevelIndex {
  composites: readonly string[];
  patterns: FirstPattern;
}

function indexOf(level: readonly Rule[]): LevelIndex {
  const composites = level.map(compositeOf);
  return { composites, patterns: new FirstPattern(composites) };
}

/**
 * Returns the positions of rules of one level that have no effect: without a limit and without rules below, and no other rule
 * would match their entries. Patterns are left out, and so are rules that exempt requests from another rule's limit.
 */
export function idleRules(level: readonly Rule[], { composites, patterns } = indexOf(level)): number[] {
  const known = new Set(composites);
  const isIdle = (rule: Rule, composite: string): boolean => {
    if (rule.limits.length > 0 || rule.descriptors.length > 0 || composite.includes('*')) return false;
    // Any entry whose key and value join to this text would find a rule for that key alone.
    for (let end = composite.indexOf('_'); end !== -1; end = composite.indexOf('_', end + 1)) {
      if (known.has(composite.slice(0, end))) return false;
    }
    return patterns.indexFor(composite) === undefined;
  };
  return level.flatMap((rule, index) => (isIdle(rule, composites[index]!) ? [index] : []));
}

/**
 * A rule whose entries all find another rule of its level first, in the order in which the matcher looks: the exact text, the
 * first pattern that fits, the key alone. A rule with a value is always found by that value, written out with its stars. So a
 * pattern can still match requests that carry the pattern itself.
 */
interface UnreachableRule {
  /** The position in the level. */
  index: number;
  /** The position of the pattern that matches its entries. */
  takenBy: number;
  /** `key`: a rule without value, whose key finds it with no value. `wildcard`: a pattern within an earlier one. */
  kind: 'key' | 'wildcard';
}

/**
 * Returns the unreachable rules of one level, in their order. Each rule is looked up with a character that no rule has in place
 * of its stars, or of its value. Only the star of another pattern can match that character, and a pattern that does so matches
 * anything.
 */
export function unreachableRules(
  level: readonly Rule[],
  { composites, patterns } = indexOf(level),
): UnreachableRule[] {
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

/**
 * Reviews sources that are loaded together. Sources of one domain are in this order. `beside`: other sources, of which only the
 * names of limits count, because their order is unknown.
 */
export function reviewSources(
  sources: readonly RuleSource[],
  beside: readonly RuleSource[] = [],
): RuleWarning[] {
  const byDomain = new Map<string, PlacedRule[]>();
  for (const [index, { domain, descriptors }] of sources.entries()) {
    const level = byDomain.get(domain) ?? [];
    // A call takes at most about 100,000 arguments.
    for (const placed of placedRules(descriptors, index, [])) level.push(placed);
    byDomain.set(domain, level);
  }
  const reviewed = [...byDomain].flatMap(([domain, level]) => {
    const others = beside.filter((source) => source.domain === domain);
    return domainWarnings(domain, level, others);
  });
  return [...sources.flatMap(withoutRules), ...reviewed];
}

/** `source`: the position among the reviewed sources. */
export function withoutRules({ domain, descriptors }: RuleSource, source: number): RuleWarning[] {
  if (descriptors.length > 0) return [];
  const text = `'${domain}' has no descriptors: nothing is limited`;
  const hint = 'write the rules in a list below "descriptors:"';
  return [{ code: 'no-rules', source, path: ['domain'], text, hint }];
}

function domainWarnings(
  domain: string,
  top: readonly PlacedRule[],
  beside: readonly RuleSource[],
): RuleWarning[] {
  const warnings: RuleWarning[] = [];
  const all: PlacedRule[] = [];
  const review = (level: readonly PlacedRule[]): void => {
    const rules = level.map(({ rule }) => rule);
    const found = indexOf(rules);
    const taken = new Set<number>();
    for (const { index, takenBy, kind } of unreachableRules(rules, found)) {
      taken.add(index);
      warnings.push(unreachable(level[index]!, level[takenBy]!, kind));
    }
    for (const index of idleRules(rules, found)) if (!taken.has(index)) warnings.push(idle(level[index]!));
    for (const one of level) {
      all.push(one);
      const { descriptors } = one.rule;
      if (descriptors.length > 0) review(placedRules(descriptors, one.source, one.path));
    }
  };
  review(top);
  return [...warnings, ...limitWarnings(domain, all, beside), ...literalTexts(all)];
}

function unreachable(rule: PlacedRule, taker: PlacedRule, kind: 'key' | 'wildcard'): RuleWarning {
  const composite = compositeOf(rule.rule);
  const pattern = compositeOf(taker.rule);
  const other = { source: taker.source, path: taker.path };
  if (kind === 'key') {
    return warningAt(rule, ['key'], {
      code: 'never-matches',
      text: `no entry with the key '${composite}' matches this rule: '${pattern}' matches all of its values`,
      hint: 'patterns come before rules without a value, in any order of the file; remove one of the two',
      other,
    });
  }
  return warningAt(rule, [rule.rule.value === '' ? 'key' : 'value'], {
    code: 'shadowed-wildcard',
    text: `'${composite}' never takes effect: '${pattern}' comes before it and matches all its values`,
    hint: 'the first matching pattern applies: write the narrower one first',
    other,
  });
}

function idle(rule: PlacedRule): RuleWarning {
  const text =
    'the rule has no limit, no rules below it, and takes no requests from other rules: it has no effect';
  return warningAt(rule, ['key'], {
    code: 'no-effect',
    text,
    hint: 'give it a rate_limit or descriptors, or remove it',
  });
}

// Findings with their places, as `check` and a limiter's log show them.

/** A source and the places of its values. */
export interface LocatedSource {
  source: RuleSource;
  /** The file's name in warnings. */
  file: string;
  /** The place of the value at a path in the spelling of rule files. Undefined if unknown. */
  placeOf(path: readonly (string | number)[]): { line: number; column: number } | undefined;
}

/** A warning as it is shown. */
export interface PlacedWarning extends Pick<RuleError, 'source' | 'text' | 'line' | 'column'> {
  code: RuleWarningCode;
  hint: string;
}

/** Reviews sources that are loaded together. `beside`: see `reviewSources`. */
export function placedWarnings(
  sources: readonly LocatedSource[],
  beside: readonly RuleSource[] = [],
): PlacedWarning[] {
  return reviewMistakes(sources, beside).map((warning) => placedWarning(warning, sources));
}

/** The words for two rules whose counters could meet, at the place of the later one. `more`: see `collisionText`. */
export function collisionWarning(
  pair: CollisionPair,
  sources: readonly LocatedSource[],
  more?: { others: number; isComplete: boolean },
): PlacedWarning {
  const { first, second } = pair;
  const warning: RuleWarning = {
    code: 'colliding-counters',
    source: second.source,
    path: [...second.path, 'key'],
    text: collisionText(pair, sources, more),
    hint: 'COUNTER_KEYS=unambiguous avoids this: check it with --setting COUNTER_KEYS=unambiguous',
    other: { source: first.source, path: [...first.path, 'key'] },
  };
  return placedWarning(warning, sources);
}

/**
 * Returns the text without places. `others`: rules beside the first that could collide with the second. `isComplete`: there are
 * no more such rules.
 */
export function collisionText(
  { first, second }: CollisionPair,
  sources: readonly LocatedSource[],
  { others, isComplete } = { others: 0, isComplete: true },
): string {
  const nameOf = ({ source, path }: CollidingRule): string => {
    const { source: rules } = sources[source]!;
    return `${ruleNames(rules, path)} of domain ${rules.domain}`;
  };
  const andOthers = others === 0 ? '' : ` and ${others} more`;
  const mayBeMore = isComplete ? '' : '; there may be more such rules';
  return `rule ${nameOf(second)} counts as ${second.keys}, which can be a key of rule ${nameOf(first)}${andOthers} as well${mayBeMore}`;
}

/** Returns a warning with its place and that of the other rule. */
export function placedWarning(warning: RuleWarning, sources: readonly LocatedSource[]): PlacedWarning {
  const { code, hint, other } = warning;
  const { file, placeOf } = sources[warning.source]!;
  const place = placeOf(warning.path);
  let { text } = warning;
  if (other !== undefined) {
    const otherSource = sources[other.source]!;
    const line = otherSource.placeOf(other.path)?.line;
    const where = otherSource.file === file ? '' : `${otherSource.file} `;
    if (line !== undefined) text += ` (${where}line ${line})`;
  }
  return { code, source: file, text, line: place?.line, column: place?.column, hint };
}

/** Reviews sources without warnings about what may be intended. */
export function reviewMistakes(
  sources: readonly LocatedSource[],
  beside: readonly RuleSource[] = [],
): RuleWarning[] {
  const plain = sources.map(({ source }) => source);
  return reviewSources(plain, beside).filter((warning) => !mayBeIntendedZero(warning, sources));
}

/**
 * Returns whether the warning may be about a limit of 0 that is written. It may be if places are unknown. A missing number is
 * placed where the map that lacks it begins.
 */
function mayBeIntendedZero({ code, source, path }: RuleWarning, sources: readonly LocatedSource[]): boolean {
  if (code !== 'limit-of-zero') return false;
  const { placeOf } = sources[source]!;
  const [value, map] = [placeOf(path), placeOf(path.slice(0, -1))];
  return value === undefined || value.line !== map?.line || value.column !== map.column;
}

/** Returns the names of the rules on a path: `database_users.path`. Undefined if it leads to no rule. */
export function ruleNames(
  source: RuleSource | undefined,
  path: readonly (string | number)[],
): string | undefined {
  const names = rulesOnPath(source?.descriptors ?? [], path).map(compositeOf);
  return names.length === 0 ? undefined : names.join('.');
}
