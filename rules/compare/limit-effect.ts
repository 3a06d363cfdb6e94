import { limitWords } from '../limit-words.ts';
import type { RateLimit, Rule } from '../model.ts';
import type { Effect, Passing } from './rule-change.ts';

/** What decides whether a request is refused, of the rule that it finds; undefined where it finds none with a limit. */
export type LimitTraits = Pick<Rule, 'shadowMode' | 'quotaMode' | 'shareThreshold'> & {
  rateLimit: RateLimit;
};

export interface LimitEffect {
  effect: Effect;
  note: string;
  passes?: Passing;
}

const unitSeconds: Record<string, number> = {
  second: 1,
  minute: 60,
  hour: 3600,
  day: 86_400,
  week: 604_800,
  month: 2_592_000,
  year: 31_536_000,
};

/** What it means for requests to be under `after` instead of `before`. */
export function limitEffect(before: LimitTraits | undefined, after: LimitTraits | undefined): LimitEffect {
  const wasRefusing = before !== undefined && isRefusing(before);
  const isNowRefusing = after !== undefined && isRefusing(after);
  if (!wasRefusing && !isNowRefusing) return { effect: 'same', note: unrefusedNote(before, after) };
  if (!wasRefusing) {
    return {
      effect: before === undefined ? 'new' : 'stricter',
      note: wasWords(before),
    };
  }
  if (isNowRefusing) return both(before, after!);
  if (after === undefined) return { effect: 'gone', note: nowWords(after) };
  const passes = after.rateLimit.unlimited ? 'unlimited' : 'shadow';
  return { effect: 'looser', note: nowWords(after), passes };
}

/** The effect of two at once, on the same requests. */
function combined(a: Effect, b: Effect): Effect {
  if (a === b || b === 'same') return a;
  return a === 'same' ? b : 'mixed';
}

/** Whether a request over it is refused. */
export function isRefusing({ rateLimit, shadowMode }: LimitTraits): boolean {
  return !rateLimit.unlimited && !shadowMode;
}

function wasWords(before: LimitTraits | undefined): string {
  if (before === undefined) return 'these requests had no limit, and are limited now';
  return before.rateLimit.unlimited
    ? 'these requests were unlimited, and are limited now'
    : 'shadow mode let these requests pass: what is over the limit is refused now';
}

function nowWords(after: LimitTraits | undefined): string {
  if (after === undefined) return 'these requests have no limit any more';
  return after.rateLimit.unlimited
    ? 'these requests are unlimited now'
    : 'shadow mode lets these requests pass now';
}

function unrefusedNote(before: LimitTraits | undefined, after: LimitTraits | undefined): string {
  const isCounted = (one: LimitTraits | undefined) => one !== undefined && !one.rateLimit.unlimited;
  if (isCounted(before) && isCounted(after))
    return 'in shadow mode, which refuses nothing: only reports change';
  if (isCounted(after)) return 'counted and reported from now on, and never refused';
  return isCounted(before)
    ? 'no longer counted and reported; never refused before'
    : 'never limited, as before';
}

function both(before: LimitTraits, after: LimitTraits): LimitEffect {
  const rate = rateEffect(before.rateLimit, after.rateLimit);
  const parts = [rate];
  if (before.shareThreshold !== after.shareThreshold) {
    parts.push(
      after.shareThreshold
        ? { effect: 'stricter', note: 'all values share one counter' }
        : { effect: 'looser', note: 'each value has a counter of its own' },
    );
  }
  if (before.quotaMode !== after.quotaMode) {
    parts.push(
      after.quotaMode
        ? { effect: 'looser', note: 'being over it alone no longer refuses a request that has other quotas' }
        : { effect: 'stricter', note: 'being over it alone refuses the request' },
    );
  }
  const effect = parts.reduce<Effect>((sum, part) => combined(sum, part.effect), 'same');
  const telling = parts.filter((part) => part.effect !== 'same');
  const notes = (telling.length > 0 ? telling : [rate]).map(({ note }) => note);
  return { effect, note: notes.join('; ') };
}

function rateEffect(before: RateLimit, after: RateLimit): LimitEffect {
  const a = { requests: before.requestsPerUnit, seconds: secondsOf(before), words: limitWords(before) };
  const b = { requests: after.requestsPerUnit, seconds: secondsOf(after), words: limitWords(after) };
  if (a.requests === b.requests && (a.seconds === b.seconds || a.requests === 0)) {
    return { effect: 'same', note: `${b.words}, as before` };
  }
  const note = `${b.words} instead of ${a.words}`;
  if (b.requests <= a.requests && b.seconds >= a.seconds) return { effect: 'stricter', note };
  if (b.requests >= a.requests && b.seconds <= a.seconds) return { effect: 'looser', note };
  const total = b.requests * a.seconds - a.requests * b.seconds;
  const inAll = total === 0 ? 'as much' : total > 0 ? 'more' : 'less';
  const atOnce = b.requests > a.requests ? 'more' : 'less';
  return { effect: 'mixed', note: `${note}: ${atOnce} at once, ${inAll} in the long run` };
}

function secondsOf({ unit }: RateLimit): number {
  return unitSeconds[unit.toLowerCase()] ?? 1;
}
