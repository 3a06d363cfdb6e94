/** Converts the service's answers into decisions of the library. */

import { hitsPerWindow, shownPath } from '../../limiter/decide/extra-headers.ts';
import type { LimitPlan, Plan } from '../../limiter/decide/limit-plan.ts';
import { Code, type Header } from '../../limiter/decide/messages.ts';
import { decisive, type ResponseOptions } from '../../limiter/decide/response.ts';
import type { DescriptorStatus, RateLimitResponse } from '../../limiter/decide/response-message.ts';
import type { Decision, DescriptorDecision, Reason } from './api.ts';

/** Facts about a decision that the answer does not contain. */
export interface DecisionFacts {
  /** Limits that were exceeded. They may have allowed the request nevertheless. */
  readonly exceeded: readonly LimitPlan[];
  /** The store failed for at least one counter. */
  readonly isUncounted: boolean;
  readonly options: ResponseOptions;
}

export function decisionOf(
  response: RateLimitResponse,
  plans: readonly Plan[],
  observed: DecisionFacts,
): Decision {
  const { overallCode, statuses, responseHeadersToAdd } = response;
  const perDescriptor = statuses.map((status, index) => descriptorDecision(status, plans[index]!, observed));
  const allowed = overallCode !== Code.OVER_LIMIT;
  const { status, retrySeconds } = decisive(plans, statuses, observed.options);
  const first = perDescriptor[status === undefined ? 0 : statuses.indexOf(status)]!;
  const seconds = allowed ? undefined : retrySeconds;
  const { rule, limit, remaining, resetMs } = first;
  return {
    allowed,
    reason: reasonOf(allowed, perDescriptor),
    ...{ rule, limit, remaining, resetMs },
    retryAfterMs:
      seconds === undefined || !Number.isFinite(seconds) ? undefined : Math.max(1, seconds) * 1000,
    headers: headersOf(responseHeadersToAdd),
    perDescriptor,
  };
}

export function headersOf(headers: readonly Header[]): Record<string, string> {
  const all: Record<string, string> = {};
  for (const header of headers) all[header.key] = header.value;
  return all;
}

/** The decision for a request that exceeds the bounds of requests. */
export const tooLargeDecision: Decision = Object.freeze({
  allowed: false,
  reason: 'too-large',
  ...{ rule: undefined, limit: undefined, remaining: undefined, resetMs: undefined, retryAfterMs: undefined },
  headers: Object.freeze({}),
  perDescriptor: Object.freeze([]),
});

function descriptorDecision(
  status: DescriptorStatus,
  plan: Plan,
  observed: DecisionFacts,
): DescriptorDecision {
  const { code, limitRemaining, durationUntilResetSeconds } = status;
  const isCounted = status.plan !== undefined;
  return {
    allowed: code !== Code.OVER_LIMIT,
    reason: reasonOfDescriptor(status, plan, observed),
    rule: plan.rule && shownPath(plan.rule),
    limit: status.plan && hitsPerWindow(status.plan),
    remaining: isCounted ? limitRemaining : undefined,
    resetMs: isCounted ? (durationUntilResetSeconds ?? 0) * 1000 : undefined,
  };
}

function reasonOfDescriptor(status: DescriptorStatus, plan: Plan, observed: DecisionFacts): Reason {
  if (plan.kind === 'unlimited') return 'unlimited';
  if (plan.kind !== 'limited') return 'no-rule';
  if (observed.isUncounted && status.plan === undefined) return 'store';
  if (status.code === Code.OVER_LIMIT) return 'limit';
  return observed.exceeded.some((limit) => plan.limits.includes(limit)) ? 'shadow' : undefined;
}

/** Reasons that reject, in the order of precedence. */
const rejecting: readonly Reason[] = ['limit', 'store'];
const passing: readonly Reason[] = ['store', 'shadow', 'limit', undefined, 'unlimited', 'no-rule'];

function reasonOf(allowed: boolean, all: readonly DescriptorDecision[]): Reason {
  if (all.length === 1 && (allowed || all[0]!.reason !== undefined)) return shown(allowed, all[0]!.reason);
  const order = allowed ? passing : rejecting;
  for (const reason of order) if (all.some((one) => one.reason === reason)) return shown(allowed, reason);
  return undefined;
}

/** Returns the reason to show. SHADOW_MODE allows everything, and a quota among several descriptors does not reject. */
function shown(allowed: boolean, reason: Reason): Reason {
  return allowed && reason === 'limit' ? 'shadow' : reason;
}
