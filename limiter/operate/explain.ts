/**
 * How limiters treat a request's descriptors, without counting: the walk over the rules as written, and the plan from the planner that
 * limiters use.
 */
import { limitWords } from '../../rules/describe.ts';
import type { NameForm } from '../../rules/match-result.ts';
import { defaultNames, sanitizeMetricKey } from '../../rules/match-result.ts';
import type { Entry, Limit } from '../../rules/model.ts';
import type { Override } from '../../rules/override.ts';
import { type Explanation, explainDescriptor } from '../../rules/review/explain-descriptor.ts';
import type { PlacedRule } from '../../rules/review/rule-level.ts';
import type { RuleTable } from '../../rules/table/rule-table.ts';
import { counterKey } from '../decide/counter-key.ts';
import type { LimitPlan } from '../decide/limit-plan.ts';
import { unmarkedOf } from '../decide/marker.ts';
import { OverrideIndex } from '../decide/override-index.ts';
import { applyReplaces, Planner } from '../decide/plan.ts';
import { counterWindow } from '../decide/windows.ts';
import type { RuleStats } from '../stats/registry/rule-stats.ts';

export interface ExplainOptions {
  domain: string;
  descriptors: readonly (readonly Entry[])[];
  nowSeconds: number;
  /** CACHE_KEY_PREFIX. */
  cacheKeyPrefix: string;
  /** USE_CALENDAR_MONTH_RATE_LIMIT. */
  useCalendarMonthRateLimit: boolean;
  /** LEASE_SHARE in millionths if LEASES is on; 0: only rules with a `lease` are leased. */
  defaultLease: number;
  names: NameForm;
  /** Overrides that match one of the descriptors; undefined: none do. */
  overrides?: readonly Override[] | undefined;
}

/** The Go service's defaults, for options that are not given. */
export const defaultExplaining = {
  cacheKeyPrefix: '',
  useCalendarMonthRateLimit: false,
  defaultLease: 0,
  names: defaultNames,
} as const satisfies Partial<ExplainOptions>;

/** The result for one descriptor of the request. */
export interface ExplainedDescriptor {
  entries: readonly Entry[];
  explanation: Explanation;
  /** `replaced`: all limits of its rule are replaced. */
  effect: 'limited' | 'unlimited' | 'replaced' | 'none';
  /** One counter for each limit of its rule, in their order. */
  counters: readonly ExplainedCounter[];
}

/** The counter of a limit. */
export interface ExplainedCounter {
  /** The limit, with the numbers of its override. */
  limit: Limit;
  /** The strongest override of the limit. */
  override: Override | undefined;
  /** Whether another descriptor of the request replaces the limit, so that nothing is counted. */
  isReplaced: boolean;
  key: string;
  /** The metric key without the name of the statistic, such as `total_hits`. */
  metric: string;
  /** The most hits that one limiter may lease at a time; 0: none. */
  maxLease: number;
  /** Undefined for a sliding window and a bucket, which have one counter for all time. */
  window: { startSeconds: number /** The first second after the window. */; endSeconds: number } | undefined;
}

/** `top`: the first level of the domain. */
export function explainDescriptors(
  table: RuleTable,
  top: readonly PlacedRule[],
  options: ExplainOptions,
): ExplainedDescriptor[] {
  const { domain, names, overrides = [], nowSeconds, ...settings } = options;
  const over =
    overrides.length === 0 ? undefined : { index: new OverrideIndex(overrides), nowMs: nowSeconds * 1000 };
  const planner = new Planner(table, namesAlone, { ...settings, ...names, nearLimitRatio: 1 }, over);
  const plans = options.descriptors.map((entries) => planner.plan(domain, { entries, limit: undefined }));
  const left = [...plans];
  applyReplaces(left);
  return options.descriptors.map((entries, index): ExplainedDescriptor => {
    const [plan, applied] = [plans[index]!, left[index]!];
    const unmarked = plan.rule?.reserve && unmarkedOf(entries);
    const explanation = explainDescriptor(top, unmarked ?? entries);
    if (plan.kind !== 'limited') {
      return { entries, explanation, effect: plan.kind === 'unlimited' ? 'unlimited' : 'none', counters: [] };
    }
    const inForce = new Set(applied.kind === 'limited' ? applied.limits.map(({ limit }) => limit) : []);
    const counters = plan.limits.map((one) => counterOf(one, !inForce.has(one.limit), options));
    return { entries, explanation, effect: inForce.size > 0 ? 'limited' : 'replaced', counters };
  });
}

/** Names the statistics of a limiter, and counts nothing. */
const namesAlone: RuleStats = {
  ruleMetric: (key) => ({ key, slot: 0, lastUse: Number.POSITIVE_INFINITY }),
  slotOf: () => 0,
  domainNotFound: () => {},
  add: () => {},
};

function counterOf(
  { limit, override, isOwn, counterStem, metric, maxLease }: LimitPlan,
  isReplaced: boolean,
  { nowSeconds, useCalendarMonthRateLimit, names }: ExplainOptions,
): ExplainedCounter {
  const { counterKeys } = names;
  const window = counterWindow(limit, isOwn, nowSeconds, { useCalendarMonthRateLimit, counterKeys });
  const { startSeconds, endSeconds } = window;
  return {
    limit,
    override,
    isReplaced,
    key: counterKey(counterStem, window),
    metric: `ratelimit.service.rate_limit.${sanitizeMetricKey(metric.key)}`,
    maxLease,
    window: Number.isFinite(startSeconds) ? { startSeconds, endSeconds } : undefined,
  };
}

/** The effect of a limit and its override. */
export function inForceWords({ limit, override }: ExplainedCounter): string {
  const kind = override?.effect.kind;
  if (kind === 'block') return 'blocked';
  return `${limitWords(limit)}${kind === 'shadow' ? ', counted but never over limit' : ''}`;
}
