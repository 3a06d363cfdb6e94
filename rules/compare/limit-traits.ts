import type { Rule } from '../model.ts';
import type { LimitTraits } from './limit-effect.ts';

/** Undefined for a rule without a limit, and for no rule. */
export function limitTraits(rule: Rule | undefined): LimitTraits | undefined {
  if (rule?.rateLimit === undefined) return undefined;
  const { rateLimit, shadowMode, quotaMode, shareThreshold } = rule;
  return { rateLimit, shadowMode, quotaMode, shareThreshold };
}
