/** Statuses of objects: who keeps them true, and who reports to those that follow an object what became of it. */
import { LogThrottle } from '../process/log/log-throttle.ts';
import type { Clock, Timers } from '../process/time/clock.ts';
import { Pace } from '../process/time/pacing.ts';
import type { Backing } from './backing.ts';
import { FleetKeeper } from './fleets/fleet-store.ts';
import { type ConfigObject, type ConfigStatus, objectKey } from './model/config-object.ts';
import type { Decision } from './model/decision.ts';
import { isEnd, reasonRow, reasons } from './model/reasons.ts';
import type { VersionLedger } from './reconcile/fleet-standing.ts';
import { LimiterView, patienceMs } from './reconcile/limiter-view.ts';
import type { Removals, RemovedObject } from './reconcile/removals.ts';
import {
  type LimiterCounts,
  limiterCounts,
  StatusBoard,
  StatusQueue,
  transitions,
} from './reconcile/status-board.ts';
import type { OwnershipNews } from './reconcile/status-ownership.ts';
import type { RecordedEvent } from './replicas/event-recorder.ts';
import { type StatusEntry, StatusPump } from './replicas/status-pump.ts';
import type { Telemetry } from './telemetry/control-plane-metrics.ts';
import * as lines from './telemetry/log-lines.ts';
import { removedEvent, type WebhookEvent, webhookEvents } from './webhooks/webhook-event.ts';
import { unknownWorld, type World } from './world.ts';

export interface StatusKeeperOptions extends Telemetry {
  backing: Pick<Backing, 'source' | 'controllerName' | 'leads' | 'statusWriter' | 'fleets' | 'share'>;
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
  /** Undefined without webhooks. */
  removals?: Removals | undefined;
}

interface WrittenStatus {
  object: ConfigObject;
  previous: ConfigStatus | undefined;
  next: ConfigStatus;
  limiters: LimiterCounts | undefined;
}

/** Answers of limiters come in bursts. */
const gatherMs = 20;
const intervalMs = 100;

/** Keeps the objects' statuses true while this replica leads, and knows all limiters also while it does not. */
export class StatusKeeper {
  readonly #options: StatusKeeperOptions;
  readonly #limiters: LimiterView;
  readonly #queue: StatusQueue;
  readonly #board: StatusBoard;
  readonly #pump: StatusPump;
  readonly #pace: Pace;
  readonly #overwrites: LogThrottle<{ object: string; by: string | undefined; manager: string | undefined }>;
  readonly #conflicts: LogThrottle<{ object: string; by: string; yields: boolean }>;
  readonly #fleets: FleetKeeper | undefined;
  #world = unknownWorld;
  /** Since when this process leads and knows what limiters should have. */
  #leadsSinceMs: number | undefined;
  #callOff = (): void => {};

  constructor(options: StatusKeeperOptions) {
    const { backing, ledger, clock, timers, log, writesPerSecond } = options;
    this.#options = options;
    this.#limiters = new LimiterView(ledger);
    this.#fleets =
      backing.fleets &&
      new FleetKeeper({
        ...options,
        store: backing.fleets,
        leads: () => backing.leads,
        limiters: this.#limiters,
      });
    this.#queue = new StatusQueue({ writesPerSecond });
    this.#board = new StatusBoard({
      queue: this.#queue,
      writes: backing.statusWriter.writes,
      ledger,
      limiters: this.#limiters,
      controllerName: backing.controllerName,
      found: (object, news) => this.#found(object, news),
    });
    this.#overwrites = new LogThrottle(clock, (found, times) => {
      lines.statusOverwritten(log, { ...found, times });
    });
    this.#conflicts = new LogThrottle(clock, (found, times) => {
      lines.classConflict(log, { ...found, times });
    });
    this.#pump = new StatusPump({
      ...options,
      queue: this.#queue,
      writer: backing.statusWriter,
      mayWrite: () => backing.leads,
      written: (entry) => this.#announce(entry),
      again: () => this.update(),
    });
    this.#pace = new Pace({ clock, timers, gatherMs, intervalMs, run: () => this.#evaluate() });
  }

  /** Statuses that wait to be written. */
  get waiting(): number {
    return this.#queue.size + this.#pump.paused;
  }

  learn(world: World): void {
    const last = this.#world;
    this.#world = world;
    const { removals, backing, clock } = this.#options;
    const isNews = (part: keyof World): boolean => world[part] !== last[part];
    if (isNews('leads') && !world.leads) this.#stoppedLeading();
    if (isNews('fleets')) this.#fleets?.update();
    if (isNews('removed')) {
      removals?.useStored(world.removed ?? [], { leads: backing.leads, nowMs: clock.nowMs() });
      backing.share({ removed: removals?.objects ?? [] });
    }
    // Statuses follow from other changes of objects once these are decided on.
    const isStatusShown = isNews('objects') && !isNews('edits');
    const hasBegun = isNews('leads') && world.leads;
    if (isStatusShown || hasBegun || isNews('reports') || isNews('expectations') || isNews('removed'))
      this.update();
  }

  /** A decision was made, or what follows from the world may be different by time. */
  update(): void {
    this.#pace.ask();
  }

  async close(): Promise<void> {
    this.#callOff();
    this.#fleets?.close();
    this.#pace.close();
    await this.#pump.close();
  }

  #stoppedLeading(): void {
    this.#leadsSinceMs = undefined;
    this.#pump.stop();
    this.#board.clear();
  }

  /** The state of the limiters that should have the served rules of the object. Undefined while none is known. */
  countsFor({ uid }: ConfigObject): LimiterCounts | undefined {
    const served = this.#options.decision()?.outcomes.get(uid)?.served;
    const since = this.#options.ledger.since(uid);
    if (served === undefined || since === undefined) return undefined;
    const standing = this.#limiters.fleet(served.fleet).of(since);
    return standing.connected === 0 ? undefined : limiterCounts(standing);
  }

  #evaluate(): void {
    const { backing, clock, decision, isOversize } = this.#options;
    const nowMs = clock.nowMs();
    const { objects = new Map(), left, reports, expectations } = this.#world;
    this.#limiters.update(reports, nowMs, expectations);
    this.#fleets?.update();
    const newest = decision();
    if (backing.leads && newest !== undefined) this.#leadsSinceMs ??= nowMs;
    const awaitsLimiters = nowMs - (this.#leadsSinceMs ?? nowMs) < patienceMs;
    if (newest !== undefined) this.#reportRemoved(newest, { awaitsLimiters, nowMs });
    if (newest !== undefined && backing.leads) {
      this.#board.evaluate({
        decision: newest,
        objects,
        left,
        isOversize,
        awaitsLimiters,
        nowMs,
      });
      this.#pump.wake();
    } else this.#board.missed();
    this.#setTimer(nowMs);
  }

  #reportRemoved(
    decision: Decision,
    { awaitsLimiters, nowMs }: { awaitsLimiters: boolean; nowMs: number },
  ): void {
    const { removals, backing, ledger, announcer, clock } = this.#options;
    if (removals === undefined) return;
    removals.observe(decision, (object) => backing.source.isGone(object), nowMs);
    if (!backing.leads) {
      removals.follow(nowMs);
      return;
    }
    const due = awaitsLimiters
      ? []
      : removals.due(
          (fleet) => ledger.newest(fleet)?.number,
          (fleet, resource, since) => this.#limiters.fleet(fleet).mayRun(resource, since),
        );
    for (const object of due) {
      const total = object.served === null ? 0 : this.#limiters.fleet(object.served.fleet).total;
      announcer.removed(object, total, () => {
        removals.done(object.uid, clock.nowMs());
        backing.share({ removed: removals.objects });
      });
    }
    backing.share({ removed: removals.objects });
  }

  /** Wakes when time alone changes something: a limiter that does not answer, the end of what is held. */
  #setTimer(nowMs: number): void {
    this.#callOff();
    this.#callOff = () => {};
    const heldUntilMs = (this.#leadsSinceMs ?? Number.NEGATIVE_INFINITY) + patienceMs;
    const dueMs = Math.min(
      this.#limiters.dueMs,
      this.#board.nextDueMs(nowMs) ?? Number.POSITIVE_INFINITY,
      heldUntilMs > nowMs ? heldUntilMs : Number.POSITIVE_INFINITY,
    );
    if (dueMs === Number.POSITIVE_INFINITY) return;
    this.#callOff = this.#options.timers.after(Math.max(1, dueMs - nowMs), () => this.update());
  }

  #announce({ object, status: next }: StatusEntry): void {
    const { announcer } = this.#options;
    announcer.written({ object, previous: object.status, next, limiters: this.#board.counts(next) });
  }

  #found(object: ConfigObject, news: OwnershipNews): void {
    const { metrics, announcer } = this.#options;
    if (news.is === 'written') {
      this.#announce(news.entry);
      return;
    }
    announcer.contested(object, news);
    const name = objectKey(object);
    if (news.is === 'overwritten') {
      metrics.all.statusOverwrites.inc();
      this.#overwrites.note({ object: name, by: news.by, manager: news.manager });
    } else {
      const { by, yields } = news;
      metrics.all.classConflicts.inc();
      this.#conflicts.note({ object: name, by, yields }, by);
    }
  }
}

export interface AnnouncerOptions {
  clock: Clock;
  recordEvent(event: RecordedEvent): void;
  /** See `Webhooks.notify`. */
  notify(event: WebhookEvent, settled?: () => void): void;
  /** The known state of the limiters of an object. Undefined: nothing is known. */
  limitersOf(object: ConfigObject): LimiterCounts | undefined;
  /** How far back a new leader repeats webhooks that its predecessor may have lost. */
  repeatMs: number;
}

/** Reports to those who follow an object what became of it: Kubernetes events and webhooks. Leaders only. */
export class Announcer {
  readonly #options: AnnouncerOptions;

  constructor(options: AnnouncerOptions) {
    this.#options = options;
  }

  written({ object, previous, next, limiters }: WrittenStatus): void {
    const { clock, recordEvent, notify } = this.#options;
    for (const transition of transitions(previous, next)) {
      const { type, reason, message: note } = transition;
      const eventType = reasonRow(reason)?.event;
      // The end of an override is reported once, although both conditions change.
      const isTwice = isEnd(reason) && type === 'Programmed';
      if (eventType !== undefined && !isTwice) recordEvent({ object, type: eventType, reason, note });
    }
    for (const event of webhookEvents({ object, previous, next, limiters, nowMs: clock.nowMs() }))
      notify(event);
  }

  /** No limiter runs what was deleted; of all that are expected, so many are known. */
  removed(object: RemovedObject, total: number, settled: () => void): void {
    const { clock, notify } = this.#options;
    notify(removedEvent(object, { total, nowMs: clock.nowMs() }), settled);
  }

  /** Somebody else writes the object's status. */
  contested(object: ConfigObject, news: Exclude<OwnershipNews, { is: 'written' }>): void {
    const event = contestedEvent(news);
    this.#options.recordEvent({ object, type: reasons[event.reason].event, ...event });
  }

  /**
   * Webhooks of what changed a moment ago, under the ids that they had: receivers know which they have seen. Call once
   * this replica leads and has the objects. An edit that leaves a condition's status as it was is news without a new
   * time in the condition.
   */
  startedLeading(objects: Iterable<ConfigObject>): void {
    const { clock, notify, repeatMs, limitersOf } = this.#options;
    const nowMs = clock.nowMs();
    for (const object of objects) {
      if (object.status === undefined) continue;
      const limiters = limitersOf(object);
      for (const event of webhookEvents({
        object,
        previous: undefined,
        next: object.status,
        limiters,
        nowMs,
      })) {
        const { generation, condition } = event.data;
        const editedMs = generation === object.generation ? (object.editedMs ?? 0) : 0;
        const changedMs = Math.max(Date.parse(condition.lastTransitionTime), editedMs);
        if (nowMs - changedMs < repeatMs) notify(event);
      }
    }
  }
}

function contestedEvent(news: Exclude<OwnershipNews, { is: 'written' }>): {
  reason: 'StatusOverwritten' | 'ClassConflict';
  note: string;
} {
  if (news.is === 'overwritten') {
    const { by, manager } = news;
    const planes = by === undefined ? '' : ` and now bears the name of control plane ${by}`;
    const who = manager === undefined ? 'by nobody that its managedFields name' : `by ${manager}`;
    return {
      reason: 'StatusOverwritten',
      note: `the status was changed ${who}${planes}; it is written again`,
    };
  }
  const { by, yields } = news;
  const what = yields ? 'this one leaves the object to it for ten minutes' : 'this one goes on writing it';
  const note = `control plane ${by} writes this status as well: two control planes have one class; ${what}`;
  return { reason: 'ClassConflict', note };
}
