import { createServer } from 'node:net';
import { BindError, bind, type ListenAddress } from '../../process/net/bind.ts';
import { inTime } from '../../process/time/clock.ts';
import type { Override } from '../../rules/override.ts';
import type { Profile } from '../../rules/proxy/read-profiles.ts';
import type { RuleLayer, RuleTable } from '../../rules/table/rule-table.ts';
import type { LimiterContext } from '../assembly/context.ts';
import type { Serving } from '../assembly/serving.ts';
import type { CallersInForce } from '../callers/callers.ts';
import type { ProfileQuestion, WorkerProfiles } from '../http/pprof-pages.ts';
import type { Order } from '../operate/orders.ts';
import { sinkOf } from '../settings/stats-settings.ts';
import { createWorkerStats } from '../stats/registry/limiter-stats.ts';
import type { TopSource } from '../stats/top/top-report.ts';
import type { WorkerTask } from './messages.ts';
import { type ListenerName, WorkerPlace } from './worker-place.ts';
import { JoinedGauges } from './worker-statistics.ts';
import { type StartThread, startNodeThread } from './worker-thread.ts';
import { topOfWorkers, type WorkerTopTask } from './worker-top.ts';

/** What systems without SO_REUSEPORT for TCP, or without its dealing out of connections, answer. */
const notSupported = new Set(['ENOTSUP', 'ENOPROTOOPT', 'EINVAL']);

export class SharedPortsError extends Error {
  override readonly name = 'SharedPortsError';
}

/** Opens a listener and closes it again; rejects with a BindError. */
async function tryListener(address: ListenAddress): Promise<{ port: number }> {
  const server = createServer();
  const bound = await bind(server, address);
  await new Promise<void>((resolve) => server.close(() => resolve()));
  return bound;
}

/** Rejects with a SharedPortsError where several threads cannot listen on one port. */
export async function assertPortsCanBeShared(host: string, open = tryListener): Promise<void> {
  try {
    await open({ host, port: 0, reusePort: true });
  } catch (error) {
    // Whatever else is wrong with the address is told when it is listened on.
    if (!(error instanceof BindError) || !notSupported.has(error.code)) return;
    throw new SharedPortsError(
      `LIMITER_WORKERS: threads cannot share a port on this system (${error.code}); set LIMITER_WORKERS=1 and run several limiters instead`,
    );
  }
}

/**
 * The address for listeners that share it, its port chosen. Rejects with a BindError when anybody else has it: those
 * who share a port would let another limiter in without a word.
 */
export async function addressToShare(address: ListenAddress): Promise<ListenAddress> {
  const { port } = await tryListener(address);
  return { ...address, port, reusePort: true };
}

interface WorkerPoolOptions {
  /** At least 2. */
  count: number;
  /** What connections of all threads hold: a cell for each worker, by its number. */
  heldCells: Int32Array;
  /** Defaults to a thread of Node. */
  startThread?: StartThread | undefined;
}

/** Chosen: so long /stats and a flush wait for workers to say what they counted. */
const statisticsWaitMs = 1_000;

function sharedLayer({ bytes, domains }: RuleLayer): RuleLayer {
  const shared = new SharedArrayBuffer(bytes.byteLength);
  new Uint8Array(shared).set(new Uint8Array(bytes));
  return { bytes: shared, domains };
}

/** Serves by several threads that share the ports, as one: their statistics, health and log lines are the process's. */
export class WorkerPool implements Serving, WorkerProfiles {
  readonly #context: LimiterContext;
  readonly top: TopSource | undefined;
  readonly #places: readonly WorkerPlace[];
  readonly #addresses = new Map<ListenerName, ListenAddress>();
  /** In their order, by the bytes that they are copies of. */
  #rules = new Map<ArrayBufferLike, RuleLayer>();
  #callers: CallersInForce | undefined;
  #overrides: readonly Override[] = [];
  #profiles: readonly Profile[] | undefined = [];

  constructor(context: LimiterContext, options: WorkerPoolOptions) {
    this.#context = context;
    const { registry, health, settings, timers } = context;
    const { count, heldCells, startThread = startNodeThread } = options;
    const stats = createWorkerStats(registry, () => this.#ready().length);
    const joined = new JoinedGauges(registry);
    const place = (number: number): WorkerPlace =>
      new WorkerPlace(context, {
        joined,
        number,
        startThread,
        addresses: this.#addresses,
        beginning: () => ({
          tellsOfCertificates: number === 1,
          settings,
          held: { cells: heldCells, own: number },
          rules: [...this.#rules.values()],
          callers: this.#callers,
          overrides: this.#overrides,
          profiles: this.#profiles,
          healthy: health.healthy,
          timers: sinkOf(settings) !== 'none',
        }),
        onChange: () => this.#updateHealth(),
        onCrash: stats.crashed,
      });
    if (settings.statsTopKeys > 0) {
      const askAll = (task: WorkerTopTask) =>
        this.#ready().map((place) => place.ask(task).catch(() => undefined));
      this.top = topOfWorkers(askAll, timers);
    }
    this.#places = Array.from({ length: count }, (_, index) => place(index + 1));
    this.#updateHealth();
    health.subscribe((healthy) => {
      for (const one of this.#places) void one.demand({ do: 'set-health', healthy });
    });
  }

  /** Starts the threads; settles when each has its store. Rejects with the first failure, which ends the limiter. */
  async connectStore(): Promise<void> {
    await assertPortsCanBeShared(this.#context.settings.grpcHost);
    await Promise.all(this.#places.map((place) => place.begin()));
  }

  /** Bytes are copied once, for all threads. Settles when all that serve decide by them. */
  async useRules(table: RuleTable): Promise<void> {
    const former = this.#rules;
    this.#rules = new Map(
      table.layers.map((layer) => [layer.bytes, former.get(layer.bytes) ?? sharedLayer(layer)]),
    );
    // Of a table that follows from the former one, only the last layer is new.
    const layers = [...this.#rules].flatMap(([bytes, layer]) => (former.has(bytes) ? [] : [layer]));
    await this.#comeIntoForce({ do: 'use-rules', layers });
  }

  /** Their rates lie in memory that all threads read and write. */
  async useCallers(callers: CallersInForce): Promise<void> {
    this.#callers = callers;
    await this.#comeIntoForce({ do: 'use-callers', callers });
  }

  async operate(order: Order): Promise<unknown[]> {
    if (order.order === 'use-overrides') this.#overrides = order.overrides;
    if (order.order === 'use-profiles') this.#profiles = order.profiles;
    const answers = await this.#comeIntoForce({ do: 'operate', order });
    return answers.flatMap((bytes) =>
      bytes === undefined ? [] : [JSON.parse(Buffer.from(bytes).toString()) as unknown],
    );
  }

  listenForGrpc(address: ListenAddress): Promise<{ port: number }> {
    return this.#listen('grpc', address);
  }

  listenForHttp(address: ListenAddress): Promise<{ port: number }> {
    return this.#listen('http', address);
  }

  async shutdownGrpc(): Promise<void> {
    for (const place of this.#places) place.close();
    await this.#askAll({ do: 'shutdown-grpc' });
  }

  async closeHttp(): Promise<void> {
    await this.#askAll({ do: 'close-http' });
  }

  /** Ends the threads as well. */
  async closeStore(): Promise<void> {
    await Promise.all(
      this.#places.map(async (place) => {
        await place.ask({ do: 'close-store' }).catch(() => {});
        await place.end();
      }),
    );
  }

  get count(): number {
    return this.#places.length;
  }

  async profile(worker: number, question: ProfileQuestion): Promise<Uint8Array | undefined> {
    return this.#places[worker - 1]?.ask({ do: 'profile', question });
  }

  /** Brings the registry up to date, as far as workers say in time what they counted. */
  async readStatistics(): Promise<void> {
    const answers = this.#places.map((place) => place.demand({ do: 'show-statistics' }));
    await inTime(this.#context.timers, statisticsWaitMs, Promise.all(answers), undefined);
    for (const place of this.#places) place.mergeStatistics();
  }

  async #listen(listener: ListenerName, address: ListenAddress): Promise<{ port: number }> {
    const shared = await addressToShare(address);
    const ready = this.#ready();
    this.#addresses.set(listener, shared);
    await Promise.all(ready.map((place) => place.ask({ do: 'listen', listener, address: shared })));
    return { port: shared.port };
  }

  async #comeIntoForce(task: WorkerTask): Promise<(Uint8Array | undefined)[]> {
    const inForce = this.#places.map((place) => {
      const { mayServe } = place;
      const done = place.demand(task);
      // One that listens only later has it before it takes its first call.
      return mayServe ? done : undefined;
    });
    return Promise.all(inForce);
  }

  /** One that ends meanwhile has nothing left to do. */
  async #askAll(task: WorkerTask): Promise<void> {
    await Promise.all(this.#places.map((place) => place.ask(task)));
  }

  #ready(): WorkerPlace[] {
    return this.#places.filter((place) => place.isReady);
  }

  /** Healthy while any worker serves and each of those that do has its store. */
  #updateHealth(): void {
    const ready = this.#ready();
    this.#context.health.set('workers', ready.length > 0 && ready.every((place) => place.isHealthy));
  }
}
