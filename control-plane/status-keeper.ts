/** Statuses of objects: who keeps them true, and who tells those that follow an object what became of it. */
import type { Clock, Timers } from '../process/time/clock.ts';
import { Pace } from '../process/time/pacing.ts';
import type { Backing } from './backing.ts';
import type { ConfigObject, ConfigStatus } from './model/config-object.ts';
import type { Decision } from './model/decision.ts';
import { LimiterView, type VersionLedger } from './reconcile/fleet-standing.ts';
import { StatusBoard, StatusQueue, type Transition, transitions } from './reconcile/status-board.ts';
import type { RecordedEvent } from './replicas/event-recorder.ts';
import { type StatusEntry, StatusPump } from './replicas/status-pump.ts';
import type { Telemetry } from './telemetry/control-plane-metrics.ts';
import { type WebhookEvent, webhookEvents } from './webhooks/webhook-event.ts';

export interface StatusKeeperOptions extends Telemetry {
  backing: Pick<Backing, 'source' | 'leads' | 'reports' | 'statusWriter'>;
  ledger: VersionLedger;
  /** Undefined before the first complete list. */
  decision(): Decision | undefined;
  /** Whether the fleet's snapshot is longer than the usual client of gRPC takes. */
  isOversize(fleet: string): boolean;
  writesPerSecond: number;
  clock: Clock;
  timers: Timers;
  random(): number;
  announcer: Announcer;
}

interface WrittenStatus {
  object: ConfigObject;
  previous: ConfigStatus | undefined;
  next: ConfigStatus;
}

/** Chosen: answers of limiters come in bursts. */
const gatherMs = 20;
const intervalMs = 100;
/** Chosen: longer than limiters wait by default before they open a lost stream again. */
const limitersPatienceMs = 15_000;

/** Keeps the objects' statuses true while this replica leads, and knows all limiters also while it does not. */
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
      written: (entry) => this.#written(entry),
      released: () => this.update(),
    });
    this.#pace = new Pace({ clock, timers, gatherMs, intervalMs, run: () => this.#evaluate() });
  }

  /** Statuses that wait to be written. */
  get waiting(): number {
    return this.#queue.size;
  }

  /** A decision was made, what limiters answered has changed, or this replica has come to lead. */
  update(): void {
    this.#pace.ask();
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
    const statusOf = (object: ConfigObject) => (backing.source.newest(object) ?? object).status;
    this.#board.evaluate({ decision: newest, statusOf, isOversize, awaitsLimiters, nowMs: clock.nowMs() });
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
    const { clock, announcer } = this.#options;
    const previous = this.#board.written(entry, clock.nowMs());
    announcer.written({ object: entry.object, previous, next: entry.status });
  }
}

export interface AnnouncerOptions {
  clock: Clock;
  recordEvent(event: RecordedEvent): void;
  notify(event: WebhookEvent): void;
  /** How far back a new leader repeats webhooks, which the one before may have lost. */
  repeatMs: number;
}

/** What passes by itself is no event. */
const passing = new Set(['Pending', 'NotAccepted']);

/** Tells those who follow an object what became of it: Kubernetes events and webhooks. Leaders only. */
export class Announcer {
  readonly #options: AnnouncerOptions;

  constructor(options: AnnouncerOptions) {
    this.#options = options;
  }

  written({ object, previous, next }: WrittenStatus): void {
    const { clock, recordEvent, notify } = this.#options;
    for (const transition of transitions(previous, next)) {
      if (!passing.has(transition.reason)) recordEvent(recordedEvent(object, transition));
    }
    for (const event of webhookEvents({ object, previous, next, nowMs: clock.nowMs() })) notify(event);
  }

  /**
   * Webhooks of what changed a moment ago, under the ids that they had: receivers know which they have seen. Call once
   * this replica leads and has the objects. An edit that leaves a condition's status as it was is news without a new
   * time in the condition.
   */
  startedLeading(objects: readonly ConfigObject[]): void {
    const { clock, notify, repeatMs } = this.#options;
    const nowMs = clock.nowMs();
    for (const object of objects) {
      if (object.status === undefined) continue;
      for (const event of webhookEvents({ object, previous: undefined, next: object.status, nowMs })) {
        const { generation, condition } = event.data;
        const editedMs = generation === object.generation ? (object.editedMs ?? 0) : 0;
        const changedMs = Math.max(Date.parse(condition.lastTransitionTime), editedMs);
        if (nowMs - changedMs < repeatMs) notify(event);
      }
    }
  }
}

function recordedEvent(object: ConfigObject, { status, reason, message, type }: Transition): RecordedEvent {
  const isGood = status === 'True' || (type === 'Programmed' && reason === 'NoLimiters');
  return { object, type: isGood ? 'Normal' : 'Warning', reason, note: message };
}
