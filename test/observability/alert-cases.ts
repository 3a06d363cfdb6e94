/** For each alert: series that make it fire, and the same in good health. Values are in promtool's notation, a minute apart. */
export interface AlertCase {
  /** Names and labels, without what a scrape adds; to their values. */
  fires: Record<string, string>;
  quiet: Record<string, string>;
  /** Labels of the alert besides its severity and those of the scrape. */
  labels?: Record<string, string>;
  /** Those of the scrape that its expression keeps. */
  kept: ('namespace' | 'job' | 'instance')[];
  summary: string;
}

const perJob = ['namespace', 'job'] as const;
const perInstance = ['namespace', 'job', 'instance'] as const;
const error = (type: string): string => `ratelimit_service_should_rate_limit_error{err_type="${type}"}`;
const requests = 'ratelimit_service_total_requests{grpc_method="ShouldRateLimit"}';
const jsonRequests = 'ratelimit_http_json_requests';
const apiRequests = 'ratelimit_http_v1_requests';
const bucket = (le: string): string =>
  `ratelimit_service_response_time_seconds_bucket{grpc_method="ShouldRateLimit",le="${le}"}`;
const ruleStat = (stat: string): string =>
  `ratelimit_service_rate_limit_${stat}{domain="api",key1="user",key2="path"}`;
const quotaHits = (kind: string): string => `ratelimit_quota_hits{kind="${kind}",rule="edge.name"}`;
const fleet = (state: string): string => `weir_control_plane_limiters{fleet="eu",state="${state}"}`;

const atRest = '7x60';
const rising = '0+1x60';

/** Fires when the counter rises, not while it stands. */
function counter(name: string, kept: AlertCase['kept'], summary: string): AlertCase {
  return { fires: { [name]: rising }, quiet: { [name]: atRest }, kept, summary };
}

/** Fires while the breaker is open, unless the mode lets callers go on as usual. */
function storeNotAsked(breaker: string, summary: string): AlertCase {
  const open = { [`ratelimit_${breaker}_open`]: '1x60' };
  const mode = (name: string): string => `weir_store_info{backend="redis",failure_mode="${name}"}`;
  return {
    fires: { ...open, [mode('deny')]: '1x60' },
    quiet: { ...open, [mode('local')]: '1x60' },
    kept: [...perInstance],
    summary,
  };
}

/** Fires while the gauge is at `bad`. */
function gauge(
  name: string,
  [bad, good]: [number, number],
  kept: AlertCase['kept'],
  summary: string,
): AlertCase {
  return { fires: { [name]: `${bad}x60` }, quiet: { [name]: `${good}x60` }, kept, summary };
}

export const alertCases: Record<string, AlertCase> = {
  WeirLimiterAbsent: {
    fires: { weir_build_info: '1x10 stale' },
    quiet: { weir_build_info: '1x60' },
    kept: [...perJob],
    summary: 'No limiter of weir is scraped',
  },
  WeirLimiterDown: {
    fires: { up: '1x10 0x50', weir_build_info: '1x10 stale' },
    // Another program is none of our business.
    quiet: { up: '0x60' },
    kept: [...perInstance],
    summary: 'pod:1 does not answer Prometheus',
  },
  WeirLimiterNotServing: gauge(
    'ratelimit_health_serving',
    [0, 1],
    [...perInstance],
    'pod:1 serves no requests',
  ),
  WeirStoreNotAsked: storeNotAsked('store_breaker', 'pod:1 has stopped asking its store'),
  WeirPerSecondStoreNotAsked: storeNotAsked(
    'per_second_store_breaker',
    'pod:1 has stopped asking its store for limits per second',
  ),
  WeirStoreErrors: {
    // All of it over /json: there are no calls of gRPC to divide by.
    fires: {
      [error('redis_error')]: '0+120x60',
      [requests]: '0x60',
      [jsonRequests]: '0+3000x60',
      [apiRequests]: '0+3000x60',
    },
    quiet: {
      [error('redis_error')]: '0+30x60',
      [error('service_error')]: '0+900x60',
      [requests]: '0+3000x60',
      [jsonRequests]: '0+3000x60',
      [apiRequests]: '0x60',
    },
    kept: [...perJob],
    summary: 'weir fails 2% of its requests',
  },
  WeirAnsweredWithoutStore: {
    fires: { [error('store_failure_mode')]: rising, ratelimit_store_failure_mode_local_requests: '0x60' },
    quiet: { [error('store_failure_mode')]: atRest, ratelimit_store_failure_mode_local_requests: atRest },
    kept: [...perJob],
    summary: 'weir answers requests without its store',
  },
  WeirRequestsTooLarge: counter(
    error('too_large'),
    [...perJob],
    'weir receives requests that exceed a bound',
  ),
  WeirHitsNotDelivered: counter(
    'ratelimit_store_failure_mode_undelivered',
    [...perJob],
    'weir lost hits that it counted during an outage',
  ),
  WeirRedisPoolFull: counter(
    'ratelimit_redis_per_second_pool_calls_refused',
    [...perJob],
    'weir has too few connections for its calls to Redis',
  ),
  WeirClusterNodeLost: {
    fires: { ratelimit_redis_pool_nodes: '3x60', ratelimit_redis_pool_nodes_reached: '2x60' },
    quiet: { ratelimit_redis_pool_nodes: '3x60', ratelimit_redis_pool_nodes_reached: '3x60' },
    kept: [...perInstance],
    summary: 'pod:1 reaches only 2 masters of its Redis Cluster',
  },
  WeirMemcacheNodeDown: gauge(
    'ratelimit_memcache_nodes_down',
    [2, 0],
    [...perInstance],
    'pod:1 cannot use 2 memcached nodes',
  ),
  WeirMemoryCountersEvicted: counter(
    'ratelimit_memory_store_evicted',
    [...perJob],
    'weir drops counters before their windows end',
  ),
  WeirNoRules: gauge('ratelimit_rules_domains', [0, 3], [...perInstance], 'pod:1 has no rules'),
  WeirRulesRefused: gauge('ratelimit_rules_load_failed', [1, 0], [...perJob], 'weir cannot load its rules'),
  WeirRulesDiffer: {
    fires: {
      'ratelimit_rules_info{version="a",pod="1"}': '1x60',
      'ratelimit_rules_info{version="b",pod="2"}': '1x60',
    },
    quiet: {
      'ratelimit_rules_info{version="a",pod="1"}': '1x60',
      'ratelimit_rules_info{version="a",pod="2"}': '1x60',
    },
    kept: [...perJob],
    summary: 'The limiters of weir have applied 2 different versions of the rules for 15 minutes',
  },
  WeirXdsDisconnected: gauge(
    'ratelimit_xds_connected',
    [0, 1],
    [...perInstance],
    'pod:1 is not connected to its control plane',
  ),
  WeirSlowDecisions: {
    fires: { [bucket('0.05')]: '0+90x60', [bucket('0.1')]: '0+100x60', [bucket('+Inf')]: '0+100x60' },
    quiet: { [bucket('0.05')]: '0+100x60', [bucket('0.1')]: '0+100x60', [bucket('+Inf')]: '0+100x60' },
    kept: [...perJob],
    summary: '1% of the decisions of weir take 95ms or longer',
  },
  WeirEventLoopBlocked: {
    fires: { nodejs_eventloop_lag_p99_seconds: '0.2x60', weir_build_info: '1x60' },
    // Another program of Node is none of our business.
    quiet: { nodejs_eventloop_lag_p99_seconds: '0.2x60' },
    kept: [...perInstance],
    summary: 'pod:1 stalls for 200ms at a time',
  },
  WeirWorkerCrashed: counter('ratelimit_workers_crashed', [...perInstance], 'A worker thread of pod:1 ended'),
  WeirCertificateRefused: gauge(
    'certs_load_failed',
    [1, 0],
    [...perInstance],
    'pod:1 cannot use its new certificate',
  ),
  WeirCertificateExpires: gauge(
    'certs_expires_at_seconds',
    // After 50 minutes of the 1st of January 1970; 0 says that none is in use yet.
    [600_000, 0],
    [...perInstance],
    'pod:1 uses a certificate that expires in 6d 21h 50m 0s',
  ),
  WeirHttpCertificateRefused: gauge(
    'http_certs_load_failed',
    [1, 0],
    [...perInstance],
    'pod:1 cannot use its new certificate for HTTP',
  ),
  WeirHttpCertificateExpires: gauge(
    'http_certs_expires_at_seconds',
    [600_000, 0],
    [...perInstance],
    'pod:1 uses a certificate for HTTP that expires in 6d 21h 50m 0s',
  ),
  WeirCallersRefused: gauge(
    'ratelimit_callers_load_failed',
    [1, 0],
    [...perInstance],
    'pod:1 cannot use its new callers file',
  ),
  WeirConnectionFault: counter(
    'ratelimit_server_http2_internal_error',
    [...perJob],
    'weir lost connections because of a bug',
  ),
  WeirTracesLost: {
    fires: { ratelimit_tracing_spans_lost: rising, ratelimit_tracing_spans_dropped: atRest },
    quiet: { ratelimit_tracing_spans_lost: atRest, ratelimit_tracing_spans_dropped: atRest },
    kept: [...perJob],
    summary: 'weir loses traces',
  },
  WeirStatisticNotServed: gauge(
    'weir_prometheus_conflicts_total',
    [4, 0],
    [...perInstance],
    'pod:1 omits 4 of its statistics',
  ),
  WeirDomainUnknown: {
    fires: {
      ratelimit_service_rate_limit_a_domain_not_found: atRest,
      ratelimit_service_rate_limit_b_domain_not_found: rising,
    },
    quiet: {
      ratelimit_service_rate_limit_a_domain_not_found: atRest,
      ratelimit_service_rate_limit_b_domain_not_found: atRest,
    },
    kept: [...perJob],
    summary: 'weir receives requests for domains without rules',
  },
  WeirDetailedMetricsRefused: counter(
    'ratelimit_stats_detailed_metrics_refused',
    [...perJob],
    'weir has more metrics by value than its bound allows',
  ),
  WeirRuleRefusesMost: {
    // One request of many hits: few of them are over the limit, and all are rejected.
    fires: {
      [ruleStat('over_limit')]: '0+12x60',
      [ruleStat('shadow_mode')]: '0x60',
      [ruleStat('limited')]: '0+120x60',
      [ruleStat('passed')]: '0+80x60',
    },
    // Most of what is over the limit is let pass by SHADOW_MODE of some limiters.
    quiet: {
      [ruleStat('over_limit')]: '0+240x60',
      [ruleStat('shadow_mode')]: '0x60',
      [ruleStat('limited')]: '0+120x60',
      [ruleStat('passed')]: '0+200x60',
    },
    labels: { domain: 'api', key1: 'user', key2: 'path' },
    kept: [...perJob],
    summary: 'Most hits of api user path are over limit',
  },
  WeirQuotaOverReported: {
    fires: { [quotaHits('over_reported')]: '0+2x60', [quotaHits('used')]: '0+100x60' },
    // A report that came late.
    quiet: { [quotaHits('over_reported')]: '0+1x60', [quotaHits('used')]: '0+200x60' },
    labels: { rule: 'edge.name' },
    kept: [...perJob],
    summary: 'Quota clients of weir report more than they could use of edge.name',
  },
  WeirQuotaBucketsDenied: {
    fires: { 'ratelimit_quota_denied_buckets{bound="stream"}': rising },
    quiet: { 'ratelimit_quota_denied_buckets{bound="stream"}': atRest },
    labels: { bound: 'stream' },
    kept: [...perJob],
    summary: 'weir denies buckets of quota clients because of the bound stream',
  },
  WeirQuotaUnassignable: counter(
    'ratelimit_quota_unassignable',
    [...perJob],
    'Quota clients of weir ask for rules that cannot be assigned',
  ),
  WeirQuotaStreamsRefused: {
    fires: { 'ratelimit_quota_refused_streams{reason="silence"}': rising },
    // Limiters that start or end.
    quiet: { 'ratelimit_quota_refused_streams{reason="unavailable"}': rising },
    labels: { reason: 'silence' },
    kept: [...perJob],
    summary: 'weir rejects or ends streams of quota clients (silence)',
  },
  WeirSourceDisconnected: gauge(
    'weir_control_plane_source_connected',
    [0, 1],
    [...perInstance],
    'pod:1 does not see changes of RateLimitConfigs',
  ),
  WeirAccessDenied: {
    fires: { 'weir_control_plane_access_denied{verb="list",resource="ratelimitconfigs"}': '1x60' },
    quiet: { 'weir_control_plane_access_denied{verb="list",resource="ratelimitconfigs"}': '0x60' },
    labels: { verb: 'list', resource: 'ratelimitconfigs' },
    kept: [...perJob],
    summary: 'weir may not list ratelimitconfigs',
  },
  WeirLimitersRefuseRules: {
    fires: { [fleet('refused')]: '2x60' },
    quiet: { [fleet('refused')]: '0x60', [fleet('pending')]: '1x60', [fleet('in_force')]: '5x60' },
    labels: { fleet: 'eu' },
    kept: [...perJob],
    summary: '2 limiters of the fleet eu reject their rules',
  },
  WeirLimitersBehind: {
    fires: { [fleet('pending')]: '3x60' },
    quiet: { [fleet('pending')]: '0x60', [fleet('refused')]: '1x60' },
    labels: { fleet: 'eu' },
    kept: [...perJob],
    summary: '3 limiters of the fleet eu have not acknowledged their rules',
  },
  WeirLimitersTooOld: {
    fires: { [fleet('too_old')]: '2x60' },
    quiet: { [fleet('too_old')]: '0x60', [fleet('pending')]: '1x60' },
    labels: { fleet: 'eu' },
    kept: [...perJob],
    summary: '2 limiters of the fleet eu do not support some of its rules',
  },
  WeirObjectsNotServed: {
    fires: { 'weir_control_plane_objects{accepted="Invalid"}': '1x60' },
    quiet: {
      'weir_control_plane_objects{accepted="Invalid"}': '0x60',
      'weir_control_plane_objects{accepted="Valid"}': '9x60',
    },
    labels: { accepted: 'Invalid' },
    kept: [...perJob],
    summary: 'RateLimitConfigs are not accepted: Invalid',
  },
  WeirSnapshotTooLarge: {
    fires: { 'weir_control_plane_fleet_snapshot_bytes{fleet="eu"}': '5000000x60' },
    quiet: { 'weir_control_plane_fleet_snapshot_bytes{fleet="eu"}': '4194304x60' },
    labels: { fleet: 'eu' },
    kept: [...perJob],
    summary: 'The rules of the fleet eu are larger than clients accept by default',
  },
  WeirNoLeader: gauge('weir_control_plane_leader', [0, 1], [...perJob], 'weir has no leader'),
  WeirStatusBehind: gauge(
    'weir_control_plane_status_writes_waiting',
    [4, 0],
    [...perInstance],
    'pod:1 is behind with writing the status of objects',
  ),
  WeirWebhookEventsDropped: counter(
    'weir_control_plane_webhook_events_dropped_total',
    [...perJob],
    'weir dropped events for webhooks',
  ),
  WeirControlPlaneFault: counter(
    'weir_control_plane_faults_total',
    [...perJob],
    'weir had an internal error',
  ),
};
