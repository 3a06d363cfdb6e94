/** The part of a limiter that answers callers: the service, its store, and the gRPC and HTTP listeners. Runs completely in one thread. */
import type { Health } from '../../process/grpc/health.ts';
import { throttledLine } from '../../process/log/log-throttle.ts';
import type { ListenAddress, UnixAddress } from '../../process/net/bind.ts';
import type { RuleTable } from '../../rules/table/rule-table.ts';
import { type MessageCarrier, type SentMessage, Threads, type ThreadsOf } from '../capabilities/messages.ts';
import type { Decisions } from '../capabilities/parts.ts';
import { createDecideForHttp } from '../http/http-decision.ts';
import { lines } from '../log/lines.ts';
import { ExcessResponses, TooLargeRequests } from '../service/over-without-limit.ts';
import {
  createShouldRateLimit,
  createWholeDecisions,
  type ShouldRateLimitOptions,
} from '../service/should-rate-limit.ts';
import { requestLimits } from '../settings/counting-settings.ts';
import { unsupportedReasons } from '../settings/rule-support.ts';
import { Latencies, type TakenLatencies } from '../stats/registry/call-stats.ts';
import { createLimiterStats, type LimiterStats } from '../stats/registry/limiter-stats.ts';
import type { ResolveSrv } from '../stores/memcache/memcache-nodes.ts';
import type { MemoryStore } from '../stores/memory/memory-store.ts';
import { ThreadParts } from './capabilities.ts';
import type { OpenedConnections } from './connections.ts';
import type { LimiterContext, ServingModules } from './context.ts';
import {
  countingOptions,
  createDecisionService,
  createWarnings,
  wholeResponseOptions,
} from './decision-service.ts';
import { openGrpc } from './grpc.ts';
import { openHttp } from './http.ts';
import { openStore } from './store.ts';

/** Messages of the process itself to each serving thread. */
interface ServingMessages {
  /**
   * Forgets everything that is remembered of these counters, which were reset: local cache, leases, and hits that are not stored yet.
   * This includes the results of commands that the store received before. If `keys` is undefined, the counters are unknown, so
   * everything except hits that are not stored yet is forgotten.
   */
  forgetCounters(keys: readonly string[] | undefined): void;
  /** Returns the durations of decisions since the last message, over gRPC and over HTTP, as counts of the buckets of `Latencies`. */
  takeLatencies(): TakenLatencies;
}

const ofProcess = 'process';

export function servingThreads(carrier: MessageCarrier): ThreadsOf<ServingMessages> {
  return new Threads(carrier, ofProcess).of<ServingMessages>();
}

/** Serves in this thread, or in several that share the ports. */
export interface Serving extends MessageCarrier {
  /** Decides by these rules from now on. A promise resolves when all threads use them. */
  useRules(table: RuleTable): void | Promise<void>;
  /** Waits for the first answer of the store, without a timeout. */
  connectStore(): Promise<void>;
  /** Rejects with a BindError, or with a WatchedFilesError for the TLS files. A Unix socket has the port 0. */
  listenForGrpc(address: ListenAddress | UnixAddress): Promise<{ port: number }>;
  listenForHttp(address: ListenAddress): Promise<{ port: number }>;
  /** From now on, HTTP responses end their connections. The listeners stay open. */
  announceEnd(): void;
  /** Accepts no more calls. Resolves when the last call has ended, or was canceled after the grace period. */
  shutdownGrpc(): Promise<void>;
  closeHttp(): Promise<void>;
  /** Closes the store, and sends the last spans. */
  closeStore(): Promise<void>;
}

export interface ThreadServing extends Serving {
  /** BACKEND_TYPE=memory: the store that counts. */
  readonly memory: MemoryStore | undefined;
  /** Handles a message for this thread. The answer, or what its promise resolves to, is plain data. */
  receive(message: SentMessage): unknown;
}

/** The parts of each thread. */
interface ServingParts {
  modules: ServingModules;
  connections: OpenedConnections;
  /** The health that the store reports. */
  storeHealth: Health;
  /** The resolver for MEMCACHE_SRV. Defaults to the system's. */
  resolveSrv?: ResolveSrv | undefined;
  /** The number of the worker, from 1 on; 0: the main thread. */
  worker: number;
}

/** @throws Error, without credentials in its message, if the store cannot be opened with these settings */
export function openServing(context: LimiterContext, given: ServingParts): ThreadServing {
  const { settings, registry, log } = context;
  const { modules, connections, storeHealth, resolveSrv, worker } = given;
  // Of all threads that read the TLS files, one counts and logs their changes.
  const reportsCertificates = worker <= 1;
  const parts = new ThreadParts(context, modules.capabilities, worker);
  const { store, reservations, counts, connect, forget, memory } = openStore(
    { ...context, health: storeHealth },
    { modules, resolveSrv, parts, flushTurn: connections.flushTurn },
  );
  const stats = createLimiterStats(registry);
  const service = createDecisionService(context, {
    store,
    reservations,
    observer: parts.observer,
    warnings: createWarnings(context, store.claims),
  });
  const bounds = requestLimits(settings);
  const tooLarge = tooLargeRequests(context, stats);
  const excess = new ExcessResponses({
    shadowMode: settings.shadowMode,
    onGlobalShadow: stats.globalShadowMode,
  });
  const asked: ShouldRateLimitOptions = {
    service,
    bounds,
    tooLarge,
    onLongTexts: stats.longTexts,
    onInvalidUtf8Values: stats.invalidUtf8Values,
    onFault: (error) => lines.callFault(log, { call: 'ShouldRateLimit', error }),
  };
  const wholeResponse = wholeResponseOptions(settings);
  const shouldRateLimit = Object.assign(createShouldRateLimit(asked), { overLimit: () => excess.message() });
  let domains: readonly string[] = [];
  let table: RuleTable | undefined;
  const decide = createDecideForHttp({
    ask: createWholeDecisions(asked, wholeResponse),
    // Names are collected when a caller misspells a domain, once for each set of rules.
    domains: () => {
      if (table !== undefined) domains = table.domainNames();
      table = undefined;
      return domains;
    },
  });
  const decisions: Decisions = {
    ...{ store: counts, service, asked, wholeResponse, excess, decide, counting: countingOptions(settings) },
    turns: connections.turns,
    allPass: settings.shadowMode,
    whyNoShares: unsupportedReasons(settings).shares,
    useOverrides: (overrides) => {
      service.useOverrides(overrides);
      parts.useOverrides(overrides);
    },
  };
  parts.opened(decisions);
  const shared = { shouldRateLimit, connections, gate: parts.gate, reportsCertificates };
  const latencies = { grpc: new Latencies(), http: new Latencies() };
  const grpc = openGrpc(context, {
    ...{ ...shared, latencies: latencies.grpc },
    further: (served) => parts.grpc(decisions, served),
    tracer: parts.tracers?.grpc,
  });
  const http = openHttp(context, {
    ...{ ...shared, latencies: latencies.http, decide, excess, bounds, tooLarge },
    routes: parts.http(decisions),
    tracer: parts.tracers?.http,
  });
  const messages: ServingMessages = {
    forgetCounters: (keys) => {
      service.forgetCounters(keys);
      forget?.(keys);
      parts.forget(keys);
    },
    takeLatencies: () => ({ grpc: latencies.grpc.take(), http: latencies.http.take() }),
  };
  parts.add(ofProcess, { messages });
  return {
    useRules: (rules) => {
      service.useRules(rules);
      parts.useRules(rules);
      table = rules;
    },
    connectStore: async () => {
      await parts.start();
      await connect();
    },
    listenForGrpc: (address) => grpc.listen(address),
    listenForHttp: (address) => http.listen(address),
    announceEnd: () => http.announceEnd(),
    shutdownGrpc: async () => {
      await parts.drain();
      await grpc.shutdown();
    },
    closeHttp: () => http.close(),
    closeStore: async () => {
      await parts.beforeStoreCloses();
      await store.close();
      await parts.close();
    },
    memory,
    receive: (message) => parts.receive(message),
    ...parts.carrier,
  };
}

function tooLargeRequests(context: LimiterContext, stats: LimiterStats): TooLargeRequests {
  const { settings } = context;
  const line = throttledLine(context, lines.requestTooLarge);
  return new TooLargeRequests({
    answer: settings.requestTooLarge,
    shadowMode: settings.shadowMode,
    onTooLarge: ({ setting, message: reason }, origin) => {
      stats.tooLarge(setting);
      line({ ...origin, reason }, `${origin?.listener} ${setting}`);
    },
    onGlobalShadow: stats.globalShadowMode,
  });
}
