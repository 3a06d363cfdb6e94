/** Checks limits: whether one limit can be counted, and whether several limits of one rule can coexist. */

import type { RuleAlgorithm } from './algorithms/algorithm.ts';
import { algorithmNames, algorithmOf, algorithmsWith } from './algorithms/registry.ts';
import { calendarProblem } from './calendar.ts';
import { limitLabel, rateWords } from './describe.ts';
import { limitFields, limitsOfRule } from './language/fields.ts';
import { type OwnLimitField, ownLimitFields, ruleFileName } from './language/tables.ts';
import { sanitizeMetricKey } from './match-result.ts';
import {
  burstOf,
  type Calendar,
  compositeOf,
  isDefault,
  isPlainLimit,
  type Limit,
  makeLimit,
  type OpenLimit,
  type Rule,
  Unit,
  unitFromText,
  unitText,
} from './model.ts';
import type { RuleErrorCode } from './rule-error.ts';
import {
  largestMultiplier,
  lengthInKeys,
  windowFromText,
  windowProblem,
  windowSeconds,
  windowText,
  windowTextOf,
} from './window.ts';

/** The kinds of limits that its settings let a limiter count. Readers of rules for any limiter do not know them. */
export interface RuleSupport {
  /** Why the limiter's store cannot count other algorithms, or several limits together. */
  admission: string | undefined;
  /** Why it cannot count several limits together, with any algorithm. */
  groups: string | undefined;
  /** Why no hits of its counters can be reserved. Undefined if they can. */
  reservations?: string | undefined;
  /** Whether months are months of the calendar. These have no multiples, and no sliding window. */
  calendarMonths: boolean;
}

/** Reports a problem at a path below the rule. */
type Report = (code: RuleErrorCode, text: string, ...below: (string | number)[]) => void;

/** The checked value, and its name in errors. */
interface Checked {
  rule: string;
  support: RuleSupport | undefined;
}

/** `parent`: the composite keys above the rule, each followed by a dot. */
export function checkLimits(
  rule: Pick<Rule, 'key' | 'value' | 'limits'>,
  { parent, support }: { parent: string; support: RuleSupport | undefined },
  report: Report,
): void {
  const { limits } = rule;
  const isOne = limits.length === 1;
  if (isOne && isCommon(limits[0]!)) return;
  const checked = { rule: `${parent}${compositeOf(rule)}`, support };
  const names = new Set(limits.map(({ name }) => name));
  for (const [index, limit] of limits.entries()) {
    const above = isOne ? ['rate_limit'] : ['rate_limits', index];
    const reportBelow: Report = (code, text, ...below) => report(code, text, ...above, ...below);
    checkUnit(limit, isOne, reportBelow);
    for (const [at, name] of limit.replaces.entries())
      checkReplaced(name, names, (code, text) => reportBelow(code, text, 'replaces', at, 'name'));
    const marks = marksProblem(limit.warnAt);
    if (marks !== undefined) reportBelow('invalid-marks', marks, 'warn_at');
    if (limit.unlimited) checkUnlimited(limit, reportBelow);
    else if (!isPlainLimit(limit) || limit.burst !== undefined) checkCounting(limit, checked, reportBelow);
  }
  if (limits.length > 1) checkTogether(limits, checked, report);
}

/** Returns whether a limit has the form of nearly all limits, in which nothing can be wrong. */
function isCommon(limit: Limit): boolean {
  const { unit, unlimited, replaces, burst, warnAt } = limit;
  if (unlimited || replaces.length > 0 || burst !== undefined || warnAt.length > 0) return false;
  return isPlainLimit(limit) && unit !== Unit.UNKNOWN;
}

function checkUnit(limit: Limit, isOne: boolean, report: Report): void {
  const { unit, unlimited } = limit;
  const hasUnit = unit !== Unit.UNKNOWN;
  if (unlimited && !isOne) {
    report('invalid-limits', 'unlimited cannot be one of rate_limits', 'unlimited');
  } else if (unlimited && hasUnit) {
    report('unit-when-unlimited', 'should not specify rate limit unit when unlimited', 'unit');
  } else if (!unlimited && !hasUnit) {
    report('invalid-unit', `invalid rate limit unit '${unitText(limit)}'`, 'unit');
  }
}

/** Returns why a limit cannot have these marks. Undefined if it can. */
function marksProblem(marks: readonly number[]): string | undefined {
  if (marks.length > limitFields.warnAt.max)
    return `warn_at has at most ${limitFields.warnAt.max} marks, found ${marks.length}`;
  let before = 0;
  for (const mark of marks) {
    if (!Number.isInteger(mark) || mark < 1 || mark > 100)
      return `warn_at has whole percentages from 1 to 100, found ${mark}`;
    if (mark <= before) return `warn_at must ascend, each mark once, found ${mark} behind ${before}`;
    before = mark;
  }
  return undefined;
}

function checkReplaced(name: string | undefined, own: ReadonlySet<string>, report: Report): void {
  if (name === '') report('empty-replaces', 'should not have an empty replaces entry');
  else if (name !== undefined && own.has(name)) {
    report('replaces-itself', 'replaces should not contain name of same descriptor');
  }
}

function checkUnlimited(limit: Limit, report: Report): void {
  const written = ownProperties.filter((name) => !isDefault(limit[name], defaultLimit[name]));
  for (const field of written.map(ruleFileName)) report('unit-when-unlimited', whenUnlimited(field), field);
}

const defaultLimit = makeLimit({});
const ownProperties = ownLimitFields.filter((name) => name !== 'window');
const ownDefaults = Object.fromEntries(ownProperties.map((name) => [name, defaultLimit[name]]));

function whenUnlimited(field: string): string {
  return `should not specify ${field} when unlimited`;
}

function checkCounting(limit: Limit, checked: Checked, report: Report): void {
  const { unit, unitMultiplier, burst } = limit;
  const problem = multiplierProblem(unit, unitMultiplier);
  const algorithm = algorithmOf(limit);
  const misplaced = calendarProblem(limit);
  if (problem !== undefined) {
    report('invalid-window', problem, 'unit_multiplier');
  } else if (misplaced !== undefined) {
    report('invalid-calendar', misplaced, 'calendar');
  } else if (burst !== undefined && !algorithm.hasBurst) {
    const names = algorithmsWith(({ hasBurst }) => hasBurst).join(' and ');
    report('burst-without-bucket', `burst works only with algorithm ${names}`, 'burst');
  } else {
    const { requestsPerUnit: requests } = limit;
    const windowMicros = (windowSeconds(unit, unitMultiplier) ?? 0) * 1_000_000;
    const hasBurst = burst !== undefined;
    const numbers = { requests, burst: burstOf(limit), windowMicros };
    const uncountable = algorithm.problem(numbers, { rate: rateWords(limit), hasBurst });
    if (uncountable !== undefined)
      report('uncountable', uncountable, hasBurst ? 'burst' : 'requests_per_unit');
    checkSupport(limit, algorithm, checked, report);
  }
}

function multiplierProblem(unit: Unit, multiplier: number): string | undefined {
  if (multiplier < 1 || multiplier > largestMultiplier) {
    return `unit_multiplier must be 1 to ${largestMultiplier}, found ${multiplier}`;
  }
  const problem = windowProblem(unit, multiplier);
  return problem && `the window ${windowText(unit, multiplier)} ${problem}`;
}

function checkSupport(
  { unit, unitMultiplier, calendar, algorithm }: Limit,
  { steady, countsAllHits }: RuleAlgorithm,
  { rule, support }: Checked,
  report: Report,
): void {
  const name = algorithmNames[algorithm]!;
  if (!countsAllHits && support?.admission !== undefined) {
    report(
      'uncountable',
      `algorithm ${name} of '${rule}' cannot be counted: ${support.admission}`,
      'algorithm',
    );
  } else if (calendar === undefined && support?.calendarMonths === true && unit === Unit.MONTH) {
    const field = steady === undefined ? 'unit_multiplier' : 'algorithm';
    const what =
      steady === undefined ? `the window of ${unitMultiplier} months` : `algorithm ${name} with months`;
    report(
      'uncountable',
      `${what} of '${rule}' cannot be counted: USE_CALENDAR_MONTH_RATE_LIMIT=true gives months no fixed length`,
      field,
    );
  }
}

export function unknownAlgorithm(found: string, known: readonly string[]): string {
  return `unknown algorithm '${found}': there are ${known.slice(0, -1).join(', ')} and ${known.at(-1)}`;
}

function checkTogether(limits: readonly Limit[], { rule, support }: Checked, report: Report): void {
  const reason = support?.admission ?? support?.groups;
  if (reason !== undefined)
    report('uncountable', `rate_limits of '${rule}' cannot be counted: ${reason}`, 'rate_limits');
  const names = new Map<string, string>();
  const windows = new Set<string>();
  for (const [index, limit] of limits.entries()) {
    const { name, unit, calendar, algorithm } = limit;
    const words = algorithmNames[algorithm]!;
    const label = limitLabel(limits, limit);
    const metric = sanitizeMetricKey(label);
    const other = names.get(metric);
    if (other !== undefined && (name !== '' || other !== ''))
      report(
        'duplicate-limit',
        equalNames(metric, name, other),
        'rate_limits',
        index,
        name === '' ? 'unit' : 'name',
      );
    if (name !== '' || unit !== Unit.UNKNOWN) names.set(metric, name);
    if (unit === Unit.UNKNOWN) continue;
    const window = `${lengthInKeys(limit)} ${algorithm}`;
    if (windows.has(window)) {
      const text =
        calendar === undefined
          ? `two of its rate_limits have the window ${windowTextOf(limit)} and the algorithm ${words}`
          : 'two of its rate_limits have the same calendar';
      report('duplicate-limit', text, 'rate_limits', index, 'unit');
    }
    windows.add(window);
  }
}

/** `metric`: the name of both in statistics. If names are empty, the name of the window stands for them. */
function equalNames(metric: string, name: string, other: string): string {
  if (name === other) return `two of its rate_limits have the name '${name}'`;
  return name === '' || other === ''
    ? `two of its rate_limits are called '${metric}', one by its name and one by its window`
    : `two of its rate_limits have the names '${other}' and '${name}', which are one in statistics: '${metric}'`;
}

/** Checks how many limits `rate_limits` has, and that no `rate_limit` is beside it. Undefined if there is no problem. */
export function listProblem(count: number, hasSingle: boolean): string | undefined {
  if (hasSingle) return 'a rule has either rate_limit or rate_limits, found both';
  const { min, max } = limitsOfRule;
  if (count >= min && count <= max) return undefined;
  return `rate_limits must have ${min} to ${max} limits, found ${count}`;
}

/** The result of these fields after the whole limit is read, and which of them there are. */
export interface WrittenWindow {
  readonly window?: string | undefined;
  /** The calendar. Also undefined if it could not be read. */
  readonly calendar?: Calendar | undefined;
  readonly has: (field: OwnLimitField) => boolean;
}

type ReportOwn = (field: OwnLimitField, code: RuleErrorCode, text: string) => void;

/**
 * Finishes the reading of a limit with some of `ownLimitFields`. It makes unit and multiplier from its `window` or `calendar`,
 * and removes fields that an unlimited limit may not have. After a problem the limit has some window, so that there are no
 * further errors about it.
 */
export function completeLimit(limit: OpenLimit, written: WrittenWindow, report: ReportOwn): void {
  const { window, calendar, has } = written;
  if (limit.unlimited) {
    for (const field of ownLimitFields)
      if (has(field)) report(field, 'unit-when-unlimited', whenUnlimited(ruleFileName(field)));
    Object.assign(limit, ownDefaults);
    return;
  }
  const place = has('calendar') ? 'calendar' : 'window';
  if (place === 'window' && window === undefined) return;
  const others: readonly ('unit' | OwnLimitField)[] = limitFields[place].insteadOf;
  const beside = others.find((name) => (name === 'unit' ? unitText(limit) !== '' : has(name)));
  if (beside !== undefined) {
    if (unitText(limit) === '') limit.unit = Unit.SECOND;
    limit.calendar = undefined;
    const names = others.map(ruleFileName);
    const all = `${names.slice(0, -1).join(', ')} and ${names.at(-1)}`;
    const text = `${place} replaces ${all}, found ${ruleFileName(beside)} beside it`;
    report(place, place === 'calendar' ? 'invalid-calendar' : 'invalid-window', text);
  } else if (place === 'calendar') {
    limit.unit = unitFromText(calendar?.unit ?? 'month')!;
  } else {
    const read = windowFromText(window!);
    if (typeof read === 'string') report('window', 'invalid-window', `the window '${window}' ${read}`);
    const { unit, multiplier } = typeof read === 'string' ? { unit: Unit.SECOND, multiplier: 1 } : read;
    limit.unit = unit;
    limit.unitMultiplier = multiplier;
  }
}
