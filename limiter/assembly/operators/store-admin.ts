/** Opens the store that the settings name for operators: once per process, in the main thread. */
import { randomUUID } from 'node:crypto';
import { packageVersion } from '../../../process/files/package-file.ts';
import { Heartbeats, type LimiterName } from '../../operate/heartbeats.ts';
import { CounterResets, type CounterResetsOptions } from '../../operate/resets.ts';
import { MemcacheStoreAdmin } from '../../operate/store-admin/memcache-store-admin.ts';
import { MemoryStoreAdmin } from '../../operate/store-admin/memory-store-admin.ts';
import type { StoreAdmin } from '../../operate/store-admin/store-admin.ts';
import { StatsRegistry } from '../../stats/registry/stats-registry.ts';
import type { ResolveSrv } from '../../stores/memcache/memcache-nodes.ts';
import type { MemoryStore } from '../../stores/memory/memory-store.ts';
import { type LimiterContext, loaded, type ServingModules } from '../context.ts';

interface StoreAdminParts {
  modules: ServingModules;
  /** The store of the only thread; undefined with other backends. */
  memory: MemoryStore | undefined;
  /** The resolver for MEMCACHE_SRV. Defaults to the system's. */
  resolveSrv: ResolveSrv | undefined;
}

/** Reports this limiter to those that share its store, and asks them to reset counters. */
export interface LimiterPeers {
  readonly resets: CounterResets;
  readonly heartbeats: Heartbeats;
  start(): void;
  close(): Promise<void>;
}

/** `forget` reaches every serving thread. */
export function openPeers(
  { clock, timers }: LimiterContext,
  {
    storeAdmin,
    self,
    forget,
  }: { storeAdmin: StoreAdmin; self: LimiterName; forget: CounterResetsOptions['forget'] },
): LimiterPeers {
  const heartbeats = new Heartbeats({
    storeAdmin,
    self: { ...self, version: packageVersion() },
    clock,
    timers,
  });
  const resets = new CounterResets({
    storeAdmin,
    heartbeats,
    self,
    forget,
    newId: randomUUID,
    clock,
    timers,
  });
  return {
    resets,
    heartbeats,
    start: () => {
      resets.start();
      // With a memory store, there is no other limiter. memcache has no records.
      if (storeAdmin.kind === 'redis') heartbeats.start();
    },
    close: () => {
      resets.close();
      return heartbeats.close();
    },
  };
}

/** @throws Error, without credentials in its message, if the store cannot be opened with these settings */
export function openStoreAdmin(
  context: LimiterContext,
  { modules, memory, resolveSrv }: StoreAdminParts,
): StoreAdmin {
  const { settings } = context;
  if (memory !== undefined) return new MemoryStoreAdmin(memory);
  if (settings.backendType === 'redis')
    return loaded(modules.redis, 'the Redis client').openRedisStoreAdmin(context);
  const { openMemcache } = loaded(modules.memcache, 'the memcache client');
  return new MemcacheStoreAdmin(async () => {
    const { store, connect } = openMemcache(
      {
        ...context,
        // No decisions are made here, so these statistics do not count for the store.
        registry: new StatsRegistry(),
        settings: { ...settings, isStoreFailureModeSet: true, memcacheMaxIdleConns: 1 },
      },
      resolveSrv,
    );
    await connect();
    return store;
  });
}
