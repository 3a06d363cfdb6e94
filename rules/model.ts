/**
 * The model of a rule, independent of its source (YAML file, xDS resource, Kubernetes object). Readers produce these types,
 * `checkSources` checks them, and `compile-rules` turns them into bytes to match on.
 */
import { type Algorithm, defaultAlgorithm } from './algorithms/registry.ts';
import {
  type entryFields,
  type FieldKind,
  type FieldRow,
  type FieldRows,
  hitsUnits,
  limitFields,
  ruleFields,
} from './language/fields.ts';

/** Numbers of `RateLimitResponse.RateLimit.Unit` in Envoy's rls v3; the names are those of its enum. */
export const Unit = {
  UNKNOWN: 0,
  SECOND: 1,
  MINUTE: 2,
  HOUR: 3,
  DAY: 4,
  MONTH: 5,
  YEAR: 6,
  WEEK: 7,
} as const;
export type UnitName = keyof typeof Unit;
export type Unit = (typeof Unit)[UnitName];

/** The largest number that the protocol has room for: of hits, and of requests a unit and what remains of them as answers say it. */
export const maxUint32 = 0xffff_ffff;

/** The largest number of requests that a limit may allow: 2^53 - 1, up to which all numbers are exact wherever they are counted. */
export const maxRequests = Number.MAX_SAFE_INTEGER;

/** The pattern of a number of hits that is written as text. */
export const wholeNumberPattern = '^[0-9]{1,16}$';
const wholeText = new RegExp(wholeNumberPattern);

/** A number up to `maxRequests`, which may be a text where what it came through keeps fewer digits; undefined for anything else. */
export function readWholeNumber(value: unknown): number | undefined {
  const number = typeof value === 'string' && wholeText.test(value) ? Number(value) : value;
  return typeof number === 'number' && Number.isSafeInteger(number) && number >= 0 ? number : undefined;
}

/** Names of units by their numbers. */
const unitNames = Object.keys(Unit) as UnitName[];
const unitsByName = new Map<string, Unit>(Object.entries(Unit).slice(1));

/** Returns the name of a unit by its number. Undefined if the enum does not have the number. */
export function unitName(unit: number): UnitName | undefined {
  return unitNames[unit];
}

/** The unit that a rule's text names, in any letter case; undefined when it names none (UNKNOWN is none). */
export function unitFromText(text: string): Unit | undefined {
  return unitsByName.get(text.toUpperCase());
}

export { hitsUnits };
/** The unit of the hits. It does not change how hits are counted. */
export type HitsUnit = (typeof hitsUnits)[number];

/** Windows of the calendar in a time zone, in place of a unit. */
export interface Calendar {
  readonly unit: CalendarUnit;
  /** A name of the IANA database, as it is written: `Europe/Zurich`. */
  readonly timezone: string;
  /** The day that windows begin with: 1 to 31 of a month, which has its last day instead where it is shorter; 1 (Monday) to 7 of a week; else 1. */
  readonly startsOn: number;
}
export const calendarUnits = ['day', 'week', 'month', 'year'] as const;
/** Values of `starts_on` for weeks. The first is 1. */
export const weekdays = ['monday', 'tuesday', 'wednesday', 'thursday', 'friday', 'saturday', 'sunday'];
export type CalendarUnit = (typeof calendarUnits)[number];

/** The `reserve` of a rule: how marker entries of requests reserve from it. */
export interface ReserveTerms {
  /** The time for which a reservation is held, in seconds, from 1 to 86,400. */
  readonly ttlSeconds: number;
  /** The reserved amount if the request does not state one. Undefined if it is the hits of the request. */
  readonly estimate: number | undefined;
  /** The effect of expiry on a reservation: the limiter returns its amount, or leaves it charged. */
  readonly onExpiry: 'release' | 'charge';
}

export type JsonValue = null | boolean | number | string | JsonValue[] | JsonObject;
export interface JsonObject {
  [key: string]: JsonValue;
}

/** Returns whether a value of parsed YAML or JSON is an object. */
export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** A copy whose keys are in the order of their code units, on all levels. */
export function sortedKeys(object: JsonObject): JsonObject {
  return Object.fromEntries(
    Object.keys(object)
      .sort()
      .map((key) => [key, sortedValue(object[key] as JsonValue)]),
  );
}

/** The same of any value. */
export function sortedValue(value: JsonValue): JsonValue {
  if (Array.isArray(value)) return value.map(sortedValue);
  return value !== null && typeof value === 'object' ? sortedKeys(value) : value;
}

/** The rules of one source for one domain: one YAML file or one resource. */
export interface RuleSource {
  /** The source's name in errors: `config.basic.yaml`, or a resource's name. */
  name: string;
  domain: string;
  descriptors: readonly Rule[];
}

/** The type of each kind of field, as it is written. */
export interface FieldValues {
  text: string;
  unit: string;
  boolean: boolean;
  uint32: number;
  requests: number;
  algorithm: Algorithm;
  unitOfHits: HitsUnit;
  percents: readonly number[];
  /** The day as its number, or as its name. */
  day: string | number;
  /** Undefined if a calendar is written that cannot be read. */
  calendar: Calendar | undefined;
  share: number | undefined;
  reserve: ReserveTerms | undefined;
  metadata: JsonObject | undefined;
  names: readonly string[];
  entries: readonly Written<typeof entryFields>[];
  limit: WrittenLimit | undefined;
  /** The written limits. An element is undefined if it is not a map. Undefined if there is no list. */
  limits: readonly (WrittenLimit | undefined)[] | undefined;
  rules: readonly Rule[];
}

type ValueOf<Row extends FieldRow> = FieldValues[Row['kind']];

/** The written fields of a table, or undefined if none are written. */
export type Written<Rows extends FieldRows> = {
  -readonly [Name in keyof Rows]?: ValueOf<Rows[Name]> | undefined;
};
export type WrittenRule = Written<typeof ruleFields>;
export type WrittenLimit = Written<typeof limitFields>;

/** The type of each kind of field in a rule or limit. */
type PropertyOfKind<Kind extends FieldKind> = Kind extends 'unit' ? Unit : FieldValues[Kind];

/** The properties that a table's fields set. */
type Properties<Rows extends FieldRows> = {
  -readonly [Name in keyof Rows as Rows[Name] extends { isSpelling: true }
    ? never
    : Name]: Rows[Name] extends {
    isOptional: true;
  }
    ? PropertyOfKind<Rows[Name]['kind']> | undefined
    : PropertyOfKind<Rows[Name]['kind']>;
};

export interface Rule extends Properties<typeof ruleFields> {
  /** No limit, the limit of `rate_limit`, or the 2 to 8 limits of `rate_limits`, which must all allow. */
  limits: readonly Limit[];
}

/** The text that the matcher compares: `key`, or `key_value`. */
export function compositeOf({ key, value }: Pick<Rule, 'key' | 'value'>): string {
  return value === '' ? key : `${key}_${value}`;
}

/** The rules on the way from the first level along a path in the spelling of rule files. */
export function rulesOnPath(top: readonly Rule[], path: readonly (string | number)[]): Rule[] {
  const found: Rule[] = [];
  for (let step = 0; path[step] === 'descriptors'; step += 2) {
    const rule = (found.at(-1)?.descriptors ?? top)[path[step + 1] as number];
    if (rule === undefined) break;
    found.push(rule);
  }
  return found;
}

/** Yields the rules of all levels with their limits. Each rule comes before the rules below it. */
export function* rulesOfAllLevels(
  rules: readonly Rule[],
): Generator<readonly [rule: Rule, limits: readonly Limit[]]> {
  for (const rule of rules) {
    yield [rule, rule.limits];
    yield* rulesOfAllLevels(rule.descriptors);
  }
}

/** The fields of a rule other than its match and its limits. */
export type RuleTraits = Omit<Rule, 'key' | 'value' | 'limits' | 'descriptors'>;

/** A limit. Rules of one file may share it. */
export interface Limit extends Readonly<Properties<typeof limitFields>> {}
/** A limit while it is read. */
export type OpenLimit = Properties<typeof limitFields>;

/** The limits of a rule without any: one list for all, because there may be 100,000 of them. */
export const noLimits: readonly Limit[] = [];
export const noRules: readonly Rule[] = [];

/** The defaults of properties, unless they may be undefined. */
type Defaults = {
  readonly [Kind in FieldKind as undefined extends FieldValues[Kind] ? never : Kind]: PropertyOfKind<Kind>;
};
const defaultOf: Readonly<Partial<Record<FieldKind, unknown>>> = {
  ...{ text: '', unit: Unit.UNKNOWN, boolean: false, uint32: 1, requests: 0, day: 1 },
  ...{
    algorithm: defaultAlgorithm,
    unitOfHits: 'requests',
    percents: [],
    names: [],
    entries: [],
    rules: noRules,
  },
} satisfies Defaults;

/** Objects of `JSON.parse` hold all their properties in themselves, and so do their copies. That saves 16 bytes each. */
function defaultsOf<Rows extends FieldRows, More extends object>(
  rows: Rows,
  more: More,
): Properties<Rows> & More {
  const own = Object.entries(rows).filter(([, { isSpelling }]) => isSpelling !== true);
  const defaults = {
    ...Object.fromEntries(
      own.map(([name, { kind, isOptional }]) => [name, isOptional ? undefined : defaultOf[kind]]),
    ),
    ...more,
  } as Properties<Rows> & More;
  return Object.assign(JSON.parse(JSON.stringify(defaults, (_, value) => value ?? null)), defaults);
}

const defaultLimit: OpenLimit = defaultsOf(limitFields, {});
const defaultRule: Rule = defaultsOf(ruleFields, { limits: noLimits });

const ruleNames = new Set(Object.keys(defaultRule));
const limitNames = new Set(Object.keys(defaultLimit).filter((name) => name !== 'unit'));

/** Sets the written properties. It iterates over what is written, because few properties are. */
function setWritten<Values extends object>(
  written: { readonly [Name in keyof Values]?: Values[Name] | undefined },
  values: Values,
  names: ReadonlySet<string>,
): void {
  for (const name in written) {
    const value = written[name];
    if (value !== undefined && names.has(name)) values[name] = value;
  }
}
/** The words that replace a unit in messages about limits. */
const unknownUnits = new WeakMap<Limit, string>();

/** The unit of a limit as it is written, also where it names none; empty where nothing is. */
export function unitText(limit: Limit): string {
  return unknownUnits.get(limit) ?? (limit.unit === Unit.UNKNOWN ? '' : unitName(limit.unit)!);
}

/** The most that may come at once: of a token bucket what it says, else its requests. */
export function burstOf({ burst, requestsPerUnit }: Limit): number {
  return burst ?? requestsPerUnit;
}

/** Makes a limit from the fields that are written. `settleLimit` sets its window or calendar. */
export function makeLimit(written: WrittenLimit): OpenLimit {
  const limit = { ...defaultLimit };
  setWritten<Omit<OpenLimit, 'unit'>>(written, limit, limitNames);
  if (written.unit === undefined) return limit;
  const unit = unitFromText(written.unit);
  if (unit === undefined) unknownUnits.set(limit, written.unit);
  else limit.unit = unit;
  return limit;
}

/** Makes a rule from the fields that are written, with these limits. */
export function makeRule(written: WrittenRule, limits: readonly Limit[]): Rule {
  const rule = { ...defaultRule, limits };
  setWritten<Omit<Rule, 'limits'>>(written, rule, ruleNames);
  return rule;
}

const { key: _key, value: _value, limits: _limits, descriptors: _rules, ...traits } = defaultRule;
/** The options of a rule in which none are written. */
export const noTraits: RuleTraits = traits;

/** Returns whether a field has its default. */
export function isDefault(value: unknown, byDefault: unknown): boolean {
  return value === byDefault || (Array.isArray(value) && value.length === 0);
}

/** The part of a limit that determines how it is counted. */
type CountedLimit = Pick<Limit, 'unitMultiplier' | 'calendar' | 'algorithm'>;

/** Returns whether the Go service supports such a limit: its window is a unit, and its algorithm the default one. */
export function isPlainLimit({ unitMultiplier, calendar, algorithm }: CountedLimit): boolean {
  return unitMultiplier === 1 && calendar === undefined && algorithm === defaultAlgorithm;
}

/**
 * Returns whether a rule has only limits that the Go service knows. It then has one limit or none, and its counters have the Go
 * service's keys, if any counters have.
 */
export function arePlainLimits(limits: readonly CountedLimit[]): boolean {
  return limits.length === 0 || (limits.length === 1 && isPlainLimit(limits[0]!));
}

/** One key/value entry of a request's descriptor. Case-sensitive. */
export interface Entry {
  key: string;
  value: string;
}

/**
 * Returns whether the pattern matches the whole text. Each `*` stands for any text. If the text is another pattern, returns
 * whether the pattern matches everything that the other pattern matches.
 */
export function patternMatches(pattern: string, text: string): boolean {
  let star = pattern.indexOf('*');
  if (star === -1) return text === pattern;
  const lastStar = pattern.lastIndexOf('*');
  const end = text.length - (pattern.length - lastStar - 1);
  if (star > end || !text.startsWith(pattern.slice(0, star)) || !text.endsWith(pattern.slice(lastStar + 1)))
    return false;
  let from = star;
  while (star < lastStar) {
    const nextStar = pattern.indexOf('*', star + 1);
    const at = text.indexOf(pattern.slice(star + 1, nextStar), from);
    if (at === -1) return false;
    from = at + nextStar - star - 1;
    star = nextStar;
  }
  return from <= end;
}
