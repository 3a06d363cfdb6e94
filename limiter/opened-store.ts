/** The store that the settings name, with its statistics and its part in the process's health. */
import { setTimeout as sleep } from 'node:timers/promises';

import type { Clock } from '../process/clock.ts';
import type { Health } from '../process/health.ts';
import type { Logger } from '../process/logger.ts';
import {
  redisConnectionBack,
  redisConnectionFailed,
  redisConnectionLost,
  redisConnectionRetry,
} from './log-lines.ts';
import type { LimiterSettings } from './settings.ts';
import { registerMemoryStoreStats, registerPoolStats } from './stats/limiter-stats.ts';
import type { StatsRegistry } from './stats/stats-registry.ts';
import type { CounterStore } from './stores/counter-store.ts';
import { MemoryStore } from './stores/memory/memory-store.ts';
import { parseRedisAddress } from './stores/redis/redis-address.ts';
import { RedisStore, type RedisStoreOptions } from './stores/redis/redis-store.ts';

export interface StoreParts {
  settings: LimiterSettings;
  clock: Clock;
  random: () => number;
  registry: StatsRegistry;
  health: Health;
  log: Logger;
}

export interface OpenedStore {
  store: CounterStore;
  /** Waits for the first answer of the store, for as long as it takes. */
  connect(): Promise<void>;
}

/** Throws an Error without credentials when the address of the store cannot be read. */
export function openStore(parts: StoreParts): OpenedStore {
  return parts.settings.backendType === 'memory' ? openMemoryStore(parts) : openRedisStore(parts);
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

function openRedisStore(parts: StoreParts): OpenedStore {
  const { settings, clock, random, registry, health, log } = parts;
  const address = parseRedisAddress({
    socketType: settings.redisSocketType,
    url: settings.redisUrl,
    auth: settings.redisAuth,
  });
  const store = new RedisStore({
    address,
    timeoutMs: settings.redisTimeoutMs,
    random,
    ...connectionLines(log, address.label),
  });
  registerPoolStats(registry, 'redis_pool', store.connectionCounts);
  health.set('redis', false);
  const connect = async (): Promise<void> => {
    await store.connect({
      monotonicMs: () => clock.monotonicMs(),
      sleep: (ms) => sleep(ms, undefined, { ref: false }),
      onRetry: (retry) => redisConnectionRetry(log, { url: address.label, ...retry }),
    });
    health.set('redis', true);
  };
  return { store, connect };
}

/** One line when the connection is lost and one when it is back, however many attempts fail between them. */
function connectionLines(log: Logger, url: string): Pick<RedisStoreOptions, 'onChange' | 'onFailure'> {
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
