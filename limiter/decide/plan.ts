/** Plans each descriptor of a request, and creates the keys of its counters and metrics. */
import { algorithmOf, algorithmTitle, defaultAlgorithm } from '../../rules/algorithms/registry.ts';
import { limitLabel } from '../../rules/describe.ts';
import { maxLease } from '../../rules/lease.ts';
import type { MatchedRule, NameForm, RuleMatch, RuleMatcher } from '../../rules/match-result.ts';
import { arePlainLimits, type Entry, isPlainLimit, type Limit, noTraits, Unit } from '../../rules/model.ts';
import type { Override } from '../../rules/override.ts';
import { largestMultiplier, windowProblem, windowTextOf } from '../../rules/window.ts';
import { countingOf } from '../algorithms/registry.ts';
import type { RuleMetric, RuleStats } from '../stats/registry/rule-stats.ts';
import { counterKey, overrideMetricKey, stemOfValues } from './counter-key.ts';
import { fixedSecondsOf, policiesOf } from './extra-headers.ts';
import type { LimitedPlan, LimitPlan, NoLimitPlan, Plan, UnlimitedPlan } from './limit-plan.ts';
import { changesLimit, limitWithOverrides, overridable, plainLimit } from './limit-with-overrides.ts';
import { markerOf, unmarkedOf } from './marker.ts';
import { type CurrentLimit, type Descriptor, type RequestedLimit, ServiceError } from './messages.ts';
import type { OverrideIndex, OverridesFound } from './override-index.ts';
import { marksOf, nearThreshold } from './thresholds.ts';
import {
  boundOf,
  isCalendarMonth,
  isCountable,
  lengthOf,
  numbersOf,
  unitOfWindow,
  type Window,
  type WindowOptions,
} from './windows.ts';

/** The parts that all plans for one limit of a rule share. */
type SharedPlan = Omit<LimitPlan, 'counterStem' | 'metric' | 'window' | 'key' | 'rejection' | 'place'>;

/** Gives the plan its key in this window. All requests of a window share one string, so the store need not hash it again. */
export function enterWindow(plan: LimitPlan, window: Window): Window {
  plan.window = window;
  plan.key = counterKey(plan.counterStem, window);
  plan.place = undefined;
  return window;
}

/** Whether the plan is that of a quota. Quotas put a request over limit only if all of them are over. */
export function isQuota(plan: Plan, quotaModeForAll: boolean): boolean {
  if (plan.kind === 'unlimited') return false;
  return quotaModeForAll || (plan.kind === 'limited' && plan.rule.quotaMode);
}

/** The plan if no rule applies, or if another rule of the request replaces the rule that would apply. */
export const noLimit: NoLimitPlan = { kind: 'no-limit', rule: undefined };
const domainNotFound: NoLimitPlan = { kind: 'domain-not-found', rule: undefined };

/** The settings with these names. */
export interface PlanSettings extends NameForm, WindowOptions {
  cacheKeyPrefix: string;
  /** The near limit ratio, 0 to 1. */
  nearLimitRatio: number;
  /** The millionths of a limit that are leased if its rule does not set a lease. Undefined: nothing is leased, even if rules set one. */
  defaultLease: number | undefined;
}

/** The overrides, and the time at which they are read. */
export interface OverridesNow {
  readonly index: OverrideIndex;
  readonly nowMs: number;
}

/** The part of a descriptor that determines its plan. */
type PlannedDescriptor = Pick<Descriptor, 'entries' | 'limit'>;

/** The plan for the entries of a descriptor that belong to no marker, which many descriptors share. */
export interface UnmarkedPlan {
  readonly plan: Plan;
  /** The limits for requests that reserve. Undefined before the first such request. */
  reserved: readonly LimitPlan[] | undefined;
}

/** Plans for one set of rules. */
export class Planner {
  readonly #matcher: RuleMatcher;
  readonly #stats: RuleStats;
  readonly #settings: PlanSettings;
  readonly #shared = new Map<MatchedRule, SharedPlan[]>();
  readonly #overrides: OverridesNow | undefined;
  /** The time at which an override ends, so that another planner is needed. Callers only read it. */
  staleAtMs = Number.POSITIVE_INFINITY;

  constructor(matcher: RuleMatcher, stats: RuleStats, settings: PlanSettings, overrides?: OverridesNow) {
    this.#matcher = matcher;
    this.#stats = stats;
    this.#settings = settings;
    this.#overrides = overrides;
    if (overrides !== undefined) this.#endsBy(overrides.index.nextEndMs(overrides.nowMs));
  }

  #endsBy(endsMs: number): void {
    this.staleAtMs = Math.min(this.staleAtMs, endsMs);
  }

  /** Plans a descriptor. Throws a `ServiceError` if the descriptor carries a limit without a usable unit. */
  plan(domain: string, descriptor: PlannedDescriptor): Plan {
    const entries = unmarkedOf(descriptor.entries);
    if (entries === undefined) return this.#planUnmarked(domain, descriptor);
    const plan = this.#planUnmarked(domain, { ...descriptor, entries });
    return this.planMarked(domain, descriptor, { plan, reserved: undefined });
  }

  /**
   * Plans a descriptor that has no limit of its own, and `unmarked` entries that belong to no marker. Returns undefined if a rule or an
   * override may apply to it.
   */
  planCrowded(domain: string, unmarked: number): NoLimitPlan | undefined {
    const longest = this.#overrides?.index.longestMatch(domain) ?? 0;
    return unmarked <= longest || this.#matcher.hasLevel(domain, unmarked)
      ? undefined
      : this.#planNothing(domain);
  }

  /** Plans a descriptor that may have a marker, from the plan for its entries that belong to no marker. */
  planMarked(domain: string, descriptor: PlannedDescriptor, unmarked: UnmarkedPlan): Plan {
    const { plan } = unmarked;
    if (plan.rule?.reserve === undefined) return this.#planUnmarked(domain, descriptor);
    const marker = markerOf(descriptor.entries);
    if (marker === undefined || plan.kind !== 'limited') return plan;
    unmarked.reserved ??= reservedLimits(plan);
    return { kind: 'limited', rule: plan.rule, limits: unmarked.reserved, marker };
  }

  #planUnmarked(domain: string, descriptor: PlannedDescriptor): Plan {
    const { entries, limit } = descriptor;
    if (this.#overrides !== undefined) {
      const { index, nowMs } = this.#overrides;
      const found = index.find(domain, entries, nowMs);
      if (found !== undefined) return this.#planUnder(found, nowMs, domain, descriptor);
    }
    if (limit !== undefined) {
      if (!this.#matcher.hasDomain(domain)) return domainNotFound;
      const match = this.#requestedMatch(domain, entries, limit);
      return this.#planMatch(match, [this.#sharedOf(match.rule, match.rule.limits[0]!)]);
    }
    // Matching first saves most requests a second lookup of the domain.
    const match = this.#matcher.match(domain, entries, this.#settings);
    return match === undefined ? this.#planNothing(domain) : this.#planMatch(match);
  }

  #planNothing(domain: string): NoLimitPlan {
    return this.#matcher.hasDomain(domain) ? noLimit : domainNotFound;
  }

  /** Plans for a match. `all`: the parts that plans for its limits share. */
  #planMatch(match: RuleMatch, all = this.#sharedOfRule(match.rule)): LimitedPlan | UnlimitedPlan {
    const { rule, counterStem } = match;
    if (rule.unlimited) return { kind: 'unlimited', rule };
    const limits = all.map((shared) =>
      this.#limitPlan(shared, counterStem, this.#metricOf(match, shared.limit)),
    );
    return { kind: 'limited', rule, limits, marker: undefined };
  }

  /** Returns the shared parts of a rule's plans. They are stored, so call it only for rules that last. */
  #sharedOfRule(rule: MatchedRule): SharedPlan[] {
    let all = this.#shared.get(rule);
    if (all === undefined) {
      all = rule.limits.map((limit) => this.#sharedOf(rule, limit));
      this.#shared.set(rule, all);
    }
    return all;
  }

  /** Plans as `#planMatch` does, with overrides. Counters keep their keys, and limits keep their statistics. */
  #planUnder(found: OverridesFound, nowMs: number, domain: string, descriptor: PlannedDescriptor): Plan {
    const match = this.#matchUnder(found, domain, descriptor);
    if (match === undefined) return this.#planNothing(domain);
    const former = match.rule.limits;
    const under = former.map((limit) =>
      limitWithOverrides(overridable(limit, former), found, nowMs, this.#settings),
    );
    for (const { endsMs } of under) this.#endsBy(endsMs);
    const left = under.filter(({ isLifted }) => !isLifted);
    const rule = { ...match.rule, limits: left.map(({ limit }) => limit), unlimited: left.length === 0 };
    if (rule.unlimited) {
      return { kind: 'unlimited', rule, metrics: former.map((limit) => this.#metricOf(match, limit)) };
    }
    const limits = left.map(({ original, limit, override }) => {
      const kind = override?.effect.kind;
      const shadowMode = kind === 'shadow' || (rule.shadowMode && kind !== 'block');
      const shared = this.#sharedOf({ ...rule, shadowMode }, limit, former, override);
      return this.#limitPlan(shared, match.counterStem, this.#metricOf(match, original));
    });
    return { kind: 'limited', rule, limits, marker: undefined };
  }

  /**
   * Returns the rule that applies. A request's limit takes precedence unless an override changes a limit of the rule. If there is no
   * limit, an override may define one.
   */
  #matchUnder(
    { overrides }: OverridesFound,
    domain: string,
    descriptor: PlannedDescriptor,
  ): RuleMatch | undefined {
    const { entries, limit: requested } = descriptor;
    const match = this.#matcher.match(domain, entries, this.#settings);
    const isLimited = match !== undefined && !match.rule.unlimited;
    const strongest = overrides.find(({ limit }) => limit === '')?.effect;
    const isNew = !isLimited && strongest?.kind === 'limit' && strongest.unit !== undefined;
    const isChanged = isLimited && changesLimit(match.rule.limits, overrides);
    if (requested !== undefined && !isNew && !isChanged && this.#matcher.hasDomain(domain))
      return this.#requestedMatch(domain, entries, requested);
    if (isNew)
      return this.#matchOfValues(domain, entries, plainLimit(strongest.unit!, strongest.requestsPerUnit));
    if (!isLimited && strongest?.kind === 'block')
      return this.#matchOfValues(domain, entries, plainLimit(Unit.SECOND, 0));
    return match;
  }

  /**
   * Returns the request's limit, which replaces all limits of the rule that it matches. If that rule has a single limit, its algorithm
   * applies.
   */
  #requestedMatch(
    domain: string,
    entries: readonly Entry[],
    { unit, requestsPerUnit, unitMultiplier = 1 }: RequestedLimit,
  ): RuleMatch {
    if (!isCountable(unit)) {
      throw new ServiceError(
        `the limit of a request's descriptor must have a unit from 1 (SECOND) to 7 (WEEK), not ${unit}`,
      );
    }
    const matched = this.#matcher.match(domain, entries, this.#settings)?.rule;
    const replaced = matched?.limits;
    const isCalendar = isCalendarMonth({ unit, unitMultiplier }, this.#settings);
    const problem = multiplierProblem(unit, unitMultiplier, isCalendar);
    if (problem !== undefined) {
      throw new ServiceError(`the unit_multiplier of the limit of a request's descriptor ${problem}`);
    }
    const limit: Limit = {
      ...plainLimit(unit, requestsPerUnit),
      unitMultiplier,
      algorithm: replaced?.length === 1 && !isCalendar ? replaced[0]!.algorithm : defaultAlgorithm,
    };
    if (!algorithmOf(limit).isExact(numbersOf(limit))) {
      throw new ServiceError(
        `the limit of a request's descriptor, ${requestsPerUnit} in ${windowTextOf(limit)}, is too large for a ${algorithmTitle(limit)}`,
      );
    }
    return this.#matchOfValues(domain, entries, limit, matched);
  }

  /** Returns a match for a limit that no rule has, hence without a pattern in place of a value. */
  #matchOfValues(domain: string, entries: readonly Entry[], limit: Limit, matched?: MatchedRule): RuleMatch {
    const rule: MatchedRule = {
      ...{ ...noTraits, path: '', order: 0, ...matched, domain },
      ...{ limits: [limit], unlimited: false, replaces: [], metadata: undefined },
      ...{ shadowMode: false, quotaMode: false, lease: 0 },
    };
    const keys = isPlainLimit(limit) ? this.#settings.counterKeys : 'unambiguous';
    return {
      rule,
      metricKey: overrideMetricKey(domain, entries, this.#settings),
      metricPerValue: true,
      counterStem: stemOfValues(keys, domain, entries, this.#settings.maxTextBytes),
    };
  }

  /** Returns the statistics of one limit of a match. */
  #metricOf({ rule: { limits }, metricKey, metricPerValue }: RuleMatch, limit: Limit): RuleMetric {
    if (limits.length === 1) return this.#stats.ruleMetric(metricKey, metricPerValue);
    const label = limitLabel(limits, limit);
    const undotted = this.#settings.sanitizeDescriptorMetricDots ? label.replaceAll('.', '_') : label;
    return this.#stats.ruleMetric(`${metricKey}.${undotted}`, metricPerValue);
  }

  #limitPlan(shared: SharedPlan, stem: string, metric: RuleMetric): LimitPlan {
    const counterStem = this.#settings.cacheKeyPrefix + stem;
    return { ...shared, counterStem, metric, window: undefined, key: '', rejection: 0, place: undefined };
  }

  /**
   * Returns the parts that all plans for a limit share. `all`: the rule's limits without overrides, which determine how the limit counts.
   * `override`: the override that decides.
   */
  #sharedOf(rule: MatchedRule, limit: Limit, all = rule.limits, override?: Override): SharedPlan {
    const { nearLimitRatio, defaultLease } = this.#settings;
    const isOwn = !arePlainLimits(all);
    const charging = boundOf(limit);
    const bound = algorithmOf(limit).countsAllHits && all.length === 1 ? undefined : charging;
    const { capacity } = charging;
    return {
      rule,
      limit,
      currentLimit: isOwn ? this.#currentLimit(rule.limits, limit) : limit,
      texts: {},
      windowSeconds: fixedSecondsOf(limit, this.#settings),
      capacity,
      nearThreshold: nearThreshold(capacity, nearLimitRatio),
      // A block lets no hits pass, and answers report the block itself.
      marks: override?.effect.kind === 'block' ? undefined : marksOf(limit.warnAt, capacity),
      warns: rule.limits.some(({ warnAt }) => warnAt.length > 0),
      bound,
      charging,
      secondsUncounted: countingOf(limit).secondsUncounted(numbersOf(limit)),
      perSecond: all.every((one) => lengthOf(one) < 60),
      maxLease:
        bound === undefined && defaultLease !== undefined && rule.reserve === undefined
          ? maxLease(rule.lease ?? defaultLease, limit.requestsPerUnit)
          : 0,
      isOwn,
      override,
    };
  }

  #currentLimit(limits: readonly Limit[], limit: Limit): CurrentLimit {
    const { name, requestsPerUnit } = limit;
    return {
      name,
      requestsPerUnit,
      unit: unitOfWindow(limit, this.#settings),
      policy: policiesOf(limit, limits),
      window: windowTextOf(limit),
    };
  }
}

/** Returns the limits for reservations. Reservations pass only if they fit, even if the limit otherwise counts all hits. */
function reservedLimits({ limits }: LimitedPlan): LimitPlan[] {
  return limits.map((plan) => ({ ...plan, bound: plan.charging }));
}

function multiplierProblem(unit: Unit, multiplier: number, isCalendarMonth: boolean): string | undefined {
  if (multiplier < 1 || multiplier > largestMultiplier) {
    return `must be from 1 to ${largestMultiplier}, not ${multiplier}`;
  }
  if (isCalendarMonth && multiplier > 1) {
    return `must be 1 with months of the calendar, not ${multiplier}`;
  }
  const tooLong = windowProblem(unit, multiplier);
  return tooLong && `makes a window that ${tooLong}`;
}

/**
 * Drops, in place, the limits whose name another matched rule of the same request replaces. An unlimited rule replaces others but is
 * not replaced itself. If a rule has several limits, those of other names stay.
 */
export function applyReplaces(plans: Plan[]): void {
  let replaced: Set<string> | undefined;
  for (let index = 0; index < plans.length; index++) {
    const plan = plans[index]!;
    if (plan.rule === undefined || plan.rule.replaces.length === 0) continue;
    replaced ??= new Set();
    for (const name of plan.rule.replaces) replaced.add(name);
  }
  if (replaced === undefined) return;
  for (const [index, plan] of plans.entries()) {
    if (plan.kind !== 'limited') continue;
    const limits = plan.limits.filter(({ limit }) => limit.name === '' || !replaced.has(limit.name));
    if (limits.length === plan.limits.length) continue;
    plans[index] = limits.length === 0 ? noLimit : { ...plan, limits: withoutOthers(limits) };
  }
}

/** Returns plans whose texts name none of the replaced limits. */
function withoutOthers(limits: readonly LimitPlan[]): LimitPlan[] {
  const left = limits.map(({ limit }) => limit);
  return limits.map((plan) => ({
    ...plan,
    currentLimit: { ...plan.currentLimit, policy: policiesOf(plan.limit, left) },
  }));
}
