/**
 * What a rule is, whatever its spelling (YAML file, xDS resource, Kubernetes object).
 * Readers produce these types, `checkSources` checks them, `compile-rules` turns them into bytes to match on.
 */

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
export const mostRequests = Number.MAX_SAFE_INTEGER;

/** Such a number as a text. */
export const wholePattern = '^[0-9]{1,16}$';
const wholeText = new RegExp(wholePattern);

/** A number up to `mostRequests`, which may be a text where what it came through keeps fewer digits; undefined for anything else. */
export function wholeFrom(value: unknown): number | undefined {
  const number = typeof value === 'string' && wholeText.test(value) ? Number(value) : value;
  return Number.isSafeInteger(number) && (number as number) >= 0 ? (number as number) : undefined;
}

/** Name of a unit by its number; undefined for a number that the enum does not have. */
export function unitName(unit: number): UnitName | undefined {
  return unitNames[unit];
}
const unitNames: (UnitName | undefined)[] = [];
for (const [name, number] of Object.entries(Unit)) unitNames[number] = name as UnitName;

const unitsByText = new Map<string, Unit>();
for (const [name, unit] of Object.entries(Unit)) {
  if (unit !== Unit.UNKNOWN) unitsByText.set(name, unit).set(name.toLowerCase(), unit);
}

/** The unit that a rule's text names, in any letter case; undefined when it names none (UNKNOWN is none). */
export function unitFromText(text: string): Unit | undefined {
  return unitsByText.get(text) ?? unitsByText.get(text.toUpperCase());
}

/** The unit of a limit; UNKNOWN where its text names none. */
export function unitOf({ unit }: Pick<RateLimit, 'unit'>): Unit {
  return unitFromText(unit) ?? Unit.UNKNOWN;
}

/** How the hits of a limit are counted. The numbers are those of the enum in resources. */
export const Algorithm = {
  /** Hits of each window are counted apart. */
  FIXED_WINDOW: 0,
  /** The window before counts for the part of it that one length back still reaches. */
  SLIDING_WINDOW: 1,
  /** Tokens come back evenly, up to `burst` of them. */
  TOKEN_BUCKET: 2,
} as const;
export type Algorithm = (typeof Algorithm)[keyof typeof Algorithm];

/** What the hits of a limit are, as people read it. The numbers are those of the enum in resources. */
export const hitsUnits = ['requests', 'tokens', 'micro-dollars', 'bytes'] as const;
/** `hits_unit`. It changes nothing of how hits are counted. */
export type HitsUnit = (typeof hitsUnits)[number];

/** Windows of the calendar as it is in a place, in the stead of a unit. */
export interface Calendar {
  readonly unit: CalendarUnit;
  /** Of the IANA database, as it is written: `Europe/Zurich`. */
  readonly timezone: string;
  /** The day that windows begin with: 1 to 31 of a month, which has its last day instead where it is shorter; 1 (Monday) to 7 of a week; else 1. */
  readonly startsOn: number;
}
export const calendarUnits = ['day', 'week', 'month', 'year'] as const;
/** `starts_on` of weeks: the first is 1. */
export const weekdays = ['monday', 'tuesday', 'wednesday', 'thursday', 'friday', 'saturday', 'sunday'];
export type CalendarUnit = (typeof calendarUnits)[number];

/** How a rule is reserved against by marker entries of requests: `reserve`. */
export interface ReserveTerms {
  /** How long a reservation is held, in seconds. 1 to 86,400. */
  readonly ttlSeconds: number;
  /** What is reserved where a request does not say how much; undefined: its hits. */
  readonly estimate: number | undefined;
  /** What becomes of one that nobody settled: it is given back, or stays charged. */
  readonly onExpiry: 'release' | 'charge';
}

/** As rule files spell them, by their numbers. */
export const algorithmNames = Object.keys(Algorithm).map((name) => name.toLowerCase());

export type JsonValue = null | boolean | number | string | JsonValue[] | JsonObject;
export interface JsonObject {
  [key: string]: JsonValue;
}

/** The rules of one source for one domain: one YAML file or one resource. */
export interface RuleSource {
  /** How errors name it: `config.basic.yaml`, or a resource's name. */
  name: string;
  domain: string;
  descriptors: readonly Rule[];
}

export interface Rule {
  key: string;
  /** Empty: any value matches. May contain `*`. */
  value: string;
  /** None, the one of `rate_limit`, or the 2 to 8 of `rate_limits`, which all have to allow. */
  limits: readonly RateLimit[];
  shadowMode: boolean;
  quotaMode: boolean;
  detailedMetric: boolean;
  valueToMetric: boolean;
  shareThreshold: boolean;
  /** Answers say nothing of it beyond what they say without RESPONSE_RULE_IDENTITY. */
  hideIdentity: boolean;
  /** Millionths of its limit that one limiter may take ahead at most, 0 for none; undefined: as the limiter is set. See `lease.ts`. */
  lease: number | undefined;
  /** Undefined: no marker entries are looked for. */
  reserve: ReserveTerms | undefined;
  /** Copied into the dynamic metadata of an answer. */
  metadata: JsonObject | undefined;
  descriptors: readonly Rule[];
}

/** What a rule may be beside its limit, by its name in a rule file; manifests spell it as `Rule` does. */
export const ruleFlags = {
  shadow_mode: 'shadowMode',
  quota_mode: 'quotaMode',
  detailed_metric: 'detailedMetric',
  value_to_metric: 'valueToMetric',
  share_threshold: 'shareThreshold',
  hide_identity: 'hideIdentity',
} as const;
export type RuleFlag = (typeof ruleFlags)[keyof typeof ruleFlags];

export interface RateLimit {
  /** As written; the validator resolves it, in any letter case. Empty when there is none. */
  unit: string;
  /** How many units a window has; 1 where none is written. */
  unitMultiplier: number;
  /** In place of a window of the unit's length; `unit` is then its own. */
  calendar: Calendar | undefined;
  /** How many hits each window allows. 0 blocks everything. 0 to 2^53 - 1. */
  requestsPerUnit: number;
  hitsUnit: HitsUnit;
  /** Percents of it from which on answers carry a mark: 1 to 100, ascending, each once. */
  warnAt: readonly number[];
  algorithm: Algorithm;
  /** Of a token bucket, the most that may come at once, where that is written. */
  burst: number | undefined;
  unlimited: boolean;
  /** Empty: no rule can replace this limit. */
  name: string;
  replaces: readonly string[];
}

/** Of what has none: one list for all, for there may be 100,000 of them. */
export const noMarks: readonly number[] = [];
const noNames: readonly string[] = [];
export const noLimits: readonly RateLimit[] = [];
export const noRules: readonly Rule[] = [];

/** A limit of which nothing is written. */
export function emptyLimit(): RateLimit {
  return {
    unit: '',
    unitMultiplier: 1,
    calendar: undefined,
    requestsPerUnit: 0,
    hitsUnit: 'requests',
    warnAt: noMarks,
    algorithm: Algorithm.FIXED_WINDOW,
    burst: undefined,
    unlimited: false,
    name: '',
    replaces: noNames,
  };
}

/** What of a limit says how it is counted. */
type CountedLimit = Pick<RateLimit, 'unitMultiplier' | 'calendar' | 'algorithm'>;

/** Whether the Go service could have been told of it: no other length of a window than a unit's, no other algorithm. */
export function isPlainLimit({ unitMultiplier, calendar, algorithm }: CountedLimit): boolean {
  return unitMultiplier === 1 && calendar === undefined && algorithm === Algorithm.FIXED_WINDOW;
}

/** Whether that is so of a rule with these limits, of which there is one then, or none: its counters have the Go service's keys, if any have. */
export function arePlainLimits(limits: readonly CountedLimit[]): boolean {
  return limits.length === 0 || (limits.length === 1 && isPlainLimit(limits[0]!));
}

/** The `rules_version` of node metadata from which on a limiter takes overrides; others would take one for a domain without rules. */
export const overridesRulesVersion = 3;
/** That from which on it obeys calendars, numbers beyond 32 bits and `reserve`. */
export const budgetsRulesVersion = 4;

/**
 * What a limiter has to obey for these rules. Limiters say in their node metadata (`rules_version`) how far they do, and who
 * says nothing obeys 1: it would take a window, algorithm or list of limits that it does not know for a plain limit, and
 * before 4 a calendar for a plain unit, the marker entries of `reserve` for entries of a rule. Who does not know `lease` takes
 * nothing ahead, and obeys the limit; who does not know `hits_unit` and `warn_at` is silent about them.
 */
export function rulesVersionNeeded(rules: readonly Rule[]): 1 | 2 | typeof budgetsRulesVersion {
  let needed: 1 | 2 = 1;
  for (const { limits, reserve, descriptors } of rules) {
    const below = rulesVersionNeeded(descriptors);
    if (below === budgetsRulesVersion || reserve !== undefined || limits.some(isOfBudgets))
      return budgetsRulesVersion;
    if (below === 2 || !arePlainLimits(limits)) needed = 2;
  }
  return needed;
}

function isOfBudgets({ calendar, requestsPerUnit, burst = 0 }: RateLimit): boolean {
  return calendar !== undefined || requestsPerUnit > maxUint32 || burst > maxUint32;
}

/** One tuple of a request's descriptor. Case-sensitive. */
export interface Entry {
  key: string;
  value: string;
}

/**
 * Whether the pattern, in which each `*` stands for any text, matches the whole text. Asked of another pattern: whether it
 * matches all that this one matches.
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
