/** The counters of limits as the store of reservations knows them. */
import type { LimitPlan } from '../decide/plan.ts';
import { boundOf, counterWindow, type WindowOptions } from '../decide/windows.ts';
import { hashTagOf } from '../stores/counter-store.ts';
import type { ReservedCounter } from '../stores/reservations/reservation-store.ts';
import type { CountedHit } from './counted-hit.ts';
import type { RateLimitServiceOptions } from './rate-limit-service.ts';

/** What is asked of one counter. */
type Asking = Pick<ReservedCounter, 'isShadow' | 'isQuota' | 'group' | 'amount' | 'ttlMs' | 'onExpiry'>;

/** The counter of a hit, to be looked at. */
export function lookedAt(hit: HitToHold, options: CounterOptions): ReservedCounter {
  const onExpiry = hit.plan.rule.reserve?.onExpiry ?? 'release';
  const asking = { isShadow: false, isQuota: false, group: 0, amount: undefined, ttlMs: 0, onExpiry };
  return reservedCounterOf(hit, asking, options);
}

type HitToHold = Pick<CountedHit, 'plan' | 'key' | 'ttlSeconds' | 'windowEndSeconds'>;
type CounterOptions = Pick<RateLimitServiceOptions, 'counting' | 'clock'>;

/** One literal: made for each call. */
export function reservedCounterOf(
  { plan, key, ttlSeconds, windowEndSeconds }: HitToHold,
  { isShadow, isQuota, group, amount, ttlMs, onExpiry }: Asking,
  { counting, clock }: CounterOptions,
): ReservedCounter {
  const { counterStem: stem, perSecond } = plan;
  const { startSeconds } = plan.window!;
  return {
    key,
    stem,
    isTagged: hashTagOf(stem) !== stem,
    earlierKeys: (seconds) =>
      earlierKeys(plan, startSeconds, Math.floor(clock.nowMs() / 1000) - seconds, counting),
    ttlSeconds,
    bound: plan.bound ?? boundOf(plan.limit),
    windowEndSeconds,
    perSecond,
    isShadow,
    isQuota,
    group,
    amount,
    ttlMs,
    onExpiry,
    outcome: 'untouched',
    used: 0,
    reserved: 0,
    open: 0,
    oldestMs: 0,
    changed: 0,
    givenBack: 0,
    lost: 0,
    waitMicros: 0,
  };
}

function earlierKeys(
  { limit, isOwn, counterStem }: LimitPlan,
  startSeconds: number,
  sinceSeconds: number,
  options: WindowOptions,
): string[] {
  const keys: string[] = [];
  for (let start = startSeconds; start > sinceSeconds; ) {
    const earlier = counterWindow(limit, isOwn, start - 1, options);
    keys.push(counterStem + earlier.keySuffix);
    start = earlier.startSeconds;
  }
  return keys;
}
