/**
 * The store that the settings name, and the decorators before it. A request passes them in this order, each where it is set:
 *
 * 1. `LocalFallbackStore` counts in memory what the store could not count (STORE_FAILURE_MODE).
 * 2. `ReservingStore` bounds owners of reservations, and gives back what expired before hits are refused.
 * 3. `LeaseStore` answers hits that a lease covers. It is outside of the breaker, so that leases are spent while Redis is away.
 * 4. `PerSecondStore` divides a request between two Redis (REDIS_PERSECOND); each has the rest for itself.
 * 5. `BreakerStore` answers at once while the store does not.
 * 6. `TracedStore` makes spans. It is inside of the breaker, so that what the breaker answers is no work of the store.
 * 7. `RedisStore`, `RedisClusterStore`, `MemcacheStore` (with 1 and 6 alone) or `MemoryStore` (with 2 alone) counts.
 */
import { randomBytes } from 'node:crypto';
import type { Logger } from '../../process/log/logger.ts';
import { ticksAfterReading } from '../../process/time/clock.ts';
import type { FlushTurn } from '../../process/time/loop-turns.ts';
import type { LimitPlan } from '../decide/limit-plan.ts';
import { lengthOf } from '../decide/windows.ts';
import {
  clientTlsRefused,
  hitsNotDelivered,
  storeAskedAgain,
  storeNotAsked,
  storeStillNotAsked,
} from '../log/lines.ts';
import { reservationBounds, usualLease } from '../settings/counting-settings.ts';
import type { LimiterSettings } from '../settings/settings.ts';
import { storeLimits } from '../settings/store-limits.ts';
import {
  registerBreakerStats,
  registerLeaseStats,
  registerLocalFallbackStats,
  registerMemoryStoreStats,
} from '../stats/registry/limiter-stats.ts';
import { BreakerStore } from '../stores/calm/breaker-store.ts';
import { LocalFallbackStore } from '../stores/calm/local-fallback-store.ts';
import { ClientTls } from '../stores/client-tls.ts';
import { LeaseStore } from '../stores/leases/lease-store.ts';
import type { ResolveSrv } from '../stores/memcache/memcache-nodes.ts';
import { MemoryStore } from '../stores/memory/memory-store.ts';
import type { Operation } from '../stores/operation.ts';
import { PerSecondStore } from '../stores/per-second-store.ts';
import { needsScripts } from '../stores/redis/bounded-steps.ts';
import { OwnerBounds } from '../stores/reservations/owner-bounds.ts';
import { ReservingStore } from '../stores/reservations/reserving-store.ts';
import type { ReservationBounds, Store } from '../stores/store.ts';
import type { SpanMaker } from '../tracing/call-tracers.ts';
import { TracedStore } from '../tracing/traced-store.ts';
import { type LimiterContext, loaded, type OpenedStore, type ServingModules } from './context.ts';

interface StoreParts {
  modules: ServingModules;
  /** Of MEMCACHE_SRV. Defaults to the system's. */
  resolveSrv: ResolveSrv | undefined;
  flushTurn: FlushTurn;
  /** Makes the spans of what the store does. Undefined where tracing is off. */
  spanMaker: (() => SpanMaker | undefined) | undefined;
}

/** `health` of the context has a part for the store. Throws an Error without credentials when it cannot be opened as the settings say. */
export function openStore(
  context: LimiterContext,
  { modules, resolveSrv, flushTurn, spanMaker }: StoreParts,
): OpenedStore {
  const { settings } = context;
  if (settings.backendType === 'memory') {
    const store = newMemoryStore(context, reservationBounds(settings));
    const connect = () => store.ping();
    return { store: reserving(context, store, (stem) => store.knows(stem)), connect, memory: store };
  }
  const traced = (name: string, opened: OpenedStore): OpenedStore =>
    spanMaker === undefined
      ? opened
      : { ...opened, store: tracedStore(settings, name, opened.store, spanMaker) };
  if (settings.backendType === 'memcache') {
    // A node that is away is passed over at once, so no breaker has anything to do.
    const memcache = loaded(modules.memcache, 'the memcache client');
    return withLocalFallback(context, traced('store', memcache.openMemcache(context, resolveSrv)));
  }
  const redis = loaded(modules.redis, 'the Redis client');
  let leases: LeaseStore | undefined;
  const parts = { flushTurn, stopLeases: () => leases?.stop() };
  const guarded = (name: 'store' | 'per_second_store', patienceMs: number): OpenedStore =>
    withBreaker(context, { name, patienceMs }, traced(name, redis.openRedis(context, name, parts)));
  let opened = guarded('store', settings.redisTimeoutMs);
  if (settings.redisPerSecond)
    opened = besides(opened, guarded('per_second_store', settings.redisPerSecondTimeoutMs));
  if (usualLease(settings) !== undefined) {
    const own = newLeaseStore(context, opened.store);
    leases = own;
    opened = {
      ...opened,
      store: own,
      endLeases: () => own.endAll(),
      forget: (keys) => (keys === undefined ? own.endAll() : own.cancel(keys)),
    };
  }
  if (storeLimits(settings).reservations === undefined)
    opened = { ...opened, store: reserving(context, opened.store) };
  return withLocalFallback(context, opened);
}

/**
 * Bounds what one domain or one caller may have reserved, and gives back what has expired before hits are refused. `knows`: whether
 * anything is reserved, where that is known here; else the store says with its answers whether anything has expired.
 */
function reserving(
  { settings, clock }: LimiterContext,
  store: Store,
  knows?: (stem: string) => boolean,
): ReservingStore {
  const bounds = new OwnerBounds({
    ...{ share: store.notes?.share, clock, recordMs: settings.budgetRecordTtlMs },
    maxOfDomain: settings.budgetMaxDomainReservations,
    maxOfCaller: settings.budgetMaxCallerReservations,
  });
  const ruleOf = ({ counter }: Operation): LimitPlan['rule'] | undefined =>
    (counter as Partial<LimitPlan>).rule;
  const looksFor = (op: Operation): 'release' | 'charge' | undefined => {
    const rule = ruleOf(op);
    if (rule === undefined || !mayHold(op.counter as LimitPlan)) return undefined;
    const mayGiveBack = knows === undefined ? op.hasExpired : knows(op.counter.counterStem);
    return mayGiveBack ? (rule.reserve?.onExpiry ?? 'release') : undefined;
  };
  const chargesExpired = (op: Operation): boolean => ruleOf(op)?.reserve?.onExpiry === 'charge';
  return new ReservingStore({ store, bounds, looksFor, chargesExpired, answersAtOnce: knows !== undefined });
}

/** What a window that ends as soon as any reservation held is not given back. */
function mayHold({ capacity, bound, limit }: LimitPlan): boolean {
  const hasWindow = bound === undefined || bound.holdsTotal;
  return capacity > 0 && !(hasWindow && lengthOf(limit) <= 1);
}

function besides(main: OpenedStore, perSecond: OpenedStore): OpenedStore {
  return {
    store: new PerSecondStore({ main: main.store, perSecond: perSecond.store }),
    // As the Go service: that of limits per second first.
    connect: async () => {
      await perSecond.connect();
      await main.connect();
    },
  };
}

/** Outside of the breaker, so that a lease is spent to its end while Redis is away. */
function newLeaseStore({ settings, clock, timers, registry }: LimiterContext, store: Store): LeaseStore {
  const leases = new LeaseStore({
    store,
    clock,
    timers,
    limiter: randomBytes(12).toString('base64url'),
    maxCounters: settings.leasesMaxCounters,
  });
  registerLeaseStats(registry, leases.book);
  return leases;
}

function tracedStore(
  { backendType }: LimiterSettings,
  name: string,
  store: Store,
  maker: () => SpanMaker | undefined,
): TracedStore {
  const isRedis = backendType === 'redis';
  return new TracedStore({
    store,
    // The Go service's names.
    spanName: isRedis ? 'Redis Pipeline Execution' : 'Memcached Fetch Execution',
    attributes: { 'db.system.name': isRedis ? 'redis' : 'memcached', 'weir.store': name },
    maker,
  });
}

/** Chosen: how often a log repeats that a store is not asked. */
const reminderMs = 60_000;

function withBreaker(
  { settings, clock, timers, random, registry, health, log }: LimiterContext,
  { name, patienceMs }: { name: string; patienceMs: number },
  opened: OpenedStore,
): OpenedStore {
  const { store, connect } = opened;
  const mode = settings.storeFailureMode;
  let openedMs = 0;
  let endReminders: (() => void) | undefined;
  const openSeconds = (): number => Math.round((clock.monotonicMs() - openedMs) / 100) / 10;
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
        storeNotAsked(log, { store: name, reason, mode });
        // `/healthcheck` stays well, as the Go service's does, so somebody has to say it.
        endReminders = timers.every(reminderMs, () =>
          storeStillNotAsked(log, { store: name, seconds: openSeconds(), mode }),
        );
      } else {
        endReminders?.();
        storeAskedAgain(log, { store: name, seconds: openSeconds() });
      }
      // As the Go service, health follows a store that was there only where that is asked for.
      if (settings.redisHealthCheckActiveConnection) health.set(`${name}_breaker`, !open);
    },
    onClose: () => endReminders?.(),
  });
  registerBreakerStats(registry, name, breaker);
  return { store: breaker, connect };
}

/**
 * STORE_FAILURE_MODE=local around all stores together; the other modes are answered by the service. With `allow` one that refuses
 * scripts would let limits that need them pass for good, which is no outage: these alone are counted here.
 */
function withLocalFallback(context: LimiterContext, opened: OpenedStore): OpenedStore {
  const { settings, clock, timers, registry, log } = context;
  const { storeFailureMode: mode, backendType } = settings;
  const mayNeedScripts = storeLimits(settings).algorithms === undefined;
  const isForScripts = mode === 'allow' && backendType === 'redis' && mayNeedScripts;
  if (mode !== 'local' && !isForScripts) return opened;
  const fallback = new LocalFallbackStore({
    store: opened.store,
    local: newMemoryStore(context),
    answersOnly: isForScripts ? (error) => error === needsScripts : undefined,
    clock,
    timers,
    maxOwedKeys: settings.memoryStoreMaxCounters,
    maxOwedBytes: settings.memoryStoreMaxBytes,
    onUndelivered: (undelivered) => hitsNotDelivered(log, undelivered),
  });
  registerLocalFallbackStats(registry, fallback);
  const forget = (keys: readonly string[] | undefined): void => {
    opened.forget?.(keys);
    fallback.forget(keys);
  };
  return { ...opened, store: fallback, forget };
}

/** `reservations` undefined: it keeps none. */
function newMemoryStore(
  { settings, clock, registry }: LimiterContext,
  reservations?: ReservationBounds,
): MemoryStore {
  const { memoryStoreMaxCounters: maxCounters, memoryStoreMaxBytes: maxBytes } = settings;
  const store = new MemoryStore({ clock, maxCounters, maxBytes, reservations });
  registerMemoryStoreStats(registry, store);
  return store;
}

/** TLS of a client: REDIS_TLS_* or MEMCACHE_TLS_*. Throws an Error on files that cannot be used. */
export function openClientTls(
  settings: LimiterSettings,
  client: 'redis' | 'memcache',
  log: Logger,
): ClientTls {
  const files = {
    certPath: settings[`${client}TlsClientCert`],
    keyPath: settings[`${client}TlsClientKey`],
    caPath: settings[`${client}TlsCaCert`],
    skipHostnameVerification: settings[`${client}TlsSkipHostnameVerification`],
    settingPrefix: client === 'redis' ? 'REDIS_TLS_' : 'MEMCACHE_TLS_',
  } as const;
  return new ClientTls(files, (reason) => clientTlsRefused(log, client, reason));
}
