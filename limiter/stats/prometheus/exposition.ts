import { rulePrefix } from '../registry/slot-table.ts';
import { helpText, valueText } from './metric-text.ts';
import type { Observer, ValueSeries, ValueSource } from './value-series.ts';

// The text that is scraped, format 0.0.4, in slices of about a millisecond.

export const contentType = 'text/plain; version=0.0.4; charset=utf-8';

/** Chosen. */
const sliceChars = 64 * 1024;
/** Series that show nothing cost time, too. */
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

// The metrics that are served, by name. A name has one type, no matter who comes first: what would give it another one, or
// would look like a part of a histogram or summary, is left out, as Prometheus would refuse the whole answer.

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
  /** By the text of their labels. A family has one of the two. */
  readonly values: Map<string, ValueSeries>;
  readonly observers: Map<string, ObserverSeries>;
}

const partSuffixes = ['_bucket', '_sum', '_count'];

export class MetricFamilies {
  readonly #families = new Map<string, MetricFamily>();
  readonly #reserved: ReadonlySet<string>;

  /** `reserved` names are served by somebody else. */
  constructor(reserved: ReadonlySet<string> = new Set()) {
    this.#reserved = reserved;
  }

  all(): Iterable<MetricFamily> {
    return this.#families.values();
  }

  /** Undefined where the name is taken for something else. */
  claim(name: string, type: MetricType, help: string): MetricFamily | undefined {
    const known = this.#families.get(name);
    if (known !== undefined) return known.type === type ? known : undefined;
    if (this.#isTaken(name, type)) return undefined;
    const family: MetricFamily = { name, type, help, values: new Map(), observers: new Map() };
    this.#families.set(name, family);
    return family;
  }

  /** Forgets a name that nothing is served under any more. Not while an answer is written. */
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

// What the help of a metric says that no mapping names: the meaning of its statistic, as docs/statistics.md has it.

const byName = new Map<string, string>(
  Object.entries({
    'ratelimit.service.global_shadow_mode': 'Requests that passed by SHADOW_MODE.',
    'ratelimit.service.long_texts':
      'Domains, keys and values beyond REQUEST_MAX_TEXT_BYTES, counted by beginning and hash.',
    'ratelimit.service.mended_values': 'Values that were no UTF-8, counted with their bad bytes replaced.',
    'ratelimit.callers.refused': 'Requests that CALLERS_FILE did not let in, by caller and reason.',
    'ratelimit.callers.unknown_tokens': 'Tokens that were shown to CALLERS_FILE and are nobody’s.',
    'ratelimit.callers.entries': 'Entries of CALLERS_FILE in force.',
    'ratelimit.callers.load_failed': '1 from a reading of CALLERS_FILE that failed until the next good one.',
    'ratelimit.http.tls_handshake': 'TLS handshakes of the HTTP listener that failed.',
    'ratelimit.http.tls_client_certificate':
      'Requests of /json or /v1 without the client certificate they need.',
    'ratelimit.http.foreign_host':
      'Requests of /json or /v1 for a host that HTTP_ALLOWED_HOSTS does not name.',
    'ratelimit.http.json_requests': 'Requests of /json, failed ones too.',
    'ratelimit.http.v1_requests': 'Requests of /v1 on the HTTP port, failed ones too.',
    'ratelimit.forward_auth.requests': 'Requests of /v1/forward-auth, by what was answered.',
    'ratelimit.forward_auth.headers_missing': 'Requests without a header that their profile needs.',
    'ratelimit.profiles.load_success': 'Readings of the profiles after a change.',
    'ratelimit.profiles.load_error': 'Readings of the profiles that failed.',
    'ratelimit.profiles.entries': 'Profiles in force.',
    'ratelimit.profiles.load_failed': '1 from a reading of the profiles that failed until the next good one.',
    'ratelimit.http.connections': 'Open connections of the HTTP, debug and Prometheus listeners.',
    'ratelimit.http.too_many_connections': 'HTTP connections that were closed for a further one.',
    'ratelimit.http.too_many_bytes': 'HTTP requests and connections ended at CONNECTIONS_MAX_BYTES.',
    'ratelimit.http.too_many_pieces': 'Requests over HTTP whose body came in too many pieces.',
    'ratelimit.http.too_many_header_bytes': 'Requests over HTTP whose line and headers were too long.',
    'ratelimit.connections.held_bytes':
      'What connections hold for what their callers have not done yet, of CONNECTIONS_MAX_BYTES.',
    'ratelimit_server.http2.connections': 'Open gRPC connections.',
    'certs.load_attempts': "Readings of a listener's TLS files after a change.",
    'certs.load_failures': "Readings of a listener's TLS files that failed.",
    'certs.load_failed': '1 from a reading of the TLS files that failed until the next good one.',
    'certs.expires_at_seconds': 'When the certificate in use expires, in seconds since 1970.',
    'ratelimit.rules.info': 'Always 1; the version is a hash of the content of the rules in force.',
    'ratelimit.rules.age_seconds': 'Time since the rules came into force.',
    'ratelimit.rules.domains': 'Domains in force.',
    'ratelimit.rules.rules': 'Rules in force, of all levels.',
    'ratelimit.rules.load_failed': '1 from a load of rules that failed until the next good one.',
    'ratelimit.xds.connected': '1 while a stream to the xDS server is open.',
    'ratelimit.xds.resource_bytes': 'Size of the resources that the xDS server has sent by incremental xDS.',
    'runtime.load_attempts': 'Readings of rule files.',
    'runtime.load_failures': 'Readings of rule files that failed.',
    'runtime.num_values': 'Rule files of the last good reading.',
    'ratelimit.redis_pool.cx_active': 'Connections to Redis.',
    'ratelimit.redis_pool.cx_total': 'Connections to Redis that were made.',
    'ratelimit.redis_pool.cx_local_close': 'Connections to Redis that were closed from here.',
    'ratelimit.redis_pool.calls_active': 'Calls to Redis under way.',
    'ratelimit.redis_pool.calls_waiting': 'Calls that wait for a place of REDIS_POOL_SIZE.',
    'ratelimit.redis_pool.calls_refused': 'Calls that found no place of REDIS_POOL_SIZE in time.',
    'ratelimit.redis_pool.nodes': 'Masters of the Redis Cluster.',
    'ratelimit.redis_pool.nodes_reached': 'Masters of the Redis Cluster that answer.',
    'ratelimit.limits.warned': 'Marks of warn_at that limits reached, each once a window in the whole fleet.',
    'ratelimit.leases.counters': 'Counters whose use is watched for leases.',
    'ratelimit.leases.outstanding': 'Hits taken ahead and not spent.',
    'ratelimit.leases.granted': 'Hits taken ahead.',
    'ratelimit.leases.spent': 'Hits taken ahead that answered somebody.',
    'ratelimit.leases.returned': 'Hits taken ahead that were given back.',
    'ratelimit.leases.lost_at_most': 'Hits taken ahead that could not be given back in time.',
    'ratelimit.leases.unwatched': 'Hits of counters that were not watched for want of room.',
    'ratelimit.refusals.kept': 'Rows of refusals that are remembered.',
    'ratelimit.refusals.bytes': 'Memory set aside for refusals.',
    'ratelimit.refusals.left_out': 'Refusals that got no row, as their second had too many.',
    'ratelimit.budget.calls': 'Calls that reserve or settle, by what came of them.',
    'ratelimit.budget.expired_hits': 'What calls of budgets gave back of reservations that nobody settled.',
    'ratelimit.overrides.hits': 'Hits that an override decided over, by its effect.',
    'ratelimit.overrides.in_force': 'Overrides in force.',
    'ratelimit.overrides.conflicted': 'Overrides that give way to older ones.',
    'ratelimit.overrides.files_refused': 'Files of overrides that are wrong.',
    'ratelimit.admin.changes': 'Changes that operators made.',
    'ratelimit.admin.refused': 'Requests of the admin API that were refused.',
    'ratelimit.store.available': '1 while the store is reached and asked, 0 while it is not.',
    'ratelimit.store_breaker.open': '1 while the store is not asked as it failed.',
    'ratelimit.store_breaker.waiting': 'Requests that wait for the store.',
    'ratelimit.store_breaker.opened': 'How often the store was not asked any more.',
    'ratelimit.store_breaker.refused': 'Requests answered without the store.',
    'ratelimit.store_failure_mode.local_requests': 'Requests counted here by STORE_FAILURE_MODE=local.',
    'ratelimit.store_failure_mode.undelivered': 'Hits counted here that never reached the store.',
    'ratelimit.store_failure_mode.owed_counters': 'Counters that the store is still to be reported.',
    'ratelimit.memory_store.counters': 'Counters in memory.',
    'ratelimit.memory_store.bytes': 'What the counters in memory occupy.',
    'ratelimit.memory_store.evicted': 'Counters dropped early for want of room.',
    'ratelimit.memcache.multiget': 'Requests to memcache for counters, by outcome.',
    'ratelimit.memcache.increment': 'Increments in memcache, by outcome.',
    'ratelimit.memcache.add': 'New counters in memcache, by outcome.',
    'ratelimit.memcache.decrement': 'Decrements in memcache, by outcome.',
    'ratelimit.memcache.keys_requested': 'Counters that memcache was asked for.',
    'ratelimit.memcache.keys_found': 'Counters that memcache had.',
    'ratelimit.memcache.hashed_keys':
      'Counters whose keys memcache does not take as they are, asked for by a hash.',
    'ratelimit.memcache.nodes': 'Nodes of memcache.',
    'ratelimit.memcache.nodes_down': 'Nodes of memcache that are out of reach.',
    'ratelimit.memcache.cx_active': 'Connections to memcache.',
    'weir.build_info': 'Always 1; the version of Weir and of Node.',
    'weir.store_info': 'Always 1; where counters are, and what requests get when that fails.',
    'ratelimit.health.serving': '1 while gRPC and HTTP are answered and health is good.',
    'ratelimit.workers.ready': 'Worker threads that answer callers.',
    'ratelimit.workers.crashed': 'Worker threads that ended without being asked to.',
    'ratelimit.stats.detailed_metrics': 'Metric keys made of values of requests that are kept.',
    'ratelimit.stats.detailed_metrics_left': 'Metric keys made of values that left for others.',
    'ratelimit.stats.detailed_metrics_refused': 'How often hits were counted in _overflow for want of room.',
    'ratelimit.quota.streams': 'Open streams of quota clients.',
    'ratelimit.quota.buckets': 'Buckets that quota clients report.',
    'ratelimit.quota.bucket_bytes': 'Bytes of the bucket IDs of quota clients, each counted once.',
    'ratelimit.quota.hits': 'Hits that were assigned to quota clients, used or denied by them, or returned.',
    'ratelimit.quota.reports': 'Reports of buckets by quota clients.',
    'ratelimit.quota.abandoned': 'Buckets of quota clients that were idle for RLQS_IDLE_REPORTS.',
    'ratelimit.quota.unassignable': 'Buckets of quota clients whose rule cannot be assigned.',
    'ratelimit.quota.denied_buckets': 'Reports of buckets beyond a bound, by the bound.',
    'ratelimit.quota.refused_streams': 'Streams of quota clients that were rejected or ended, by the reason.',
    'ratelimit.top_offenders.domains': 'Domains that /top reports.',
    'ratelimit.top_offenders.bytes': 'Memory of what /top reports.',
    'ratelimit.top_offenders.dropped': 'Domains that /top forgot early for STATS_TOP_MAX_BYTES.',
    'ratelimit.tracing.spans_sent': 'Spans that were exported.',
    'ratelimit.tracing.spans_lost': 'Spans whose export failed.',
    'ratelimit.tracing.spans_dropped': 'Spans that found no room among those that wait for their export.',
  }),
);

/** What differs in the name. The first one that is found counts. */
const byPattern: readonly (readonly [RegExp, string])[] = [
  [
    /^ratelimit_server\.http2\./,
    "gRPC connections refused, or ended against the peer's will, for this reason.",
  ],
  [/^ratelimit\.health\./, '1 while this component of health is well.'],
  [/^ratelimit\.localcache\./, 'The local cache of keys over their limit.'],
  [/\.lines_dropped$/, 'Lines of statistics that the sink could not keep.'],
];

const ofHits = 'in what its hits_unit says: requests, tokens, micro-dollars or bytes';
/** What rules have, by the end of the name. */
const ofRules = new Map(
  Object.entries({
    domain_not_found: 'Requests for a domain without rules.',
    total_hits: `Hits of the rule, ${ofHits}.`,
    over_limit: `Hits of the rule above its limit, ${ofHits}.`,
    near_limit: `Hits of the rule near its limit, ${ofHits}.`,
    over_limit_with_local_cache: 'Hits above the limit for which the store was not asked.',
    within_limit: `Hits of the rule within its limit, ${ofHits}.`,
    shadow_mode: 'Hits above the limit that shadow mode let pass.',
    total_negative_hits: 'Hits of the rule that were taken back by is_negative_hits.',
    passed: `Hits of the rule in requests that were answered with OK, ${ofHits}.`,
    limited: `Hits of the rule in requests that were answered with OVER_LIMIT, ${ofHits}.`,
    leased_hits: 'Hits of the rule that a lease covered.',
  }),
);

/** Undefined for a statistic that is not known. What there is two of has the help of the first. */
export function helpOf(stat: string): string | undefined {
  if (stat.startsWith(rulePrefix)) return ofRules.get(stat.slice(stat.lastIndexOf('.') + 1));
  const name = stat
    .replace(/^http_certs\./, 'certs.')
    .replace(/^ratelimit\.redis_per_second_pool\./, 'ratelimit.redis_pool.')
    .replace(/^ratelimit\.per_second_store(_breaker)?\./, 'ratelimit.store$1.');
  return byName.get(name) ?? byPattern.find(([pattern]) => pattern.test(name))?.[1];
}
