/** A store in Redis, of whatever kind the settings name, with its statistics and its part in the process's health. */
import { setTimeout as sleep } from 'node:timers/promises';
import { withFields } from '../../process/log/logger.ts';
import { redisConnectionRetry, redisPipelineLimitIgnored, redisScriptsRefused } from '../log/lines.ts';
import { type RedisLines, redisLines } from '../log/redis-lines.ts';
import { callsAtATime, nodesAtATime } from '../settings/redis-batch-settings.ts';
import {
  mainRedis,
  perSecondRedis,
  type RedisStoreSettings,
  redisAddress,
} from '../settings/redis-settings.ts';
import { registerNodeStats, registerPoolStats } from '../stats/registry/limiter-stats.ts';
import { ClientTls } from '../stores/client-tls.ts';
import { RedisClusterStore } from '../stores/redis/cluster-store.ts';
import { RedisStore, type RedisStoreOptions } from '../stores/redis/redis-store.ts';
import type { OpenedStore, StoreParts } from './store.ts';

interface RedisRole {
  /** Part of the names of its statistics. */
  pool: string;
  /** Its component of the process's health. */
  component: string;
  /** What lines call it where there are two. */
  storeName: 'store' | 'per_second_store';
  /** Begins the names of its settings. */
  prefix: 'REDIS_' | 'REDIS_PERSECOND_';
  redis: RedisStoreSettings;
}

/** Throws an Error without credentials on an address that cannot be read, and on files of TLS that are no good. */
export function openMainRedis(parts: StoreParts): OpenedStore {
  return openRedis(parts, {
    pool: 'redis_pool',
    component: 'redis',
    storeName: 'store',
    prefix: 'REDIS_',
    redis: mainRedis(parts.settings),
  });
}

/** The same for REDIS_PERSECOND. */
export function openPerSecondRedis(parts: StoreParts): OpenedStore {
  return openRedis(parts, {
    pool: 'redis_per_second_pool',
    component: 'redis_per_second',
    storeName: 'per_second_store',
    prefix: 'REDIS_PERSECOND_',
    redis: perSecondRedis(parts.settings),
  });
}

function openRedis(parts: StoreParts, { pool, component, storeName, prefix, redis }: RedisRole): OpenedStore {
  const { settings, clock, random, registry, health } = parts;
  // Of one store it would say nothing.
  const log = settings.redisPerSecond ? withFields(parts.log, { store: storeName }) : parts.log;
  const address = redisAddress(redis);
  const { label } = address;
  const isCluster = redis.type === 'CLUSTER';
  const lines = redisLines({ log, clock, url: label, prefix, isCluster });
  if (redis.pipelineLimit > 0) redisPipelineLimitIgnored(log, label);
  const store = newStore({
    redis,
    settings,
    calls: {
      places: callsAtATime(redis.poolSize),
      whenEmpty: redis.onEmpty,
      waitMs: redis.onEmptyWaitMs,
    },
    address,
    onNodeChange: lines.onNodeChange,
    onRefusal: lines.onRefusal,
    scripts: settings.redisScripts,
    onScriptsRefused: (reason) => redisScriptsRefused(log, label, reason),
    tls: redis.tls ? new ClientTls(tlsFiles(settings)) : undefined,
    timeoutMs: redis.timeoutMs,
    closeOnReadOnly: settings.redisCloseConnectionOnReadOnlyError,
    random,
    onFailure: lines.onFailure,
    onChange: (connected, reason) => {
      lines.onChange(connected, reason);
      if (settings.redisHealthCheckActiveConnection) health.set(component, connected);
    },
  });
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
      onRetry: (retry) => redisConnectionRetry(log, { url: label, ...retry }),
    });
    if (store.connected || !settings.redisHealthCheckActiveConnection) health.set(component, true);
  };
  return { store, connect };
}

function newStore(
  options: Omit<RedisStoreOptions, 'address'> & {
    address: ReturnType<typeof redisAddress>;
    redis: RedisStoreSettings;
    settings: StoreParts['settings'];
    onNodeChange: RedisLines['onNodeChange'];
  },
): RedisStore | RedisClusterStore {
  const { address, redis, settings } = options;
  // Timers know whole milliseconds.
  const windowMs = Math.ceil(redis.pipelineWindowMs);
  if (!('seeds' in address)) return new RedisStore({ ...options, address, windowMs });
  return new RedisClusterStore({
    ...options,
    address,
    parallelism: nodesAtATime(redis),
    silenceMs: settings.storeBreakerSilenceMs,
    probeIntervalMs: settings.storeBreakerProbeIntervalMs,
    windowMs,
  });
}

function tlsFiles(settings: StoreParts['settings']): ConstructorParameters<typeof ClientTls>[0] {
  return {
    certPath: settings.redisTlsClientCert,
    keyPath: settings.redisTlsClientKey,
    caPath: settings.redisTlsCaCert,
    skipHostnameVerification: settings.redisTlsSkipHostnameVerification,
    settingPrefix: 'REDIS_TLS_',
  };
}
