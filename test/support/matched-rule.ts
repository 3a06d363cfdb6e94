import { marksOf } from '../../limiter/decide/assess.ts';
import type { LimitedPlan } from '../../limiter/decide/plan.ts';
import { ToldLimit } from '../../limiter/decide/told-limit.ts';
import { Algorithm } from '../../rules/algorithms/registry.ts';
import type { MatchedLimit, MatchedRule } from '../../rules/match-result.ts';
import { Unit } from '../../rules/model.ts';

/** A limit as it is matched: 10 a minute unless told otherwise. */
export function matchedLimit(given: Partial<MatchedLimit> = {}): MatchedLimit {
  const requestsPerUnit = given.requestsPerUnit ?? 10;
  return {
    unit: Unit.MINUTE,
    unitMultiplier: 1,
    calendar: undefined,
    requestsPerUnit,
    hitsUnit: 'requests',
    warnAt: [],
    algorithm: Algorithm.FIXED_WINDOW,
    burst: requestsPerUnit,
    name: '',
    ...given,
  };
}

export type MatchedTraits = Partial<MatchedRule & MatchedLimit>;

/** A rule as it is matched, with one limit, unless it is told to be unlimited or has its own; what the test is about is given. */
export function matchedRule(given: MatchedTraits = {}): MatchedRule {
  const { unit, unitMultiplier, calendar, requestsPerUnit, algorithm, burst, name, ...others } = given;
  const { hitsUnit, warnAt, ...traits } = others;
  const window = { unit, unitMultiplier, calendar };
  const written = Object.entries({ ...window, requestsPerUnit, algorithm, burst, name, hitsUnit, warnAt });
  const one = Object.fromEntries(written.filter(([, value]) => value !== undefined));
  return {
    limits: traits.unlimited === true ? [] : [matchedLimit(one)],
    unlimited: false,
    shadowMode: false,
    quotaMode: false,
    lease: undefined,
    reserve: undefined,
    replaces: [],
    metadata: undefined,
    hideIdentity: false,
    domain: 'shop',
    path: '',
    order: 0,
    ...traits,
  };
}

/** A plan for the rule, as far as tests of answers look at it. */
export function limitedPlan(given: MatchedTraits = {}): LimitedPlan {
  const rule = matchedRule(given);
  const limits = rule.limits.map((limit) => ({
    rule,
    limit,
    currentLimit: limit,
    told: new ToldLimit(rule, limit, undefined, {
      useCalendarMonthRateLimit: false,
      counterKeys: 'compatible',
    }),
    capacity: limit.requestsPerUnit,
    nearThreshold: 0,
    marks: marksOf(limit.warnAt, limit.requestsPerUnit),
    warns: limit.warnAt.length > 0,
    bound: undefined,
    secondsUncounted: 0,
    perSecond: false,
    leaseMost: 0,
    isOwn: false,
    override: undefined,
    counterStem: '',
    metric: { key: '', slot: 0, lastUse: 0 },
    window: undefined,
    key: '',
    refusal: 0,
    counter: undefined,
  }));
  return { kind: 'limited', rule, limits, marker: undefined };
}
