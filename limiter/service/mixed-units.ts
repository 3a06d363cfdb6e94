/** Detects a number that is charged to rules of different `hits_unit`: 600 tokens are not 600 micro-dollars. */
import { unitOfHits } from '../../rules/describe.ts';
import { shownPath } from '../decide/extra-headers.ts';
import type { LimitedPlan, LimitPlan } from '../decide/limit-plan.ts';

export interface MixedUnits {
  /** Names the rules, for callers. */
  readonly words: string;
  /** Limits of one rule always count the same number. */
  readonly isOneRule: boolean;
}

/** The first two limits with different units. Limits in a request have no unit. */
export function mixedUnits(plans: readonly LimitedPlan[]): MixedUnits | undefined {
  const limits = plans.flatMap((plan) => (plan.rule.path === '' ? [] : plan.limits));
  const [first] = limits;
  const other = limits.find(({ limit }) => unitOfHits(limit) !== unitOfHits(first!.limit));
  if (other === undefined) return undefined;
  const [unit, otherUnit] = [unitOfHits(first!.limit), unitOfHits(other.limit)];
  const isOneRule = other.rule === first!.rule;
  const words = isOneRule
    ? `${nameOf(other)} counts both ${unit} and ${otherUnit}`
    : `${nameOf(first!)} counts ${unit}, ${nameOf(other)} counts ${otherUnit}`;
  return { words, isOneRule };
}

function nameOf({ rule }: LimitPlan): string {
  return shownPath(rule) ?? 'a rule that hides its name';
}
