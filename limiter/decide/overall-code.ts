/** From the descriptors' codes to the request's. Reference section 5. */
import { Code, type DescriptorStatus } from './messages.ts';
import type { Plan } from './plan.ts';

/** Whether being over makes the request over only together with all other quotas. */
export function isQuota(plan: Plan, quotaModeForAll: boolean): boolean {
  if (plan.kind === 'unlimited') return false;
  return quotaModeForAll || (plan.kind === 'limited' && plan.rule.quotaMode);
}

/**
 * OVER_LIMIT when a descriptor that is no quota is, or when there are quotas and all of them are. `quotaModeForAll`
 * (QUOTA_MODE) makes quotas also of descriptors without limit, which then keep the request OK.
 */
export function overallCode(
  plans: readonly Plan[],
  statuses: readonly DescriptorStatus[],
  quotaModeForAll: boolean,
): Code {
  let quotas = 0;
  let quotasOver = 0;
  for (let index = 0; index < statuses.length; index++) {
    const over = statuses[index]!.code === Code.OVER_LIMIT;
    if (isQuota(plans[index]!, quotaModeForAll)) {
      quotas++;
      if (over) quotasOver++;
    } else if (over) {
      return Code.OVER_LIMIT;
    }
  }
  return quotas > 0 && quotas === quotasOver ? Code.OVER_LIMIT : Code.OK;
}
