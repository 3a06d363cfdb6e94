/** What answers callers: the service, its store, and the gRPC and HTTP listeners. Runs whole in one thread. */
import { randomFillSync } from 'node:crypto';
import type { Health } from '../../process/grpc/health.ts';
import { Seldom } from '../../process/log/seldom.ts';
import type { ListenAddress, UnixAddress } from '../../process/net/bind.ts';
import type { RuleTable } from '../../rules/table/rule-table.ts';
import type { CallersInForce } from '../callers/callers.ts';
import { budgetsNow } from '../http/budget-endpoints.ts';
import { createDecideForHttp } from '../http/http-decision.ts';
import * as lines from '../log/lines.ts';
import { Latencies } from '../operate/latencies.ts';
import type { Order, OrderHandlers } from '../operate/orders.ts';
import type { Budgets } from '../service/budgets.ts';
import { Excess } from '../service/excess.ts';
import { createKuadrantMethods } from '../service/kuadrant-service.ts';
import {
  createShouldRateLimit,
  createWholeDecisions,
  type ShouldRateLimitOptions,
} from '../service/should-rate-limit.ts';
import { type TooLargeOptions, TooLargeRequests } from '../service/too-large.ts';
import { requestBounds } from '../settings/counting-settings.ts';
import {
  createLimiterStats,
  type LimiterStats,
  registerRefusalStats,
  registerTopStats,
} from '../stats/registry/limiter-stats.ts';
import { RefusalMemory } from '../stats/top/refusal-memory.ts';
import { TopOffenders } from '../stats/top/top-offenders.ts';
import type { TopSource } from '../stats/top/top-report.ts';
import type { ResolveSrv } from '../stores/memcache/memcache-nodes.ts';
import type { MemoryStore } from '../stores/memory/memory-store.ts';
import { openCallers } from './callers.ts';
import { type OpenedConnections, seldomMs } from './connections.ts';
import type { LimiterContext, ServingModules } from './context.ts';
import { createDecisionService, createWarnings, wholeResponseOptions } from './decision-service.ts';
import { openGrpc } from './grpc.ts';
import { openHttp } from './http.ts';
import { openForwardAuth } from './profiles.ts';
import { openStore } from './store.ts';
import { openTracing } from './tracing.ts';

/** In this thread, or in several that share the ports. */
export interface Serving {
  /** Decides by these rules from now on; a promise settles when that is so everywhere. */
  useRules(table: RuleTable): void | Promise<void>;
  /** Lets these ask from now on; a promise settles when that is so everywhere. With CALLERS_FILE nobody may before. */
  useCallers(callers: CallersInForce): void | Promise<void>;
  /** What each thread that serves answers; settles when all of them have carried it out. */
  operate(order: Order): Promise<readonly unknown[]>;
  /** Waits for the first answer of the store, for as long as it takes. */
  connectStore(): Promise<void>;
  /** Rejects with a BindError, or with a WatchedFilesError of the TLS files. A Unix socket has the port 0. */
  listenForGrpc(address: ListenAddress | UnixAddress): Promise<{ port: number }>;
  listenForHttp(address: ListenAddress): Promise<{ port: number }>;
  /** Takes no more calls; settles when the last one ended, or was cut after the grace. */
  shutdownGrpc(): Promise<void>;
  closeHttp(): Promise<void>;
  /** Sends the last spans as well. */
  closeStore(): Promise<void>;
  /** Who is over limit; undefined with STATS_TOP_KEYS=0. */
  readonly top: TopSource | undefined;
}

export interface ThreadServing extends Serving {
  /** BACKEND_TYPE=memory: where it counts. */
  readonly memory: MemoryStore | undefined;
  readonly offenders: TopOffenders | undefined;
  readonly budgets: Budgets;
}

/** What is this thread's own. */
interface ServingParts {
  modules: ServingModules;
  connections: OpenedConnections;
  /** What the store says of itself. */
  storeHealth: Health;
  /** Of MEMCACHE_SRV. Defaults to the system's. */
  resolveSrv?: ResolveSrv | undefined;
  /** Whether it counts and logs what becomes of the TLS files. */
  tellsOfCertificates: boolean;
}

/** Throws an Error without credentials when the store cannot be opened as the settings say. */
export function openServing(context: LimiterContext, parts: ServingParts): ThreadServing {
  const { settings, registry, log } = context;
  const { modules, connections, storeHealth, resolveSrv, tellsOfCertificates } = parts;
  const tracing = openTracing(context);
  const { store, connect, endLeases, forget, memory } = openStore(
    { ...context, health: storeHealth },
    { modules, resolveSrv, flushTurn: connections.flushTurn, spanMaker: tracing?.maker },
  );
  const stats = createLimiterStats(registry);
  const top = openTop(context);
  const offenders = top?.offenders;
  const refusals = openRefusals(context);
  const service = createDecisionService(context, {
    ...{ store, offenders, refusals, endLeases },
    warnings: createWarnings(context, store.claims),
  });
  const budgets = service.budgets({
    maxTtlMs: settings.budgetMaxTtlMs,
    newId: randomIds(),
    response: wholeResponseOptions(settings),
  });
  const bounds = requestBounds(settings);
  const tooLarge = tooLargeRequests(context, stats);
  const excess = new Excess({ shadowMode: settings.shadowMode, onGlobalShadow: stats.globalShadowMode });
  const asked: ShouldRateLimitOptions = {
    service,
    bounds,
    tooLarge,
    onLongTexts: stats.longTexts,
    onMendedValues: stats.mendedValues,
    onFault: (error) => lines.callFault(log, 'ShouldRateLimit', error),
  };
  const shouldRateLimit = Object.assign(createShouldRateLimit(asked), { overLimit: () => excess.message() });
  let domains: readonly string[] = [];
  let table: RuleTable | undefined;
  const decide = createDecideForHttp({
    ask: createWholeDecisions(asked, wholeResponseOptions(settings)),
    // Looked at when somebody mistypes one, once for all rules.
    domains: () => {
      if (table !== undefined) domains = table.domainNames();
      table = undefined;
      return domains;
    },
  });
  const callers = openCallers(context);
  const shared = { shouldRateLimit, connections, gate: callers?.gate, tellsOfCertificates };
  const reflection = modules.reflection?.reflectionMethods;
  const latencies = new Latencies();
  const { budgetMaxTtlMs: maxTtlMs } = settings;
  const grpc = openGrpc(context, {
    ...{ ...shared, latencies, reflection },
    kuadrant: createKuadrantMethods({ ...asked, budgets, excess, maxTtlMs }),
    tracer: tracing?.grpc,
  });
  const forwardAuth = openForwardAuth(context, { decide, excess });
  const http = openHttp(context, {
    ...{ ...shared, decide, excess, budgets, bounds, tooLarge },
    answerForwardAuth: forwardAuth.answer,
    tracer: tracing?.http,
  });
  const orders: OrderHandlers = {
    refusals: ({ question }) => refusals?.find(question) ?? { rows: [], kept: 0, domains: [] },
    budgets: ({ domain, entries }) => budgetsNow(budgets, domain, entries),
    'take-latencies': () => latencies.take(),
    'use-profiles': ({ profiles }) => forwardAuth.use(profiles),
    'use-overrides': ({ overrides }) => service.useOverrides(overrides),
    'forget-counters': ({ keys }) => {
      service.forgetCounters(keys);
      forget?.(keys);
    },
  };
  return {
    useRules: (rules) => {
      refusals?.useRules(rules.contentHash);
      service.useRules(rules);
      table = rules;
    },
    useCallers: (inForce) => callers?.use(inForce),
    operate: async (order) => [await (orders[order.order] as (order: Order) => unknown)(order)],
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
    memory,
    budgets,
  };
}

/** Who was refused in this thread. Undefined with REFUSALS_KEPT=0. */
function openRefusals({ settings, clock, registry }: LimiterContext): RefusalMemory | undefined {
  if (settings.refusalsKept === 0) return undefined;
  const memory = new RefusalMemory(settings.refusalsKept, clock, settings.requestMaxTextBytes);
  registerRefusalStats(registry, memory);
  return memory;
}

/** Who is over limit in this thread: counted by the service, shown by the debug listener. Undefined with STATS_TOP_KEYS=0. */
function openTop({
  settings,
  clock,
  timers,
  registry,
}: LimiterContext): { offenders: TopOffenders; close(): void } | undefined {
  if (settings.statsTopKeys === 0) return undefined;
  const offenders = new TopOffenders({
    keysPerDomain: settings.statsTopKeys,
    maxBytes: settings.statsTopMaxBytes,
    clock,
  });
  registerTopStats(registry, offenders);
  return { offenders, close: timers.every(settings.statsTopPeriodMs, () => offenders.rotate()) };
}

function tooLargeRequests({ settings, clock, log }: LimiterContext, stats: LimiterStats): TooLargeRequests {
  const line = new Seldom<{ reason: string; origin: Parameters<TooLargeOptions['onTooLarge']>[1] }>(
    clock,
    seldomMs,
    ({ reason, origin }, times) => lines.requestTooLarge(log, { ...origin, reason, times }),
  );
  return new TooLargeRequests({
    answer: settings.requestTooLarge,
    shadowMode: settings.shadowMode,
    onTooLarge: ({ setting, message: reason }, origin) => {
      stats.tooLarge(setting);
      line.note({ reason, origin }, `${origin?.listener} ${setting}`);
    },
    onGlobalShadow: stats.globalShadowMode,
  });
}

/** 128 random bits each, as text. Many are drawn at a time: a draw costs more than its bytes. */
function randomIds(): () => string {
  const idBytes = 16;
  const bytes = Buffer.alloc(256 * idBytes);
  let drawn = bytes.length;
  return () => {
    if (drawn === bytes.length) {
      randomFillSync(bytes);
      drawn = 0;
    }
    drawn += idBytes;
    return bytes.toString('hex', drawn - idBytes, drawn);
  };
}
