/**
 * The place of one worker, which outlives its threads:
 *
 *          begin             the store answered, listeners open
 *   idle ────────> starting ────────────────────────────────────> ready
 *                   │   ^                                           │
 *    failed, ended  │   │ after a while                             │ ended
 *                   v   │                                           │
 *                  waiting <────────────────────────────────────────┘
 *
 *   any ──close──> closed
 *
 * The first start is not repeated: if it fails, the limiter fails.
 */
import { errorText } from '../../process/log/error-text.ts';
import type { ListenAddress } from '../../process/net/bind.ts';
import { retryDelayMs } from '../../process/time/pacing.ts';
import type { LimiterContext } from '../assembly/context.ts';
import { lines } from '../log/lines.ts';
import type { WorkerMessage, WorkerStart, WorkerTask } from './messages.ts';
import { type JoinedGauges, WorkerStatistics } from './worker-statistics.ts';
import {
  type StartThread,
  silenceSeconds,
  WorkerTaskError,
  WorkerThread,
  watchHeartbeat,
} from './worker-thread.ts';

export type ListenerName = 'grpc' | 'http';

interface WorkerPlaceOptions {
  /** The number of the worker, from 1 on. */
  number: number;
  startThread: StartThread;
  /** Returns the data for a thread that starts now. */
  beginning(): WorkerStart;
  /** The listeners that a thread opens before it is ready. */
  addresses: ReadonlyMap<ListenerName, ListenAddress>;
  joined: JoinedGauges;
  /** Called when its readiness or its health has changed. */
  onChange(): void;
  /** Called when a thread ended without being asked to. */
  onCrash(): void;
}

/** Chosen: waits between threads that end. The first is hardly noticed, and the longest does not burden the others. */
const firstWaitMs = 100;
const maxWaitMs = 30_000;
/** A thread that was ready for this time was a good one. */
const goodAfterMs = 60_000;
/** The time that a thread may take to end once it has nothing left to do. */
const endGraceMs = 2_000;

export class WorkerPlace {
  readonly #context: LimiterContext;
  readonly #options: WorkerPlaceOptions;
  #state: 'idle' | 'starting' | 'ready' | 'waiting' | 'closed' = 'idle';
  #thread: WorkerThread | undefined;
  #statistics: WorkerStatistics;
  #storeHealthy = true;
  #isFirst = true;
  #mayServe = false;
  #failures = 0;
  #readySinceMs = 0;
  #callOffWait = (): void => {};
  #callOffWatch = (): void => {};

  constructor(context: LimiterContext, options: WorkerPlaceOptions) {
    this.#context = context;
    this.#options = options;
    this.#statistics = new WorkerStatistics(context.registry, options.joined);
  }

  get isReady(): boolean {
    return this.#state === 'ready';
  }

  /** Whether a thread was asked to listen, so that it may have callers even before it is ready. */
  get mayServe(): boolean {
    return this.#mayServe;
  }

  /** The health of the store as the worker sees it. */
  get isHealthy(): boolean {
    return this.#storeHealthy;
  }

  /** Starts the first thread. Rejects if it fails, or ends before it is ready. */
  async begin(): Promise<void> {
    await this.#start();
    this.#isFirst = false;
  }

  /** Resolves when the task is done, and at once if there is no thread. Rejects if the thread cannot carry out the task. */
  async ask(task: WorkerTask): Promise<unknown> {
    try {
      return await this.#thread?.ask(task);
    } catch (error) {
      if (!(error instanceof WorkerTaskError && error.isEnd)) throw error;
      return undefined;
    }
  }

  /** Asks for a task that fails only because of a defect. A thread that fails is replaced. */
  async demand(task: WorkerTask): Promise<unknown> {
    const thread = this.#thread;
    try {
      return await this.ask(task);
    } catch (error) {
      thread?.abandon(errorText(error));
      return undefined;
    }
  }

  /** Adds what the worker counted to the statistics of the process. */
  mergeStatistics(): void {
    this.#statistics.merge();
  }

  /** From now on, a thread that ends is not replaced. */
  close(): void {
    this.#state = 'closed';
    this.#callOffWait();
    this.#callOffWatch();
  }

  /** Call it after `close`, when nothing is left to do. Resolves when the thread has ended. */
  async end(): Promise<void> {
    const thread = this.#thread;
    if (thread === undefined) return;
    const callOff = this.#context.timers.after(endGraceMs, () => void thread.terminate());
    await thread.end().catch(() => {});
    await thread.ended;
    callOff();
  }

  async #start(): Promise<void> {
    this.#state = 'starting';
    this.#storeHealthy = true;
    const { joined, number, startThread, addresses, beginning, onChange } = this.#options;
    const { registry, clock, timers } = this.#context;
    const statistics = new WorkerStatistics(registry, joined);
    this.#statistics = statistics;
    const thread = new WorkerThread({
      start: beginning(),
      name: `worker-${number}`,
      startThread,
      onNews: (news) => this.#take(news, statistics, thread),
      onEnd: (reason) => {
        statistics.end();
        this.#ended(reason);
      },
    });
    this.#thread = thread;
    await thread.ask({ do: 'connect-store' });
    // Includes listeners that are added while this runs.
    for (const [listener, address] of addresses) {
      // The limiter has begun to end meanwhile.
      if (this.#state !== 'starting') return;
      this.#mayServe = true;
      await thread.ask({ do: 'listen', listener, address });
    }
    if (this.#state !== 'starting') return;
    this.#state = 'ready';
    this.#mayServe = true;
    this.#readySinceMs = clock.monotonicMs();
    this.#callOffWatch = watchHeartbeat(
      timers,
      () => thread.ask({ do: 'show-statistics' }),
      () => thread.abandon(`it did not answer for ${silenceSeconds} s`),
    );
    onChange();
  }

  #take(
    news: Exclude<WorkerMessage, { is: 'done' | 'failed' }>,
    statistics: WorkerStatistics,
    thread: WorkerThread,
  ): void {
    if (news.is === 'values') statistics.useValues(news.values);
    else if (news.is === 'names') statistics.addNames(news.names);
    else if (news.is === 'reused') statistics.reuse(news.slots);
    else if (news.is === 'left') {
      statistics.leave(news.slots);
      // A thread that ends meanwhile does not need the slots.
      thread.ask({ do: 'reuse-slots', count: news.slots.length }).catch(() => {});
    } else if (news.is === 'durations') statistics.record(news.names, news.pairs);
    else if (news.is === 'log') {
      this.#context.log[news.level](news.message, { ...news.fields, worker: this.#options.number });
    } else {
      this.#storeHealthy = news.healthy;
      this.#options.onChange();
    }
  }

  #ended(reason: string | undefined): void {
    this.#thread = undefined;
    this.#mayServe = false;
    this.#callOffWatch();
    if (this.#state === 'closed') return;
    const { clock, log } = this.#context;
    if (this.#state === 'ready' && clock.monotonicMs() - this.#readySinceMs >= goodAfterMs)
      this.#failures = 0;
    this.#state = 'waiting';
    // The caller of `begin` gets the error from its own task.
    if (this.#isFirst) return;
    const waitMs = this.#scheduleNext();
    lines.workerEnded(log, { worker: this.#options.number, reason: reason ?? 'it was stopped', waitMs });
    this.#options.onCrash();
    this.#options.onChange();
  }

  #scheduleNext(): number {
    this.#failures += 1;
    const { random, timers } = this.#context;
    const waitMs = retryDelayMs({
      failures: this.#failures,
      firstMs: firstWaitMs,
      maxMs: maxWaitMs,
      random,
    });
    this.#callOffWait = timers.after(waitMs, () => void this.#replace());
    return waitMs;
  }

  async #replace(): Promise<void> {
    try {
      await this.#start();
      if (this.isReady) lines.workerReady(this.#context.log, { worker: this.#options.number });
    } catch (error) {
      if (this.#thread !== undefined) this.#thread.abandon(errorText(error));
      else if (this.#state === 'starting') this.#ended(errorText(error));
    }
  }
}
