/**
 * Opens the store that the settings name, and the decorators before it. A request passes them in this order, if they are configured:
 *
 * 1. `ReservingStore`, only for calls about reservations, bounds their owners, and returns expired amounts before hits are rejected.
 * 2. `LocalFallbackStore` counts hits in memory that the store could not count (STORE_FAILURE_MODE).
 * 3. Decorators of capabilities (`aroundStore`), the first of their list innermost: `LeaseStore` answers hits that a lease covers. It
 *    is outside of the breaker, so that leases are spent while Redis is unavailable.
 * 4. From here on each hit is counted at once: quota clients get their shares from this store (`counts`).
 * 5. `PerSecondStore` divides a request between two Redis (REDIS_PERSECOND), each of which has its own decorators from here on.
 * 6. `BreakerStore` answers at once while the store does not.
 * 7. Decorators of capabilities for each server (`aroundServer`), such as tracing. They are inside of the breaker, so that its answers
 *    do not count as work of the store.
 * 8. `RedisStore`, `RedisClusterStore`, `MemcacheStore` (with 2, 3 and 7 alone) or `MemoryStore` (with 1 and 3 alone) counts.
 */

import type { FlushTurn } from '../../process/queues/loop-turns.ts';
import { ticksAfterReading } from '../../process/time/clock.ts';
import type { LimitPlan } from '../decide/limit-plan.ts';
import { lengthOf } from '../decide/windows.ts';
import { lines } from '../log/lines.ts';
import { reservationBounds } from '../reservations/settings.ts';
import { unsupportedReasons } from '../settings/rule-support.ts';
import {
  registerBreakerStats,
  registerLocalFallbackStats,
  registerMemoryStoreStats,
} from '../stats/registry/limiter-stats.ts';
import { BreakerStore } from '../stores/failure/breaker-store.ts';
import { LocalFallbackStore } from '../stores/failure/local-fallback-store.ts';
import type { ResolveSrv } from '../stores/memcache/memcache-nodes.ts';
import { MemoryStore } from '../stores/memory/memory-store.ts';
import type { Operation } from '../stores/operation.ts';
import { PerSecondStore } from '../stores/per-second-store.ts';
import { needsScripts } from '../stores/redis/bounded-steps.ts';
import { OwnerBounds } from '../stores/reservations/owner-bounds.ts';
import { ReservingStore } from '../stores/reservations/reserving-store.ts';
import type { ReservationBounds, Store } from '../stores/store.ts';
import type { ThreadParts } from './capabilities.ts';
import {
  type LimiterContext,
  loaded,
  type OpenedServer,
  type OpenedStore,
  type ServingModules,
} from './context.ts';

interface StoreParts {
  modules: ServingModules;
  /** The resolver for MEMCACHE_SRV. Defaults to the system's. */
  resolveSrv: ResolveSrv | undefined;
  flushTurn: FlushTurn;
  /** The parts of capabilities. */
  parts?: Pick<ThreadParts, 'aroundServer' | 'aroundStore' | 'storeRejectsScripts'> | undefined;
}

/** The context's `health` gets a component for the store. @throws Error, without credentials in its message, if it cannot be opened */
export function openStore(
  context: LimiterContext,
  { modules, resolveSrv, flushTurn, parts: decorators }: StoreParts,
): OpenedStore {
  const { settings } = context;
  const aroundStore = (store: Store): Store => decorators?.aroundStore(store) ?? store;
  if (settings.backendType === 'memory') {
    const memory = newMemoryStore(context, reservationBounds(settings));
    const store = aroundStore(memory);
    return {
      ...{ store, counts: memory, memory, connect: () => memory.ping() },
      reservations: reserving(context, store),
    };
  }
  const server = (name: 'store' | 'per_second_store', opened: OpenedServer): OpenedServer => ({
    ...opened,
    store: decorators?.aroundServer(opened.store, name) ?? opened.store,
  });
  const decorated = (opened: OpenedServer): OpenedStore => ({
    ...opened,
    store: aroundStore(opened.store),
    counts: opened.store,
  });
  if (settings.backendType === 'memcache') {
    // A node that is unavailable is skipped at once, so a breaker would have nothing to do.
    const memcache = loaded(modules.memcache, 'the memcache client');
    return withLocalFallback(context, decorated(server('store', memcache.openMemcache(context, resolveSrv))));
  }
  const redis = loaded(modules.redis, 'the Redis client');
  const parts = { flushTurn, onScriptsRejected: () => decorators?.storeRejectsScripts() };
  const guarded = (name: 'store' | 'per_second_store', patienceMs: number): OpenedServer =>
    withBreaker(context, { name, patienceMs }, server(name, redis.openRedis(context, name, parts)));
  const main = guarded('store', settings.redisTimeoutMs);
  const opened = decorated(
    settings.redisPerSecond
      ? besides(main, guarded('per_second_store', settings.redisPerSecondTimeoutMs))
      : main,
  );
  const guardedStore = withLocalFallback(context, opened);
  if (unsupportedReasons(settings).reservations !== undefined) return guardedStore;
  const { store } = guardedStore;
  const onCorrected = (ops: readonly Operation[]): void => {
    if (store instanceof LocalFallbackStore) store.corrected(ops);
  };
  return { ...guardedStore, reservations: reserving(context, store, onCorrected) };
}

/** Bounds the reservations of one domain or one caller, and returns expired amounts before hits are rejected. */
function reserving(
  { settings, clock }: LimiterContext,
  store: Store,
  onCorrected?: (ops: readonly Operation[]) => void,
): ReservingStore {
  const bounds = new OwnerBounds({
    ...{ share: store.notes?.share, clock, recordMs: settings.budgetRecordTtlMs },
    maxOfDomain: settings.budgetMaxDomainReservations,
    maxOfCaller: settings.budgetMaxCallerReservations,
  });
  const looksFor = ({ counter }: Operation): 'release' | 'charge' | undefined => {
    const plan = counter as LimitPlan;
    return mayHold(plan) ? (plan.rule.reserve?.onExpiry ?? 'release') : undefined;
  };
  return new ReservingStore({ store, bounds, looksFor, onCorrected });
}

/** Whether expired reservations are worth returning. They are not if the window ends at least as soon as the shortest reservation. */
function mayHold({ capacity, bound, limit }: LimitPlan): boolean {
  const hasWindow = bound === undefined || bound.holdsTotal;
  return capacity > 0 && !(hasWindow && lengthOf(limit) <= 1);
}

function besides(main: OpenedServer, perSecond: OpenedServer): OpenedServer {
  return {
    store: new PerSecondStore({ main: main.store, perSecond: perSecond.store }),
    // The store of limits per second connects first, as in the Go service.
    connect: async () => {
      await perSecond.connect();
      await main.connect();
    },
  };
}

/** Chosen: the interval of log lines while the store is not asked. */
const reminderMs = 60_000;

function withBreaker(
  { settings, clock, timers, random, registry, health, log }: LimiterContext,
  { name, patienceMs }: { name: string; patienceMs: number },
  opened: OpenedServer,
): OpenedServer {
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
        lines.storeNotAsked(log, { store: name, reason, mode });
        // `/healthcheck` stays healthy, as in the Go service, so the log has to report it.
        endReminders = timers.every(reminderMs, () =>
          lines.storeStillNotAsked(log, { store: name, seconds: openSeconds(), mode }),
        );
      } else {
        endReminders?.();
        lines.storeAskedAgain(log, { store: name, seconds: openSeconds() });
      }
      // As in the Go service, health follows a store that was available before only if this is configured.
      if (settings.redisHealthCheckActiveConnection) health.set(`${name}_breaker`, !open);
    },
    onClose: () => endReminders?.(),
  });
  registerBreakerStats(registry, name, breaker);
  return { store: breaker, connect };
}

/**
 * STORE_FAILURE_MODE=local works around all stores together; the service implements the other modes. With `allow`, a store that rejects
 * scripts would let limits that need them pass permanently. That is not an outage, so only these limits are counted here.
 */
function withLocalFallback(context: LimiterContext, opened: OpenedStore): OpenedStore {
  const { settings, clock, timers, registry, log } = context;
  const { storeFailureMode: mode, backendType } = settings;
  const mayNeedScripts = unsupportedReasons(settings).algorithms === undefined;
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
    onUndelivered: (undelivered) => lines.hitsNotDelivered(log, undelivered),
  });
  registerLocalFallbackStats(registry, fallback);
  return { ...opened, store: fallback, forget: (keys) => fallback.forget(keys) };
}

/** `reservations` is undefined if it counts in place of another store, without reservations or ledgers. */
function newMemoryStore(
  { settings, clock, registry }: LimiterContext,
  reservations?: ReservationBounds,
): MemoryStore {
  const { memoryStoreMaxCounters: maxCounters, memoryStoreMaxBytes: maxBytes } = settings;
  const ledgers = reservations !== undefined;
  const store = new MemoryStore({ clock, maxCounters, maxBytes, reservations, ledgers });
  registerMemoryStoreStats(registry, store);
  return store;
}
