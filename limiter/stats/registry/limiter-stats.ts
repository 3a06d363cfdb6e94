/** The statistics of the whole service by name. For those of rules see `rule-stats.ts`. */
import type { Health } from '../../../process/grpc/health.ts';
import type { Clock } from '../../../process/time/clock.ts';
import type { OverrideEffect } from '../../../rules/override.ts';
import type { StatsRegistry } from './stats-registry.ts';
import type { Tags } from './tags.ts';

const sizeBounds = [
  'REQUEST_MAX_DESCRIPTORS',
  'REQUEST_MAX_ENTRIES',
  'REQUEST_MAX_BYTES',
  'HTTP_MAX_BODY_BYTES',
] as const;

const overrideEffects: readonly OverrideEffect['kind'][] = ['limit', 'unlimited', 'shadow', 'block', 'grant'];

export type LimiterStats = ReturnType<typeof createLimiterStats>;

/** Creates the counters at once, so that they appear as 0 before anything happens. */
export function createLimiterStats(registry: StatsRegistry) {
  return {
    serviceError: registry.counting('ratelimit.service.call.should_rate_limit.service_error'),
    storeError: registry.counting('ratelimit.service.call.should_rate_limit.redis_error'),
    /** Called when STORE_FAILURE_MODE allow or deny answered a request. */
    uncounted: registry.counting('ratelimit.service.call.should_rate_limit.store_failure_mode'),
    /** Called when a caller canceled before its request was sent to the store. */
    abandoned: registry.counting('ratelimit.service.call.should_rate_limit.abandoned'),
    /** Called when a request exceeded a bound, with the setting of the bound. */
    tooLarge: registry.countingBy('ratelimit.service.call.should_rate_limit.too_large', 'bound', sizeBounds),
    /** Called with the number of texts that were counted by their beginnings and hashes. */
    longTexts: registry.counting('ratelimit.service.long_texts'),
    /** Called with the number of values that were not valid UTF-8. */
    invalidUtf8Values: registry.counting('ratelimit.service.invalid_utf8_values'),
    globalShadowMode: registry.counting('ratelimit.service.global_shadow_mode'),
    /** Called with the effect of an override, and the hits that it decided. */
    overridden: registry.countingBy('ratelimit.overrides.hits', 'effect', overrideEffects),
    configLoadSuccess: registry.counting('ratelimit.service.config_load_success'),
    configLoadError: registry.counting('ratelimit.service.config_load_error'),
  };
}

/** Chosen: the limits and marks that are counted separately during the life of a process, however rules change. */
const maxWarned = 4_000;

/** `ratelimit.limits.warned`: returns a function to call once for each mark and window. */
export function createWarningStats(
  registry: StatsRegistry,
): (warned: { rule: string; policy: string; mark: number }) => void {
  const slots = new Map<string, number>();
  const slotOf = (rule: string, limit: string, mark: number): number =>
    registry.counter('ratelimit.limits.warned', [
      ['limit', limit],
      ['mark', String(mark)],
      ['rule', rule],
    ]);
  return ({ rule, policy, mark }) => {
    const name = JSON.stringify([rule, policy, mark]);
    let slot = slots.get(name);
    if (slot === undefined) {
      const isOther = slots.size >= maxWarned;
      slot = isOther ? slotOf('other', 'other', mark) : slotOf(rule, policy, mark);
      if (!isOther) slots.set(name, slot);
    }
    registry.add(slot, 1);
  };
}

/** `outcomes`: the possible outcomes of each call, all of which appear from the start. */
export function createBudgetStats(
  registry: StatsRegistry,
  outcomes: Readonly<Record<string, readonly string[]>>,
) {
  const calls = new Map(
    Object.entries(outcomes).map(([call, all]) => [
      call,
      registry.countingBy('ratelimit.budget.calls', 'outcome', all, [['call', call]]),
    ]),
  );
  return {
    called: (call: string, outcome: string) => calls.get(call)!(outcome),
    /** Called with the amount that was returned from reservations that expired. */
    expired: registry.counting('ratelimit.budget.expired_hits'),
  };
}

/** Loads of rule files. `numValues` returns the number of values in the last successful reading. */
export function createRuntimeStats(registry: StatsRegistry, numValues: () => number) {
  registry.gauge('runtime.num_values', numValues);
  return {
    /** Called for each attempt to read them, regardless of the result. */
    loadAttempt: registry.counting('runtime.load_attempts'),
    /** Called when they could not be read. */
    loadFailure: registry.counting('runtime.load_failures'),
  };
}

/**
 * Returns a function to call when a connection or handshake is rejected, or a connection is ended by the server: for gRPC callers
 * (`ratelimit_server.http2`) or any HTTP listener. Every reason appears from the start, and with `open` also the number of connections.
 */
export function createRejectionStats<Reason extends string>(
  registry: StatsRegistry,
  prefix: 'ratelimit_server.http2' | 'ratelimit.http',
  reasons: readonly Reason[],
  open?: () => number,
): (reason: Reason) => void {
  // Every thread may have HTTP listeners.
  if (open !== undefined && prefix === 'ratelimit.http') registry.gaugePart(`${prefix}.connections`, open);
  else if (open !== undefined) registry.gauge(`${prefix}.connections`, open);
  const slots = new Map(reasons.map((reason) => [reason, registry.counter(`${prefix}.${reason}`)]));
  return (reason) => registry.add(slots.get(reason) as number, 1);
}

/** The memory that connections of all listeners hold until their peers act. */
export function registerConnectionMemoryStats(
  registry: StatsRegistry,
  connectionMemory: { readonly bytes: number },
): void {
  registry.gaugePart('ratelimit.connections.held_bytes', () => connectionMemory.bytes);
}

/** Returns a function to call for every request of a path, regardless of its result. */
export function createHttpStats(
  registry: StatsRegistry,
): Record<'onJsonRequest' | 'onApiRequest', () => void> {
  return {
    onJsonRequest: registry.counting('ratelimit.http.json_requests'),
    onApiRequest: registry.counting('ratelimit.http.v1_requests'),
  };
}

/**
 * Changes of the TLS files of the gRPC listener (`certs`) or the HTTP listener (`http_certs`), and the expiry of its certificate in
 * seconds since 1970.
 */
export function createCertificateStats(
  registry: StatsRegistry,
  prefix: 'certs' | 'http_certs',
  inUse: { expiresAtSeconds(): number; wasLastRejected(): boolean },
): { loaded(): void; failed(): void } {
  registry.gauge(`${prefix}.expires_at_seconds`, () => inUse.expiresAtSeconds());
  registry.gauge(`${prefix}.load_failed`, () => (inUse.wasLastRejected() ? 1 : 0));
  const attempt = registry.counting(`${prefix}.load_attempts`);
  const failure = registry.counting(`${prefix}.load_failures`);
  return {
    loaded: attempt,
    failed: () => {
      attempt();
      failure();
    },
  };
}

/** Connections of a store, as the store reports them. */
export interface PoolFigures {
  readonly active: number;
  readonly total: number;
  readonly localClose: number;
}

/** Calls of a store: those in flight, those that wait, and those that waited too long. */
export interface CallFigures {
  readonly active: number;
  readonly waiting: number;
  readonly rejected: number;
}

/** `pool` is `redis_pool`, later also `redis_per_second_pool`. */
export function registerPoolStats(
  registry: StatsRegistry,
  pool: string,
  { connections, calls }: { connections: PoolFigures; calls: CallFigures },
): void {
  registry.gauge(`ratelimit.${pool}.cx_active`, () => connections.active);
  registry.counterFrom(`ratelimit.${pool}.cx_total`, () => connections.total);
  registry.counterFrom(`ratelimit.${pool}.cx_local_close`, () => connections.localClose);
  registry.gauge(`ratelimit.${pool}.calls_active`, () => calls.active);
  registry.gauge(`ratelimit.${pool}.calls_waiting`, () => calls.waiting);
  registry.counterFrom(`ratelimit.${pool}.calls_refused`, () => calls.rejected);
}

/** Masters of a cluster: those that are known, and those that answer. */
export function registerNodeStats(
  registry: StatsRegistry,
  pool: string,
  figures: () => { known: number; reached: number },
): void {
  registry.gauge(`ratelimit.${pool}.nodes`, () => figures().known, 'max');
  registry.gauge(`ratelimit.${pool}.nodes_reached`, () => figures().reached, 'min');
}

const localCacheGauges = [
  'evacuateCount',
  'expiredCount',
  'entryCount',
  'averageAccessTime',
  'hitCount',
  'missCount',
  'lookupCount',
  'overwriteCount',
] as const;

/** Figures of the local cache of over-limit keys, by the names of their gauges. */
export type LocalCacheFigures = { readonly [name in (typeof localCacheGauges)[number]]: number };

export function registerLocalCacheStats(registry: StatsRegistry, figures: LocalCacheFigures): void {
  for (const name of localCacheGauges) {
    const join = name === 'averageAccessTime' ? 'max' : 'sum';
    registry.gauge(`ratelimit.localcache.${name}`, () => figures[name], join);
  }
}

/** The number of counters in the memory store, their bytes, and how many were dropped early for lack of room. */
export function registerMemoryStoreStats(
  registry: StatsRegistry,
  store: { readonly size: number; readonly bytes: number; readonly evicted: number },
): void {
  registry.gauge('ratelimit.memory_store.counters', () => store.size);
  registry.gauge('ratelimit.memory_store.bytes', () => store.bytes);
  registry.counterFrom('ratelimit.memory_store.evicted', () => store.evicted);
}

/** Whether a store is asked, and the state of the breaker around it; `name` is `store`, or `per_second_store`. */
export function registerBreakerStats(
  registry: StatsRegistry,
  name: string,
  store: {
    readonly phase: string;
    /** Whether it can reach a server. It may be false although no request has failed since. */
    readonly connected: boolean;
    readonly waiting: number;
    readonly opened: number;
    readonly rejected: number;
  },
): void {
  const breaker = `${name}_breaker`;
  registry.gauge(
    `ratelimit.${name}.available`,
    () => (store.phase === 'closed' && store.connected ? 1 : 0),
    'min',
  );
  registry.gauge(`ratelimit.${breaker}.open`, () => (store.phase === 'closed' ? 0 : 1), 'max');
  registry.gauge(`ratelimit.${breaker}.waiting`, () => store.waiting);
  registry.counterFrom(`ratelimit.${breaker}.opened`, () => store.opened);
  registry.counterFrom(`ratelimit.${breaker}.refused`, () => store.rejected);
}

/** Hits that STORE_FAILURE_MODE=local counted in memory, and those that the store does not have. */
export function registerLocalFallbackStats(
  registry: StatsRegistry,
  store: { readonly countedLocally: number; readonly owedCounters: number; readonly undelivered: number },
): void {
  registry.counterFrom('ratelimit.store_failure_mode.local_requests', () => store.countedLocally);
  registry.gauge('ratelimit.store_failure_mode.owed_counters', () => store.owedCounters);
  registry.counterFrom('ratelimit.store_failure_mode.undelivered', () => store.undelivered);
}

/** Worker threads of LIMITER_WORKERS: the number that serves callers, and how often a thread ended unexpectedly. */
export function createWorkerStats(registry: StatsRegistry, ready: () => number): { crashed(): void } {
  registry.gauge('ratelimit.workers.ready', ready);
  return { crashed: registry.counting('ratelimit.workers.crashed') };
}

/** The program, and metrics whose names contain values of requests. */
export function registerProcessStats(
  registry: StatsRegistry,
  program: { version: string; node: string; backend: string; failureMode: string },
): void {
  registry.info('weir.build_info', [
    ['version', program.version],
    ['node', program.node],
  ]);
  registry.info('weir.store_info', [
    ['backend', program.backend],
    ['failure_mode', program.failureMode],
  ]);
  const { detailed } = registry;
  registry.gauge('ratelimit.stats.detailed_metrics', () => detailed.size);
  registry.counterFrom('ratelimit.stats.detailed_metrics_left', () => detailed.left);
  registerRejectedMetrics(registry);
}

/** Registered in worker threads, too, whose counts are added to those of the process. */
export function registerRejectedMetrics(registry: StatsRegistry): void {
  registry.onRejected(registry.counting('ratelimit.stats.detailed_metrics_refused'));
}

/** The rules in force, and whether newer ones were rejected. Returns a function to call when other rules are in force. */
export function createRulesStats(
  registry: StatsRegistry,
  clock: Clock,
  lastLoadFailed: () => boolean,
): (rules: { version: string; domains: number; rules: number }) => void {
  let inForce = { domains: 0, rules: 0, sinceMs: 0 };
  let setVersion: ((tags: Tags) => void) | undefined;
  registry.gauge('ratelimit.rules.domains', () => inForce.domains);
  registry.gauge('ratelimit.rules.rules', () => inForce.rules);
  registry.gauge('ratelimit.rules.load_failed', () => (lastLoadFailed() ? 1 : 0));
  return ({ version, domains, rules }) => {
    if (setVersion === undefined) {
      setVersion = registry.info('ratelimit.rules.info', [['version', version]]);
      registry.gauge('ratelimit.rules.age_seconds', () =>
        Math.floor((clock.monotonicMs() - inForce.sinceMs) / 1000),
      );
    } else {
      setVersion([['version', version]]);
    }
    inForce = { domains, rules, sinceMs: clock.monotonicMs() };
  };
}

/** Whether a stream to the xDS server is open, and the size of the received resources. */
export function registerXdsStats(
  registry: StatsRegistry,
  figures: { readonly connected: boolean; readonly resourceBytes: number },
): void {
  registry.gauge('ratelimit.xds.connected', () => (figures.connected ? 1 : 0));
  registry.gauge('ratelimit.xds.resource_bytes', () => figures.resourceBytes);
}

/** Lines that a sink could not deliver. `sink` is `statsd`, `dogstatsd` or `output`. */
export function registerSinkStats(
  registry: StatsRegistry,
  sink: string,
  figures: { readonly linesDropped: number },
): void {
  registry.counterFrom(`ratelimit.${sink}.lines_dropped`, () => figures.linesDropped);
}

// Whether callers are served, and which component prevents it, as gauges of every sink.

/** `isOpen`: whether the listeners for callers are open. A component appears when it is first set. */
export function registerHealthStats(
  registry: StatsRegistry,
  health: Pick<Health, 'healthy' | 'isWell' | 'onComponent'>,
  isOpen: () => boolean,
): void {
  const prefix = 'ratelimit.health';
  registry.gauge(`${prefix}.serving`, () => (isOpen() && health.healthy ? 1 : 0));
  health.onComponent((component) => {
    registry.gauge(`${prefix}.${component}`, () => (health.isWell(component) ? 1 : 0));
  });
}
