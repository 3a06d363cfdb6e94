/** What stands between the service and a store that may fail: a breaker around each, and the answer of last resort. */
import type { Health } from '../../process/grpc/health-service.ts';
import type { Logger } from '../../process/log/logger.ts';
import { ticksAfterReading } from '../../process/time/attended-time.ts';
import type { Clock, Timers } from '../../process/time/clock.ts';
import { hitsNotDelivered, storeAskedAgain, storeNotAsked } from '../log/lines.ts';
import type { LimiterSettings } from '../settings/settings.ts';
import {
  registerBreakerStats,
  registerLocalFallbackStats,
  registerMemoryStoreStats,
} from '../stats/registry/limiter-stats.ts';
import type { StatsRegistry } from '../stats/registry/stats-registry.ts';
import { BreakerStore } from '../stores/calm/breaker-store.ts';
import { LocalFallbackStore } from '../stores/calm/local-fallback-store.ts';
import type { CounterStore } from '../stores/counter-store.ts';
import type { ResolveSrv } from '../stores/memcache/memcache-nodes.ts';
import { MemoryStore } from '../stores/memory/memory-store.ts';
import { PerSecondStore } from '../stores/per-second-store.ts';
import type { SpanMaker } from '../tracing/call-tracers.ts';
import { TracedStore } from '../tracing/traced-store.ts';
import { loaded, type OptionalParts } from './optional-parts.ts';

export interface CalmStoreParts {
  settings: LimiterSettings;
  clock: Clock;
  timers: Timers;
  random: () => number;
  registry: StatsRegistry;
  health: Health;
  log: Logger;
}

interface BreakerRole {
  /** `store`, or `per_second_store` for that of REDIS_PERSECOND. */
  name: string;
  /** The timeout of the store: no request waits longer. */
  patienceMs: number;
}

/** The store behind its own breaker. */
function withBreaker(
  parts: CalmStoreParts,
  store: CounterStore,
  { name, patienceMs }: BreakerRole,
): CounterStore {
  const { settings, clock, timers, random, registry, health, log } = parts;
  let openedMs = 0;
  const breaker = new BreakerStore({
    store,
    timers: {
      after: (delayMs, callback) => timers.after(delayMs, callback),
      every: ticksAfterReading(timers),
    },
    random,
    silenceMs: settings.storeBreakerSilenceMs,
    probeIntervalMs: settings.storeBreakerProbeIntervalMs,
    patienceMs,
    maxWaiting: settings.storeBreakerMaxWaiting,
    maxWaitingBytes: settings.storeBreakerMaxWaitingBytes,
    onChange: (open, reason = '') => {
      if (open) {
        openedMs = clock.monotonicMs();
        storeNotAsked(log, { store: name, reason, mode: settings.storeFailureMode });
      } else {
        const seconds = Math.round((clock.monotonicMs() - openedMs) / 100) / 10;
        storeAskedAgain(log, { store: name, seconds });
      }
      // As the Go service, health follows a store that was there only where that is asked for.
      if (settings.redisHealthCheckActiveConnection) health.set(`${name}_breaker`, !open);
    },
  });
  registerBreakerStats(registry, `${name}_breaker`, breaker);
  return breaker;
}

/** STORE_FAILURE_MODE=local around all stores together; the other modes are answered by the service. */
function withLocalFallback(parts: CalmStoreParts, store: CounterStore): CounterStore {
  const { settings, clock, timers, registry, log } = parts;
  if (settings.storeFailureMode !== 'local') return store;
  const { memoryStoreMaxCounters: maxCounters, memoryStoreMaxBytes: maxBytes } = settings;
  const local = new MemoryStore({ clock, maxCounters, maxBytes });
  const fallback = new LocalFallbackStore({
    store,
    local,
    clock,
    timers,
    maxOwedKeys: maxCounters,
    maxOwedBytes: maxBytes,
    onUndelivered: (undelivered) => hitsNotDelivered(log, undelivered),
  });
  registerMemoryStoreStats(registry, local);
  registerLocalFallbackStats(registry, fallback);
  return fallback;
}

/** The store that the settings name, with its statistics and its part in the process's health. */

/** Throws an Error without credentials when the store cannot be opened as the settings say. */
export function openStore(parts: StoreParts): OpenedStore {
  if (parts.settings.backendType === 'memory') return openMemoryStore(parts);
  // A node that is away is passed over at once, so no breaker has anything to do.
  if (parts.settings.backendType === 'memcache') return openTracedMemcache(parts);
  const { redisPerSecond, redisTimeoutMs, redisPerSecondTimeoutMs } = parts.settings;
  const redis = loaded(parts.optional.redis, 'the Redis client');
  const main = calm(parts, { name: 'store', patienceMs: redisTimeoutMs }, redis.openMainRedis(parts));
  const opened = redisPerSecond
    ? besidePerSecond(
        main,
        calm(
          parts,
          { name: 'per_second_store', patienceMs: redisPerSecondTimeoutMs },
          redis.openPerSecondRedis(parts),
        ),
      )
    : main;
  return { ...opened, store: withLocalFallback(parts, opened.store) };
}

function openTracedMemcache(parts: StoreParts): OpenedStore {
  const memcache = loaded(parts.optional.memcache, 'the memcache client');
  const opened = traced(parts, 'store', memcache.openMemcache(parts));
  return { ...opened, store: withLocalFallback(parts, opened.store) };
}

function calm(parts: StoreParts, role: BreakerRole, opened: OpenedStore): OpenedStore {
  const { store, connect } = traced(parts, role.name, opened);
  return { store: withBreaker(parts, store, role), connect };
}

/** Inside the breaker, so that what it answers itself is no work of the store. */
function traced(parts: StoreParts, name: string, opened: OpenedStore): OpenedStore {
  const { settings, spanMaker } = parts;
  if (spanMaker === undefined) return opened;
  const isRedis = settings.backendType === 'redis';
  const store = new TracedStore({
    store: opened.store,
    // The Go service's names.
    spanName: isRedis ? 'Redis Pipeline Execution' : 'Memcached Fetch Execution',
    attributes: { 'db.system.name': isRedis ? 'redis' : 'memcached', 'weir.store': name },
    maker: spanMaker,
  });
  return { ...opened, store };
}

/** Connects to that of limits per second first, as the Go service does. */
function besidePerSecond(main: OpenedStore, perSecond: OpenedStore): OpenedStore {
  return {
    store: new PerSecondStore({ main: main.store, perSecond: perSecond.store }),
    connect: async () => {
      await perSecond.connect();
      await main.connect();
    },
  };
}

function openMemoryStore({ settings, clock, registry }: StoreParts): OpenedStore {
  const store = new MemoryStore({
    clock,
    maxCounters: settings.memoryStoreMaxCounters,
    maxBytes: settings.memoryStoreMaxBytes,
  });
  registerMemoryStoreStats(registry, store);
  return { store, connect: () => store.ping() };
}

/** What it takes to open a store. */
export interface StoreParts {
  settings: LimiterSettings;
  clock: Clock;
  timers: Timers;
  random: () => number;
  registry: StatsRegistry;
  health: Health;
  log: Logger;
  /** Makes the spans of what the store does. Undefined where tracing is off. */
  spanMaker?: (() => SpanMaker | undefined) | undefined;
  optional: Pick<OptionalParts, 'redis' | 'memcache'>;
  /** Of MEMCACHE_SRV. Defaults to the system's. */
  resolveSrv?: ResolveSrv | undefined;
}

export interface OpenedStore {
  store: CounterStore;
  /** Waits for the first answer of the store, for as long as it takes. */
  connect(): Promise<void>;
}
