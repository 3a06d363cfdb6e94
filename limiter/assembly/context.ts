/** What all parts of a limiter are made from, and what is made of it by those that only some settings need. */
import { hostname } from 'node:os';
import type { HttpConnectionsOptions } from '../../process/http/http-connections.ts';
import type { FlushTurn } from '../../process/time/loop-turns.ts';
import type { CapabilityContext, LoadedCapability } from '../capabilities/capability.ts';
import type { ConfigSource } from '../config-source/config-source.ts';
import type { OriginLines } from '../log/lines.ts';
import type { StoreAdmin } from '../operate/store-admin/store-admin.ts';
import type { LimiterSettings } from '../settings/settings.ts';
import { xdsSettings } from '../settings/xds-settings.ts';
import type { Mapping } from '../stats/prometheus/mapping-rules.ts';
import type { ResolveSrv } from '../stores/memcache/memcache-nodes.ts';
import type { MemoryStore } from '../stores/memory/memory-store.ts';
import type { ReservationStore, Store } from '../stores/store.ts';

/** How people call this limiter: by its pod, by the id of its node where that was chosen, or by its host. */
export function limiterName({ podName, xdsNodeId }: LimiterSettings): string {
  const chosenId = xdsNodeId === xdsSettings.xdsNodeId.default ? '' : xdsNodeId;
  return podName || chosenId || hostname();
}

/** One for each thread. */
export type LimiterContext = CapabilityContext<LimiterSettings>;

export interface OpenedServer {
  store: Store;
  /** Waits for the first answer of the store, for as long as it takes. */
  connect(): Promise<void>;
}

export interface OpenedStore extends OpenedServer {
  /** Counts each hit as it comes: inside of `aroundStore`, and of all that is around that. */
  counts: Store;
  /** Around `store`. Undefined: it keeps none. */
  reservations?: ReservationStore | undefined;
  /** These counters were reset; undefined: nobody knows which. Undefined where nothing is remembered of counters. */
  forget?: (keys: readonly string[] | undefined) => void;
  /** BACKEND_TYPE=memory: the store itself. */
  memory?: MemoryStore;
}

export interface OpenedConfigSource {
  source: ConfigSource;
  origin: OriginLines;
}

/** What statistics go to. */
export interface Sink {
  /** Rejects when the limiter cannot run without it. */
  start(): void | Promise<void>;
  /** The last values, then the end; settles about when `timeoutMs` are over at the latest. */
  close(timeoutMs: number): Promise<void>;
}

/** Modules of a thread that serves which only some settings need; undefined: they do not. */
export interface ServingModules {
  readonly redis:
    | {
        openRedis(
          context: LimiterContext,
          storeName: 'store' | 'per_second_store',
          parts: { flushTurn: FlushTurn; onRefused: () => void },
        ): OpenedServer;
        openRedisStoreAdmin(context: LimiterContext): StoreAdmin;
      }
    | undefined;
  readonly memcache:
    | { openMemcache(context: LimiterContext, resolveSrv: ResolveSrv | undefined): OpenedServer }
    | undefined;
  /** That the settings ask for. */
  readonly capabilities: readonly LoadedCapability<LimiterSettings>[];
}

/** Those of the whole process. */
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

/** Throws when the settings did not name the module for which it was asked now. */
export function loaded<Module>(module: Module | undefined, name: string): Module {
  if (module === undefined) throw new Error(`${name} is not loaded`);
  return module;
}
