/** Dependencies shared by all parts of a limiter, and the interfaces of parts that only some settings need. */
import { hostname } from 'node:os';
import type { HttpConnectionsOptions } from '../../process/http/http-connections.ts';
import type { FlushTurn } from '../../process/queues/loop-turns.ts';
import type { LoadedCapability } from '../capabilities/capability.ts';
import type { CapabilityContext } from '../capabilities/parts.ts';
import type { ConfigSource } from '../config-source/config-source.ts';
import type { OriginLines } from '../config-source/rules-in-force.ts';
import type { StoreAdmin } from '../operate/store-admin/store-admin.ts';
import type { LimiterSettings } from '../settings/settings.ts';
import { xdsSettings } from '../settings/xds-settings.ts';
import type { Mapping } from '../stats/prometheus/mapping-rules.ts';
import type { ResolveSrv } from '../stores/memcache/memcache-nodes.ts';
import type { MemoryStore } from '../stores/memory/memory-store.ts';
import type { ReservationStore, Store } from '../stores/store.ts';

/** The display name of this limiter: its pod, the id of its node if one is set, or its host. */
export function limiterName({ podName, xdsNodeId }: LimiterSettings): string {
  const chosenId = xdsNodeId === xdsSettings.xdsNodeId.default ? '' : xdsNodeId;
  return podName || chosenId || hostname();
}

/** The context of each thread. */
export type LimiterContext = CapabilityContext<LimiterSettings>;

export interface OpenedServer {
  store: Store;
  /** Waits for the first answer of the store, without a timeout. */
  connect(): Promise<void>;
}

export interface OpenedStore extends OpenedServer {
  /** Counts each hit at once: it is inside `aroundStore`, and all decorators around it. */
  counts: Store;
  /** Handles calls about reservations, around `store`. Undefined: the store does not support reservations. */
  reservations?: ReservationStore | undefined;
  /**
   * Called when these counters were reset. Undefined keys: it is unknown which. The method is undefined if nothing about counters is
   * remembered.
   */
  forget?: (keys: readonly string[] | undefined) => void;
  /** BACKEND_TYPE=memory: the store itself. */
  memory?: MemoryStore;
}

export interface OpenedConfigSource {
  source: ConfigSource;
  origin: OriginLines;
}

/** The destination of statistics. */
export interface Sink {
  /** Rejects if the limiter cannot run without it. */
  start(): void | Promise<void>;
  /** Sends the last values, then ends, shortly after `timeoutMs` at the latest. */
  close(timeoutMs: number): Promise<void>;
}

/** Modules of a serving thread that only some settings need; undefined if the settings do not need them. */
export interface ServingModules {
  readonly redis:
    | {
        openRedis(
          context: LimiterContext,
          storeName: 'store' | 'per_second_store',
          parts: { flushTurn: FlushTurn; onScriptsRejected: () => void },
        ): OpenedServer;
        openRedisStoreAdmin(context: LimiterContext): StoreAdmin;
      }
    | undefined;
  readonly memcache:
    | { openMemcache(context: LimiterContext, resolveSrv: ResolveSrv | undefined): OpenedServer }
    | undefined;
  /** The capabilities that the settings enable. */
  readonly capabilities: readonly LoadedCapability<LimiterSettings>[];
}

/** Optional modules of the whole process. */
export interface OptionalModules extends ServingModules {
  readonly xds: { openXds(context: LimiterContext): OpenedConfigSource } | undefined;
  readonly prometheus:
    | {
        openPrometheus(
          context: LimiterContext,
          connections: HttpConnectionsOptions,
          mapping: (() => Mapping) | undefined,
        ): Sink;
      }
    | undefined;
}

/** @throws if the settings do not need the requested module */
export function loaded<Module>(module: Module | undefined, name: string): Module {
  if (module === undefined) throw new Error(`${name} is not loaded`);
  return module;
}
