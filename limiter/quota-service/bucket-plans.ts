/** The treatment of each bucket of quota clients, by the rules and overrides in force. docs/quota-service.md has the table. */

import { algorithmOf } from '../../rules/algorithms/registry.ts';
import { bucketOrders, passesAll, wantedForm, whyUnassignable } from '../../rules/bucket-id.ts';
import type { MatchedRule, RuleMatcher, RuleWalk } from '../../rules/match-result.ts';
import type { Entry } from '../../rules/model.ts';
import type { Override } from '../../rules/override.ts';
import { type AssignmentForm, defaultForm, type PoolTerms, type SharedLimit } from '../allocate/terms.ts';
import { counterKey } from '../decide/counter-key.ts';
import type { LimitPlan, Plan } from '../decide/limit-plan.ts';
import type { Descriptor } from '../decide/messages.ts';
import { counterWindow, lengthOf, numbersOf, type WindowOptions } from '../decide/windows.ts';
import { PlansInForce, type PlansOptions } from '../service/plans-in-force.ts';
import { ledgerKeyOf } from '../stores/store.ts';

/** A blanket answer, or a share of a pool. */
export type BucketPlan = BlanketPlan | AssignedPlan;

export interface BlanketPlan {
  readonly kind: 'allow' | 'deny';
  /** The rule, or undefined if none matches. */
  readonly rule: MatchedRule | undefined;
  /** Why a rule's limits cannot be assigned. */
  readonly obstacle: string | undefined;
  /** The limits whose statistics count the reported hits. */
  readonly limits: readonly Pick<LimitPlan, 'metric'>[];
  /** The descriptor for which hits are counted in the store; undefined if they are not. */
  readonly counted: Descriptor | undefined;
}

export interface AssignedPlan {
  readonly kind: 'assigned';
  /** The name of the pool. Bucket ids with the same counters share one. */
  readonly pool: string;
  readonly terms: PoolTerms;
  readonly rule: MatchedRule;
  readonly limits: readonly LimitPlan[];
}

export interface BucketPlansOptions extends Pick<PlansOptions, 'stats' | 'clock' | 'counting'> {
  /** RLQS_NO_RULE and RLQS_UNASSIGNABLE. */
  readonly noRule: 'allow' | 'deny';
  readonly unassignable: 'allow' | 'deny';
  /** Whether nothing is denied, whatever the rules say. */
  readonly allPass: boolean;
  /** Why the store cannot share out limits. */
  readonly whyNoShares: string | undefined;
}

/** Rules whose buckets can be found in any order. */
export interface QuotaRules extends RuleMatcher {
  walk(domain: string): RuleWalk | undefined;
}

export class BucketPlans {
  readonly #options: BucketPlansOptions;
  readonly #plans: PlansInForce;
  #rules: QuotaRules | undefined;
  #overrides: readonly Override[] = [];

  constructor(options: BucketPlansOptions) {
    this.#options = options;
    this.#plans = new PlansInForce({ ...options, localCache: undefined });
  }

  /** Whether rules were loaded. Without rules no bucket has a treatment. */
  get hasRules(): boolean {
    return this.#rules !== undefined;
  }

  useRules(rules: QuotaRules): void {
    this.#rules = rules;
    this.#plans.useRules(rules);
  }

  useOverrides(overrides: readonly Override[]): void {
    this.#overrides = overrides;
    this.#plans.useOverrides(overrides);
  }

  /** Whether an override ended in this time, so that other limits may apply. */
  overridesEnded(sinceMs: number, nowMs: number): boolean {
    return this.#overrides.some(({ endsMs = 0 }) => endsMs > sinceMs && endsMs <= nowMs);
  }

  /** Returns the treatment of a bucket. `entries`: sorted by their keys. Call it only after `useRules`. */
  treatmentOf(domain: string, entries: readonly Entry[]): BucketPlan {
    const walk = this.#rules?.walk(domain);
    const orders = walk === undefined ? [] : bucketOrders(walk, entries);
    if (orders === undefined) return this.#unassignable(undefined, 'its entries have too many orders');
    const descriptor = descriptorOf(orders[0]?.entries ?? entries);
    const [plan] = this.#plans.plan(
      { domain, descriptors: [descriptor], hitsAddend: 0 },
      this.#options.clock.nowMs(),
    );
    return this.#treatmentBy(plan!, domain, descriptor);
  }

  #treatmentBy(plan: Plan, domain: string, descriptor: Descriptor): BucketPlan {
    if (plan.kind === 'unlimited') {
      const limits = (plan.metrics ?? []).map((metric) => ({ metric }));
      return { ...blanket('allow', plan.rule), limits };
    }
    const { allPass, noRule, whyNoShares } = this.#options;
    if (plan.kind !== 'limited') return blanket(allPass ? 'allow' : noRule);
    const obstacle = whyUnassignable(plan.rule);
    if (obstacle !== undefined) return this.#unassignable(plan.rule, obstacle.why);
    const { limits } = plan;
    if (!allPass && limits.some(({ override }) => override?.effect.kind === 'block'))
      return { ...blanket('deny', plan.rule), limits };
    const enforced = allPass ? [] : limits.filter(({ rule }) => !passesAll(rule));
    if (enforced.length === 0) return { ...blanket('allow', plan.rule), counted: descriptor };
    if (whyNoShares !== undefined) return this.#unassignable(plan.rule, whyNoShares);
    const shared = enforced.map((limit) => limitToShare(limit, this.#options.counting));
    const nowMs = this.#options.clock.nowMs();
    if (shared.some((limit) => ledgerKeyOf(limit.windowAt(nowMs).key) === undefined))
      return this.#unassignable(plan.rule, 'a value contains "}", so its counter has no ledger');
    return {
      kind: 'assigned',
      pool: `${domain}\n${limits[0]!.counterStem}`,
      terms: { form: formOf(plan.rule, shared), limits: shared },
      ...{ rule: plan.rule, limits: enforced },
    };
  }

  #unassignable(rule: MatchedRule | undefined, obstacle: string): BlanketPlan {
    const { allPass, unassignable } = this.#options;
    return { ...blanket(allPass ? 'allow' : unassignable, rule), obstacle };
  }
}

function blanket(kind: BlanketPlan['kind'], rule?: MatchedRule): BlanketPlan {
  return { kind, rule, obstacle: undefined, limits: [], counted: undefined };
}

function descriptorOf(entries: readonly Entry[]): Descriptor {
  return { entries, limit: undefined, hitsAddend: undefined, isNegativeHits: false };
}

/** Returns the form of a rule's assignments. A token bucket always refills, whatever the rule says. */
function formOf(rule: MatchedRule, limits: readonly SharedLimit[]): AssignmentForm {
  const wanted = wantedForm(rule);
  if (wanted === undefined) return defaultForm(limits);
  return limits.some(({ hasBurst }) => hasBurst) ? 'refilling' : wanted;
}

function limitToShare(counter: LimitPlan, options: WindowOptions): SharedLimit {
  const { limit, isOwn, counterStem } = counter;
  return {
    counter,
    requests: numbersOf(limit).requests,
    lengthSeconds: lengthOf(limit),
    hasBurst: algorithmOf(limit).hasBurst,
    windowAt: (nowMs) => {
      const nowSeconds = Math.floor(nowMs / 1000);
      const window = counterWindow(limit, isOwn, nowSeconds, options);
      const { startSeconds, endSeconds, lifeSeconds } = window;
      const ttlSeconds = lifeSeconds ?? endSeconds - nowSeconds;
      return { key: counterKey(counterStem, window), startSeconds, endSeconds, ttlSeconds };
    },
  };
}
