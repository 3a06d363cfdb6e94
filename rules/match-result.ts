import type { CounterKeys } from './counter-keys.ts';
import type { Algorithm, Entry, JsonObject, Unit } from './model.ts';

/** One limit of a rule as decisions need it. */
export interface MatchedLimit {
  readonly unit: Unit;
  /** How many units its window has. */
  readonly unitMultiplier: number;
  readonly requestsPerUnit: number;
  readonly algorithm: Algorithm;
  /** The most that may come at once: of a token bucket what it says, else `requestsPerUnit`. */
  readonly burst: number;
  /** Empty when it has none. */
  readonly name: string;
}

/** The limits of one rule as decisions need them. One object per rule and rule table, however often it matches. */
export interface MatchedRule {
  /** All have to allow. None exactly when unlimited. */
  readonly limits: readonly MatchedLimit[];
  readonly unlimited: boolean;
  readonly shadowMode: boolean;
  readonly quotaMode: boolean;
  /** Names of limits of other rules, of all its limits together. */
  readonly replaces: readonly string[];
  readonly metadata: JsonObject | undefined;
}

export interface RuleMatch {
  readonly rule: MatchedRule;
  /** The domain, then a segment an entry, joined by `.`; not yet sanitised. */
  readonly metricKey: string;
  /** Whether something in the metric key is the request's own, so that one rule has any number of metric keys. */
  readonly metricPerValue: boolean;
  /** The counter key without prefix and window, with the pattern in place of the value where values share one threshold. */
  readonly counterStem: string;
}

/** How the names of a match are written. */
export interface NameForm {
  /** SANITIZE_DESCRIPTOR_METRIC_DOTS: dots of keys and values become `_` in the metric key; those between its segments and in the domain stay. */
  readonly sanitizeDescriptorMetricDots: boolean;
  readonly counterKeys: CounterKeys;
}

/** As the Go service writes them unless it is told otherwise. */
export const usualNames: NameForm = { sanitizeDescriptorMetricDots: false, counterKeys: 'compatible' };

/** Finds the rule for a descriptor: the specification's rules 1 to 6 and 12. The cost does not grow with the number of rules. */
export interface RuleMatcher {
  hasDomain(domain: string): boolean;
  /** Undefined when no rule with a limit (an unlimited one included) applies. `names` defaults to `usualNames`. */
  match(domain: string, entries: readonly Entry[], names?: NameForm): RuleMatch | undefined;
}
