import { FixedWindow } from '../../limiter/algorithms/fixed-window.ts';
import type { LimitedPlan } from '../../limiter/decide/limit-plan.ts';
import { marksOf } from '../../limiter/decide/thresholds.ts';
import { lengthOf } from '../../limiter/decide/windows.ts';
import type { MatchedRule } from '../../rules/match-result.ts';
import { type Limit, noTraits } from '../../rules/model.ts';
import { limit } from './rule-builder.ts';

export type MatchedTraits = Partial<MatchedRule & Limit>;

/** A rule as it is matched, with one limit, unless it is reported to be unlimited or has its own; what the test is about is given. */
export function matchedRule(given: MatchedTraits = {}): MatchedRule {
  const rule: MatchedRule = {
    ...noTraits,
    limits: given.unlimited === true ? [] : [limit(given)],
    unlimited: false,
    replaces: [],
    domain: 'shop',
    path: '',
    order: 0,
  };
  const own = Object.entries(given).filter(([name]) => name in rule);
  return Object.assign(rule, Object.fromEntries(own));
}

/** A plan for the rule, as far as tests of answers look at it. */
export function limitedPlan(given: MatchedTraits = {}): LimitedPlan {
  const rule = matchedRule(given);
  const limits = rule.limits.map((limit) => ({
    rule,
    limit,
    currentLimit: limit,
    texts: {},
    windowSeconds: limit.calendar === undefined ? lengthOf(limit) : undefined,
    capacity: limit.requestsPerUnit,
    nearThreshold: 0,
    marks: marksOf(limit.warnAt, limit.requestsPerUnit),
    warns: limit.warnAt.length > 0,
    bound: undefined,
    charging: new FixedWindow(1),
    secondsUncounted: 0,
    perSecond: false,
    maxLease: 0,
    isOwn: false,
    override: undefined,
    counterStem: '',
    metric: { key: '', slot: 0, lastUse: 0 },
    window: undefined,
    key: '',
    rejection: 0,
    place: undefined,
  }));
  return { kind: 'limited', rule, limits, marker: undefined };
}
