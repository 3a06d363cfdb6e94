/** The conditions of one object, in words for its owner. */
import { isDeepStrictEqual } from 'node:util';
import { manifestWords } from '../../rules/language/tables.ts';
import {
  type Condition,
  type ConditionType,
  type ConfigObject,
  type ConfigStatus,
  findCondition,
  type StatusObject,
} from '../model/config-object.ts';
import type { FallbackSpec, ObjectOutcome, ServedConfig } from '../model/decision.ts';
import { conditionTypes } from '../model/object-models.ts';
import { isEndReason, newCondition, type Reason, reasonRow } from '../model/reasons.ts';
import type { RolloutProgress } from './fleet-rollout.ts';

/** The first few of many items, and the total number of items. */
export interface FirstFew<T> {
  items: readonly T[];
  count: number;
}

/**
 * Returns `a since 12:00:01Z, b since 12:00:02Z and others`. It contains no count, because a count would change with each of many
 * limiters.
 */
function listed({ items, count }: FirstFew<{ name: string; sinceMs: number }>): string {
  const names = items.map(named).join(', ');
  return count > items.length ? `${names} and others` : names;
}

/** Shows a point in time, because a duration would change constantly. */
function named({ name, sinceMs }: { name: string; sinceMs: number }): string {
  return `${name} since ${timeText(sinceMs).slice(11)}`;
}

/** Returns at most `maxChars` UTF-16 units. `...` marks a cut, and no character is split. */
export function shortened(text: string, maxChars: number): string {
  return text.length <= maxChars ? text : `${text.slice(0, maxChars - 3).toWellFormed()}...`;
}

/** Joins as many texts as fit with `; `, and then `and 12 more`. `count` is the number of all texts. */
export function joinedWithin({ items, count }: FirstFew<string>, maxChars: number): string {
  const room = maxChars - longestRest.length;
  let joined = shortened(items[0] ?? '', room);
  let used = 1;
  while (used < items.length && joined.length + 2 + items[used]!.length <= room)
    joined += `; ${items[used++]}`;
  return count > used ? `${joined}; and ${count - used} more` : joined;
}

const longestRest = '; and 9007199254740991 more';

/** A condition without the parts that depend on the generation and the previous status. */
type Finding = ReturnType<typeof newCondition<ConditionType>>;

interface ConditionFacts {
  outcome: ObjectOutcome;
  /** The rollout of the object's served rules. Undefined if nothing is served. */
  standing: RolloutProgress | undefined;
  /** Whether limiters may have other rules of the object in force that no replica knows yet. */
  awaitsMore: boolean;
  /** Whether the object's fleet has limiters other than Weir's. */
  hasOthers: boolean;
  /** Whether the fleet's snapshot is longer than a default gRPC client accepts. */
  isOversize: boolean;
}

/** Chosen: a limiter's message may have any length. If Ready shortens a text, the other condition has the whole text. */
const longestRejection = 2_000;

/** The findings, in the order in which people read them. */
function findings(facts: ConditionFacts): Finding[] {
  const accepted = acceptedFinding(facts.outcome);
  const programmed = programmedFinding(facts);
  const supported = supportedFinding(facts);
  const ready = readyFinding(accepted, programmed);
  return [accepted, programmed, ready, ...(supported === undefined ? [] : [supported]), ...stalled(ready)];
}

/** Repeats `Ready` as `Stalled` if only a correction helps, so that tools stop waiting. */
export function stalled({ reason, message }: Pick<Finding, 'reason' | 'message'>) {
  return reasonRow(reason)?.isStalled
    ? [{ type: 'Stalled' as const, status: 'True' as const, reason, message }]
    : [];
}

function acceptedFinding({ accepted, served, override }: ObjectOutcome): Finding {
  if (!accepted.status) return newCondition('Accepted', accepted.reason, accepted.message);
  const { domain, fleet, rules } = served!;
  const what = override === undefined ? counted(rules, 'rule') : `${override.effect} for ${override.match}`;
  const end = override?.endsMs === undefined ? '' : ` until ${endTimeText(override.endsMs)}`;
  const facts = [`${what} for domain '${domain}' served to fleet '${fleet}'${end}`];
  if (override?.idle !== undefined) facts.push(`it has no effect: ${override.idle}`);
  else if (override?.note) facts.push(override.note);
  return newCondition(
    'Accepted',
    override?.idle === undefined ? 'Valid' : 'NoMatchingRule',
    facts.join('; '),
  );
}

function programmedFinding({ outcome, standing, awaitsMore }: ConditionFacts): Finding {
  const { object, accepted, served } = outcome;
  const found = (reason: Reason, message: string): Finding => newCondition('Programmed', reason, message);
  if (!accepted.status && isEndReason(accepted.reason)) return found(accepted.reason, accepted.message);
  if (served === undefined || standing === undefined)
    return found('NotAccepted', `generation ${object.generation} is not accepted; nothing is in force`);
  const others = fallbackText(served.fallback);
  const { reason, message } = progress(served.fleet, standing, { awaitsMore, others });
  if (accepted.status) return found(reason, message);
  const older = olderText(object.generation, served, { reason, message });
  return found('NotAccepted', `generation ${object.generation} is not accepted; ${older}`);
}

function fallbackText(fallback: FallbackSpec | undefined): string {
  if (fallback === undefined) return 'no part of it';
  const { generation, needs } = fallback;
  return `generation ${generation}${needs.length === 0 ? '' : ` if they support ${needs.join(', ')}`}`;
}

/** The text about the rules that are served in place of the newest generation. */
function olderText(
  newest: number,
  { generation, without }: ServedConfig,
  { reason, message }: Progress,
): string {
  const isEverywhere = reason === 'AllLimiters';
  if (without !== undefined) {
    const fields = shortened(without.join(', '), longestRejection);
    return `generation ${generation} without ${fields} is ${isEverywhere ? '' : 'served, but '}${message}`;
  }
  const same = generation === newest ? ' as it was last accepted' : '';
  return `generation ${generation}${same} ${isEverywhere ? 'stays ' : 'is still served, but '}${message}`;
}

interface Progress {
  reason: Reason;
  message: string;
}

/**
 * Describes how far the limiters of a fleet have applied some rules. Known problems come before unknown states, and permanent problems
 * before temporary ones. `others`: the rules for limiters that do not support these.
 */
export function progress(
  fleet: string,
  standing: RolloutProgress,
  {
    awaitsMore = false,
    others = 'an earlier version, if there is one',
  }: { awaitsMore?: boolean; others?: string } = {},
): Progress {
  const { connected, rejected, tooOld, pending } = standing;
  if (connected === 0) {
    return { reason: 'NoLimiters', message: `no limiter of fleet '${fleet}' is connected` };
  }
  const unknown = unknownText(standing);
  if (rejected.count + tooOld.count + pending.count === 0) {
    if (unknown !== '' || awaitsMore) {
      const more = awaitsMore ? '; other limiters may still connect to this new leader' : '';
      const message = `it is unknown whether these rules are in force on every limiter of fleet '${fleet}'${unknown}${more}`;
      return { reason: 'Disconnected', message };
    }
    return { reason: 'AllLimiters', message: `in force on every limiter of fleet '${fleet}'` };
  }
  const missing = `not in force on every limiter of fleet '${fleet}'`;
  const rejection = rejected.count === 0 ? '' : `; ${rejectionText(rejected)}`;
  const old = tooOld.count === 0 ? '' : `; ${tooOldText(standing, others)}`;
  const waiting = pending.count === 0 ? '' : `; waiting for ${listed(pending)}`;
  const lasting = rejection === '' ? 'LimiterTooOld' : 'Refused';
  const reason = rejection + old === '' ? 'Pending' : lasting;
  return { reason, message: `${missing}${rejection}${old}${waiting}${unknown}` };
}

function tooOldText({ tooOld, needs }: RolloutProgress, others: string): string {
  return `limiters that do not support all of ${needs.join(', ')} get ${others}: ${listed(tooOld)}`;
}

function unknownText({ away, isShort }: RolloutProgress): string {
  const gone = away.count === 0 ? '' : `; no report from ${listed(away)}`;
  return isShort ? `${gone}; fewer limiters are connected than expected` : gone;
}

function rejectionText({ items, count }: RolloutProgress['rejected']): string {
  const [first, ...others] = items;
  const words = `rejected by ${named(first!)}: ${shortened(manifestWords(first!.message), longestRejection)}`;
  return count === 1 ? words : `${words}; also rejected by ${listed({ items: others, count: count - 1 })}`;
}

function readyFinding(accepted: Finding, programmed: Finding): Finding {
  if (isEndReason(accepted.reason)) return { ...accepted, type: 'Ready' };
  if (accepted.status !== 'True')
    return newCondition(
      'Ready',
      accepted.reason,
      `not accepted: ${shortened(accepted.message, longestRejection)}`,
    );
  if (programmed.status !== 'True') return { ...programmed, type: 'Ready' };
  return newCondition('Ready', 'Ready', programmed.message);
}

/** Returns a finding only if there is a problem. It reports rules that never arrive before rules that arrive in part. */
function supportedFinding({
  outcome: { served },
  hasOthers,
  isOversize,
}: ConditionFacts): Finding | undefined {
  if (served === undefined) return undefined;
  const problems: Progress[] = [];
  if (isOversize) {
    const fact = `the rules of fleet '${served.fleet}' take over 4 MiB, which limiters reject by default`;
    const message = `${fact}; limiters of Weir accept more${hasOthers ? ', but the fleet has others' : ''}`;
    problems.push({ reason: 'SnapshotTooLarge', message });
  }
  if (served.ownFields.length > 0 && hasOthers) {
    const message = `${served.ownFields.join(', ')} ignored by limiters of fleet '${served.fleet}' that are not Weir's`;
    problems.push({ reason: 'UnknownFields', message });
  }
  const [first] = problems;
  if (first === undefined) return undefined;
  const message = problems.map((problem) => problem.message).join('; ');
  return newCondition('Supported', first.reason, message);
}

function counted(count: number, noun: string): string {
  return count === 1 ? `1 ${noun}` : `${count} ${noun}s`;
}

export interface ConfigStatusFacts extends ConditionFacts {
  /** The status that was written last. Transition times, and the generation that was accepted before, are copied from it. */
  previous: ConfigStatus | undefined;
  /** The number of overrides of the domain of a RateLimitConfig. */
  overrides?: number;
  /** The controller name in the status. */
  controllerName?: string | undefined;
  nowMs: number;
}

/** Returns the status, which depends only on the arguments: the same facts a second later give the same status. */
export function statusOf(facts: ConfigStatusFacts): ConfigStatus {
  const { outcome, previous, controllerName, overrides = 0, nowMs } = facts;
  const { object, served, override } = outcome;
  const { domain, fleet } = served ?? previous ?? {};
  return {
    observedGeneration: object.generation,
    ...(controllerName === undefined ? {} : { controllerName }),
    ...(domain === undefined ? {} : { domain }),
    ...(fleet === undefined ? {} : { fleet }),
    ...(served && {
      ...(override === undefined ? { rules: served.rules } : {}),
      servedVersion: served.hash,
      servedGeneration: served.generation,
    }),
    ...(overrides === 0 ? {} : { overrides }),
    ...(override && { match: override.match, effect: override.effect }),
    ...(override?.endsMs === undefined ? {} : { endsAt: endTimeText(override.endsMs) }),
    conditions: findings(facts).map((found) => condition(found, object, previous, nowMs)),
  };
}

/**
 * Returns the final status of an object that no longer belongs to this control plane. It has no controller name, so that another control
 * plane may take the object over.
 */
export function notWatchedStatus(object: ConfigObject, nowMs: number): ConfigStatus {
  const { controllerName, domain, fleet } = object.status ?? {};
  const message = `${controllerName} no longer watches this object because of its class or its labels. None of its rules are in force`;
  return {
    observedGeneration: object.generation,
    ...(domain === undefined ? {} : { domain }),
    ...(fleet === undefined ? {} : { fleet }),
    conditions: (['Accepted', 'Programmed', 'Ready'] as const).map((type) =>
      condition(newCondition(type, 'NotWatched', message), object, object.status, nowMs),
    ),
  };
}

/** Returns whether there is nothing to write. The order of conditions, and conditions of others, do not matter. */
export function sameStatus(a: StatusObject['status'], b: StatusObject['status']): boolean {
  if (a === b) return true;
  if (a === undefined || b === undefined) return false;
  const { conditions: ofA, ...restOfA } = a;
  const { conditions: ofB, ...restOfB } = b;
  return isDeepStrictEqual(restOfA, restOfB) && isDeepStrictEqual(ourConditions(ofA), ourConditions(ofB));
}

const ourTypes: readonly string[] = [...conditionTypes, 'Progressing'];

function ourConditions(conditions: readonly { type: string }[]): unknown[] {
  return ourTypes.map((type) => conditions.find((candidate) => candidate.type === type));
}

function condition(
  found: Finding,
  { generation }: ConfigObject,
  previous: ConfigStatus | undefined,
  nowMs: number,
): Condition {
  const before = findCondition(previous, found.type);
  return {
    ...found,
    message: before !== undefined && saysSame(before, found, generation) ? before.message : found.message,
    lastTransitionTime: before?.status === found.status ? before.lastTransitionTime : timeText(nowMs),
    observedGeneration: generation,
  };
}

/**
 * Returns whether both conditions have the same content. Another leader has other start times, by its own clock, so the previous message
 * stays.
 */
function saysSame(before: Condition, { reason, message }: Finding, generation: number): boolean {
  const isOfSame = before.reason === reason && before.observedGeneration === generation;
  return isOfSame && withoutTimes(before.message) === withoutTimes(message);
}

function withoutTimes(message: string): string {
  return message.replace(/ since \d\d:\d\d:\d\dZ/g, '');
}

/** Returns RFC 3339 in whole seconds, as in metav1.Time. */
export function timeText(nowMs: number): string {
  return `${new Date(nowMs).toISOString().slice(0, 19)}Z`;
}

/** Returns the same with milliseconds, if there are any, so that an end is not reported too early. */
export function endTimeText(ms: number): string {
  return new Date(ms).toISOString().replace('.000Z', 'Z');
}

/**
 * Returns the conditions of `next` whose status or reason has changed, or whose generation is newer. `Ready` and `Stalled`
 * are never among them, because they repeat the others.
 */
export function transitions(previous: ConfigStatus | undefined, next: ConfigStatus): Condition[] {
  return next.conditions.filter((condition) => {
    if (condition.type === 'Ready' || condition.type === 'Stalled') return false;
    const before = findCondition(previous, condition.type);
    return (
      before?.status !== condition.status ||
      before.reason !== condition.reason ||
      before.observedGeneration !== condition.observedGeneration
    );
  });
}
