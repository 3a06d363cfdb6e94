/** Tells those who follow an object what became of it: Kubernetes events and webhooks. Leaders only. */
import type { Clock } from '../process/time/process-clock.ts';
import type { ConfigObject } from './model/config-object.ts';
import { type Transition, transitions } from './reconcile/transitions.ts';
import type { RecordedEvent } from './replicas/event-recorder.ts';
import type { WrittenStatus } from './status-keeper.ts';
import { type WebhookEvent, webhookEvents } from './webhooks/webhook-event.ts';

export interface AnnouncerOptions {
  clock: Clock;
  recordEvent(event: RecordedEvent): void;
  notify(event: WebhookEvent): void;
  /** How far back a new leader repeats webhooks, which the one before may have lost. */
  repeatMs: number;
}

/** What passes by itself is no event. */
const passing = new Set(['Pending', 'NotAccepted']);

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
