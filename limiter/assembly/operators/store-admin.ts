/** The process's own way to the store that the settings name: opened once, in the main thread. */
import { randomUUID } from 'node:crypto';
import { packageVersion } from '../../../process/files/package-file.ts';
import { Heartbeats, type LimiterName } from '../../operate/heartbeats.ts';
import type { Order } from '../../operate/orders.ts';
import { CounterResets } from '../../operate/resets.ts';
import { MemcacheStoreAdmin } from '../../operate/store-admin/memcache-store-admin.ts';
import { MemoryStoreAdmin } from '../../operate/store-admin/memory-store-admin.ts';
import type { StoreAdmin } from '../../operate/store-admin/store-admin.ts';
import { StatsRegistry } from '../../stats/registry/stats-registry.ts';
import type { ResolveSrv } from '../../stores/memcache/memcache-nodes.ts';
import type { MemoryStore } from '../../stores/memory/memory-store.ts';
import { type LimiterContext, loaded, type ServingModules } from '../context.ts';

interface StoreAdminParts {
  modules: ServingModules;
  /** The one in which the only thread counts; undefined with other backends. */
  memory: MemoryStore | undefined;
  /** Of MEMCACHE_SRV. Defaults to the system's. */
  resolveSrv: ResolveSrv | undefined;
}

/** What a limiter says of itself to those that share its store, and what it asks of them. */
export interface Colleagues {
  readonly resets: CounterResets;
  readonly heartbeats: Heartbeats;
  start(): void;
  close(): Promise<void>;
}

/** `operate` reaches every thread that serves. */
export function openColleagues(
  { clock, timers }: LimiterContext,
  {
    storeAdmin,
    self,
    operate,
  }: { storeAdmin: StoreAdmin; self: LimiterName; operate(order: Order): Promise<unknown> },
): Colleagues {
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
    operate,
    newId: randomUUID,
    clock,
    timers,
  });
  return {
    resets,
    heartbeats,
    start: () => {
      resets.start();
      // Of memory there is nobody else, and memcache keeps no records.
      if (storeAdmin.kind === 'redis') heartbeats.start();
    },
    close: () => {
      resets.close();
      return heartbeats.close();
    },
  };
}

/** Throws an Error without credentials when the store cannot be opened as the settings say. */
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
        // Nobody is decided for here: these are no figures of the store.
        registry: new StatsRegistry(),
        settings: { ...settings, isStoreFailureModeSet: true, memcacheMaxIdleConns: 1 },
      },
      resolveSrv,
    );
    await connect();
    return store;
  });
}
