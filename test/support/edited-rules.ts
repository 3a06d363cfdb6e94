/** Random rule files with low limits, edits of them as people make them, and requests that hit their rules. */
import fc from 'fast-check';
import { type Entry, isObject, type JsonObject, type JsonValue, type Rule } from '../../rules/model.ts';
import { ruleFileValue } from '../../rules/write-rules.ts';
import { anyRules, overlappingRules } from './rule-arbitraries.ts';

/** The descriptors of one request, each with its entries. */
export type AskedDescriptors = readonly (readonly Entry[])[];

export interface EditedRules {
  before: JsonObject;
  after: JsonObject;
  /** They lead to each rule of both files, to its neighbors, and to two rules at a time. */
  requests: AskedDescriptors[];
}

/** A rule file. A few requests are over each limit. */
function lowFile(domain: string, descriptors: Rule[]): JsonObject {
  const file = structuredClone(ruleFileValue({ domain, descriptors }));
  for (const limit of partsOf(file).limits) {
    const { requests_per_unit: requests, name } = limit;
    if (requests !== undefined) limit['requests_per_unit'] = Math.min(2, Number(requests));
    if (limit['replaces'] !== undefined && name !== 'n') limit['replaces'] = [{ name: 'n' }];
  }
  return file;
}

/** How rules affect requests that match other rules, too. */
export type Ties = 'replaces' | 'quotas' | 'none' | 'both';

/** Removes from a file how its rules affect requests that match others, except in this way. */
function keepTies(file: JsonObject, ties: Ties): void {
  const { limits, rules } = partsOf(file);
  if (ties === 'quotas' || ties === 'none') for (const limit of limits) delete limit['replaces'];
  if (ties === 'replaces' || ties === 'none') for (const rule of rules) delete rule['quota_mode'];
}

/** Removes `_` from all keys, because `a_b=a` and `a=b_a` are the same text in the key of a counter. */
function keepKeysApart(file: JsonObject): void {
  for (const rule of partsOf(file).rules) rule['key'] = String(rule['key']).replaceAll('_', 'u');
}

/** Leaves only limits that every store counts: one fixed window for each rule, without reservations. */
export function simplify(file: JsonObject): void {
  const { limits, rules } = partsOf(file);
  for (const limit of limits) for (const name of ['algorithm', 'burst']) delete limit[name];
  for (const rule of rules) {
    const { rate_limits: several } = rule;
    if (several !== undefined) rule['rate_limit'] = objectsOf(several)[0] ?? null;
    for (const name of ['rate_limits', 'reserve', 'assign']) delete rule[name];
  }
}

interface Parts {
  /** Each list of rules. */
  levels: JsonObject[][];
  rules: JsonObject[];
  limits: JsonObject[];
}

function partsOf(file: JsonObject): Parts {
  const found: Parts = { levels: [], rules: [], limits: [] };
  const visit = ({ descriptors }: JsonObject): void => {
    const level = objectsOf(descriptors);
    if (level.length > 0) found.levels.push(descriptors as JsonObject[]);
    for (const rule of level) {
      found.rules.push(rule);
      const { rate_limit: one, rate_limits: several } = rule;
      found.limits.push(...objectsOf(several), ...objectsOf([one ?? null]));
      visit(rule);
    }
  };
  visit(file);
  return found;
}

function objectsOf(list: JsonValue | undefined): JsonObject[] {
  return Array.isArray(list) ? list.filter((one): one is JsonObject => isObject(one)) : [];
}

const units = ['second', 'minute', 'hour', 'day', 'week', 'month', 'year'];

/** Each changes something that requests notice, or only a name. Not every result is valid. */
const edits: ((parts: Parts, at: number, number: number) => void)[] = [
  ({ limits }, at, number) => set(limits, at, 'requests_per_unit', number % 4),
  ({ limits }, at, number) => set(limits, at, 'unit', units[number % units.length]!),
  ({ limits }, at, number) => set(limits, at, 'name', ['n', 'x', 'y', 'm'][number % 4]!),
  ({ limits }, at) => set(limits, at, 'replaces', [{ name: 'n' }]),
  ({ limits }, at) => set(limits, at, 'algorithm', 'sliding_window'),
  ({ rules }, at) => toggle(rules, at, 'shadow_mode'),
  ({ rules }, at) => toggle(rules, at, 'quota_mode'),
  ({ rules }, at) => toggle(rules, at, 'share_threshold'),
  ({ rules }, at) => set(rules, at, 'rate_limit', { unlimited: true }),
  ({ rules }, at, number) => set(rules, at, 'rate_limit', { unit: 'day', requests_per_unit: number % 3 }),
  ({ rules }, at, number) => set(rules, at, 'value', ['a', 'b*', '*', '*a'][number % 4]!),
  ({ rules }, at) => {
    const rule = rules[at % rules.length];
    if (rule !== undefined) delete rule['descriptors'];
  },
  ({ levels }, at, number) => void anyOf(levels, at)?.splice(number % 6, 1),
  ({ levels }, at) => void anyOf(levels, at)?.reverse(),
  ({ levels, rules }, at, number) =>
    void anyOf(levels, at)?.unshift({ ...structuredClone(anyOf(rules, number)!), value: 'a*' }),
];

function anyOf<T>(list: readonly T[], at: number): T | undefined {
  return list[at % Math.max(1, list.length)];
}

function set(list: readonly JsonObject[], at: number, name: string, value: JsonValue): void {
  const one = anyOf(list, at);
  if (one === undefined) return;
  if (name === 'rate_limit') delete one['rate_limits'];
  one[name] = value;
}

function toggle(list: readonly JsonObject[], at: number, name: string): void {
  const one = anyOf(list, at);
  if (one !== undefined) one[name] = one[name] !== true;
}

const edit = fc.record({ kind: fc.nat(edits.length - 1), at: fc.nat(200), number: fc.nat(200) });

/** Texts in place of a star, or of a value that a rule leaves open. */
const fillings = ['a', 'b', ''];

/** Chosen: more requests for one file find the same. */
const maxChanged = 40;
const maxOthers = 16;
const maxPairs = 16;

/** A descriptor for a rule, and the rule without those below it. */
interface Aimed {
  entries: Entry[];
  rule: string;
}

/** Returns descriptors for each rule of a file: its path with values that match, one that may not, and an entry more or fewer. */
function descriptorsFor({ descriptors }: JsonObject): Aimed[] {
  const found: Aimed[] = [];
  const visit = (level: readonly JsonObject[], paths: readonly Entry[][]): void => {
    for (const [index, rule] of level.entries()) {
      const { descriptors: below, ...own } = rule;
      const name = JSON.stringify([index, own]);
      const here = paths.flatMap((path) => entriesFor(rule).map((entry) => [...path, entry]));
      const [first] = here;
      if (first === undefined) continue;
      const { key, value } = first.at(-1)!;
      const near = [first.with(-1, { key, value: `${value}z` }), [...first, { key: 'a', value: 'a' }]];
      for (const entries of [...here, ...near]) found.push({ entries, rule: name });
      // Deeper paths use only the first ways to this rule.
      visit(objectsOf(below), here.slice(0, 2));
    }
  };
  visit(objectsOf(descriptors), [[]]);
  return found.filter(({ entries }) => entries.every(({ key }) => key !== ''));
}

function entriesFor({ key, value }: JsonObject): Entry[] {
  const [ownKey, ownValue] = [String(key ?? ''), String(value ?? '')];
  const open = ownValue === '' ? '*' : ownValue;
  const starred = ownKey.includes('*') || open.includes('*');
  return (starred ? fillings : ['']).map((filling) => ({
    key: ownKey.replaceAll('*', filling),
    value: open.replaceAll('*', filling),
  }));
}

/** The paths to rules whose limits have a name, or replace one, by that name. */
function namedPaths(file: JsonObject): { named: [string, Entry[]][]; replacing: [string, Entry[]][] } {
  const found: ReturnType<typeof namedPaths> = { named: [], replacing: [] };
  const visit = (level: readonly JsonObject[], path: readonly Entry[]): void => {
    for (const rule of level) {
      const here = [...path, entriesFor(rule)[0]!];
      for (const { name, replaces } of [
        ...objectsOf(rule['rate_limits']),
        ...objectsOf([rule['rate_limit'] ?? null]),
      ]) {
        if (typeof name === 'string') found.named.push([name, here]);
        for (const one of objectsOf(replaces)) found.replacing.push([String(one['name']), here]);
      }
      visit(objectsOf(rule['descriptors']), here);
    }
  };
  visit(objectsOf(file['descriptors']), []);
  return found;
}

/** Requests that match a rule and another one that it replaces. */
function replacingPairs(file: JsonObject): Entry[][][] {
  const { named, replacing } = namedPaths(file);
  return replacing.flatMap(([name, path]) =>
    named.filter(([own, other]) => own === name && other !== path).map(([, other]) => [path, other]),
  );
}

function spread<T>(list: readonly T[], most: number): T[] {
  const step = Math.max(1, Math.ceil(list.length / most));
  return list.filter((_, index) => index % step === 0);
}

function requestsFor(files: readonly JsonObject[], pairs: readonly (readonly [number, number])[]) {
  const [before, after] = files.map(
    (file) => new Map(descriptorsFor(file).map((one) => [JSON.stringify(one), one])),
  );
  const all = [...new Map([...before!, ...after!]).entries()];
  if (all.length === 0) return [];
  const isChanged = ([name]: (typeof all)[number]) => !(before!.has(name) && after!.has(name));
  const changed = spread(all.filter(isChanged), maxChanged).map(([, { entries }]) => entries);
  const others = spread(
    all.filter((one) => !isChanged(one)),
    maxOthers,
  ).map(([, { entries }]) => entries);
  const alone: AskedDescriptors[] = [...changed, ...others].map((one) => [one]);
  // Two values of one rule share a counter, or do not.
  const neighbors = spread(
    changed.slice(1).map((one, index) => [changed[index]!, one]),
    maxPairs,
  );
  const together = pairs.map(([first, second]) => [
    anyOf(all, first)![1].entries,
    anyOf(all, second)![1].entries,
  ]);
  const replacing = spread(files.flatMap(replacingPairs), maxPairs);
  return [...alone, ...neighbors, ...together, ...replacing];
}

/** Rules of one domain before and after some edits. */
export function editedRules(domain: string, ties: Ties = 'both'): fc.Arbitrary<EditedRules> {
  return fc
    .record({
      rules: fc.oneof({ weight: 4, arbitrary: overlappingRules }, { weight: 1, arbitrary: anyRules }),
      changes: fc.array(edit, { minLength: 1, maxLength: 2 }),
      pairs: fc.array(fc.tuple(fc.nat(500), fc.nat(500)), { minLength: 4, maxLength: 4 }),
    })
    .map(({ rules, changes, pairs }) => {
      const before = lowFile(domain, rules);
      const after = structuredClone(before);
      for (const { kind, at, number } of changes) edits[kind]!(partsOf(after), at, number);
      for (const file of [before, after]) keepTies(file, ties);
      if (ties !== 'both') for (const file of [before, after]) keepKeysApart(file);
      return { before, after, requests: requestsFor([before, after], pairs) };
    });
}
