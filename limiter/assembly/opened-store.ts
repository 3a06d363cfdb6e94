/** The store that the settings name, with its statistics and its part in the process's health. */

import { registerMemoryStoreStats } from '../stats/registry/limiter-stats.ts';
import { MemoryStore } from '../stores/memory/memory-store.ts';
import { PerSecondStore } from '../stores/per-second-store.ts';
import { TracedStore } from '../tracing/traced-store.ts';
import { loaded } from './optional-parts.ts';
import { type BreakerRole, withBreaker, withLocalFallback } from './store.ts';
import type { OpenedStore, StoreParts } from './store-parts.ts';

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
