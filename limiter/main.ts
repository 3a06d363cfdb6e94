/** Starts and stops a limiter: reads the settings, creates all parts, opens the listeners, and closes everything in order. */
import { randomUUID } from 'node:crypto';
import { availableParallelism } from 'node:os';
import { packageVersion } from '../process/files/package-file.ts';
import { Health } from '../process/grpc/health.ts';
import type { HttpListener } from '../process/http/http-server.ts';
import { routeLibraryWarnings } from '../process/log/error-text.ts';
import { type LogDestination, openLog } from '../process/log/pino-logger.ts';
import { processLines, reportNotRun, shutdownLines } from '../process/log/process-lines.ts';
import { addressText, BindError, isLoopback, type ListenAddress } from '../process/net/bind.ts';
import { type ConnectionMemory, sharedCells } from '../process/net/connection-memory.ts';
import { enforceMinimumTls } from '../process/net/minimum-tls.ts';
import type { FollowedToken } from '../process/net/token-file.ts';
import { type Clock, systemClock, systemTimers, type Timers } from '../process/time/clock.ts';
import { type ShutdownStep, type SignalSource, shutdownOnSignal } from '../process/time/shutdown.ts';
import { MainParts } from './assembly/capabilities.ts';
import { openConfigSource, sourceFields } from './assembly/config-source.ts';
import { openConnections, shutdownGraceMs } from './assembly/connections.ts';
import { type LimiterContext, limiterName, type OptionalModules, type Sink } from './assembly/context.ts';
import { countingOptions } from './assembly/decision-service.ts';
import { grpcAddress } from './assembly/grpc.ts';
import { followDebugToken } from './assembly/http.ts';
import { openAdmin } from './assembly/operators/admin.ts';
import { openStatus } from './assembly/operators/status.ts';
import { type LimiterPeers, openPeers, openStoreAdmin } from './assembly/operators/store-admin.ts';
import { loadOptionalModules } from './assembly/optional-modules.ts';
import { openServing, type Serving, servingThreads } from './assembly/serving.ts';
import { openSink } from './assembly/sinks.ts';
import { listenerErrors, SlowStartReporter } from './assembly/slow-start.ts';
import { type ConfigSource, ConfigSourceError } from './config-source/config-source.ts';
import { RulesInForce, type RulesInForceParts } from './config-source/rules-in-force.ts';
import { DebugListener } from './http/debug-listener.ts';
import { defaultLease } from './leases/settings.ts';
import { lines } from './log/lines.ts';
import { counterRoutes } from './operate/counter-routes.ts';
import type { StoreAdmin } from './operate/store-admin/store-admin.ts';
import { type LimiterSettings, parseLimiterSettings } from './settings/settings.ts';
import { workersWanted } from './settings/worker-settings.ts';
import {
  createLimiterStats,
  registerHealthStats,
  registerProcessStats,
} from './stats/registry/limiter-stats.ts';
import { StatsRegistry } from './stats/registry/stats-registry.ts';
import { DescriptorOutput, type OutputStream } from './stats/sinks/output-sink.ts';
import type { ResolveSrv } from './stores/memcache/memcache-nodes.ts';
import { WorkerPool } from './workers/worker-pool.ts';
import type { StartThread } from './workers/worker-thread.ts';

export interface LimiterHost {
  /** The environment of the process. Variables that turn off the verification of certificates are removed from it. */
  env: Record<string, string | undefined>;
  /** Defaults to this process. */
  signals?: SignalSource;
  clock?: Clock;
  timers?: Timers;
  /** Returns a random number from 0 to below 1. */
  random?: () => number;
  /** Looks up MEMCACHE_SRV. Defaults to the system's resolver. */
  resolveSrv?: ResolveSrv;
  /** Starts the threads of LIMITER_WORKERS. They do not get clock, timers, random and resolveSrv. */
  startThread?: StartThread;
  /** Defaults to standard error. */
  logDestination?: LogDestination;
  /** The stream that gets statistics with USE_STATSD=false. Defaults to standard output. */
  statsOutput?: OutputStream;
  /** Called when all listeners are open. */
  onListening?: (ports: ListeningPorts) => void;
}

export interface ListeningPorts {
  /** The port is 0 with GRPC_UDS. */
  grpc: { port: number };
  http: { port: number };
  /** Undefined if its address is in use. The limiter then runs without it. */
  debug: { port: number } | undefined;
}

const lastFlushMs = 2_000;

/** Runs a limiter until a signal ends it, or until it cannot start. Resolves with the exit status. */
export async function runLimiter(host: LimiterHost): Promise<number> {
  const parsed = parseLimiterSettings(host.env);
  const clock = host.clock ?? systemClock;
  const log = openLog(parsed, host);
  if (parsed.errors !== undefined) return 1;
  const { settings } = parsed;
  if (enforceMinimumTls(host.env)) processLines.verificationStays(log);
  routeLibraryWarnings((text) => processLines.libraryWarning(log, { text }));
  try {
    const modules = await loadOptionalModules(settings);
    const context = {
      settings,
      clock,
      timers: host.timers ?? systemTimers,
      random: host.random ?? Math.random,
      registry: new StatsRegistry({
        extraTags: settings.extraTags,
        maxDetailedMetrics: settings.statsMaxDetailedMetrics,
        countsLeases: defaultLease(settings) !== undefined,
      }),
      health: new Health(),
      log,
    };
    return await new Limiter(context, host, modules).run();
  } catch (error) {
    const source = error instanceof ConfigSourceError ? sourceFields(settings) : {};
    lines.startFailed(log, { error, source });
    return 1;
  }
}

/** Returns the rules that the limiter needs to be healthy. With a control plane, it needs some, unless it may start without rules. */
function healthNeeds(settings: LimiterSettings): RulesInForceParts['healthNeeds'] {
  if (settings.healthyWithAtLeastOneConfigLoaded) return 'domains';
  return settings.configType === 'FILE' || settings.forceStartWithoutInitialConfig ? 'nothing' : 'rules';
}

class Limiter {
  readonly #context: LimiterContext;
  readonly #host: LimiterHost;
  readonly #rules: RulesInForce;
  readonly #configSource: ConfigSource;
  readonly #serving: Serving;
  /** The store for operators. It does not use the connections that count hits. */
  readonly #storeAdmin: StoreAdmin;
  readonly #peers: LimiterPeers;
  readonly #debug: HttpListener;
  readonly #connectionMemory: ConnectionMemory;
  readonly #debugToken: FollowedToken;
  readonly #sink: Sink | undefined;
  readonly #closeStatus: () => void;
  readonly #parts: MainParts;
  #startWatch: SlowStartReporter | undefined;
  #stopPeriods = (): void => {};
  #isEnding = false;
  /** Whether there may be gRPC and HTTP callers, who must learn that the limiter is shutting down. */
  #isServing = false;
  #listenersAreOpen = false;

  constructor(context: LimiterContext, host: LimiterHost, modules: OptionalModules) {
    this.#context = context;
    this.#host = host;
    const { settings, clock, registry, health, log } = context;
    const stats = createLimiterStats(registry);
    registerProcessStats(registry, {
      version: packageVersion(),
      node: process.version,
      backend: settings.backendType,
      failureMode:
        settings.backendType === 'redis' ||
        (settings.backendType === 'memcache' && settings.isStoreFailureModeSet)
          ? settings.storeFailureMode
          : 'none',
    });
    registerHealthStats(registry, health, () => this.#listenersAreOpen);

    const count = workersWanted(settings.limiterWorkers, availableParallelism());
    const memoryCells = count > 1 ? sharedCells(count + 1) : undefined;
    const connections = openConnections(context, memoryCells && { cells: memoryCells, own: 0 });
    this.#connectionMemory = connections.connectionMemory;
    const { startThread, resolveSrv } = host;
    const workers = memoryCells && new WorkerPool(context, { count, memoryCells, startThread });
    const alone = { modules, connections, storeHealth: health, resolveSrv, worker: 0 };
    const thread = workers === undefined ? openServing(context, alone) : undefined;
    this.#serving = workers ?? thread!;
    const threads = servingThreads(this.#serving);
    this.#storeAdmin = openStoreAdmin(context, { modules, memory: thread?.memory, resolveSrv });
    const self = { name: limiterName(settings), instance: randomUUID() };
    this.#peers = openPeers(context, {
      storeAdmin: this.#storeAdmin,
      self,
      forget: (keys) => threads.reach('forgetCounters', keys),
    });
    const counting = countingOptions(settings);
    this.#parts = new MainParts(context, modules.capabilities, {
      ...{ carrier: this.#serving, limiter: self.name, storeAdmin: this.#storeAdmin, counting },
      rules: () => this.#rules.table,
    });
    const { source, origin } = openConfigSource(context, modules);
    this.#configSource = source;
    this.#rules = new RulesInForce({
      useRules: (table) => this.#serving.useRules(table),
      useOverrides: async (overrides) => this.#parts.overrides?.useObjects(overrides),
      healthNeeds: healthNeeds(settings),
      origin,
      isFiles: settings.configType === 'FILE',
      health,
      registry,
      clock,
      stats,
      log,
    });

    const isServing = () => this.#listenersAreOpen;
    const status = openStatus(context, {
      self,
      rules: this.#rules,
      threads,
      overrides: this.#parts.overrides,
      capabilities: modules.capabilities.map(({ name }) => name),
      isServing,
    });
    this.#closeStatus = () => status.close();
    this.#debugToken = followDebugToken(context);
    this.#debug = new DebugListener({
      api: openAdmin(context, {
        token: () => this.#debugToken.current,
        gate: this.#parts.gate,
        routes: (report) => [
          ...status.routes,
          ...counterRoutes(
            {
              storeAdmin: this.#storeAdmin,
              rules: () => this.#rules.table,
              settings: counting,
              clock,
              limitOf: this.#parts.overrides?.limitOf,
            },
            { resets: this.#peers.resets, report },
          ),
          ...this.#parts.routes(report),
        ],
      }),
      rlconfigLines: () => this.#rules.rlconfigLines(),
      ruleFileLines: () => this.#rules.ruleFileLines(),
      statsLines: async () => {
        await registry.refreshAll();
        return registry.statsLines();
      },
      pages: this.#parts.pages,
      closeGraceMs: shutdownGraceMs,
      connections: connections.http,
      onFault: (error) => lines.callFault(log, { call: 'debug', error }),
    });
    if (workers !== undefined) registry.readOthersBy(() => workers.readStatistics());
    const output = host.statsOutput ?? new DescriptorOutput(1);
    const { mapping } = this.#parts;
    this.#sink = openSink(context, { modules, connections: connections.http, mapping, output });
  }

  /** Resolves with the exit status. Rejects when it cannot start, everything closed again. */
  async run(): Promise<number> {
    const ended = this.#untilSignal();
    try {
      return await Promise.race([ended, this.#start().then(() => ended)]);
    } catch (error) {
      // A store that is closed while it connects is no failure to start.
      if (this.#isEnding) return ended;
      await Promise.allSettled(this.#steps().map((step) => step.run()));
      throw error;
    }
  }

  #untilSignal(): Promise<number> {
    const { settings, timers, health, log } = this.#context;
    return new Promise((resolve) => {
      void shutdownOnSignal({
        signals: this.#host.signals ?? process,
        timers,
        drainDelayMs: () => (this.#isServing ? settings.shutdownDrainDelayMs : 0),
        markUnhealthy: () => {
          this.#isEnding = true;
          this.#startWatch?.end();
          health.set('sigterm', false);
          this.#serving.announceEnd();
        },
        steps: this.#steps(),
        exit: resolve,
        listener: shutdownLines(log),
      });
    });
  }

  /** The debug listener opens at once; the others when the store answered and the first load of rules ended. */
  async #start(): Promise<void> {
    const watch = new SlowStartReporter(this.#context, (start) =>
      lines.notServingYet(this.#context.log, start),
    );
    this.#startWatch = watch;
    try {
      await this.#startAll(watch);
    } finally {
      watch.end();
    }
  }

  async #startAll(watch: SlowStartReporter): Promise<void> {
    const { settings, timers, registry, log } = this.#context;
    await this.#debugToken.start();
    const debug = await this.#listenForDebug({ host: settings.debugHost, port: settings.debugPort });
    this.#stopPeriods = timers.every(settings.statsFlushIntervalMs, () => registry.nextPeriod());
    await this.#sink?.start();
    await this.#parts.start();
    watch.waitsFor = 'rules';
    await this.#configSource.start(this.#rules.listener);
    watch.waitsFor = 'store';
    await this.#serving.connectStore();
    this.#peers.start();
    this.#parts.storeAnswers();
    watch.waitsFor = 'rules';
    if (!settings.forceStartWithoutInitialConfig) await this.#rules.firstLoad;
    if (this.#isEnding) return;

    this.#isServing = true;
    this.#reportHealth();
    const forGrpc = grpcAddress(settings);
    const problem = 'path' in forGrpc ? listenerErrors.grpcSocket : listenerErrors.grpc;
    const grpc = await this.#serving.listenForGrpc(forGrpc).catch(problem);
    lines.listeningForGrpc(log, { address: addressText({ ...forGrpc, ...grpc }) });
    const httpAddress = { host: settings.httpHost, port: settings.httpPort };
    const http = await this.#serving.listenForHttp(httpAddress).catch(listenerErrors.http);
    lines.listeningForHttp(log, { address: addressText({ ...httpAddress, ...http }) });
    this.#listenersAreOpen = true;
    this.#host.onListening?.({ grpc, http, debug });
  }

  /** From here on callers see the health, which is only good or bad. */
  #reportHealth(): void {
    const { health, log } = this.#context;
    const report = () => {
      if (this.#isEnding) return;
      const components = health.failing.join(',');
      if (components === '') lines.healthyAgain(log);
      else lines.unhealthy(log, { components });
    };
    if (!health.healthy) report();
    health.subscribe(report);
  }

  /** A taken debug port keeps nobody from deciding. */
  async #listenForDebug(address: ListenAddress): Promise<{ port: number } | undefined> {
    const { log } = this.#context;
    try {
      const bound = await this.#debug.listen(address);
      const where = { address: addressText({ ...address, ...bound }) };
      lines.listeningForDebug(log, where);
      if (this.#debugToken.current === undefined && !isLoopback(address.host)) {
        lines.debugIsOpen(log, where);
      }
      return bound;
    } catch (error) {
      if (!(error instanceof BindError)) throw error;
      lines.listenerFailed(log, { listener: 'debug', settings: 'DEBUG_HOST, DEBUG_PORT', error });
      return undefined;
    }
  }

  async #closeStatistics(): Promise<void> {
    this.#stopPeriods();
    this.#closeStatus();
    await this.#sink?.close(lastFlushMs);
  }

  async #closeConfigSource(): Promise<void> {
    this.#rules.close();
    await this.#parts.close();
    await this.#configSource.close();
  }

  async #closeStore(): Promise<void> {
    await Promise.all([this.#serving.closeStore(), this.#peers.close().then(() => this.#storeAdmin.close())]);
  }

  async #closeDebug(): Promise<void> {
    this.#debugToken.close();
    await this.#debug.close();
    this.#connectionMemory.close();
  }

  /** Ends parts from the callers inward. The debug listener ends last, so that you can watch a slow end. */
  #steps(): ShutdownStep[] {
    const timeoutMs = shutdownGraceMs + 1_000;
    return [
      { name: 'gRPC listener', timeoutMs, run: () => this.#serving.shutdownGrpc() },
      { name: 'HTTP listener', timeoutMs, run: () => this.#serving.closeHttp() },
      { name: 'configuration source', timeoutMs, run: () => this.#closeConfigSource() },
      { name: 'statistics', timeoutMs, run: () => this.#closeStatistics() },
      { name: 'store', timeoutMs, run: () => this.#closeStore() },
      { name: 'debug listener', timeoutMs, run: () => this.#closeDebug() },
    ];
  }
}

if (import.meta.main) reportNotRun('limiter/main.ts', 'limiter');
