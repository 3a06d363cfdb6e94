import { createServer } from 'node:net';
import { BindError, bind, type ListenAddress } from '../../process/net/bind.ts';
import { inTime } from '../../process/time/clock.ts';
import type { Profile } from '../../rules/proxy/read-profiles.ts';
import type { RuleLayer, RuleTable } from '../../rules/table/rule-table.ts';
import type { LimiterContext } from '../assembly/context.ts';
import type { Serving } from '../assembly/serving.ts';
import type { SentMessage } from '../capabilities/messages.ts';
import type { Order } from '../operate/orders.ts';
import { sinkOf } from '../settings/stats-settings.ts';
import { createWorkerStats } from '../stats/registry/limiter-stats.ts';
import type { WorkerTask } from './messages.ts';
import { type ListenerName, WorkerPlace } from './worker-place.ts';
import { JoinedGauges } from './worker-statistics.ts';
import { type StartThread, startNodeThread } from './worker-thread.ts';

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
    // Whatever else is wrong with the address is reported when it is listened on.
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
  memoryCells: Int32Array;
  /** Defaults to a thread of Node. */
  startThread?: StartThread | undefined;
}

/** Chosen: so long /stats, a flush and capabilities wait for what workers say. */
const waitMs = 1_000;

function sharedLayer({ bytes, domains }: RuleLayer): RuleLayer {
  const shared = new SharedArrayBuffer(bytes.byteLength);
  new Uint8Array(shared).set(new Uint8Array(bytes));
  return { bytes: shared, domains };
}

/** Serves by several threads that share the ports, as one: their statistics, health and log lines are the process's. */
export class WorkerPool implements Serving {
  readonly #context: LimiterContext;
  readonly #places: readonly WorkerPlace[];
  readonly #addresses = new Map<ListenerName, ListenAddress>();
  /** In their order, by the bytes that they are copies of. */
  #rules = new Map<ArrayBufferLike, RuleLayer>();
  #profiles: readonly Profile[] | undefined = [];
  /** By capability and kind. */
  readonly #published = new Map<string, SentMessage>();

  constructor(context: LimiterContext, options: WorkerPoolOptions) {
    this.#context = context;
    const { registry, health, settings } = context;
    const { count, memoryCells, startThread = startNodeThread } = options;
    const stats = createWorkerStats(registry, () => this.#ready().length);
    const joined = new JoinedGauges(registry);
    const place = (number: number): WorkerPlace =>
      new WorkerPlace(context, {
        joined,
        number,
        startThread,
        addresses: this.#addresses,
        beginning: () => ({
          worker: number,
          settings,
          connectionMemory: { cells: memoryCells, own: number },
          rules: [...this.#rules.values()],
          profiles: this.#profiles,
          published: [...this.#published.values()],
          healthy: health.healthy,
          timers: sinkOf(settings) !== 'none',
        }),
        onChange: () => this.#updateHealth(),
        onCrash: stats.crashed,
      });
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

  async operate(order: Order): Promise<unknown[]> {
    if (order.order === 'use-profiles') this.#profiles = order.profiles;
    const answers = await this.#comeIntoForce({ do: 'operate', order });
    return answers.filter((answer) => answer !== undefined);
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

  /** What comes later than within a second is left out. */
  async ask(message: SentMessage): Promise<unknown[]> {
    const answers: unknown[] = [];
    const all = this.#ready().map(async (place) => {
      const answer = await place.ask({ do: 'receive', message }).catch(() => undefined);
      if (answer !== undefined) answers.push(answer);
    });
    await inTime(this.#context.timers, waitMs, Promise.all(all), undefined);
    return [...answers];
  }

  async askOne(worker: number, message: SentMessage): Promise<unknown> {
    return this.#places[worker - 1]?.ask({ do: 'receive', message });
  }

  async publish(message: SentMessage): Promise<void> {
    this.#published.set(`${message.capability} ${message.kind}`, message);
    await this.#comeIntoForce({ do: 'receive', message });
  }

  /** Brings the registry up to date, as far as workers say in time what they counted. */
  async readStatistics(): Promise<void> {
    const answers = this.#places.map((place) => place.demand({ do: 'show-statistics' }));
    await inTime(this.#context.timers, waitMs, Promise.all(answers), undefined);
    for (const place of this.#places) place.mergeStatistics();
  }

  async #listen(listener: ListenerName, address: ListenAddress): Promise<{ port: number }> {
    const shared = await addressToShare(address);
    const ready = this.#ready();
    this.#addresses.set(listener, shared);
    await Promise.all(ready.map((place) => place.ask({ do: 'listen', listener, address: shared })));
    return { port: shared.port };
  }

  async #comeIntoForce(task: WorkerTask): Promise<unknown[]> {
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
