/** The top offenders of this thread, by the settings: counted by the service, shown by the debug listener. */

import type { Health, HealthView } from '../../process/grpc/health-service.ts';
import type { Logger } from '../../process/log/logger.ts';
import { Seldom } from '../../process/log/seldom.ts';
import type { ListenAddress, UnixAddress } from '../../process/net/bind.ts';
import type { Clock, Timers } from '../../process/time/clock.ts';
import type { RuleTable } from '../../rules/table/rule-table.ts';
import type { CallersInForce } from '../callers/callers.ts';
import * as lines from '../log/lines.ts';
import {
  createShouldRateLimit,
  type ShouldRateLimitOptions,
  shouldRateLimitPath,
} from '../service/should-rate-limit.ts';
import { requestBounds } from '../settings/counting-settings.ts';
import type { LimiterSettings } from '../settings/settings.ts';
import { createLimiterStats, type LimiterStats, registerTopStats } from '../stats/registry/limiter-stats.ts';
import type { StatsRegistry } from '../stats/registry/stats-registry.ts';
import { TopOffenders } from '../stats/top/top-offenders.ts';
import type { TopSource } from '../stats/top/top-report.ts';
import type { ResolveSrv } from '../stores/memcache/memcache-nodes.ts';
import { openCallers } from './callers.ts';
import type { OpenedConnections } from './connections.ts';
import { createDecisionService } from './decision-service.ts';
import { openGrpc } from './grpc.ts';
import { openHttp } from './http.ts';
import type { ServingOptionalParts } from './optional-parts.ts';
import { openStore } from './store.ts';
import { openTracing } from './tracing.ts';

export interface OpenedTop {
  offenders: TopOffenders;
  /** No new period begins. */
  close(): void;
}

export interface TopParts {
  settings: LimiterSettings;
  clock: Clock;
  timers: Timers;
  registry: StatsRegistry;
}

/** Undefined with STATS_TOP_KEYS=0. */
function openTop({ settings, clock, timers, registry }: TopParts): OpenedTop | undefined {
  if (settings.statsTopKeys === 0) return undefined;
  const offenders = new TopOffenders({
    keysPerDomain: settings.statsTopKeys,
    maxBytes: settings.statsTopMaxBytes,
    clock,
  });
  registerTopStats(registry, offenders);
  return { offenders, close: timers.every(settings.statsTopPeriodMs, () => offenders.rotate()) };
}

/** What answers callers: the service, its store, and the gRPC and HTTP listeners. Runs whole in one thread. */

/** How long requests in flight may take after the listeners closed. */
export const shutdownGraceMs = 10_000;

/** Ours: the least time between two log lines about requests beyond one bound. */
const tooLargeLineMs = 60_000;

/** In this thread, or in several that share the ports. */
export interface Serving {
  /** Decides by these rules from now on; a promise settles when that is so everywhere. */
  useRules(table: RuleTable): void | Promise<void>;
  /** Lets these ask from now on, likewise. With CALLERS_FILE nobody may before. */
  useCallers(callers: CallersInForce): void | Promise<void>;
  /** Waits for the first answer of the store, for as long as it takes. */
  connectStore(): Promise<void>;
  /** Rejects with a BindError, or with a WatchedFilesError of the TLS files. A Unix socket has the port 0. */
  listenForGrpc(address: ListenAddress | UnixAddress): Promise<{ port: number }>;
  /** Likewise. */
  listenForHttp(address: ListenAddress): Promise<{ port: number }>;
  /** Takes no more calls; settles when the last one ended, or was cut after the grace. */
  shutdownGrpc(): Promise<void>;
  /** Likewise. */
  closeHttp(): Promise<void>;
  /** Sends the last spans as well. */
  closeStore(): Promise<void>;
  /** Who is over limit; undefined with STATS_TOP_KEYS=0. */
  readonly top: TopSource | undefined;
}

export interface ThreadServing extends Serving {
  readonly offenders: TopOffenders | undefined;
}

export interface ServingParts {
  settings: LimiterSettings;
  clock: Clock;
  timers: Timers;
  random: () => number;
  optional: ServingOptionalParts;
  /** Of MEMCACHE_SRV. Defaults to the system's. */
  resolveSrv?: ResolveSrv | undefined;
  registry: StatsRegistry;
  /** What the store says of itself. */
  storeHealth: Health;
  /** What callers are told. */
  health: HealthView;
  log: Logger;
  /** What callers' connections share with those of other listeners. */
  connections: Pick<OpenedConnections, 'held' | 'turns' | 'http'>;
  /** Whether this thread counts and logs what becomes of the TLS files. Defaults to true. */
  tellsOfCertificates?: boolean;
}

/** Throws an Error without credentials when the store cannot be opened as the settings say. */
export function openServing(parts: ServingParts): ThreadServing {
  const { settings, clock, timers, random, registry, storeHealth, health, log } = parts;
  const tracing = openTracing({ settings, clock, timers, random, registry, log });
  const { store, connect } = openStore({
    ...parts,
    health: storeHealth,
    resolveSrv: parts.resolveSrv,
    spanMaker: tracing?.maker,
  });
  const stats = createLimiterStats(registry);
  const top = openTop({ settings, clock, timers, registry });
  const offenders = top?.offenders;
  const service = createDecisionService({ settings, store, clock, random, registry, stats, offenders });
  const onFault = (call: string) => (error: unknown) => lines.callFault(log, call, error);
  const bounds = requestBounds(settings);
  const onTooLarge = tooLargeRequests({ clock, log, stats });
  const shouldRateLimit = createShouldRateLimit({
    service,
    bounds,
    onTooLarge,
    onMendedValues: stats.mendedValues,
    onFault: onFault('ShouldRateLimit'),
  });
  const callers = openCallers({ settings, clock, registry, log });
  const tellsOfCertificates = parts.tellsOfCertificates ?? true;
  const unary = new Map([[shouldRateLimitPath, shouldRateLimit]]);
  const grpc = openGrpc({
    settings,
    unary,
    health,
    clock,
    timers,
    random,
    registry,
    log,
    shutdownGraceMs,
    held: parts.connections.held,
    turns: parts.connections.turns,
    optional: parts.optional,
    tracer: tracing?.grpc,
    gate: callers?.gate,
    tellsOfCertificates,
  });
  const http = openHttp({
    ...{ settings, shouldRateLimit, health, clock, timers, registry, log, tellsOfCertificates },
    bounds,
    onTooLarge,
    closeGraceMs: shutdownGraceMs,
    connections: parts.connections.http,
    tracer: tracing?.http,
    gate: callers?.gate,
  });
  return {
    useRules: (table) => service.useRules(table),
    useCallers: (inForce) => callers?.use(inForce),
    connectStore: async () => {
      await tracing?.start();
      await connect();
    },
    listenForGrpc: (address) => grpc.listen(address),
    listenForHttp: (address) => http.listen(address),
    shutdownGrpc: () => grpc.shutdown(),
    closeHttp: () => http.close(),
    closeStore: async () => {
      top?.close();
      await store.close();
      await tracing?.close();
    },
    top: offenders && {
      topDomains: () => [offenders.topDomains()],
      summariesOf: (domain) => offenders.summariesOf(domain),
    },
    offenders,
  };
}

type OnTooLarge = ShouldRateLimitOptions['onTooLarge'];

function tooLargeRequests(parts: { clock: Clock; log: Logger; stats: LimiterStats }): OnTooLarge {
  const { clock, log, stats } = parts;
  const line = new Seldom<{ reason: string; origin: Parameters<OnTooLarge>[1] }>(
    clock,
    tooLargeLineMs,
    ({ reason, origin }, times) => lines.requestTooLarge(log, { ...origin, reason, times }),
  );
  return ({ setting, message: reason }, origin) => {
    stats.tooLarge(setting);
    line.note({ reason, origin }, `${origin?.listener} ${setting}`);
  };
}
