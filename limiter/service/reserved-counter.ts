/** The counters of limits as the store of reservations knows them. */
import { boundOf } from '../decide/windows.ts';
import type { ReservedCounter } from '../stores/reservations/reservation-store.ts';
import type { CountedHit } from './counted-hit.ts';

/** What is asked of one counter. */
type Asking = Pick<ReservedCounter, 'isShadow' | 'isQuota' | 'group' | 'amount' | 'ttlMs' | 'onExpiry'>;

/** The counter of a hit, to be looked at. */
export function lookedAt(hit: HitToHold): ReservedCounter {
  const onExpiry = hit.plan.rule.reserve?.onExpiry ?? 'release';
  const asking = { isShadow: false, isQuota: false, group: 0, amount: undefined, ttlMs: 0, onExpiry };
  return reservedCounterOf(hit, asking);
}

type HitToHold = Pick<CountedHit, 'plan' | 'key' | 'ttlSeconds'>;

/** One literal: made for each call. */
export function reservedCounterOf(
  { plan, key, ttlSeconds }: HitToHold,
  { isShadow, isQuota, group, amount, ttlMs, onExpiry }: Asking,
): ReservedCounter {
  const { counterStem: stem, perSecond } = plan;
  return {
    key,
    stem,
    ttlSeconds,
    bound: plan.bound ?? boundOf(plan.limit),
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
