/** Keeps the objects' statuses true while this replica leads, and knows all limiters also while it does not. */

import type { Timers } from '../process/time/clock.ts';
import type { Clock } from '../process/time/process-clock.ts';
import type { Backing } from './backing.ts';
import type { ApiError } from './kubernetes/api-error.ts';
import type { ConfigObject } from './model/config-object.ts';
import type { ConfigStatus } from './model/config-status.ts';
import type { Decision } from './model/decision.ts';
import { Pace } from './pace.ts';
import { LimiterView } from './reconcile/limiter-view.ts';
import { StatusBoard } from './reconcile/status-board.ts';
import { StatusQueue } from './reconcile/status-queue.ts';
import type { VersionLedger } from './reconcile/version-ledger.ts';
import { type StatusEntry, StatusPump } from './replicas/status-pump.ts';

export interface StatusKeeperOptions {
  backing: Pick<Backing, 'leads' | 'reports' | 'statusWriter'>;
  ledger: VersionLedger;
  /** Undefined before the first complete list. */
  decision(): Decision | undefined;
  /** Whether the fleet's snapshot is longer than the usual client of gRPC takes. */
  isOversize(fleet: string): boolean;
  writesPerSecond: number;
  clock: Clock;
  timers: Timers;
  random(): number;
  listener: StatusKeeperListener;
}

export interface WrittenStatus {
  object: ConfigObject;
  previous: ConfigStatus | undefined;
  next: ConfigStatus;
}

export interface StatusKeeperListener {
  written(change: WrittenStatus): void;
  /** `retryInMs` undefined: this status is given up, a newer one of the object is tried. */
  notWritten(object: ConfigObject, error: ApiError, retryInMs?: number): void;
}

/** Ours: answers of limiters come in bursts. */
const gatherMs = 20;
const intervalMs = 100;
/** Ours: longer than limiters wait by default before they open a lost stream again. */
const limitersPatienceMs = 15_000;

export class StatusKeeper {
  readonly #options: StatusKeeperOptions;
  readonly #limiters: LimiterView;
  readonly #queue: StatusQueue;
  readonly #board: StatusBoard;
  readonly #pump: StatusPump;
  readonly #pace: Pace;
  /** Since when this process can serve limiters. */
  #servesSinceMs: number | undefined;
  #callOff = (): void => {};

  constructor(options: StatusKeeperOptions) {
    const { backing, ledger, clock, timers, writesPerSecond } = options;
    this.#options = options;
    this.#limiters = new LimiterView(ledger);
    this.#queue = new StatusQueue({ writesPerSecond });
    this.#board = new StatusBoard({ queue: this.#queue, ledger, limiters: this.#limiters });
    this.#pump = new StatusPump({
      ...options,
      queue: this.#queue,
      writer: backing.statusWriter,
      mayWrite: () => backing.leads,
      listener: {
        written: (entry) => this.#written(entry),
        gone: () => {},
        released: () => this.update(),
        refused: ({ object }, error) => options.listener.notWritten(object, error),
        failed: ({ object }, error, delayMs) => options.listener.notWritten(object, error, delayMs),
      },
    });
    this.#pace = new Pace({ clock, timers, gatherMs, intervalMs, run: () => this.#evaluate() });
  }

  /** Statuses that wait to be written. */
  get waiting(): number {
    return this.#queue.size;
  }

  /** A decision was made, or what limiters answered has changed. */
  update(): void {
    this.#pace.ask();
  }

  startedLeading(): void {
    this.update();
  }

  stoppedLeading(): void {
    this.#pump.stop();
    this.#board.clear();
  }

  async close(): Promise<void> {
    this.#callOff();
    this.#pace.close();
    await this.#pump.close();
  }

  #evaluate(): void {
    const { backing, clock, decision, isOversize } = this.#options;
    this.#limiters.update(backing.reports());
    const newest = decision();
    if (newest === undefined) return;
    const awaitsLimiters = this.#awaitsLimiters();
    if (!backing.leads) return;
    this.#board.evaluate({ decision: newest, isOversize, awaitsLimiters, nowMs: clock.nowMs() });
    this.#pump.wake();
  }

  #awaitsLimiters(): boolean {
    const { clock, timers } = this.#options;
    const nowMs = clock.monotonicMs();
    if (this.#servesSinceMs === undefined) {
      this.#servesSinceMs = nowMs;
      this.#callOff = timers.after(limitersPatienceMs, () => this.update());
    }
    return nowMs - this.#servesSinceMs < limitersPatienceMs;
  }

  #written(entry: StatusEntry): void {
    const { clock, listener } = this.#options;
    const previous = this.#board.written(entry, clock.nowMs());
    listener.written({ object: entry.object, previous, next: entry.status });
  }
}
