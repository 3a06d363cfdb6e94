/** The rules and overrides in force, and the plans of requests that they determine. Requests with the same entries share a plan. */
import type { Clock } from '../../process/time/clock.ts';
import { shownText } from '../../rules/long-text.ts';
import type { RuleMatcher } from '../../rules/match-result.ts';
import type { Override } from '../../rules/override.ts';
import type { Plan } from '../decide/limit-plan.ts';
import { type Descriptor, type RateLimitRequest, ServiceError } from '../decide/messages.ts';
import { OverrideIndex } from '../decide/override-index.ts';
import { applyReplaces, Planner, type PlanSettings, type UnmarkedPlan } from '../decide/plan.ts';
import { tooManyDescriptors, tooManyEntries } from '../decide/request-bounds.ts';
import { type KnownEntries, knownEntriesSlots } from '../decide/wire-reader.ts';
import type { RuleStats } from '../stats/registry/rule-stats.ts';
import type { BoundedLocalCache } from '../stores/local-cache.ts';

export interface PlansOptions {
  stats: RuleStats;
  clock: Clock;
  /** Undefined: off. New plans clear it. */
  localCache: BoundedLocalCache | undefined;
  counting: PlanSettings;
  /** Limits may have changed: new rules or overrides, or an override ended. */
  onPlansEnded?: (() => void) | undefined;
}

/** The plan for known entries. */
interface KnownPlan extends UnmarkedPlan {
  readonly known: KnownEntries;
  readonly domain: string;
}

export class PlansInForce {
  readonly #options: PlansOptions;
  #matcher: RuleMatcher | undefined;
  /** Undefined if there are no overrides, so that requests skip the lookup. */
  #overrides: OverrideIndex | undefined;
  #planner: Planner | undefined;
  /** Plans of the planner by the slot of their entries. */
  #knownPlans: (KnownPlan | undefined)[] = [];
  /** Increases with new rules and resets. Answers of the store to earlier operations are then not remembered. Callers only read it. */
  epoch = 0;

  constructor(options: PlansOptions) {
    this.#options = options;
  }

  useRules(matcher: RuleMatcher): void {
    this.#matcher = matcher;
    this.#planAnew(matcher, this.#options.clock.nowMs());
  }

  useOverrides(overrides: readonly Override[]): void {
    this.#overrides = overrides.length === 0 ? undefined : new OverrideIndex(overrides);
    if (this.#matcher !== undefined) this.#planAnew(this.#matcher, this.#options.clock.nowMs());
  }

  /** An operator reset these counters. Undefined: it is unknown which. */
  forgetCounters(keys: readonly string[] | undefined): void {
    const { localCache } = this.#options;
    this.epoch += 1;
    if (keys === undefined) localCache?.clear();
    else for (const key of keys) localCache?.forget(key);
  }

  /**
   * Returns a plan for each descriptor. Throws a `ServiceError` for a request that cannot be decided. Throws a `RequestTooLarge` if a
   * rule may apply to the omitted parts. In both cases, nothing is counted.
   */
  plan(request: RateLimitRequest, nowMs: number): Plan[] {
    const { domain, descriptors } = request;
    if (domain === '') throw new ServiceError('rate limit domain must not be empty');
    if (descriptors.length === 0) throw new ServiceError('rate limit descriptor list must not be empty');
    let planner = this.#planner;
    if (planner === undefined)
      throw new ServiceError('no rate limit configuration loaded', { transient: true });
    if (nowMs >= planner.staleAtMs) planner = this.#planAnew(this.#matcher!, nowMs);
    for (let index = 0; index < descriptors.length; index++)
      if (descriptors[index]!.hitsAddend === Number.POSITIVE_INFINITY) throw tooManyHits(index);
    let plans: Plan[];
    if (request.leftOut !== undefined) plans = this.#plansWithin(planner, request);
    else {
      // An array that is created with its length reserves no space for further elements.
      plans = new Array(descriptors.length);
      for (let index = 0; index < descriptors.length; index++)
        plans[index] = this.#planOf(planner, domain, descriptors[index]!);
    }
    // Most requests have no such rule, and `applyReplaces` allocates.
    let replaces = false;
    for (let index = 0; index < plans.length; index++) {
      const { rule } = plans[index]!;
      if (rule !== undefined && rule.replaces.length > 0) replaces = true;
    }
    if (replaces) applyReplaces(plans);
    return plans;
  }

  #planOf(planner: Planner, domain: string, descriptor: Descriptor): Plan {
    const { known, unmarked, limit } = descriptor;
    // Marker entries differ each time, but the entries before them do not.
    const before = known ?? unmarked;
    if (limit !== undefined || before === undefined) return planner.plan(domain, descriptor);
    let knownPlan = this.#knownPlans[before.slot];
    if (knownPlan === undefined || knownPlan.known !== before || knownPlan.domain !== domain) {
      const plan = planner.plan(domain, { entries: before.entries, limit: undefined });
      knownPlan = { known: before, domain, plan, reserved: undefined };
      this.#knownPlans[before.slot] = knownPlan;
    }
    return known === undefined ? planner.planMarked(domain, descriptor, knownPlan) : knownPlan.plan;
  }

  /** Plans a request of which parts were omitted. A descriptor with more entries than any rule has levels matches no rule. */
  #plansWithin(planner: Planner, request: RateLimitRequest): Plan[] {
    const { domain, descriptors, leftOut } = request;
    if (leftOut!.descriptors > 0) throw tooManyDescriptors(request, leftOut!);
    return descriptors.map((descriptor, index) => {
      const crowded = leftOut!.crowded.get(index);
      if (crowded === undefined) return this.#planOf(planner, domain, descriptor);
      const plan = descriptor.limit === undefined ? planner.planCrowded(domain, crowded.unmarked) : undefined;
      if (plan === undefined) throw tooManyEntries(request, leftOut!, index);
      return plan;
    });
  }

  /** Counts a descriptor whose domain has no rules. */
  noteNoDomain(domain: string): void {
    const { stats, counting } = this.#options;
    stats.domainNotFound(shownText(domain, counting.maxTextBytes));
  }

  /** The local cache may be wrong about the new limits, so it is cleared. */
  #planAnew(matcher: RuleMatcher, nowMs: number): Planner {
    const { stats, counting, localCache, onPlansEnded } = this.#options;
    const overrides = this.#overrides && { index: this.#overrides, nowMs };
    const planner = new Planner(matcher, stats, counting, overrides);
    this.#planner = planner;
    this.#knownPlans = new Array(knownEntriesSlots).fill(undefined);
    this.epoch += 1;
    localCache?.clear();
    onPlansEnded?.();
    return planner;
  }
}

/** Returns the error for a number that no store can add. */
function tooManyHits(descriptor: number): ServiceError {
  return new ServiceError(`hits_addend of descriptor ${descriptor} must be at most 9223372036854775807`);
}
