/** A store in Redis, of whatever kind the settings name, with its statistics and its part in the process's health. */
import { setTimeout as sleep } from 'node:timers/promises';

import {
  redisConnectionBack,
  redisConnectionFailed,
  redisConnectionLost,
  redisConnectionRetry,
  redisNodeBack,
  redisNodeLost,
  redisPipelineLimitIgnored,
  redisScriptsRefused,
} from './log-lines.ts';
import { callsAtATime, nodesAtATime } from './redis-batch-settings.ts';
import { mainRedis, perSecondRedis, type RedisStoreSettings, redisAddress } from './redis-settings.ts';
import { registerPoolStats } from './stats/limiter-stats.ts';
import type { OpenedStore, StoreParts } from './store-parts.ts';
import { ClientTls } from './stores/client-tls.ts';
import { RedisClusterStore } from './stores/redis/cluster/redis-cluster-store.ts';
import { RedisStore, type RedisStoreOptions } from './stores/redis/redis-store.ts';

interface RedisRole {
  /** Part of the names of its statistics. */
  pool: string;
  /** Its component of the process's health. */
  component: string;
  redis: RedisStoreSettings;
}

/** Throws an Error without credentials on an address that cannot be read, and on files of TLS that are no good. */
export function openMainRedis(parts: StoreParts): OpenedStore {
  return openRedis(parts, { pool: 'redis_pool', component: 'redis', redis: mainRedis(parts.settings) });
}

/** The same for REDIS_PERSECOND. */
export function openPerSecondRedis(parts: StoreParts): OpenedStore {
  return openRedis(parts, {
    pool: 'redis_per_second_pool',
    component: 'redis_per_second',
    redis: perSecondRedis(parts.settings),
  });
}

function openRedis(parts: StoreParts, { pool, component, redis }: RedisRole): OpenedStore {
  const { settings, clock, random, registry, health, log } = parts;
  const address = redisAddress(redis);
  const { label } = address;
  const lines = connectionLines(log, label);
  if (redis.pipelineLimit > 0) redisPipelineLimitIgnored(log, label);
  const store = newStore({
    redis,
    settings,
    calls: {
      places: callsAtATime(redis.poolSize),
      whenEmpty: redis.onEmpty,
      waitMs: redis.onEmptyWaitMs,
    },
    log,
    address,
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
  registerPoolStats(registry, pool, store.connectionCounts);
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
    log: StoreParts['log'];
  },
): RedisStore | RedisClusterStore {
  const { address, redis, settings, log } = options;
  if (!('seeds' in address)) return new RedisStore({ ...options, address });
  return new RedisClusterStore({
    ...options,
    address,
    parallelism: nodesAtATime(redis),
    silenceMs: settings.storeBreakerSilenceMs,
    probeIntervalMs: settings.storeBreakerProbeIntervalMs,
    // Timers know whole milliseconds.
    windowMs: Math.ceil(redis.pipelineWindowMs),
    onNodeChange: clusterNodeLines(log),
  });
}

/** One line when a node of a cluster is lost and one when it is back. */
function clusterNodeLines(
  log: StoreParts['log'],
): (node: string, connected: boolean, reason?: string) => void {
  const lost = new Set<string>();
  return (node, connected, reason) => {
    if (!connected) redisNodeLost(log, node, reason ?? '');
    else if (lost.delete(node)) redisNodeBack(log, node);
    if (!connected) lost.add(node);
  };
}

function tlsFiles(settings: StoreParts['settings']): ConstructorParameters<typeof ClientTls>[0] {
  return {
    certPath: settings.redisTlsClientCert,
    keyPath: settings.redisTlsClientKey,
    caPath: settings.redisTlsCaCert,
    skipHostnameVerification: settings.redisTlsSkipHostnameVerification,
  };
}

/** One line when the connection is lost and one when it is back, however many attempts fail between them. */
function connectionLines(
  log: StoreParts['log'],
  url: string,
): Required<Pick<RedisStoreOptions, 'onChange' | 'onFailure'>> {
  let wasLost = false;
  return {
    onChange: (connected, reason) => {
      if (!connected) redisConnectionLost(log, url, reason ?? '');
      else if (wasLost) redisConnectionBack(log, url);
      wasLost = !connected;
    },
    onFailure: (reason) => redisConnectionFailed(log, url, reason),
  };
}
