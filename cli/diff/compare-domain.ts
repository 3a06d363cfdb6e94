/** Compares the rules of one domain in two versions, level by level. Rules are the same if the matcher cannot distinguish them. */
import { changeWords, limitLabel, limitsWords, limitWords } from '../../rules/describe.ts';
import { defaultNames, type NameForm, type RuleMatch } from '../../rules/match-result.ts';
import {
  arePlainLimits,
  compositeOf,
  type Entry,
  type JsonObject,
  type JsonValue,
  type Limit,
  type Rule,
  type RuleSource,
  sortedValue,
} from '../../rules/model.ts';
import { ruleName } from '../../rules/review/explain-descriptor.ts';
import { lengthInKeys } from '../../rules/window.ts';
import { ruleValue } from '../../rules/write-rules.ts';
import { type Crossing, type CrossingEffect, Crossings, overtakenPatterns } from './crossing.ts';
import { type DomainSide, Sides } from './domain-side.ts';
import {
  effectsBesideOthers,
  type FieldChange,
  type LimitEffect,
  limitEffect,
  limitedRule,
  type Meaning,
  meaningOf,
  type RuleChange,
  sharingBelow,
} from './limit-effect.ts';

/** Returns the fields that differ, as rule files spell them, without `descriptors`. An undefined rule has no fields. */
function fieldChanges(before: Rule | undefined, after: Rule | undefined): FieldChange[] {
  const was = before === undefined ? new Map<string, string>() : written(before);
  const is = after === undefined ? new Map<string, string>() : written(after);
  const names = [...new Set([...was.keys(), ...is.keys()])];
  return names
    .filter((name) => was.get(name) !== is.get(name))
    .map((name) => ({ name, before: was.get(name), after: is.get(name) }));
}

/** The fields of a rule that differ from their defaults. */
function written(rule: Rule): Map<string, string> {
  const { key, value: ownValue, descriptors, rate_limit: limit, ...others } = ruleValue(rule);
  const fields = Object.entries({ ...(limit as JsonObject | undefined), ...others });
  return new Map(fields.map(([name, value]) => [name, fieldText(rule, name, value)]));
}

function fieldText({ limits }: Rule, name: string, value: JsonValue): string {
  if (name === 'replaces') return limits[0]!.replaces.toSorted().join(', ');
  if (name === 'rate_limits') return limits.map(limitText).join('; ');
  return typeof value === 'string' ? value : JSON.stringify(sortedValue(value));
}

/** Returns one of several limits in words: `1000 per day (name daily, replaces x)`. */
function limitText(limit: Limit): string {
  const { name, replaces } = limit;
  const more = [
    ...(name === '' ? [] : [`name ${name}`]),
    ...(replaces.length === 0 ? [] : [`replaces ${replaces.toSorted().join(', ')}`]),
  ];
  return `${limitWords(limit)}${more.length === 0 ? '' : ` (${more.join(', ')})`}`;
}

/** A rule on the way down, on one side. */
type RulePath = readonly Rule[];

class DomainComparison {
  readonly changes: RuleChange[] = [];
  readonly #sides: Sides;
  readonly #place: { fleet: string; domain: string };

  constructor(sides: Sides, place: { fleet: string; domain: string }) {
    this.#sides = sides;
    this.#place = place;
    this.#level(sides.before.rules, sides.after.rules, { before: [], after: [] });
  }

  #level(was: readonly Rule[], is: readonly Rule[], above: { before: RulePath; after: RulePath }): void {
    const before = new Map(was.map((rule) => [compositeOf(rule), rule]));
    const after = new Map(is.map((rule) => [compositeOf(rule), rule]));
    for (const [composite, rule] of before) {
      if (after.has(composite)) continue;
      this.#single('removed', [...above.before, rule], [{ own: above.before, other: above.after }]);
    }
    for (const [composite, rule] of after) {
      const earlier = before.get(composite);
      if (earlier !== undefined) this.#both([...above.before, earlier], [...above.after, rule]);
      else this.#single('added', [...above.after, rule], [{ own: above.after, other: above.before }]);
    }
    this.#order([...before.values()], [...after.values()], above);
  }

  #both(before: RulePath, after: RulePath): void {
    const [was, is] = [before.at(-1)!, after.at(-1)!];
    const fields = fieldChanges(was, is);
    if (fields.length > 0) {
      this.#add('changed', after, fields, changedMeaning({ before, after, fields }, this.#sides));
    }
    this.#level(was.descriptors, is.descriptors, { before, after });
  }

  /** A rule that one version has, and those below it. */
  #single(kind: 'added' | 'removed', path: RulePath, above: readonly Crossing[]): void {
    const rule = path.at(-1)!;
    const isAdded = kind === 'added';
    const source = new Crossings(this.#sides, isAdded ? 'after' : 'before');
    const crossings = source.of(rule, above);
    const fields = isAdded ? fieldChanges(undefined, rule) : fieldChanges(rule, undefined);
    this.#add(kind, path, fields, crossingMeaning(kind, crossings, source));
    for (const below of rule.descriptors) this.#single(kind, [...path, below], crossings);
  }

  /** Reports patterns whose order differs between the versions, if some text matches several of them. */
  #order(
    was: readonly Rule[],
    is: readonly Rule[],
    { before, after }: { before: RulePath; after: RulePath },
  ): void {
    const { moves, isComplete, moved } = overtakenPatterns(was, is);
    for (const { rule, overtaken } of moves) {
      const source = new Crossings(this.#sides, 'after');
      const crossings = source.of(rule, [{ own: after, other: before }]);
      this.#add('moved', [...after, rule], [], movedMeaning(overtaken, crossings, source));
    }
    if (isComplete) return;
    const note = `the order of ${moved} patterns of one level changed: too many to compare each pair`;
    this.#add('moved', after, [], meaningOf([{ effect: 'mixed', note }]), '*');
  }

  /** `below`: the text for rules below the path. */
  #add(
    kind: RuleChange['kind'],
    path: RulePath,
    fields: RuleChange['fields'],
    { effect, effects, passes, notes }: Meaning,
    ...below: string[]
  ): void {
    const rule = [...path.map((one) => ruleName({ rule: one })), ...below];
    this.changes.push({ kind, ...this.#place, rule, fields, effect, effects, passes, notes });
  }
}

/** Compares what limiters of one fleet load. Sources of one domain add up; how they are split into files makes no difference. */
export function compareSources(
  before: readonly RuleSource[],
  after: readonly RuleSource[],
  fleet: string,
): RuleChange[] {
  const domains = new Set([...before, ...after].map(({ domain }) => domain));
  return [...domains].flatMap((domain) => {
    return new DomainComparison(new Sides(domain, before, after), { fleet, domain }).changes;
  });
}

// The effect of changes of rules on requests: it asks both versions about the requests that the rules are for.

/** The text that stands for any value, in samples and therefore in names of counters and metrics. */
const fillings = ['<any>', '', '<x>', 'a', '0'];

/**
 * Returns entries that find the last of these rules; each rule is on the level below the one before. Undefined if no tried
 * entries find it. Then the rule is hardly ever found.
 */
function sampleRequest(path: readonly Rule[], side: DomainSide): Entry[] | undefined {
  for (const filling of fillings) {
    const entries = path.map((rule) => entryFor(rule, filling));
    const found = side.walk(entries);
    if (path.every((rule, i) => found[i] === rule)) return entries;
  }
  return undefined;
}

function entryFor({ key, value }: Rule, filling: string): Entry {
  if (value !== '') return { key: key.replaceAll('*', filling), value: value.replaceAll('*', filling) };
  if (!key.includes('*')) return { key, value: filling };
  // A pattern without a value is compared with key and value joined.
  const [first = '', ...rest] = key.split('_');
  const fill = (text: string) => text.replaceAll('*', filling);
  return { key: fill(first), value: fill(rest.join('_')) };
}

/** Returns counters and metrics whose names changed. */
function ownNames(after: readonly Rule[], sides: Sides): string[] {
  const sample = sampleRequest(after, sides.after);
  const was = sample === undefined ? undefined : sides.before.match(sample);
  const is = sample === undefined ? undefined : sides.after.match(sample);
  if (was === undefined || is === undefined || was.rule.unlimited || is.rule.unlimited) return [];
  const notes: string[] = [];
  const [old, now] = [was.rule.limits, is.rule.limits];
  const continued = now.filter((limit) => old.some((other) => counterOf(other) === counterOf(limit)));
  if (was.counterStem !== is.counterStem) {
    const goesOn =
      continued.length > 0 && arePlainLimits(old) !== arePlainLimits(now) && isSameStem(sample!, sides);
    const unless = goesOn
      ? ` (with COUNTER_KEYS=unambiguous ${continued.map(limitWords).join('; ')} continues)`
      : '';
    notes.push(
      `other counter key, so counting starts again at 0${unless}: ${was.counterStem} -> ${is.counterStem}`,
    );
  } else if (continued.length < now.length) {
    const anew = now.filter((limit) => !continued.includes(limit));
    const [limit, ...others] = anew;
    const isOne = old.length === 1 && now.length === 1;
    const what = old[0]!.algorithm === limit!.algorithm ? 'another window' : 'another algorithm';
    notes.push(
      isOne && others.length === 0
        ? `${what}, so counting starts again at 0`
        : `its own counter, so counting starts again at 0: ${anew.map(limitWords).join('; ')}`,
    );
  }
  const [oldNames, newNames] = [metricNames(was), metricNames(is)];
  const gone = oldNames.filter((name) => !newNames.includes(name));
  const come = newNames.filter((name) => !oldNames.includes(name));
  // One limit more or fewer changes no name of another limit.
  if (gone.length > 0 && come.length > 0)
    notes.push(`other metric name: ${gone.join(', ')} -> ${come.join(', ')}`);
  return notes;
}

/** The part of a counter's key that identifies its limit. */
function counterOf(limit: Limit): string {
  return `${lengthInKeys(limit)} ${limit.algorithm}`;
}

function isSameStem(entries: readonly Entry[], { before, after }: Sides): boolean {
  const names: NameForm = { ...defaultNames, counterKeys: 'unambiguous' };
  return before.match(entries, names)?.counterStem === after.match(entries, names)?.counterStem;
}

/** Returns the metric names. Each of several limits has its own. */
function metricNames({ metricKey, rule: { limits } }: RuleMatch): string[] {
  if (limits.length === 1) return [metricKey];
  return limits.map((limit) => `${metricKey}.${limitLabel(limits, limit)}`);
}

const neverFound = 'no request matches this rule, because other rules of its level come first';
const unsure: LimitEffect = {
  effect: 'mixed',
  note: 'too many patterns match the same requests to compare all of them',
};

/** Compares a rule that only one version has; `kind` names that version. Rules below it have effects of their own. */
function crossingMeaning(
  kind: 'added' | 'removed',
  crossings: readonly Crossing[],
  source: Crossings,
): Meaning {
  const doubts = source.isComplete ? [] : [unsure];
  const [first, ...others] = crossings.flatMap((crossing) => source.effects(crossing));
  if (first === undefined) return meaningOf([...doubts, { effect: 'same', note: neverFound }]);
  const changed = others.filter(({ effect }) => effect !== 'same');
  const found = [first, ...changed.map((one) => ({ ...one, note: otherNote(kind, one) })), ...doubts];
  const meaning = meaningOf(found);
  const last = first.other?.at(-1);
  if (
    last === undefined ||
    last.limits.length === 0 ||
    (first.effect === 'same' && meaning.effect !== 'same')
  )
    return meaning;
  const name = ruleName({ rule: last });
  const where = kind === 'added' ? `before, '${name}' applied to them` : `now '${name}' applies to them`;
  return { ...meaning, notes: meaning.notes.toSpliced(1, 0, where) };
}

/** The effect on a pattern whose requests another pattern, now in front of it, takes. */
function movedMeaning(
  overtaken: readonly Rule[],
  crossings: readonly Crossing[],
  source: Crossings,
): Meaning {
  const isOvertaken = new Set<Rule | undefined>(overtaken);
  const found = crossings
    .filter(({ own, other }) => own.length === other.length && isOvertaken.has(other.at(-1)))
    .flatMap((crossing) => source.deepEffects(crossing));
  const doubts = source.isComplete ? [] : [unsure];
  const names = overtaken.slice(0, 3).map((one) => `'${ruleName({ rule: one })}'`);
  const more = overtaken.length > names.length ? ` and ${overtaken.length - names.length} more` : '';
  const moved = `stands before ${names.join(', ')}${more} now: requests that match both get this rule`;
  const plain =
    found.length === 0
      ? { effect: 'same' as const, note: 'requests that match both get other rules' }
      : undefined;
  const meaning = meaningOf([...found, ...doubts, ...(plain === undefined ? [] : [plain])]);
  return { ...meaning, notes: [moved, ...meaning.notes] };
}

function changedMeaning(
  { before, after, fields }: { before: RulePath; after: RulePath; fields: readonly FieldChange[] },
  sides: Sides,
): Meaning {
  const [was, is] = [before.at(-1)!, after.at(-1)!];
  const found = [
    limitEffect(limitedRule(was), limitedRule(is)),
    ...effectsBesideOthers(was, is, sides),
    ...sharingBelow(was, is),
  ];
  const names = new Set(fields.map(({ name }) => name));
  return meaningOf(found, [...ownNames(after, sides), ...changeWords(is, names)]);
}

/** Returns a note such as `takes requests from 'path=/ab*' (10 per minute): 1000 per minute instead of 10 per minute`. */
function otherNote(kind: 'added' | 'removed', { other, note, longerKey }: CrossingEffect): string {
  if (longerKey !== undefined) return `for requests with a longer key, such as '${longerKey}': ${note}`;
  const limits = other?.at(-1)?.limits ?? [];
  if (other === undefined || limits.length === 0) return `for some of its requests: ${note}`;
  const verb = kind === 'added' ? 'takes requests from' : 'leaves requests to';
  const path = other.map((rule) => ruleName({ rule })).join(' > ');
  return `${verb} '${path}' (${limitsWords(limits)}): ${note}`;
}
