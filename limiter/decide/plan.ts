/** What is to be done for each descriptor of a request, and the keys that its counters and metrics have. */
import { stemOfValues } from '../../rules/counter-keys.ts';
import type { MatchedLimit, MatchedRule, NameForm, RuleMatcher } from '../../rules/match-result.ts';
import { Algorithm, type Entry } from '../../rules/model.ts';
import type { RuleMetric, RuleStats } from '../stats/registry/rule-stats.ts';
import { nearThreshold } from './assess.ts';
import { type Descriptor, ServiceError } from './messages.ts';
import { isCountable, type Window } from './windows.ts';
import { type KnownEntries, knownEntriesSlots } from './wire-reader.ts';

/** `stem`: prefix, domain and entries, as `stemOfValues` or the matcher wrote them. */
export function counterKey(stem: string, window: Window): string {
  return stem + window.keySuffix;
}

/**
 * The metric key where a limit comes with the request; `_` only before a value.
 * `undotted`: dots of keys and values become `_`.
 */
export function overrideMetricKey(domain: string, entries: readonly Entry[], undotted = false): string {
  const segments = entries.map(({ key, value }) => {
    const segment = value === '' ? key : `${key}_${value}`;
    return undotted ? segment.replaceAll('.', '_') : segment;
  });
  return `${domain}.${segments.join('.')}`;
}

export interface LimitedPlan {
  readonly kind: 'limited';
  readonly rule: MatchedRule;
  readonly limit: MatchedLimit;
  /** The counter key without its window; the prefix is in it. */
  readonly counterStem: string;
  /** The rule's statistics. */
  readonly metric: RuleMetric;
  readonly nearThreshold: number;
  /** The window counted in last, undefined before the first hit, and the counter's key in it. */
  window: Window | undefined;
  key: string;
}

/** Gives the plan its key in this window. The same string for all requests of a window spares the store hashing it again. */
export function enterWindow(plan: LimitedPlan, window: Window): Window {
  plan.window = window;
  plan.key = counterKey(plan.counterStem, window);
  return window;
}

export interface UnlimitedPlan {
  readonly kind: 'unlimited';
  readonly rule: MatchedRule;
}

export interface NoLimitPlan {
  readonly kind: 'no-limit' | 'domain-not-found';
  readonly rule: undefined;
}

/**
 * What is to be done for a descriptor: which rule, which counter, which statistics. A plan depends on the rules, the
 * domain, the entries and the override only; never on hits addends, which may differ in every request.
 */
export type Plan = LimitedPlan | UnlimitedPlan | NoLimitPlan;

/** No rule applies, or another rule of the request replaces the one that would. */
export const noLimit: NoLimitPlan = { kind: 'no-limit', rule: undefined };
const domainNotFound: NoLimitPlan = { kind: 'domain-not-found', rule: undefined };

/** The settings of these names. */
export interface PlanSettings extends NameForm {
  cacheKeyPrefix: string;
  /** 0 to 1. */
  nearLimitRatio: number;
}

interface Memo {
  readonly known: KnownEntries;
  readonly domain: string;
  readonly plan: Plan;
}

/** Plans for one set of rules. */
export class Planner {
  readonly #matcher: RuleMatcher;
  readonly #stats: RuleStats;
  readonly #cacheKeyPrefix: string;
  readonly #nearLimitRatio: number;
  readonly #names: NameForm;
  /** Plans made before, by the slot of the entries; they end with the rules that they were made for. */
  readonly #memos: (Memo | undefined)[] = new Array(knownEntriesSlots).fill(undefined);

  constructor(matcher: RuleMatcher, stats: RuleStats, settings: PlanSettings) {
    this.#matcher = matcher;
    this.#stats = stats;
    this.#cacheKeyPrefix = settings.cacheKeyPrefix;
    this.#nearLimitRatio = settings.nearLimitRatio;
    this.#names = settings;
  }

  /** Throws a `ServiceError` when the descriptor carries a limit without a usable unit. */
  plan(domain: string, descriptor: Descriptor): Plan {
    const { known } = descriptor;
    if (known === undefined || descriptor.limit !== undefined) return this.#newPlan(domain, descriptor);
    const memo = this.#memos[known.slot];
    if (memo !== undefined && memo.known === known && memo.domain === domain) return memo.plan;
    const plan = this.#newPlan(domain, descriptor);
    // An unknown domain is counted by each request, and an error is made by each.
    this.#memos[known.slot] = { known, domain, plan };
    return plan;
  }

  #newPlan(domain: string, descriptor: Descriptor): Plan {
    if (descriptor.limit !== undefined) {
      if (!this.#matcher.hasDomain(domain)) return domainNotFound;
      return this.#planOverride(domain, descriptor, descriptor.limit);
    }
    // Matching first spares the usual request a second look for its domain.
    const match = this.#matcher.match(domain, descriptor.entries, this.#names);
    if (match === undefined) return this.#matcher.hasDomain(domain) ? noLimit : domainNotFound;
    if (match.rule.unlimited) return { kind: 'unlimited', rule: match.rule };
    return this.#limited(
      match.rule,
      match.counterStem,
      this.#stats.ruleMetric(match.metricKey, match.metricPerValue),
    );
  }

  #planOverride(
    domain: string,
    descriptor: Descriptor,
    limit: NonNullable<Descriptor['limit']>,
  ): LimitedPlan {
    const { unit, requestsPerUnit } = limit;
    if (!isCountable(unit)) {
      throw new ServiceError(
        `the limit of a request's descriptor must have a unit from 1 (SECOND) to 7 (WEEK), not ${unit}`,
      );
    }
    const own: MatchedLimit = {
      unit,
      unitMultiplier: 1,
      requestsPerUnit,
      algorithm: Algorithm.FIXED_WINDOW,
      burst: requestsPerUnit,
      name: '',
    };
    const rule: MatchedRule = {
      limits: [own],
      unlimited: false,
      shadowMode: false,
      quotaMode: false,
      replaces: [],
      metadata: undefined,
    };
    const entries = descriptor.entries;
    const metric = this.#stats.ruleMetric(
      overrideMetricKey(domain, entries, this.#names.sanitizeDescriptorMetricDots),
      true,
    );
    // No rule, hence no pattern in place of a value.
    return this.#limited(rule, stemOfValues(this.#names.counterKeys, domain, entries), metric);
  }

  #limited(rule: MatchedRule, stem: string, metric: RuleMetric): LimitedPlan {
    const limit = rule.limits[0]!;
    return {
      kind: 'limited',
      rule,
      limit,
      counterStem: this.#cacheKeyPrefix + stem,
      metric,
      nearThreshold: nearThreshold(limit.requestsPerUnit, this.#nearLimitRatio),
      window: undefined,
      key: '',
    };
  }
}

/**
 * Drops, in place, the limits whose name another matched rule of the same request replaces. An unlimited rule
 * replaces others but is not replaced itself.
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
    if (plan.kind !== 'limited' || plan.limit.name === '') continue;
    if (replaced.has(plan.limit.name)) plans[index] = noLimit;
  }
}
