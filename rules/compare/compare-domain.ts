/** Walks the rules of one domain in two versions, level by level: rules are the same when the matcher cannot tell them apart. */
import { limitWords } from '../describe.ts';
import {
  compositeOf,
  isObject,
  type JsonObject,
  type JsonValue,
  type Limit,
  type Rule,
  type RuleSource,
} from '../model.ts';
import { ruleName } from '../review/explain-descriptor.ts';
import { ruleValue } from '../write-rules.ts';
import { changedMeaning, crossingMeaning, movedMeaning } from './change-effect.ts';
import { type Crossing, Crossings, overtakenPatterns } from './crossing.ts';
import { Sides } from './domain-side.ts';
import type { FieldChange, Meaning, RuleChange } from './limit-effect.ts';

/** Fields that differ, as rule files spell them; without `descriptors`. An undefined rule has none. */
function fieldChanges(before: Rule | undefined, after: Rule | undefined): FieldChange[] {
  const was = before === undefined ? new Map<string, string>() : written(before);
  const is = after === undefined ? new Map<string, string>() : written(after);
  const names = [...new Set([...was.keys(), ...is.keys()])];
  return names
    .filter((name) => was.get(name) !== is.get(name))
    .map((name) => ({ name, before: was.get(name), after: is.get(name) }));
}

/** What a rule says beyond its defaults. */
function written(rule: Rule): Map<string, string> {
  const { key, value: ownValue, descriptors, rate_limit: limit, ...others } = ruleValue(rule);
  const fields = Object.entries({ ...(limit as JsonObject | undefined), ...others });
  return new Map(fields.map(([name, value]) => [name, fieldText(rule, name, value)]));
}

function fieldText({ limits }: Rule, name: string, value: JsonValue): string {
  if (name === 'replaces') return limits[0]!.replaces.toSorted().join(', ');
  if (name === 'rate_limits') return limits.map(limitText).join('; ');
  return typeof value === 'string' ? value : sortedJson(value);
}

/** One of several: `1000 per day (name daily, replaces x)`. */
function limitText(limit: Limit): string {
  const { name, replaces } = limit;
  const more = [
    ...(name === '' ? [] : [`name ${name}`]),
    ...(replaces.length === 0 ? [] : [`replaces ${replaces.toSorted().join(', ')}`]),
  ];
  return `${limitWords(limit)}${more.length === 0 ? '' : ` (${more.join(', ')})`}`;
}

function sortedJson(value: unknown): string {
  return JSON.stringify(value, (_, member: unknown) =>
    isObject(member)
      ? Object.fromEntries(Object.entries(member).sort(([a], [b]) => (a < b ? -1 : 1)))
      : member,
  );
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

  /** Patterns that both versions have in another order, where some text fits both. */
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
    const many = `the order of ${moved} patterns of one level changed: too many to tell what each pair means`;
    const names = after.map((rule) => ruleName({ rule }));
    this.#push('moved', [...names, '*'], [], {
      effect: 'mixed',
      effects: ['mixed'],
      notes: [many],
      passes: [],
    });
  }

  #add(kind: RuleChange['kind'], path: RulePath, fields: RuleChange['fields'], meaning: Meaning): void {
    this.#push(
      kind,
      path.map((rule) => ruleName({ rule })),
      fields,
      meaning,
    );
  }

  #push(kind: RuleChange['kind'], rule: string[], fields: RuleChange['fields'], meaning: Meaning): void {
    const { effect, effects, passes, notes } = meaning;
    this.changes.push({ kind, ...this.#place, rule, fields, effect, effects, passes, notes });
  }
}

/** Compares what limiters of one fleet load. Sources of one domain add up; how they are split into files says nothing. */
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
