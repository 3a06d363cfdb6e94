import type { CounterKeys } from './counter-keys.ts';
import { defaultTextBytes } from './long-text.ts';
import type { Entry, Limit, RuleTraits } from './model.ts';

/** The limits of one rule as decisions need them. One object per rule and rule table, however often it matches. */
export interface MatchedRule extends Readonly<RuleTraits> {
  /** The limits of the rule, which must all allow a request. The list is empty only for an unlimited rule. */
  readonly limits: readonly Limit[];
  readonly unlimited: boolean;
  /** Names of limits of other rules that all its limits together replace. */
  readonly replaces: readonly string[];
  /** The owner of the rule, and the place there as `listedRules` writes it. The first match writes it. */
  domain: string;
  path: string;
  /**
   * The number of the rule. Of two rules of a domain and level, which are in one table, the one declared first has the smaller
   * number.
   */
  readonly order: number;
}

export interface RuleMatch {
  readonly rule: MatchedRule;
  /** The domain and one segment per entry, joined by `.`. The text is not sanitized yet. */
  readonly metricKey: string;
  /** True if a part of the metric key comes from the request, so that one rule has any number of metric keys. */
  readonly metricPerValue: boolean;
  /** The counter key without prefix and window, with the pattern in place of the value where values share one threshold. */
  readonly counterStem: string;
}

/** The form in which the names of a match are written. */
export interface NameForm {
  /**
   * SANITIZE_DESCRIPTOR_METRIC_DOTS: dots of keys and values become `_` in the metric key. Dots between its segments and in the
   * domain stay.
   */
  readonly sanitizeDescriptorMetricDots: boolean;
  readonly counterKeys: CounterKeys;
  /** REQUEST_MAX_TEXT_BYTES: names have longer texts as `countedText` and `shownText` write them. */
  readonly maxTextBytes: number;
}

/** The form of names in the Go service by default. */
export const defaultNames: NameForm = {
  sanitizeDescriptorMetricDots: false,
  counterKeys: 'compatible',
  maxTextBytes: defaultTextBytes,
};

/** Finds the rule for a descriptor by the specification's rules 1 to 6 and 12. The cost does not grow with the number of rules. */
export interface RuleMatcher {
  hasDomain(domain: string): boolean;
  /** Returns whether any rule of the domain is for descriptors of at least this many entries. */
  hasLevel(domain: string, level: number): boolean;
  /** Returns undefined if no rule with a limit, or with `unlimited`, applies. `names` defaults to `defaultNames`. */
  match(domain: string, entries: readonly Entry[], names?: NameForm): RuleMatch | undefined;
}

/** The rules of a domain that a match finds, one entry after the other. */
export interface RuleWalk {
  readonly start: number;
  /** The rule that an entry finds below a place; undefined: none. */
  step(place: number, key: string, value: string): RuleStep | undefined;
  /** The rule below a place that is written so. */
  child(place: number, composite: string): RuleStep | undefined;
}

export interface RuleStep {
  /** The place for the steps below it. */
  readonly place: number;
  readonly how: 'exact' | 'wildcard' | 'key';
  /** `key` or `key_value`, as the rule has them. */
  readonly composite: string;
  /** Whether the rule has share_threshold. */
  readonly shares: boolean;
  /** Undefined if the rule has no limit. */
  readonly rule: MatchedRule | undefined;
}

const ipv4Like = /(\d{1,3})\.(\d{1,3})\.(\d{1,3})\.(\d{1,3})/g;
// `:` and `|` end a name in statsd, a control character could end the line or fake another one.
// biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what is looked for
const unsafe = /[:|\u0000-\u001f\u007f-\u009f\u2028\u2029]/g;

/**
 * Returns a metric key or domain as part of the name of a statistic, as the Go service writes it. `:`, `|` and control characters
 * become `_`, and so do the dots inside anything that looks like an IPv4 address. `n_10.0.0.1:8|9` gives `n_10_0_0_1_8_9`.
 * Matching and counting never see this form.
 */
export function sanitizeMetricKey(key: string): string {
  return key.replace(unsafe, '_').replace(ipv4Like, '$1_$2_$3_$4');
}
