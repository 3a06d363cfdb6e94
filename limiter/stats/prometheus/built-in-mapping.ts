/** The mapping that applies without PROMETHEUS_MAPPER_YAML. Names and labels are the Go service's. Reference 8.4. */
import { defaultBuckets, defaultSummary, type Mapping, type MappingRule } from './mapping-rule.ts';

const ruleStats = ['near_limit', 'over_limit', 'total_hits', 'within_limit', 'shadow_mode'] as const;

export interface BuiltInMappingOptions {
  /** response_time stays in milliseconds; its name says seconds all the same, as in the Go service. */
  responseTimeAsMilliseconds: boolean;
}

export function builtInMapping({ responseTimeAsMilliseconds }: BuiltInMappingOptions): Mapping {
  const prefix = 'ratelimit_service';
  return {
    rules: [
      ...ruleStats.flatMap(rulesOf),
      mapped('ratelimit.service.call.should_rate_limit.*', `${prefix}_should_rate_limit_error`, {
        kind: 'counter',
        labels: [['err_type', '$1']],
      }),
      mapped('ratelimit_server.*.total_requests', `${prefix}_total_requests`, {
        kind: 'counter',
        labels: [['grpc_method', '$1']],
      }),
      mapped('ratelimit_server.*.response_time', `${prefix}_response_time_seconds`, {
        labels: [['grpc_method', '$1']],
        scale: responseTimeAsMilliseconds ? 1 : 0.001,
      }),
      ...['config_load_success', 'config_load_error'].map((stat) =>
        mapped(`ratelimit.service.${stat}`, `${prefix}_${stat}`, { kind: 'counter' }),
      ),
    ],
    globDisableOrdering: false,
    unmapped: { observer: defaultSummary, ttlMs: 0 },
  };
}

/** One level of keys by a glob; two by an expression, which takes further levels with it: they add up. */
function rulesOf(stat: string): MappingRule[] {
  const name = `ratelimit_service_rate_limit_${stat}`;
  const oneLevel = [
    ['domain', '$1'],
    ['key1', '$2'],
  ] as const;
  return [
    mapped(`ratelimit.service.rate_limit.*.*.${stat}`, name, { labels: oneLevel }),
    // Both ends are fixed: over_limit must not take over_limit_with_local_cache with it.
    mapped(`^ratelimit\\.service\\.rate_limit\\.([^.]*)\\.([^.]*)\\.([^.]*)(?:\\..*)?\\.${stat}$`, name, {
      matchType: 'regex',
      labels: [...oneLevel, ['key2', '$3']],
    }),
  ];
}

function mapped(match: string, name: string, options: Partial<MappingRule>): MappingRule {
  return {
    matchType: 'glob',
    match,
    kind: undefined,
    action: 'map',
    name,
    labels: [],
    honorLabels: false,
    help: undefined,
    scale: 1,
    ttlMs: 0,
    observer: { type: 'histogram', buckets: defaultBuckets },
    ...options,
  };
}
