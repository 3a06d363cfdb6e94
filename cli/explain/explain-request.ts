import { counterKey } from '../../limiter/decide/plan.ts';
import { counterWindow } from '../../limiter/decide/windows.ts';
import { sanitizeMetricKey } from '../../limiter/stats/registry/metric-name.ts';
import type { LoadedSource } from '../../rules/loaded-source.ts';
import type { NameForm, RuleMatch } from '../../rules/match-result.ts';
import { type Entry, isPlainLimit } from '../../rules/model.ts';
import { type Explanation, explainDescriptor } from '../../rules/review/explain-descriptor.ts';
import { placedRules } from '../../rules/review/rule-level.ts';
import { compileRules } from '../../rules/table/compile-rules.ts';
import { RuleTable } from '../../rules/table/rule-table.ts';

export interface ExplainOptions {
  domain: string;
  descriptors: readonly (readonly Entry[])[];
  nowSeconds: number;
  /** CACHE_KEY_PREFIX. */
  cacheKeyPrefix: string;
  /** USE_CALENDAR_MONTH_RATE_LIMIT. */
  useCalendarMonthRateLimit: boolean;
  names: NameForm;
}

/** What one descriptor of the request comes to. */
export interface ExplainedDescriptor {
  entries: readonly Entry[];
  explanation: Explanation;
  effect: 'limited' | 'unlimited' | 'replaced' | 'none';
  /** Name of the limit that another descriptor of the request replaces. */
  replacedName: string | undefined;
  counter: ExplainedCounter | undefined;
}

/** Where a limit counts. */
export interface ExplainedCounter {
  key: string;
  /** Without the name of the counter, such as `total_hits`. */
  metric: string;
  windowStartSeconds: number;
  /** The first second after the window. */
  windowEndSeconds: number;
}

export interface ExplainedRequest {
  hasDomain: boolean;
  /** Domains that there are rules for. */
  domains: string[];
  descriptors: ExplainedDescriptor[];
}

/** Asks the very matcher that limiters ask; nothing is counted. The sources are those of one load. */
export function explainRequest(sources: readonly LoadedSource[], options: ExplainOptions): ExplainedRequest {
  const rules = sources.map(({ source }) => source);
  const table = new RuleTable(compileRules(rules));
  const top = rules.flatMap(({ domain, descriptors }, index) =>
    domain === options.domain ? placedRules(descriptors, index, []) : [],
  );
  const matches = options.descriptors.map((entries) => table.match(options.domain, entries, options.names));
  const replaced = new Set(matches.flatMap((match) => match?.rule.replaces ?? []));
  const descriptors = options.descriptors.map((entries, index) => {
    const match = matches[index];
    const effect = effectOf(match, replaced);
    return {
      entries,
      explanation: explainDescriptor(top, entries),
      effect,
      replacedName: effect === 'replaced' ? match?.rule.limits[0]?.name : undefined,
      counter: match === undefined || effect === 'unlimited' ? undefined : counterOf(match, options),
    };
  });
  const domains = [...new Set(rules.map(({ domain }) => domain))];
  return { hasDomain: table.hasDomain(options.domain), domains, descriptors };
}

/** An unlimited rule replaces others and is not replaced itself. */
function effectOf(
  match: RuleMatch | undefined,
  replaced: ReadonlySet<string>,
): ExplainedDescriptor['effect'] {
  if (match === undefined) return 'none';
  if (match.rule.unlimited) return 'unlimited';
  const { name } = match.rule.limits[0]!;
  return name !== '' && replaced.has(name) ? 'replaced' : 'limited';
}

function counterOf(
  { rule, counterStem, metricKey }: RuleMatch,
  { cacheKeyPrefix, nowSeconds, useCalendarMonthRateLimit, names }: ExplainOptions,
): ExplainedCounter {
  const limit = rule.limits[0]!;
  const window = counterWindow(limit, rule.limits.length > 1 || !isPlainLimit(limit), nowSeconds, {
    useCalendarMonthRateLimit,
    counterKeys: names.counterKeys,
  });
  return {
    key: counterKey(cacheKeyPrefix + counterStem, window),
    metric: `ratelimit.service.rate_limit.${sanitizeMetricKey(metricKey)}`,
    windowStartSeconds: window.startSeconds,
    windowEndSeconds: window.endSeconds,
  };
}
