/** What a descriptor gets whose counter could not be counted (STORE_FAILURE_MODE). It claims no count. */
import { Code, type DescriptorStatus } from './messages.ts';
import type { LimitedPlan } from './plan.ts';
import { okStatus } from './response.ts';

/** `error`: none, the request fails. */
export type StoreFailureAnswer = 'error' | 'allow' | 'deny';

export interface UncountedHit {
  readonly plan: { readonly rule: LimitedPlan['rule'] };
  readonly negative: boolean;
  readonly secondsToReset: number;
}

/**
 * Allowed, it looks as if no limit applied: what remains of the limit is not known. Denied, it is over its limit with
 * nothing left. Hits taken back and rules in shadow mode are never denied.
 */
export function uncountedStatus(hit: UncountedHit, answer: StoreFailureAnswer): DescriptorStatus {
  if (answer !== 'deny' || hit.negative || hit.plan.rule.shadowMode) return okStatus;
  return {
    code: Code.OVER_LIMIT,
    currentLimit: hit.plan.rule,
    limitRemaining: 0,
    durationUntilResetSeconds: hit.secondsToReset,
  };
}
