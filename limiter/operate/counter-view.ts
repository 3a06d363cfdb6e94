/** One counter as operators see it: its key, its stored state, and what they mean under its limit. Pure. */

import { algorithmNames } from '../../rules/algorithms/registry.ts';
import { calendarWindow } from '../../rules/calendar.ts';
import { type UnitJson, unitJson } from '../../rules/describe.ts';
import type { MatchedRule } from '../../rules/match-result.ts';
import { type Calendar, type Entry, type Limit, Unit, unitFromText, unitName } from '../../rules/model.ts';
import type { Override } from '../../rules/override.ts';
import { unitOfSeconds } from '../../rules/window.ts';
import { marksOf, marksReached } from '../decide/thresholds.ts';
import { boundOf, windowAt } from '../decide/windows.ts';
import { used, waitMicros } from '../stores/admission.ts';
import type { StoredCounter } from '../stores/store.ts';
import type { CounterPart, CounterReading, EntryReading } from './counter-key-reader.ts';
import type { CounterRef } from './store-admin/store-admin.ts';

/** The effect that an override or grants have on a limit now; undefined: none. */
export type EffectiveLimit = (about: {
  domain: string;
  entries: readonly Entry[];
  rule: MatchedRule;
  limit: Limit;
  nowMs: number;
}) =>
  | {
      readonly id: string;
      readonly kind: Override['effect']['kind'];
      /** Undefined: unlimited. */
      readonly limit: Limit | undefined;
    }
  | undefined;

/** A counter in the answer of `/v1/counters`. */
export interface CounterJson extends UnitJson {
  domain: string;
  rule: string | null;
  limitName: string | null;
  entries: Record<string, string>[];
  /** Set if the entries together were too long. */
  entriesBegin?: string;
  entriesHash?: string;
  window: {
    unit: string | null;
    multiplier: number | null;
    seconds: number | null;
    algorithm: string;
    start: string | null;
    /** Replaces `seconds`. */
    calendar?: Calendar;
  };
  /** Null if it cannot be determined without the limit. */
  used: number | null;
  limit: number | null;
  left: number | null;
  over: boolean;
  /** Seconds until the window ends; for a sliding window or a bucket, until a hit passes, or until nothing is used. */
  reset: number | null;
  leased: number;
  /** The highest value of `warn_at` that is reached, in percent. */
  mark?: number;
  override?: string;
  overrideEffect?: Override['effect']['kind'];
  key: string;
  certain: boolean;
  why?: string;
}

export interface CounterNow {
  domain: string;
  ref: CounterRef;
  reported: CounterReading;
  /** Undefined if the counter does not exist, so that nothing is used. */
  held: StoredCounter | undefined;
  nowMs: number;
  limitOf: EffectiveLimit | undefined;
}

/** The time in seconds since 1970 at which the counter expires; undefined: never, or unknown. */
export function endOf({
  startSeconds,
  windowSeconds,
  isCalendarMonth,
  calendar,
}: CounterReading): number | undefined {
  if (startSeconds === undefined) return undefined;
  if (calendar !== undefined) return calendarWindow(calendar, startSeconds).endSeconds;
  if (windowSeconds !== undefined) return startSeconds + windowSeconds;
  if (!isCalendarMonth) return undefined;
  const month = { unit: Unit.MONTH, unitMultiplier: 1 };
  return windowAt(month, startSeconds, { useCalendarMonthRateLimit: true, counterKeys: 'unambiguous' })
    .endSeconds;
}

export function counterJson({ domain, ref, reported, held, nowMs, limitOf }: CounterNow): CounterJson {
  const { found, cutEntries, startSeconds } = reported;
  const entries = wholeEntries(reported.entries);
  const changed =
    found && entries && limitOf?.({ domain, entries, rule: found.rule, limit: found.limit, nowMs });
  const limit = changed === undefined ? found?.limit : changed.limit;
  const end = endOf(reported);
  const untilEnd = end === undefined ? null : Math.max(0, Math.ceil(end - nowMs / 1000));
  return {
    domain,
    rule: found?.path ?? null,
    limitName: found?.limit.name ?? null,
    entries: reported.entries.map(entryJson),
    ...(cutEntries && { entriesBegin: cutEntries.text, entriesHash: cutEntries.sha256 ?? '' }),
    window: windowJson(reported, startSeconds),
    ...(found && unitJson(found.limit)),
    ...figures(limit, held, { nowMs, untilEnd, isFixed: startSeconds !== undefined }),
    ...markOf(limit, held, nowMs),
    // A blocked limit passes nothing, whatever its numbers are.
    ...(changed?.kind === 'block' && { left: 0, over: true }),
    leased: held?.leased ?? 0,
    ...(changed && { override: changed.id, overrideEffect: changed.kind }),
    key: ref.key,
    certain: reported.doubt === undefined,
    ...(reported.doubt !== undefined && { why: reported.doubt }),
  };
}

function figures(
  limit: Limit | undefined,
  counter: StoredCounter | undefined,
  { nowMs, untilEnd, isFixed }: { nowMs: number; untilEnd: number | null; isFixed: boolean },
): Pick<CounterJson, 'used' | 'limit' | 'left' | 'over' | 'reset'> {
  if (limit === undefined) {
    // The state of other algorithms has no meaning without their limit.
    const total = isFixed ? (counter?.held[0] ?? 0) : null;
    return { used: total, limit: null, left: null, over: false, reset: untilEnd };
  }
  const bound = boundOf(limit);
  const nowMicros = nowMs * 1000;
  const held = bound.stateAt(counter?.held, nowMicros);
  const left = bound.room(held, nowMicros);
  return {
    used: used(bound, held, nowMicros),
    limit: bound.capacity,
    left,
    over: left === 0,
    reset: isFixed ? untilEnd : Math.ceil(waitMicros(bound, held, left, nowMicros) / 1_000_000),
  };
}

function markOf(
  limit: Limit | undefined,
  counter: StoredCounter | undefined,
  nowMs: number,
): Pick<CounterJson, 'mark'> {
  if (limit === undefined || limit.warnAt.length === 0) return {};
  const bound = boundOf(limit);
  const nowMicros = nowMs * 1000;
  const marks = marksOf(limit.warnAt, bound.capacity)!;
  const reached = marksReached(marks, used(bound, bound.stateAt(counter?.held, nowMicros), nowMicros));
  return reached === 0 ? {} : { mark: marks.percents[reached - 1]! };
}

function windowJson(
  { found, windowSeconds, calendar, algorithm }: CounterReading,
  start: number | undefined,
): CounterJson['window'] {
  const ofKey = calendar === undefined ? unitOfSeconds(windowSeconds ?? 0) : unitFromText(calendar.unit);
  const unit = found?.limit.unit ?? ofKey ?? Unit.UNKNOWN;
  return {
    unit: unit === Unit.UNKNOWN ? null : unitName(unit)!.toLowerCase(),
    multiplier: unit === Unit.UNKNOWN ? null : (found?.limit.unitMultiplier ?? 1),
    seconds: windowSeconds ?? null,
    algorithm: algorithmNames[algorithm]!,
    start: start === undefined ? null : new Date(start * 1000).toISOString().replace('.000Z', 'Z'),
    ...(calendar && { calendar }),
  };
}

function entryJson({ key, text, isPattern }: EntryReading): Record<string, string> {
  const name = key.sha256 === undefined ? { key: key.text } : { key: key.text, keyHash: key.sha256 };
  if (text.sha256 !== undefined) return { ...name, valueHash: text.sha256, valueBegins: text.text };
  return isPattern ? { ...name, pattern: text.text } : { ...name, value: text.text };
}

/** Returns undefined if a part is not known, or if several values count together. */
function wholeEntries(reported: readonly EntryReading[]): Entry[] | undefined {
  const entries: Entry[] = [];
  for (const { key, text, isPattern } of reported) {
    const [name, value] = [wholeText(key), wholeText(text)];
    if (isPattern || name === undefined || value === undefined) return undefined;
    entries.push({ key: name, value });
  }
  return entries;
}

function wholeText({ text, sha256, whole }: CounterPart): string | undefined {
  return sha256 === undefined ? text : whole;
}
