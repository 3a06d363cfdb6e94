/** Opens a Redis store of the kind that the settings name, with its statistics and its part of the process's health. */
import { setTimeout as sleep } from 'node:timers/promises';
import { withFields } from '../../process/log/logger.ts';
import type { FlushTurn } from '../../process/queues/loop-turns.ts';
import { defaultLease } from '../leases/settings.ts';
import { lines } from '../log/lines.ts';
import { redisLines } from '../log/redis-lines.ts';
import { openServers, type RedisServers } from '../operate/store-admin/redis-servers.ts';
import { RedisStoreAdmin } from '../operate/store-admin/redis-store-admin.ts';
import type { StoreAdmin } from '../operate/store-admin/store-admin.ts';
import { reservationBounds } from '../reservations/settings.ts';
import {
  callsAtATime,
  nodesAtATime,
  perSecondRedis,
  type RedisStoreSettings,
  redisAddress,
} from '../settings/redis-settings.ts';
import { unsupportedReasons } from '../settings/rule-support.ts';
import { registerNodeStats, registerPoolStats } from '../stats/registry/limiter-stats.ts';
import type { ClientTls } from '../stores/client-tls.ts';
import { RedisClusterStore } from '../stores/redis/cluster/cluster-store.ts';
import { RedisStore, type ServerConnection } from '../stores/redis/redis-store.ts';
import { openClientTls } from './client-tls.ts';
import type { LimiterContext, OpenedServer } from './context.ts';

/** The statistics, the health component and the settings of each store, by its name in log lines. */
const roles = {
  store: { pool: 'redis_pool', component: 'redis', prefix: 'REDIS_' },
  per_second_store: {
    pool: 'redis_per_second_pool',
    component: 'redis_per_second',
    prefix: 'REDIS_PERSECOND_',
  },
} as const;

/** Chosen: operators can wait longer than requests. */
const minStoreAdminMs = 1_000;

/** A connection that was opened elsewhere, and its name in logs. */
export interface GivenRedis {
  readonly connection: ServerConnection;
  readonly label: string;
}

interface RedisStoreParts {
  flushTurn: FlushTurn;
  /** Called when the server rejects scripts or leases. */
  onScriptsRejected: () => void;
  /** Replaces a connection to the address in the settings. */
  given?: GivenRedis;
}

/** @throws Error, without credentials in its message, if an address is invalid or TLS files cannot be used */
export function openRedis(
  context: LimiterContext,
  storeName: keyof typeof roles,
  { flushTurn, onScriptsRejected, given }: RedisStoreParts,
): OpenedServer {
  const { settings, clock, random, registry, health } = context;
  const { pool, component, prefix } = roles[storeName];
  const own = storeName === 'store' ? settings : perSecondRedis(settings);
  // With a single store, the field would be redundant.
  const log = settings.redisPerSecond ? withFields(context.log, { store: storeName }) : context.log;
  const place = given ?? redisAddress(own);
  const { label } = place;
  const events = redisLines({ log, clock, url: label, prefix, isCluster: 'seeds' in place });
  if (own.redisPipelineLimit > 0) lines.redisPipelineLimitIgnored(log, { url: label });
  const options = {
    calls: {
      places: callsAtATime(own.redisPoolSize),
      whenEmpty: own.redisPoolOnEmptyBehavior,
      waitMs: own.redisPoolOnEmptyWaitMs,
    },
    onRejection: events.onRejection,
    onNeedlessPassword: () => lines.redisAsksForNoPassword(log),
    scripts: settings.redisScripts,
    keyPrefix: settings.cacheKeyPrefix,
    onScriptsRejected: (reason: string) => {
      lines.redisScriptsRejected(log, { url: label, reason });
      onScriptsRejected();
    },
    onLeasesRejected: (reason: string) => {
      lines.redisLeasesRejected(log, { url: label, reason });
      onScriptsRejected();
    },
    tls: redisTls(context, own),
    timeoutMs: own.redisTimeoutMs,
    closeOnReadOnly: settings.redisCloseConnectionOnReadOnlyError,
    random,
    flushTurn,
    // Timers have a resolution of one millisecond.
    windowMs: Math.ceil(own.redisPipelineWindowMs),
    reservations: reservationBounds(settings),
    onFailure: events.onFailure,
    onChange: (connected: boolean, reason?: string) => {
      events.onChange(connected, reason);
      if (settings.redisHealthCheckActiveConnection) health.set(component, connected);
    },
  };
  const store =
    'seeds' in place
      ? new RedisClusterStore({
          ...options,
          address: place,
          onNodeChange: events.onNodeChange,
          parallelism: nodesAtATime(own),
          silenceMs: settings.storeBreakerSilenceMs,
          keepsReservations: unsupportedReasons(settings).reservations === undefined,
        })
      : new RedisStore({ ...options, ...('connection' in place ? place : { address: place }) });
  registerPoolStats(registry, pool, { connections: store.connectionCounts, calls: store.callCounts });
  if (store instanceof RedisClusterStore) registerNodeStats(registry, pool, () => store.nodeCounts);
  health.set(component, false);
  const connect = async (): Promise<void> => {
    await store.connect({
      initialMs: settings.redisStartupInitialIntervalMs,
      maxMs: settings.redisStartupMaxIntervalMs,
      maxElapsedMs: settings.redisStartupMaxElapsedTimeMs,
      monotonicMs: () => clock.monotonicMs(),
      sleep: (ms) => sleep(ms, undefined, { ref: false }),
      onRetry: (retry) => lines.redisConnectionRetry(log, { url: label, ...retry }),
    });
    if (store.connected || !settings.redisHealthCheckActiveConnection) health.set(component, true);
  };
  return { store, connect };
}

function redisTls({ settings, log }: LimiterContext, own: RedisStoreSettings): ClientTls | undefined {
  return own.redisTls ? openClientTls(settings, 'redis', log) : undefined;
}

/** Opens the store admin of the process, with its own connections, which open at the first question. @throws like `openRedis` */
export function openRedisStoreAdmin(context: LimiterContext, given?: RedisServers): StoreAdmin {
  const { settings, timers, random, log } = context;
  const servers = (own: RedisStoreSettings): RedisServers =>
    given ??
    openServers(redisAddress(own), {
      tls: redisTls(context, own),
      timeoutMs: Math.max(minStoreAdminMs, own.redisTimeoutMs),
      random,
    });
  return new RedisStoreAdmin({
    main: servers(settings),
    perSecond: settings.redisPerSecond ? servers(perSecondRedis(settings)) : undefined,
    prefix: settings.cacheKeyPrefix,
    leases: defaultLease(settings) !== undefined,
    recordMs: reservationBounds(settings).recordMs,
    timers,
    onMissing: (missing) => lines.redisStoreAdminRejected(log, missing),
  });
}
