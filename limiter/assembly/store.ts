/** The store that the settings name, and what stands before one that may fail: a breaker around each, and the answer of last resort. */
import { randomBytes } from 'node:crypto';
import type { Logger } from '../../process/log/logger.ts';
import { ticksAfterReading } from '../../process/time/clock.ts';
import type { FlushTurn } from '../../process/time/loop-turns.ts';
import type { LimitPlan } from '../decide/plan.ts';
import { lengthOf } from '../decide/windows.ts';
import {
  clientTlsRefused,
  hitsNotDelivered,
  storeAskedAgain,
  storeNotAsked,
  storeStillNotAsked,
} from '../log/lines.ts';
import type { CountedHit } from '../service/counted-hit.ts';
import { lookedAt } from '../service/reserved-counter.ts';
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
import type { CounterOp, CounterStore } from '../stores/counter-store.ts';
import { LeaseStore } from '../stores/leases/lease-store.ts';
import type { ResolveSrv } from '../stores/memcache/memcache-nodes.ts';
import { MemoryStore } from '../stores/memory/memory-store.ts';
import { PerSecondStore } from '../stores/per-second-store.ts';
import { needsScripts } from '../stores/redis/bounded-steps.ts';
import { BoundedReservations } from '../stores/reservations/bounded-reservations.ts';
import { ExpiringStore } from '../stores/reservations/expiring-store.ts';
import type { ReservationStore, ReservedCounter } from '../stores/reservations/reservation-store.ts';
import { SpreadReservations } from '../stores/reservations/spread-reservations.ts';
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
  const traced = (name: string, opened: OpenedStore): OpenedStore => {
    if (spanMaker === undefined) return opened;
    const store = tracedStore(settings, name, opened.store, spanMaker);
    return { ...opened, store, ...reservationsOf(opened, (reservations) => store.traced(reservations)) };
  };
  if (settings.backendType === 'memory') {
    const store = newMemoryStore(context);
    const reservations = store.openReservations(reservationBounds(settings));
    const opened = { store, reservations, connect: () => store.ping(), memory: store };
    return {
      ...opened,
      reservations: bounded(context, reservations),
      store: expiring({ store, reservations }, (stem) => reservations.knows(stem)),
    };
  }
  if (settings.backendType === 'memcache') {
    // A node that is away is passed over at once, so no breaker has anything to do.
    const memcache = loaded(modules.memcache, 'the memcache client');
    return withLocalFallback(context, traced('store', memcache.openMemcache(context, resolveSrv)));
  }
  // Inside the breaker, so that what it answers itself is no work of the store.
  const redis = loaded(modules.redis, 'the Redis client');
  let leases: LeaseStore | undefined;
  const parts = { flushTurn, stopLeases: () => leases?.stop() };
  const calm = (name: 'store' | 'per_second_store', patienceMs: number): OpenedStore =>
    withBreaker(context, { name, patienceMs }, traced(name, redis.openRedis(context, name, parts)));
  const main = calm('store', settings.redisTimeoutMs);
  const perSecond = settings.redisPerSecond
    ? calm('per_second_store', settings.redisPerSecondTimeoutMs)
    : undefined;
  const both = perSecond === undefined ? main : besides(main, perSecond);
  const { reservations: claims, ...unreserving } = both;
  const reservations = storeLimits(settings).reservations === undefined ? claims : undefined;
  const opened =
    reservations === undefined ? unreserving : { ...both, reservations: bounded(context, reservations) };
  const claiming = claims === undefined ? opened : { ...opened, claims };
  const withExpiry = (opened: OpenedStore): OpenedStore =>
    reservations === undefined
      ? opened
      : { ...opened, store: expiring({ store: opened.store, reservations }) };
  if (usualLease(settings) === undefined) return withLocalFallback(context, withExpiry(claiming));
  leases = newLeaseStore(context, both.store);
  return withLocalFallback(context, {
    ...withExpiry({ ...claiming, store: leases }),
    endLeases: () => leases.endAll(),
    forget: (keys) => (keys === undefined ? leases.endAll() : leases.cancel(keys)),
  });
}

/** Bounds what one domain or one caller may have reserved. */
function bounded({ settings, clock }: LimiterContext, store: ReservationStore): ReservationStore {
  return new BoundedReservations({
    ...{ store, clock, recordMs: settings.budgetRecordTtlMs },
    maxOfDomain: settings.budgetMaxDomainReservations,
    maxOfCaller: settings.budgetMaxCallerReservations,
  });
}

/**
 * Gives back what has expired before hits are refused. `knows`: whether anything is reserved, where that is known here; else the
 * store says with its answers whether anything has expired.
 */
function expiring(
  { store, reservations }: { store: CounterStore; reservations: ReservationStore },
  knows?: (stem: string) => boolean,
): ExpiringStore {
  const counterOf = (op: CounterOp): ReservedCounter | undefined => {
    const { plan } = op as Partial<CountedHit>;
    if (plan === undefined || !mayHold(plan)) return undefined;
    const mayGiveBack = knows === undefined ? op.hasExpired : knows(plan.counterStem);
    return mayGiveBack ? lookedAt(op as CountedHit) : undefined;
  };
  const chargesExpired = (op: CounterOp): boolean =>
    (op as Partial<CountedHit>).plan?.rule.reserve?.onExpiry === 'charge';
  const answersAtOnce = knows !== undefined;
  return new ExpiringStore({ store, reservations, counterOf, chargesExpired, answersAtOnce });
}

/** What a window that ends as soon as any reservation held is not given back. */
function mayHold({ capacity, bound, limit }: LimitPlan): boolean {
  const hasWindow = bound === undefined || bound.holdsTotal;
  return capacity > 0 && !(hasWindow && lengthOf(limit) <= 1);
}

/** The same budgets, behind something that goes before the store. */
function reservationsOf(
  { reservations }: OpenedStore,
  behind: (store: ReservationStore) => ReservationStore,
): Pick<OpenedStore, 'reservations'> {
  return reservations === undefined ? {} : { reservations: behind(reservations) };
}

function besides(main: OpenedStore, perSecond: OpenedStore): OpenedStore {
  return {
    ...reservationsOf(main, (reservations) => {
      const storeOf = ({ perSecond: isPerSecond }: { readonly perSecond: boolean }) =>
        isPerSecond ? perSecond.reservations! : reservations;
      return new SpreadReservations({
        placeOf: storeOf,
        storeOf,
        stores: [reservations, perSecond.reservations!],
      });
    }),
    store: new PerSecondStore({ main: main.store, perSecond: perSecond.store }),
    // As the Go service: that of limits per second first.
    connect: async () => {
      await perSecond.connect();
      await main.connect();
    },
  };
}

/** Outside of the breaker, so that a lease is spent to its end while Redis is away. */
function newLeaseStore(
  { settings, clock, timers, registry }: LimiterContext,
  store: CounterStore,
): LeaseStore {
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
  store: CounterStore,
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
  return {
    store: breaker,
    connect,
    ...reservationsOf(opened, (reservations) => breaker.guarded(reservations)),
  };
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

function newMemoryStore({ settings, clock, registry }: LimiterContext): MemoryStore {
  const { memoryStoreMaxCounters: maxCounters, memoryStoreMaxBytes: maxBytes } = settings;
  const store = new MemoryStore({ clock, maxCounters, maxBytes });
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
