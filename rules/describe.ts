/** Describes rules and limits in words, in lists and as JSON. The text for most fields follows from their rows. */
import { algorithmNames, algorithmOf, algorithmTitle, defaultAlgorithm } from './algorithms/registry.ts';
import { calendarText, calendarWords } from './calendar.ts';
import { type FieldRow, limitFields, ruleFields } from './language/fields.ts';
import { namesOf, namesWith, ruleFileName, ruleFlags } from './language/tables.ts';
import { leaseChange, leaseText } from './lease.ts';
import {
  burstOf,
  isDefault,
  isPlainLimit,
  type Limit,
  makeLimit,
  makeRule,
  noLimits,
  type Rule,
  unitName,
  unitText,
} from './model.ts';
import { effectWords, isPattern, type Override } from './override.ts';
import { reserveTexts, reserveWords } from './reserve.ts';
import { unitWord, windowSeconds, windowText, windowTextOf } from './window.ts';

/** The words for one field of a rule or limit, for lists of rules. */
export interface Described {
  /** The field's name in rule files. */
  readonly name: string;
  /** One text, or one text for each field of a map. */
  readonly texts: readonly string[];
}

const defaultLimit = makeLimit({});
const defaultRule = makeRule({}, noLimits);

// Numbers, windows and algorithms are described together, below.
const { unit: _unit, window: _window, unitMultiplier: _multiplier, ...withoutWindow } = limitFields;
const { requestsPerUnit: _requests, algorithm: _algorithm, burst: _burst, ...withoutCount } = withoutWindow;
const { unlimited: _unlimited, name: _name, replaces: _replaces, ...moreRows } = withoutCount;
const moreFields = namesOf(moreRows);
/** The fields of a limit other than number, window and algorithm, for JSON. */
export type OptionalLimitFields = Partial<Pick<Limit, keyof typeof moreRows>>;
type WordedField = Exclude<keyof typeof moreRows, 'calendar'>;
const wordedFields = moreFields.filter((name): name is WordedField => name !== 'calendar');

function textOf(value: unknown, separator: string): string {
  return Array.isArray(value) ? value.join(separator) : String(value);
}

function field(name: string, ...texts: string[]): Described {
  return { name: ruleFileName(name), texts };
}

/** The window, the number, and what else a limit says; its name only distinguishes it from the others of its rule. */
export function describeLimit(limit: Limit, all: readonly Limit[]): Described[] {
  const { name, requestsPerUnit, algorithm } = limit;
  const fields = [windowField(limit), field('requestsPerUnit', String(requestsPerUnit))];
  for (const one of wordedFields) {
    if (!isDefault(limit[one], defaultLimit[one])) fields.push(field(one, textOf(limit[one], ',')));
  }
  if (!isPlainLimit(limit)) fields.push(field('algorithm', algorithmNames[algorithm]!));
  if (algorithmOf(limit).hasBurst) fields.push(field('burst', String(burstOf(limit))));
  if (all.length > 1 && name !== '') fields.push(field('name', name));
  return fields;
}

/**
 * Returns the label that distinguishes one limit of a rule from the others: its name, or its window. If another limit without a
 * name has the same window, the algorithm follows. For a calendar the label is the unit, or the whole calendar if another limit
 * has that unit: `month_Europe_Zurich_15`.
 */
export function limitLabel(limits: readonly Limit[], limit: Limit): string {
  if (limit.name !== '') return limit.name;
  const others = limits.filter((other) => other !== limit && other.name === '');
  const { calendar } = limit;
  if (calendar !== undefined) {
    const isAlone = others.every((other) => other.calendar?.unit !== calendar.unit);
    return isAlone ? calendar.unit : calendarText(calendar).replace(/[@/]/g, '_');
  }
  const seconds = windowSeconds(limit.unit, limit.unitMultiplier);
  const isShared = others.some(
    (other) => other.calendar === undefined && windowSeconds(other.unit, other.unitMultiplier) === seconds,
  );
  const window = windowText(limit.unit, limit.unitMultiplier);
  return isShared ? `${window}_${algorithmNames[limit.algorithm]}` : window;
}

/** The limits of a rule as lists have them: `unit=MINUTE`, `requests_per_unit=10`. */
export function limitTexts(limits: readonly Limit[]): string[][] {
  return limits.map((limit) => describeLimit(limit, limits).map(({ name, texts }) => `${name}=${texts[0]}`));
}

function windowField({ unit, unitMultiplier, calendar }: Limit): Described {
  if (calendar !== undefined) return field('calendar', calendarText(calendar));
  return unitMultiplier === 1
    ? field('unit', unitName(unit)!)
    : field('window', windowText(unit, unitMultiplier));
}

const traitNames = namesOf(ruleFields).filter(isTrait);
const ownTraits = namesWith(ruleFields, { isOwn: true }).filter(isTrait);
type OwnTrait = (typeof ownTraits)[number];
/** The fields that lists always have, as in the Go service. */
const modes = ['shadowMode', 'quotaMode'] as const;
/** The words of lists for the fields of a rule other than its limits. */
export type DescribedTraits = Pick<Rule, OwnTrait | (typeof modes)[number]>;

function isTrait<Name extends keyof typeof ruleFields>(name: Name): name is Name & keyof Rule {
  return name in defaultRule;
}

function rowOf(name: keyof typeof ruleFields): FieldRow {
  return ruleFields[name];
}

/** The modes of a rule, and what it says in fields of our own. */
export function describeRule(rule: DescribedTraits): Described[] {
  const own = ownTraits.filter((name) => !isDefault(rule[name], defaultRule[name]));
  return [
    ...modes.map((name) => field(name, String(rule[name]))),
    ...own.map((name) => field(name, ...textsOfTrait(rule, name))),
  ];
}

function textsOfTrait(rule: DescribedTraits, name: OwnTrait): string[] {
  if (name === 'lease') return [leaseText(rule.lease!)];
  return name === 'reserve' ? reserveTexts(rule.reserve!) : [textOf(rule[name], ',')];
}

/** Returns a limit as the APIs show it in JSON. Fields that few limits have are omitted if they are not written. */
export function limitJson(limit: Limit): object {
  const { name, requestsPerUnit, unit, unitMultiplier: multiplier, algorithm } = limit;
  return {
    ...{ name, requestsPerUnit, unit: unitWord(unit), multiplier },
    ...{ algorithm: algorithmNames[algorithm], burst: burstOf(limit) },
    ...optionalFieldsJson(limit),
  };
}

/** Returns a limit for the JSON of replays, with its unit as the protocol names it and its window in words. */
export function limitOfReplay(limit: Limit) {
  const { requestsPerUnit, unit, unitMultiplier, algorithm } = limit;
  return {
    ...{ requestsPerUnit, unit: unitName(unit) ?? 'UNKNOWN', unitMultiplier, window: windowTextOf(limit) },
    algorithm: algorithmNames[algorithm]!,
    ...(algorithmOf(limit).hasBurst ? { burst: burstOf(limit) } : {}),
  };
}
export type LimitInReplay = ReturnType<typeof limitOfReplay>;

/** Returns an empty object for most limits. */
export function optionalFieldsJson(limit: Limit): OptionalLimitFields {
  const written = moreFields.filter((name) => !isDefault(limit[name], defaultLimit[name]));
  return Object.fromEntries(written.map((name) => [name, limit[name]]));
}

/** The unit of a limit's hits. */
export function unitOfHits({ hitsUnit }: Limit): string {
  return hitsUnit;
}

export function countsRequests({ hitsUnit }: Limit): boolean {
  return hitsUnit === defaultLimit.hitsUnit;
}

/** Returns the unit of the hits for JSON, if they are not requests. */
export function unitJson(limit: Limit): UnitJson {
  return countsRequests(limit) ? {} : { hitsUnit: limit.hitsUnit };
}
export type UnitJson = Partial<Pick<Limit, 'hitsUnit'>>;

/** Returns hits in words: `5`, `600000 tokens`. */
export function hitsWords(hits: number, { hitsUnit }: UnitJson): string {
  return hitsUnit === undefined ? `${hits}` : `${hits} ${hitsUnit}`;
}

/** Returns, for JSON, the traits of a rule that are also described in words. */
export function traitsJson(rule: Rule): object {
  const { lease } = rule;
  const own = ownTraits.map((name) => [name, rule[name]] as const);
  const flags = ruleFlags.filter((name) => phraseOf(ruleFields[name]) !== undefined);
  return {
    ...Object.fromEntries([...own, ...flags.map((name) => [name, rule[name]] as const)]),
    lease: lease === undefined ? undefined : leaseText(lease),
  };
}

function phraseOf(row: FieldRow): string | undefined {
  return row.phrase;
}

/** The words for what callers notice of a rule besides its limits: `shadow mode: never over limit`. */
export function ruleWords(rule: Rule): string[] {
  return ruleFlags.flatMap((name) => (rule[name] ? (phraseOf(ruleFields[name]) ?? []) : []));
}

/**
 * Returns a limit in words: `20 per minute`, `100 in 5m, sliding window`, `5 per second, token bucket, burst 10`, `9000 tokens
 * per calendar month (UTC)`, `unlimited`.
 */
export function limitWords(limit: Limit): string {
  if (limit.unlimited) return 'unlimited';
  const words = [rateWithout(limit)];
  if (limit.algorithm !== defaultAlgorithm) words.push(algorithmTitle(limit));
  if (algorithmOf(limit).hasBurst) words.push(`burst ${burstOf(limit)}`);
  return [...words, ...phrases(limit)].join(', ');
}

/** The same as `limitWords`, without the algorithm. */
export function rateWords(limit: Limit): string {
  return [rateWithout(limit), ...phrases(limit)].join(', ');
}

/** The same as `limitWords`, for all limits of a rule: `20 per minute; 1000 per day`. */
export function limitsWords(limits: readonly Limit[]): string {
  return limits.length === 0 ? 'no limit' : limits.map(limitWords).join('; ');
}

function phrases(limit: Limit): string[] {
  return wordedFields.flatMap((name) => {
    const phrase = phraseOf(limitFields[name]);
    return phrase === undefined || isDefault(limit[name], defaultLimit[name])
      ? []
      : filled(phrase, limit[name]);
  });
}

function filled(phrase: string, value: unknown): string {
  return phrase.replace('{}', () => textOf(value, ', '));
}

/** The same as `rateWords`, for the number and the window alone. */
function rateWithout(limit: Limit): string {
  return `${hitsWords(limit.requestsPerUnit, unitJson(limit))} ${windowWords(limit)}`;
}

function windowWords(limit: Limit): string {
  const { unit, unitMultiplier, calendar } = limit;
  if (calendar !== undefined) return `per calendar ${calendar.unit} (${calendarWords(calendar)})`;
  return unitMultiplier === 1
    ? `per ${unitText(limit).toLowerCase()}`
    : `in ${windowText(unit, unitMultiplier)}`;
}

/** The part of an override that determines what it changes. */
type OverrideChange = Pick<Override, 'match' | 'limit' | 'effect'>;

/**
 * Returns the effect in words: `100 per minute instead of 5 per minute`. `limits`: the limits of the rule that counts the match;
 * undefined if no rules are known.
 */
export function overrideWords(override: OverrideChange, limits: readonly Limit[] | undefined): string {
  const { effect } = override;
  if (limits !== undefined && isPattern(override) && effect.kind !== 'grant')
    return `${effectWords(effect)} instead of the limits of each rule that counts a match`;
  const concerned = limits === undefined ? [] : concernedBy(override, limits);
  const before = concerned.map((limit) => (limit.unlimited ? 'unlimited' : rateWithout(limit))).join('; ');
  if (before === '') return effectWords(effect);
  switch (effect.kind) {
    case 'grant':
      return `${effectWords(effect)}, once, in addition to ${before}`;
    case 'shadow':
      return `counted but never over limit, instead of ${before}`;
    case 'limit': {
      const [only, ...others] = concerned;
      if (others.length > 0 || only!.unlimited) return effectWords(effect);
      return `${rateWithout({ ...only!, requestsPerUnit: effect.requestsPerUnit })} instead of ${before}`;
    }
    default:
      return `${effectWords(effect)} instead of ${before}`;
  }
}

/** Returns a warning if the override names a unit that no rule with a limit has, or else an empty text. */
export function unusedUnitWords(override: OverrideChange, limits: readonly Limit[]): string {
  const { effect } = override;
  const [limit] = concernedBy(override, limits);
  if (effect.kind !== 'limit' || effect.unit === undefined || limit === undefined) return '';
  const isSame = limit.unit === effect.unit && limit.unitMultiplier === 1 && limit.calendar === undefined;
  if (isSame) return '';
  return `the unit ${unitName(effect.unit)!.toLowerCase()} is not used, because the window of the rule stays: ${overrideWords(override, limits)}`;
}

function concernedBy({ limit: name }: OverrideChange, limits: readonly Limit[]): readonly Limit[] {
  return name === '' ? limits : limits.filter((limit) => limitLabel(limits, limit) === name);
}

/** Returns the effect of a change of these fields on callers, in the sentences of their rows. */
export function changeWords(rule: Rule, changed: ReadonlySet<string>): string[] {
  const [limit = defaultLimit] = rule.limits;
  const { reserve } = rule;
  const ofReserve = reserve && reserveWords(reserve);
  const hasRulesBelow = rule.descriptors.length > 0;
  return [
    ...traitNames.map((name) => (hasRulesBelow && isChanged(name) ? rowOf(name).changeBelow : undefined)),
    isChanged('lease') ? leaseChange(rule) : undefined,
    ...wordedFields.map((name) => changeOf(limitFields[name], name, limit[name], defaultLimit[name])),
    ...traitNames.map((name) => {
      const value = name === 'reserve' ? ofReserve : rule[name];
      return changeOf(ruleFields[name], name, value, defaultRule[name]);
    }),
  ].filter((words) => words !== undefined);

  function isChanged(name: string): boolean {
    return changed.has(ruleFileName(name));
  }

  function changeOf(
    { change }: FieldRow,
    name: string,
    value: unknown,
    byDefault: unknown,
  ): string | undefined {
    if (change === undefined || !isChanged(name)) return undefined;
    return filled(isDefault(value, byDefault) ? change.unset : change.set, value);
  }
}

const rows: ReadonlyMap<string, FieldRow> = new Map(
  Object.entries({ ...limitFields, ...ruleFields }).map(([name, row]) => [ruleFileName(name), row]),
);

/** Returns the default of a field of a rule or limit. `name`: the name in rule files. */
export function unwrittenWords(name: string): string {
  const row = rows.get(name);
  if (row?.kind === 'boolean') return 'false';
  return row?.unwritten ?? row?.words?.[0] ?? (row?.kind === 'uint32' ? String(row.min) : 'none');
}
