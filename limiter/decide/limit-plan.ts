/** The plan for a descriptor, created by plan.ts. */
import type { MatchedRule } from '../../rules/match-result.ts';
import type { Limit } from '../../rules/model.ts';
import type { Override } from '../../rules/override.ts';
import type { AlgorithmBound } from '../algorithms/algorithm-bound.ts';
import type { RuleMetric } from '../stats/registry/rule-stats.ts';
import type { Counter } from '../stores/operation.ts';
import type { Marker } from './marker.ts';
import type { CurrentLimit, Header, HeaderForm } from './messages.ts';
import type { WarningMarks } from './thresholds.ts';
import type { Window } from './windows.ts';

/** Parts of answers about a limit that never change, encoded once. */
export interface LimitTexts {
  policyName?: string;
  policy?: Header;
  standing?: HeaderForm;
  identity?: HeaderForm;
  identityEntry?: Uint8Array;
}

/** One limit of a plan, with its counter. */
export interface LimitPlan extends Counter {
  readonly charging: AlgorithmBound;
  readonly rule: MatchedRule;
  readonly limit: Limit;
  /** The limit as answers describe it. */
  readonly currentLimit: CurrentLimit;
  /** Further texts for answers, if the settings request them. */
  readonly texts: LimitTexts;
  /** The length of its window; undefined for a calendar window. */
  readonly windowSeconds: number | undefined;
  readonly nearThreshold: number;
  /** The thresholds of `warn_at`. Undefined: none. */
  readonly marks: WarningMarks | undefined;
  /** Whether any limit of its rule has marks. */
  readonly warns: boolean;
  /** The seconds until reset that answers report for a counter that has no window end and no known state. */
  readonly secondsUncounted: number;
  /** Whether its keys are always unambiguous. */
  readonly isOwn: boolean;
  /** The strongest override of the limit. A block leaves the numbers unchanged. */
  readonly override: Override | undefined;
  /** The limit's statistics. */
  readonly metric: RuleMetric;
  /** The window that was counted in last, or undefined before the first hit, and the counter's key in that window. */
  window: Window | undefined;
  key: string;
  /** The last row that the limit used in the memory of rejections; 0: none. */
  rejection: number;
}

export interface LimitedPlan {
  readonly kind: 'limited';
  readonly rule: MatchedRule;
  /** The limits, at least one. Hits pass only if all of them allow it. */
  readonly limits: readonly LimitPlan[];
  /** The reservation that the descriptor asks for. Undefined: its hits count. */
  readonly marker: Marker | undefined;
}

export interface UnlimitedPlan {
  readonly kind: 'unlimited';
  readonly rule: MatchedRule;
  /** If an override makes the rule unlimited: the statistics in which its limits still count. */
  readonly metrics?: readonly RuleMetric[];
}

export interface NoLimitPlan {
  readonly kind: 'no-limit' | 'domain-not-found';
  readonly rule: undefined;
}

/**
 * The plan for a descriptor: its rule, its counters and its statistics. It depends only on the rules, the domain, the entries and the
 * override. It never depends on hits addends, which may differ in every request.
 */
export type Plan = LimitedPlan | UnlimitedPlan | NoLimitPlan;
