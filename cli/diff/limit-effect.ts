import { algorithmOf, hasWindows } from '../../rules/algorithms/registry.ts';
import { calendarText } from '../../rules/calendar.ts';
import { limitsWords } from '../../rules/describe.ts';
import { compositeOf, type Limit, type Rule } from '../../rules/model.ts';
import { covers, maxAtOnce } from '../../rules/review/limit-order.ts';
import { sharedPattern } from '../../rules/sharing.ts';
import { secondsOfLimit } from '../../rules/window.ts';
import type { DomainSide, Sides } from './domain-side.ts';

/** The effect of a change on the requests that the rule is for. */
export type Effect =
  /** The requests are limited, and were not before. */
  | 'new'
  /** The requests are not limited any more. */
  | 'gone'
  | 'stricter'
  | 'looser'
  /** The limit is stricter for some requests and looser for others. */
  | 'mixed'
  /** The same requests are rejected. Counters and metrics may have other names. */
  | 'same';

/** A limit that rejects nothing any more: it became unlimited, or is in shadow mode. */
export type Passing = 'unlimited' | 'shadow';

export interface RuleChange {
  kind: 'added' | 'removed' | 'changed' | 'moved';
  /** The class of the manifests. Set only if the compared manifests have several classes. */
  className?: string;
  fleet: string;
  domain: string;
  /** Names of the rules on the path to the rule, and its own name last: `path=/search*`, `plan`. */
  rule: string[];
  /** Fields as rule files spell them. `undefined` stands for a field that is not written. */
  fields: FieldChange[];
  /** The effect of all together. */
  effect: Effect;
  /** All effects that the change has on some requests. `same` only if it is the only effect. */
  effects: Effect[];
  /** Reasons why requests that were over limit pass now, although the limit still exists. */
  passes: Passing[];
  /** Reasons in words. The first one names the effect. */
  notes: string[];
}

export interface FieldChange {
  name: string;
  before: string | undefined;
  after: string | undefined;
}

export interface LimitEffect {
  effect: Effect;
  note: string;
  passes?: Passing;
}

/** The effect on requests that are under `after` instead of `before`: the rules that they find, which have a limit. */
export function limitEffect(before: Rule | undefined, after: Rule | undefined): LimitEffect {
  const wasEnforced = before !== undefined && isEnforced(before);
  const isNowEnforced = after !== undefined && isEnforced(after);
  if (!wasEnforced && !isNowEnforced) return { effect: 'same', note: unenforcedNote(before, after) };
  if (!wasEnforced) {
    return {
      effect: before === undefined ? 'new' : 'stricter',
      note: wasWords(before),
    };
  }
  if (isNowEnforced) return both(before, after!);
  if (after === undefined) return { effect: 'gone', note: nowWords(after) };
  return { effect: 'looser', note: nowWords(after), ...passingOf(after) };
}

/** True if it rejects requests over the limit. */
export function isEnforced(rule: Rule): boolean {
  return !isUnlimited(rule) && !rule.shadowMode;
}

function isUnlimited({ limits }: Rule): boolean {
  return limits[0]!.unlimited;
}

/** A rule that lets everything pass also does so for the limits that it replaces. */
function passingOf(rule: Rule): Pick<LimitEffect, 'passes'> {
  if (isEnforced(rule)) return {};
  return { passes: isUnlimited(rule) ? 'unlimited' : 'shadow' };
}

function wasWords(before: Rule | undefined): string {
  if (before === undefined) return 'these requests had no limit, and are limited now';
  return isUnlimited(before)
    ? 'these requests were unlimited, and are limited now'
    : 'shadow mode let these requests pass; those over limit no longer pass';
}

function nowWords(after: Rule | undefined): string {
  if (after === undefined) return 'these requests no longer have a limit';
  return isUnlimited(after) ? 'these requests are unlimited now' : 'shadow mode lets these requests pass now';
}

function unenforcedNote(before: Rule | undefined, after: Rule | undefined): string {
  const isCounted = (one: Rule | undefined) => one !== undefined && !isUnlimited(one);
  if (isCounted(before) && isCounted(after)) return 'in shadow mode, so only statistics change';
  if (isCounted(after)) return 'now counted and reported, but never over limit';
  return isCounted(before)
    ? 'no longer counted and reported; they were never over limit'
    : 'never limited, as before';
}

function both(before: Rule, after: Rule): LimitEffect {
  const rate = rateEffect(before.limits, after.limits);
  const parts = [rate];
  if (isShared(before) !== isShared(after)) {
    parts.push(
      isShared(after)
        ? { effect: 'stricter', note: 'all values share one counter' }
        : { effect: 'looser', note: 'each value has its own counter' },
    );
  }
  if (before.quotaMode !== after.quotaMode) {
    parts.push(
      after.quotaMode
        ? {
            effect: 'looser',
            note: 'a request over this limit alone is no longer over limit if it has other quotas',
          }
        : { effect: 'stricter', note: 'a request over this limit alone is over limit' },
    );
  }
  const changed = parts.filter(({ effect }) => effect !== 'same');
  const notes = (changed.length > 0 ? changed : [rate]).map(({ note }) => note);
  return { effect: effectOfAll(changed), note: notes.join('; ') };
}

function rateEffect(before: readonly Limit[], after: readonly Limit[]): LimitEffect {
  const [was, is] = [limitsWords(before), limitsWords(after)];
  const isStricter = areWithin(after, before);
  const isLooser = areWithin(before, after);
  if (isStricter && isLooser) {
    if (calendarsOf(before) !== calendarsOf(after))
      return {
        effect: 'same',
        note: `${is} instead of ${was}: as much, in windows that begin at other times`,
      };
    const isOther = was !== is && Math.max(before.length, after.length) > 1;
    return {
      effect: 'same',
      note: isOther ? `${is} instead of ${was}: no difference for requests` : `${is}, as before`,
    };
  }
  const note = `${is} instead of ${was}`;
  if (min(after, maxAtOnce) === 0) return { effect: 'stricter', note: `${note}: no request passes any more` };
  const algorithm = algorithmNote(before, after);
  if (isStricter || isLooser) {
    return { effect: isStricter ? 'stricter' : 'looser', note: [note, ...algorithm].join('; ') };
  }
  const atOnce = Math.sign(min(after, maxAtOnce) - min(before, maxAtOnce));
  const inAll = Math.sign(min(after, rateOf) - min(before, rateOf));
  const words =
    atOnce === 0 && inAll === 0
      ? 'as much at once and over time'
      : `${amount(atOnce)} at once, ${amount(inAll)} over time`;
  return { effect: 'mixed', note: [`${note}: ${words}`, ...algorithm].join('; ') };
}

function calendarsOf(limits: readonly Limit[]): string {
  return limits.flatMap(({ calendar }) => (calendar === undefined ? [] : calendarText(calendar))).join(' ');
}

/** Returns whether the others let everything pass that these let pass, by one clock and with one hit for each request. */
function areWithin(limits: readonly Limit[], others: readonly Limit[]): boolean {
  const isPlainPair = limits.length === 1 && others.length === 1;
  return others.every((other) =>
    limits.some((limit) =>
      isPlainPair && hasWindows(limit) && hasWindows(other) ? isFewer(limit, other) : isWithin(limit, other),
    ),
  );
}

function isWithin(limit: Limit, other: Limit): boolean {
  return covers(limit, other, true) || (hasWindows(limit) && hasWindows(other) && isFewer(limit, other));
}

/**
 * Compares fixed windows: no more hits, and no shorter window. It ignores hits of two windows that meet within one window of the
 * other limit.
 */
function isFewer(limit: Limit, other: Limit): boolean {
  const isLonger = limit.requestsPerUnit === 0 || secondsOfLimit(limit) >= secondsOfLimit(other);
  return limit.requestsPerUnit <= other.requestsPerUnit && isLonger;
}

/** Returns the hits per second. */
function rateOf(limit: Limit): number {
  return maxAtOnce(limit) === 0 ? 0 : limit.requestsPerUnit / secondsOfLimit(limit);
}

function min(limits: readonly Limit[], pick: (limit: Limit) => number): number {
  return Math.min(...limits.map(pick));
}

function amount(sign: number): string {
  return sign === 0 ? 'as much' : sign > 0 ? 'more' : 'less';
}

/** The words for the algorithms that only one side has. */
function algorithmNote(before: readonly Limit[], after: readonly Limit[]): string[] {
  const known = new Set(before.map(({ algorithm }) => algorithm));
  const added = new Set(after.map(({ algorithm }) => algorithm)).difference(known);
  return [...added].sort((a, b) => a - b).map((algorithm) => algorithmOf({ algorithm }).effect);
}

/** Returns undefined if there is no rule, or if the rule has no limit. */
export function limitedRule(rule: Rule | undefined): Rule | undefined {
  return rule !== undefined && rule.limits.length > 0 ? rule : undefined;
}

/** The effect of a change, from all its effects on some requests. */
export type Meaning = Pick<RuleChange, 'effect' | 'effects' | 'notes' | 'passes'>;

/** Chosen: the maximum number of lines for one change. */
const maxNotes = 6;

/** Combines effects. `moreNotes` are notes that do not decide whether requests are rate-limited. */
export function meaningOf(found: readonly LimitEffect[], moreNotes: readonly string[] = []): Meaning {
  const changed = found.filter(({ effect }) => effect !== 'same');
  const effects = [...new Set(changed.map(({ effect }) => effect))];
  const words = [...new Set(changed.map(({ note }) => note)), ...moreNotes];
  const notes = words.length > 0 ? words : found.slice(0, 1).map(({ note }) => note);
  const omitted = notes.length - maxNotes;
  return {
    effect: effectOfAll(changed),
    effects: effects.length === 0 ? ['same'] : effects,
    notes: omitted > 0 ? [...notes.slice(0, maxNotes), `and ${omitted} more`] : notes,
    passes: [...new Set(changed.flatMap(({ passes }) => passes ?? []))],
  };
}

/** Joins several effects. None of them is `same`. */
function effectOfAll(found: readonly LimitEffect[]): Effect {
  const [first, ...others] = new Set(found.map(({ effect }) => effect));
  if (first === undefined || others.length === 0) return first ?? 'same';
  if (found.every(({ effect }) => effect === 'new' || effect === 'stricter')) return 'stricter';
  return found.every(({ effect }) => effect === 'gone' || effect === 'looser') ? 'looser' : 'mixed';
}

interface LimitNames {
  own: ReadonlySet<string>;
  /** Names that some limit replaces. */
  replaced: ReadonlySet<string>;
}

const knownNames = new WeakMap<DomainSide, LimitNames>();

/** The names of all limits of a side. */
function limitNames(side: DomainSide): LimitNames {
  const known = knownNames.get(side) ?? {
    own: new Set(side.limits.map(({ name }) => name)),
    replaced: new Set(side.limits.flatMap(({ replaces }) => replaces)),
  };
  knownNames.set(side, known);
  return known;
}

/** The effects on requests that match other rules, too. Undefined: no rule. */
export function effectsBesideOthers(
  was: Rule | undefined,
  is: Rule | undefined,
  sides: Sides,
): LimitEffect[] {
  return [...replacingEffects(was, is, sides), ...quotaEffects(was, is, sides)];
}

/** A request over some of its quotas passes if another one has room, as a quota in shadow mode always has. */
function quotaEffects(was: Rule | undefined, is: Rule | undefined, { before, after }: Sides): LimitEffect[] {
  // For a limit in both versions, the effect of the mode is part of the effect of the limit.
  if (isQuota(was) === isQuota(is) || (isLimiting(was) && isLimiting(is))) return [];
  if (isQuota(is) && after.rules.some((rule) => hasQuota(rule, is)))
    return [{ effect: 'looser', note: 'a request over its other quotas passes while this quota has room' }];
  if (isQuota(was) && before.rules.some((rule) => hasQuota(rule, was)))
    return [
      {
        effect: 'stricter',
        note: 'this quota no longer lets requests pass that are over their other quotas',
      },
    ];
  return [];
}

function isQuota(rule: Rule | undefined): boolean {
  const limited = limitedRule(rule);
  return limited?.quotaMode === true && !isUnlimited(limited);
}

/** Whether the rule, or one below it, is a quota other than `besides`. */
function hasQuota(rule: Rule, besides: Rule | undefined): boolean {
  return (rule !== besides && isQuota(rule)) || rule.descriptors.some((below) => hasQuota(below, besides));
}

/** A limit that others replace, or that replaces others, changes what applies beside it. */
function replacingEffects(
  was: Rule | undefined,
  is: Rule | undefined,
  { before, after }: Sides,
): LimitEffect[] {
  const found: LimitEffect[] = [];
  const replacedBy = (rule: Rule | undefined) => rule?.limits.flatMap(({ replaces }) => replaces) ?? [];
  const [old, now] = [replacedBy(was), replacedBy(is)];
  // A limit that is new or gone as well has an effect of its own.
  const added = now.filter(
    (name) => !old.includes(name) && (was !== undefined || limitNames(before).own.has(name)),
  );
  const dropped = old.filter(
    (name) => !now.includes(name) && (is !== undefined || limitNames(after).own.has(name)),
  );
  const taking = `replaces ${added.join(', ')} in a request that matches both`;
  if (added.length > 0) found.push({ effect: 'looser', note: taking, ...passingOf(is!) });
  if (dropped.length > 0)
    found.push({ effect: 'stricter', note: `no longer replaces ${dropped.join(', ')}` });
  if (was === undefined || is === undefined) return found;
  const names = ({ limits }: Rule): string[] => limits.map(({ name }) => name);
  const wasReplaced = names(was).some((name) => limitNames(before).replaced.has(name));
  const isReplaced = names(is).some((name) => limitNames(after).replaced.has(name));
  if (names(was).join('\0') === names(is).join('\0') || wasReplaced === isReplaced) return found;
  if (wasReplaced) found.push({ effect: 'stricter', note: 'no other rule replaces it any more' });
  else found.push({ effect: 'looser', note: 'another rule replaces it now' });
  return found;
}

/** The effect on the counters if the rules above a limit are shared. The sharing of the last rules is part of their limits. */
export function sharingEffects(before: readonly Rule[], after: readonly Rule[]): LimitEffect[] {
  if (!isLimiting(before.at(-1)) || !isLimiting(after.at(-1))) return [];
  const [wasLast, isLast] = [before.length - 1, after.length - 1];
  return before.flatMap((was, level) => {
    const is = after[level];
    if (is === undefined) return [];
    const isParent = level < wasLast && level < isLast;
    return sharingEffect(was, is).filter(({ effect }) => isParent || effect === 'mixed');
  });
}

/** The effect of a rule whose sharing changes on the limits that both versions have below it. */
export function sharingBelow(was: Rule, is: Rule): LimitEffect[] {
  return isShared(was) === isShared(is) || !hasLimitBelow(was, is) ? [] : sharingEffect(was, is);
}

function sharingEffect(was: Rule, is: Rule): LimitEffect[] {
  const [before, after] = [sharedPattern(was), sharedPattern(is)];
  if (before === after) return [];
  if (before === undefined) {
    return [{ effect: 'stricter', note: 'all values share the counters of limits below it' }];
  }
  if (after === undefined) {
    return [{ effect: 'looser', note: 'each value has its own counters for limits below it' }];
  }
  return [{ effect: 'mixed', note: 'shares its counter with other values than before' }];
}

function isShared(rule: Rule): boolean {
  return sharedPattern(rule) !== undefined;
}

function hasLimitBelow(was: Rule, is: Rule): boolean {
  const now = new Map(is.descriptors.map((rule) => [compositeOf(rule), rule]));
  return was.descriptors.some((rule) => {
    const later = now.get(compositeOf(rule));
    if (later === undefined) return false;
    return (isLimiting(rule) && isLimiting(later)) || hasLimitBelow(rule, later);
  });
}

function isLimiting(rule: Rule | undefined): boolean {
  const limited = limitedRule(rule);
  return limited !== undefined && isEnforced(limited);
}
