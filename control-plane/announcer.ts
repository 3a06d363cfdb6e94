/** Reports the results for an object as Kubernetes events and webhooks. Only the leader does this. */
import { type ThrottledLine, throttledLine } from '../process/log/log-throttle.ts';
import type { Clock } from '../process/time/clock.ts';
import { type ConfigObject, type ConfigStatus, objectKey } from './model/config-object.ts';
import type { RemovedObject } from './model/decision.ts';
import { isEndReason, reasonRow, reasons } from './model/reasons.ts';
import { transitions } from './reconcile/conditions.ts';
import type { LimiterCounts } from './reconcile/status-board.ts';
import type { OwnershipEvent } from './reconcile/status-ownership.ts';
import type { EventRecorder } from './replicas/event-recorder.ts';
import type { Telemetry } from './telemetry/control-plane-metrics.ts';
import { lines } from './telemetry/log-lines.ts';
import { removedEvent, type WebhookEvent, webhookEvents } from './webhooks/webhook-event.ts';

interface WrittenStatus {
  object: ConfigObject;
  previous: ConfigStatus | undefined;
  next: ConfigStatus;
  limiters: LimiterCounts | undefined;
}

export interface AnnouncerOptions extends Telemetry {
  clock: Clock;
  events: Pick<EventRecorder, 'record'>;
  /** See `Webhooks.notify`. Undefined without webhooks. */
  notify: ((event: WebhookEvent, settled?: () => void) => void) | undefined;
  /** Returns the known state of the limiters of an object. Undefined if it is unknown. */
  limitersOf(object: ConfigObject): LimiterCounts | undefined;
  /** The time during which a new leader repeats webhooks that its predecessor may have lost. */
  repeatMs: number;
}

export class Announcer {
  readonly #options: AnnouncerOptions;
  readonly #overwritten: ThrottledLine<{
    object: string;
    by: string | undefined;
    manager: string | undefined;
  }>;
  readonly #inConflict: ThrottledLine<{ object: string; by: string; yields: boolean }>;

  constructor(options: AnnouncerOptions) {
    this.#options = options;
    this.#overwritten = throttledLine(options, lines.statusOverwritten);
    this.#inConflict = throttledLine(options, lines.classConflict);
  }

  written({ object, previous, next, limiters }: WrittenStatus): void {
    const { clock, events, notify } = this.#options;
    for (const transition of transitions(previous, next)) {
      const { type, reason, message: note } = transition;
      const eventType = reasonRow(reason)?.event;
      // The end of an override is reported once, although both conditions change.
      const isTwice = isEndReason(reason) && type === 'Programmed';
      if (eventType !== undefined && !isTwice) events.record({ object, type: eventType, reason, note });
    }
    if (notify === undefined) return;
    for (const event of webhookEvents({ object, previous, next, limiters, nowMs: clock.nowMs() }))
      notify(event);
  }

  /** Reports that no limiter runs a deleted object. `total`: the number of known limiters among all expected ones. */
  removed(object: RemovedObject, total: number, settled: () => void): void {
    const { clock, notify } = this.#options;
    notify?.(removedEvent(object, { total, nowMs: clock.nowMs() }), settled);
  }

  /** Reports that another writer writes the object's status. */
  contested(object: ConfigObject, news: Exclude<OwnershipEvent, { is: 'written' }>): void {
    const { metrics, events } = this.#options;
    const event = contestedEvent(news);
    events.record({ object, type: reasons[event.reason].event, ...event });
    const name = objectKey(object);
    if (news.is === 'overwritten') {
      metrics.all.statusOverwrites.inc();
      this.#overwritten({ object: name, by: news.by, manager: news.manager });
    } else {
      const { by, yields } = news;
      metrics.all.classConflicts.inc();
      this.#inConflict({ object: name, by, yields }, by);
    }
  }

  /**
   * Repeats webhooks of recent changes with the same ids, so that receivers recognize them. Call it once this replica leads and has read
   * the objects. If an edit leaves a condition's status unchanged, it is news, but the condition has no new time.
   */
  startedLeading(objects: Iterable<ConfigObject>): void {
    const { clock, notify, repeatMs, limitersOf } = this.#options;
    if (notify === undefined) return;
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

function contestedEvent(news: Exclude<OwnershipEvent, { is: 'written' }>): {
  reason: 'StatusOverwritten' | 'ClassConflict';
  note: string;
} {
  if (news.is === 'overwritten') {
    const { by, manager } = news;
    const planes = by === undefined ? '' : ` and now has the name of control plane ${by}`;
    const who = manager === undefined ? 'by a client that managedFields does not name' : `by ${manager}`;
    return {
      reason: 'StatusOverwritten',
      note: `the status was changed ${who}${planes}; the control plane writes it again`,
    };
  }
  const { by, yields } = news;
  const what = yields
    ? 'this one does not write to the object for ten minutes'
    : 'this one continues to write it';
  const note = `control plane ${by} also writes this status: two control planes have the same class; ${what}`;
  return { reason: 'ClassConflict', note };
}
