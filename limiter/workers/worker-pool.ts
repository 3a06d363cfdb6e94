import { createServer } from 'node:net';
import { BindError, bind, type ListenAddress } from '../../process/net/bind.ts';
import { inTime } from '../../process/time/clock.ts';
import type { RuleLayer, RuleTable } from '../../rules/table/rule-table.ts';
import type { LimiterContext } from '../assembly/context.ts';
import type { Serving } from '../assembly/serving.ts';
import type { SentMessage } from '../capabilities/messages.ts';
import { sinkOf } from '../settings/stats-settings.ts';
import { createWorkerStats } from '../stats/registry/limiter-stats.ts';
import type { WorkerTask } from './messages.ts';
import { type ListenerName, WorkerPlace } from './worker-place.ts';
import { JoinedGauges } from './worker-statistics.ts';
import { type StartThread, startNodeThread } from './worker-thread.ts';

/** Error codes of systems that cannot share a TCP port between threads and distribute its connections (SO_REUSEPORT). */
const notSupported = new Set(['ENOTSUP', 'ENOPROTOOPT', 'EINVAL']);

export class SharedPortsError extends Error {
  override readonly name = 'SharedPortsError';
}

/** Opens a listener and closes it again. Rejects with a BindError. */
async function tryListener(address: ListenAddress): Promise<{ port: number }> {
  const server = createServer();
  const bound = await bind(server, address);
  await new Promise<void>((resolve) => server.close(() => resolve()));
  return bound;
}

/** Rejects with a SharedPortsError if several threads cannot listen on one port. */
export async function assertPortsCanBeShared(host: string, open = tryListener): Promise<void> {
  try {
    await open({ host, port: 0, reusePort: true });
  } catch (error) {
    // Other problems with the address are reported when the threads listen.
    if (!(error instanceof BindError) || !notSupported.has(error.code)) return;
    throw new SharedPortsError(
      `LIMITER_WORKERS: threads cannot share a port on this system (${error.code}); set LIMITER_WORKERS=1 and run several limiters instead`,
    );
  }
}

/**
 * Returns the address for listeners that share it, with a port. Rejects with a BindError if another process uses it: a shared port would
 * silently admit another limiter.
 */
export async function addressToShare(address: ListenAddress): Promise<ListenAddress> {
  const { port } = await tryListener(address);
  return { ...address, port, reusePort: true };
}

interface WorkerPoolOptions {
  /** The number of threads, at least 2. */
  count: number;
  /** The memory held by connections of all threads: one cell for each worker, by its number. */
  memoryCells: Int32Array;
  /** Defaults to a thread of Node. */
  startThread?: StartThread | undefined;
}

/** Chosen: the time that /stats, a flush and capabilities wait for workers. */
const waitMs = 1_000;

function sharedLayer({ bytes, domains }: RuleLayer): RuleLayer {
  const shared = new SharedArrayBuffer(bytes.byteLength);
  new Uint8Array(shared).set(new Uint8Array(bytes));
  return { bytes: shared, domains };
}

/** Serves with several threads that share the ports. Their statistics, health and log lines are those of the process. */
export class WorkerPool implements Serving {
  readonly #context: LimiterContext;
  readonly #places: readonly WorkerPlace[];
  readonly #addresses = new Map<ListenerName, ListenAddress>();
  /** Layers in their order, by the bytes of which they are copies. */
  #rules = new Map<ArrayBufferLike, RuleLayer>();
  /** Messages by capability and kind. */
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

  /** Starts the threads. Resolves when each has its store. Rejects with the first failure, which ends the limiter. */
  async connectStore(): Promise<void> {
    await assertPortsCanBeShared(this.#context.settings.grpcHost);
    await Promise.all(this.#places.map((place) => place.begin()));
  }

  /** Copies the bytes once for all threads. Resolves when all serving threads decide by the rules. */
  async useRules(table: RuleTable): Promise<void> {
    const former = this.#rules;
    this.#rules = new Map(
      table.layers.map((layer) => [layer.bytes, former.get(layer.bytes) ?? sharedLayer(layer)]),
    );
    // If the table follows from the former one, only its last layer is new.
    const layers = [...this.#rules].flatMap(([bytes, layer]) => (former.has(bytes) ? [] : [layer]));
    await this.#comeIntoForce({ do: 'use-rules', layers });
  }

  listenForGrpc(address: ListenAddress): Promise<{ port: number }> {
    return this.#listen('grpc', address);
  }

  listenForHttp(address: ListenAddress): Promise<{ port: number }> {
    return this.#listen('http', address);
  }

  announceEnd(): void {
    for (const place of this.#places) void place.demand({ do: 'announce-end' });
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

  /** Returns the answers that arrive within a second. */
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

  async reach(message: SentMessage): Promise<unknown[]> {
    const answers = await this.#comeIntoForce({ do: 'receive', message });
    return answers.filter((answer) => answer !== undefined);
  }

  async publish(message: SentMessage): Promise<void> {
    this.#published.set(`${message.capability} ${message.kind}`, message);
    await this.reach(message);
  }

  /** Brings the registry up to date with the counts that workers send in time. */
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
      // A thread that listens later has the task before its first call.
      return mayServe ? done : undefined;
    });
    return Promise.all(inForce);
  }

  /** A thread that ends meanwhile has nothing left to do. */
  async #askAll(task: WorkerTask): Promise<void> {
    await Promise.all(this.#places.map((place) => place.ask(task)));
  }

  #ready(): WorkerPlace[] {
    return this.#places.filter((place) => place.isReady);
  }

  /** Healthy if at least one worker serves and every serving worker has its store. */
  #updateHealth(): void {
    const ready = this.#ready();
    this.#context.health.set('workers', ready.length > 0 && ready.every((place) => place.isHealthy));
  }
}
