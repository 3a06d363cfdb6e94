import { rulePrefix } from '../registry/slot-table.ts';
import { helpText, valueText } from './metric-text.ts';
import type { Observer, ValueSeries, ValueSource } from './value-series.ts';

// The text format 0.0.4 of a scrape, written in slices of about a millisecond.

export const contentType = 'text/plain; version=0.0.4; charset=utf-8';

/** Chosen. */
const sliceChars = 64 * 1024;
/** A slice also ends after this number of series, because even hidden ones cost time. */
const sliceSeries = 1024;

export function* expositionSlices(
  families: MetricFamilies,
  source: ValueSource,
  nowMs: number,
): Generator<string> {
  let slice = '';
  let series = 0;
  for (const family of families.all()) {
    let head = headOf(family);
    for (const text of linesOf(family, source, nowMs)) {
      if (text !== '') {
        slice += head + text;
        head = '';
      }
      series += 1;
      if (slice.length < sliceChars && series < sliceSeries) continue;
      yield slice;
      slice = '';
      series = 0;
    }
  }
  yield slice;
}

function* linesOf(family: MetricFamily, source: ValueSource, nowMs: number): Generator<string> {
  for (const series of family.values.values()) yield series.line(source);
  for (const { labels, observer } of family.observers.values()) {
    let lines = '';
    for (const [suffix, own, value] of observer.samples(nowMs)) {
      const all = [labels, own].filter((text) => text !== '').join(',');
      lines += `${family.name}${suffix}${all === '' ? '' : `{${all}}`} ${valueText(value)}\n`;
    }
    yield lines;
  }
}

function headOf({ name, type, help }: MetricFamily): string {
  return `# HELP ${name} ${helpText(help)}\n# TYPE ${name} ${type}\n`;
}

// The exposed metrics by name. The first user of a name determines its type. A metric that would give the name another type, or would
// look like a part of a histogram or summary, is left out, because Prometheus would reject the whole answer.

export type MetricType = 'counter' | 'gauge' | 'histogram' | 'summary';

export interface ObserverSeries {
  readonly labels: string;
  readonly observer: Observer;
  readonly ttlMs: number;
  observedMs: number;
}

export interface MetricFamily {
  readonly name: string;
  readonly type: MetricType;
  readonly help: string;
  /** Series by the text of their labels. A family has either values or observers. */
  readonly values: Map<string, ValueSeries>;
  readonly observers: Map<string, ObserverSeries>;
}

const partSuffixes = ['_bucket', '_sum', '_count'];

export class MetricFamilies {
  readonly #families = new Map<string, MetricFamily>();
  readonly #reserved: ReadonlySet<string>;

  /** `reserved` names belong to other metrics of the same answer. */
  constructor(reserved: ReadonlySet<string> = new Set()) {
    this.#reserved = reserved;
  }

  all(): Iterable<MetricFamily> {
    return this.#families.values();
  }

  /** Returns undefined if the name is already used for something else. */
  claim(name: string, type: MetricType, help: string): MetricFamily | undefined {
    const known = this.#families.get(name);
    if (known !== undefined) return known.type === type ? known : undefined;
    if (this.#isTaken(name, type)) return undefined;
    const family: MetricFamily = { name, type, help, values: new Map(), observers: new Map() };
    this.#families.set(name, family);
    return family;
  }

  /** Drops a name without series. Not allowed while an answer is written. */
  release(family: MetricFamily): void {
    if (family.values.size === 0 && family.observers.size === 0) this.#families.delete(family.name);
  }

  #isTaken(name: string, type: MetricType): boolean {
    if (this.#reserved.has(name)) return true;
    const hasParts = type === 'histogram' || type === 'summary';
    if (hasParts && partSuffixes.some((suffix) => this.#families.has(name + suffix))) return true;
    return partSuffixes.some((suffix) => {
      const whole = name.endsWith(suffix) ? this.#families.get(name.slice(0, -suffix.length)) : undefined;
      return whole?.type === 'histogram' || whole?.type === 'summary';
    });
  }
}

// The help of metrics without a mapping: the meaning of each statistic, in line with docs/statistics.md.

const byName = new Map<string, string>(
  Object.entries({
    'ratelimit.service.global_shadow_mode': 'Requests that passed because of SHADOW_MODE.',
    'ratelimit.service.long_texts':
      'Domains, keys and values longer than REQUEST_MAX_TEXT_BYTES, which are counted by their prefix and hash.',
    'ratelimit.service.invalid_utf8_values':
      'Values that were not valid UTF-8. They are counted with the invalid bytes replaced.',
    'ratelimit.callers.refused': 'Requests rejected because of CALLERS_FILE, by caller and reason.',
    'ratelimit.callers.unknown_tokens': 'Requests with a token that belongs to no entry of CALLERS_FILE.',
    'ratelimit.callers.entries': 'Entries of CALLERS_FILE that are in force.',
    'ratelimit.callers.load_failed': '1 after CALLERS_FILE could not be loaded, until it is loaded again.',
    'ratelimit.http.tls_handshake': 'Failed TLS handshakes of the HTTP listener.',
    'ratelimit.http.tls_client_certificate':
      'Requests to /json or /v1 without the required client certificate.',
    'ratelimit.http.foreign_host': 'Requests to /json or /v1 for a host that is not in HTTP_ALLOWED_HOSTS.',
    'ratelimit.http.json_requests': 'Requests to /json, including failed ones.',
    'ratelimit.http.v1_requests': 'Requests to /v1 on the HTTP port, including failed ones.',
    'ratelimit.forward_auth.requests': 'Requests to /v1/forward-auth, by response.',
    'ratelimit.forward_auth.headers_missing': 'Requests without a header that their profile requires.',
    'ratelimit.profiles.load_success': 'Successful loads of the profiles after a change.',
    'ratelimit.profiles.load_error': 'Failed loads of the profiles.',
    'ratelimit.profiles.entries': 'Profiles that are in force.',
    'ratelimit.profiles.load_failed':
      '1 after the profiles could not be loaded, until they are loaded again.',
    'ratelimit.http.connections': 'Open connections of the HTTP, debug and Prometheus listeners.',
    'ratelimit.http.too_many_connections': 'HTTP connections that were closed to make room for new ones.',
    'ratelimit.http.too_many_bytes':
      'HTTP requests and connections that were ended because of CONNECTIONS_MAX_BYTES.',
    'ratelimit.http.too_many_pieces': 'HTTP requests whose body arrived in too many pieces.',
    'ratelimit.http.too_many_header_bytes': 'HTTP requests whose request line and headers were too long.',
    'ratelimit.connections.held_bytes':
      'Bytes buffered for incomplete requests and unread responses, out of CONNECTIONS_MAX_BYTES.',
    'ratelimit_server.http2.connections': 'Open gRPC connections.',
    'certs.load_attempts': "Loads of a listener's TLS files after a change.",
    'certs.load_failures': "Failed loads of a listener's TLS files.",
    'certs.load_failed': '1 after the TLS files could not be loaded, until they are loaded again.',
    'certs.expires_at_seconds': 'Time at which the certificate in use expires, in seconds since 1970.',
    'ratelimit.rules.info': 'Always 1; the version is a hash of the content of the rules in force.',
    'ratelimit.rules.age_seconds': 'Time since the rules came into force.',
    'ratelimit.rules.domains': 'Domains that are in force.',
    'ratelimit.rules.rules': 'Rules that are in force, at all levels.',
    'ratelimit.rules.load_failed': '1 after rules could not be loaded, until they are loaded again.',
    'ratelimit.xds.connected': '1 while a stream to the xDS server is open.',
    'ratelimit.xds.resource_bytes':
      'Size of the resources that the xDS server has sent over incremental xDS.',
    'runtime.load_attempts': 'Loads of rule files.',
    'runtime.load_failures': 'Failed loads of rule files.',
    'runtime.num_values': 'Rule files in the last successful load.',
    'ratelimit.redis_pool.cx_active': 'Open connections to Redis.',
    'ratelimit.redis_pool.cx_total': 'Connections to Redis that the limiter opened.',
    'ratelimit.redis_pool.cx_local_close': 'Connections to Redis that the limiter closed.',
    'ratelimit.redis_pool.calls_active': 'Calls to Redis in progress.',
    'ratelimit.redis_pool.calls_waiting': 'Calls that wait because REDIS_POOL_SIZE calls are in progress.',
    'ratelimit.redis_pool.calls_refused':
      'Calls that waited too long because REDIS_POOL_SIZE calls were in progress.',
    'ratelimit.redis_pool.nodes': 'Masters of the Redis Cluster.',
    'ratelimit.redis_pool.nodes_reached': 'Masters of the Redis Cluster that answer.',
    'ratelimit.limits.warned': 'Thresholds of warn_at that were reached, counted once per window and fleet.',
    'ratelimit.leases.counters': 'Counters that are watched because they may be leased.',
    'ratelimit.leases.outstanding': 'Leased hits that are not used yet.',
    'ratelimit.leases.granted': 'Hits that were leased.',
    'ratelimit.leases.spent': 'Leased hits that requests used.',
    'ratelimit.leases.returned': 'Leased hits that were returned to the store.',
    'ratelimit.leases.lost_at_most': 'Leased hits that could not be returned in time, at most.',
    'ratelimit.leases.unwatched': 'Hits of counters that were not watched because too many others were.',
    'ratelimit.refusals.kept': 'Requests over limit that are stored for weir why.',
    'ratelimit.refusals.bytes': 'Memory reserved for the records of requests over limit.',
    'ratelimit.refusals.left_out':
      'Requests over limit that were not recorded because their second had too many.',
    'ratelimit.budget.calls': 'Calls that reserve, commit or release, by result.',
    'ratelimit.budget.expired_hits': 'Hits of expired reservations that were returned to their counters.',
    'ratelimit.overrides.hits': 'Hits that an override decided, by its effect.',
    'ratelimit.overrides.in_force': 'Overrides that are in force.',
    'ratelimit.overrides.conflicted': 'Overrides that are not in force because of an older one.',
    'ratelimit.overrides.files_refused': 'Override files with errors.',
    'ratelimit.admin.changes': 'Changes that operators made.',
    'ratelimit.admin.refused': 'Requests to the admin API that were rejected.',
    'ratelimit.store.available': '1 while the store is reachable and in use, otherwise 0.',
    'ratelimit.store_breaker.open': '1 while the circuit breaker of the store is open.',
    'ratelimit.store_breaker.waiting': 'Requests that wait for the store.',
    'ratelimit.store_breaker.opened': 'How often the circuit breaker of the store opened.',
    'ratelimit.store_breaker.refused':
      'Requests that were answered without the store because its circuit breaker was open.',
    'ratelimit.store_failure_mode.local_requests':
      'Requests that were counted locally because of STORE_FAILURE_MODE=local.',
    'ratelimit.store_failure_mode.undelivered': 'Locally counted hits that never reached the store.',
    'ratelimit.store_failure_mode.owed_counters':
      'Counters with local hits that are yet to be added in the store.',
    'ratelimit.memory_store.counters': 'Counters in memory.',
    'ratelimit.memory_store.bytes': 'Memory that the counters in memory use.',
    'ratelimit.memory_store.evicted':
      'Counters in memory that were dropped before their window ended, to make room.',
    'ratelimit.memcache.multiget': 'Requests to memcached for counters, by outcome.',
    'ratelimit.memcache.increment': 'Increments in memcached, by outcome.',
    'ratelimit.memcache.add': 'New counters in memcached, by outcome.',
    'ratelimit.memcache.decrement': 'Decrements in memcached, by outcome.',
    'ratelimit.memcache.keys_requested': 'Counters that memcached was asked for.',
    'ratelimit.memcache.keys_found': 'Counters that memcached had.',
    'ratelimit.memcache.hashed_keys':
      'Counters whose keys memcached does not accept, so that the limiter asks for them by a hash.',
    'ratelimit.memcache.nodes': 'Nodes of memcached.',
    'ratelimit.memcache.nodes_down': 'Nodes of memcached that cannot be reached.',
    'ratelimit.memcache.cx_active': 'Connections to memcached.',
    'weir.build_info': 'Always 1; the version of Weir and of Node.',
    'weir.store_info': 'Always 1; the store, and the answer to requests when it fails.',
    'ratelimit.health.serving': '1 while gRPC and HTTP requests are served and the limiter is healthy.',
    'ratelimit.workers.ready': 'Worker threads that serve requests.',
    'ratelimit.workers.crashed': 'Worker threads that ended without being asked to.',
    'ratelimit.stats.detailed_metrics': 'Metric keys with values of requests that are stored.',
    'ratelimit.stats.detailed_metrics_left':
      'Metric keys with values of requests that were removed to make room for others.',
    'ratelimit.stats.detailed_metrics_refused':
      'How often hits were counted in _overflow because there was no room for their key.',
    'ratelimit.quota.streams': 'Open streams of quota clients.',
    'ratelimit.quota.buckets': 'Buckets that quota clients report.',
    'ratelimit.quota.bucket_bytes': 'Bytes of the bucket IDs of quota clients, each counted once.',
    'ratelimit.quota.hits':
      'Hits that were assigned to quota clients, used by them, denied by them, or returned.',
    'ratelimit.quota.reports': 'Reports about buckets from quota clients.',
    'ratelimit.quota.abandoned':
      'Buckets of quota clients that were abandoned because RLQS_IDLE_REPORTS reports had no requests.',
    'ratelimit.quota.unassignable': 'Buckets of quota clients whose rule cannot be assigned.',
    'ratelimit.quota.denied_buckets': 'Reports about buckets that exceeded a bound, by bound.',
    'ratelimit.quota.refused_streams': 'Streams of quota clients that were rejected or ended, by reason.',
    'ratelimit.top_offenders.domains': 'Domains that /top reports.',
    'ratelimit.top_offenders.bytes': 'Memory that the data of /top uses.',
    'ratelimit.top_offenders.dropped': 'Domains that /top dropped early because of STATS_TOP_MAX_BYTES.',
    'ratelimit.tracing.spans_sent': 'Spans that were exported.',
    'ratelimit.tracing.spans_lost': 'Spans whose export failed.',
    'ratelimit.tracing.spans_dropped':
      'Spans that were dropped because too many were waiting to be exported.',
  }),
);

/** Help of statistics with variable names. The first pattern that matches wins. */
const byPattern: readonly (readonly [RegExp, string])[] = [
  [/^ratelimit_server\.http2\./, 'gRPC connections that the limiter rejected or ended for this reason.'],
  [/^ratelimit\.health\./, '1 while this component is healthy.'],
  [/^ratelimit\.localcache\./, 'The local cache of keys that are over their limit.'],
  [/\.lines_dropped$/, 'Lines of statistics that the sink had to drop.'],
];

const ofHits = 'in the unit of its hits_unit: requests, tokens, micro-dollars or bytes';
/** Help of the statistics of rules, by the end of their name. */
const ofRules = new Map(
  Object.entries({
    domain_not_found: 'Requests for a domain that has no rules.',
    total_hits: `Hits of the rule, ${ofHits}.`,
    over_limit: `Hits of the rule above its limit, ${ofHits}.`,
    near_limit: `Hits of the rule near its limit, ${ofHits}.`,
    over_limit_with_local_cache: 'Hits above the limit that the local cache answered.',
    within_limit: `Hits of the rule within its limit, ${ofHits}.`,
    shadow_mode: 'Hits above the limit that shadow mode let pass.',
    total_negative_hits: 'Hits of the rule that were refunded with is_negative_hits.',
    passed: `Hits of the rule in requests that were answered with OK, ${ofHits}.`,
    limited: `Hits of the rule in requests that were answered with OVER_LIMIT, ${ofHits}.`,
    leased_hits: 'Hits of the rule that a lease covered.',
  }),
);

/** Returns undefined for an unknown statistic. A second instance, such as a second Redis, has the help of the first. */
export function helpOf(stat: string): string | undefined {
  if (stat.startsWith(rulePrefix)) return ofRules.get(stat.slice(stat.lastIndexOf('.') + 1));
  const name = stat
    .replace(/^http_certs\./, 'certs.')
    .replace(/^ratelimit\.redis_per_second_pool\./, 'ratelimit.redis_pool.')
    .replace(/^ratelimit\.per_second_store(_breaker)?\./, 'ratelimit.store$1.');
  return byName.get(name) ?? byPattern.find(([pattern]) => pattern.test(name))?.[1];
}
