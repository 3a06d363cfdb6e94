/** What all parts of a limiter are made from, and what is made of it by those that only some settings need. */
import { hostname } from 'node:os';
import type { Health } from '../../process/grpc/health.ts';
import type { HttpConnectionsOptions } from '../../process/http/http-connections.ts';
import type { Logger } from '../../process/log/logger.ts';
import type { Clock, Timers } from '../../process/time/clock.ts';
import type { FlushTurn } from '../../process/time/loop-turns.ts';
import type { ConfigSource } from '../config-source/config-source.ts';
import type { GrpcServerOptions } from '../grpc/server.ts';
import type { OriginLines } from '../log/lines.ts';
import type { StoreOffice } from '../operate/office/office.ts';
import type { LimiterSettings } from '../settings/settings.ts';
import { xdsSettings } from '../settings/xds-settings.ts';
import type { StatsRegistry } from '../stats/registry/stats-registry.ts';
import type { ResolveSrv } from '../stores/memcache/memcache-nodes.ts';
import type { MemoryStore } from '../stores/memory/memory-store.ts';
import type { Store } from '../stores/store.ts';

/** How people call this limiter: by its pod, by the id of its node where that was chosen, or by its host. */
export function limiterName({ podName, xdsNodeId }: LimiterSettings): string {
  const chosenId = xdsNodeId === xdsSettings.xdsNodeId.default ? '' : xdsNodeId;
  return podName || chosenId || hostname();
}

/** One for each thread. */
export interface LimiterContext {
  readonly settings: LimiterSettings;
  readonly clock: Clock;
  readonly timers: Timers;
  /** From 0 to below 1. */
  readonly random: () => number;
  readonly registry: StatsRegistry;
  /** What callers are told. */
  readonly health: Health;
  readonly log: Logger;
}

export interface OpenedStore {
  store: Store;
  /** Waits for the first answer of the store, for as long as it takes. */
  connect(): Promise<void>;
  /** Gives leases back, as they end with the rules that they were taken by. Undefined without leases. */
  endLeases?: () => void;
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
          parts: { flushTurn: FlushTurn; stopLeases: () => void },
        ): OpenedStore;
        openRedisOffice(context: LimiterContext): StoreOffice;
      }
    | undefined;
  readonly memcache:
    | { openMemcache(context: LimiterContext, resolveSrv: ResolveSrv | undefined): OpenedStore }
    | undefined;
  readonly reflection: { readonly reflectionMethods: GrpcServerOptions['reflection'] } | undefined;
}

/** Those of the whole process. */
export interface OptionalModules extends ServingModules {
  readonly xds: { openXds(context: LimiterContext): OpenedConfigSource } | undefined;
  readonly prometheus:
    | { openPrometheus(context: LimiterContext, connections: HttpConnectionsOptions): Sink }
    | undefined;
}

/** Throws when the settings did not name the module for which it was asked now. */
export function loaded<Module>(module: Module | undefined, name: string): Module {
  if (module === undefined) throw new Error(`${name} is not loaded`);
  return module;
}
