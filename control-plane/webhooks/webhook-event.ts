/**
 * The events for receivers, as a function of an object's status. An event is new if the previous status did not have it. So an event has
 * the same id regardless of its sender, and of how often it is sent.
 */

import { createHash } from 'node:crypto';
import { shortened } from '../../process/log/error-text.ts';
import {
  type Condition,
  type ConfigObject,
  type ConfigStatus,
  findCondition,
  textIn,
} from '../model/config-object.ts';
import type { RemovedObject } from '../model/decision.ts';
import { hasReason, isEndReason, newCondition } from '../model/reasons.ts';
import { timeText } from '../reconcile/conditions.ts';

export type WebhookEventType =
  | `${'ratelimitconfig' | 'ratelimitoverride'}.${'accepted' | 'rejected' | 'programmed' | 'refused' | 'removed'}`
  | 'ratelimitoverride.expired';

export interface WebhookEvent {
  /** The header `webhook-id`, which follows from uid, generation, condition and its transition. */
  id: string;
  type: WebhookEventType;
  /** The time when the change was noticed, in RFC 3339. */
  timestamp: string;
  data: WebhookEventData;
}

export interface WebhookEventData {
  namespace: string;
  name: string;
  uid: string;
  /** The generation that the condition describes. */
  generation: number;
  /** The domain that was last accepted, or else the one in the spec. Null if that cannot be read. */
  domain: string | null;
  fleet: string | null;
  condition: Omit<Condition, 'observedGeneration'>;
  /** Null while nothing is served for the object. */
  servedGeneration: number | null;
  servedVersion: string | null;
  limiters: { inForce: number; refused: number; total: number } | null;
}

export interface StatusChange {
  object: Pick<ConfigObject, 'kind' | 'namespace' | 'name' | 'uid' | 'spec'>;
  /** Undefined before the first status. */
  previous: ConfigStatus | undefined;
  next: ConfigStatus;
  /** The limiters that `next` names. Undefined while none are known. */
  limiters: WebhookEventData['limiters'] | undefined;
  nowMs: number;
}

/** Chosen: limits an event to less than the 20 kB that Standard Webhooks recommends. The status has the whole message. */
const longestMessage = 8_192;
/** Chosen: longer names in a spec that was never accepted are not worth repeating. */
const longestName = 1_024;

/** Returns the events for a change of status. Empty if nothing that receivers get has changed. */
export function webhookEvents({ object, previous, next, limiters, nowMs }: StatusChange): WebhookEvent[] {
  const known = new Set(reportedConditions(previous).map(({ condition }) => eventId(object.uid, condition)));
  return reportedConditions(next)
    .map(({ type, condition }) => ({
      id: eventId(object.uid, condition),
      type: typeOf(object, type),
      timestamp: new Date(nowMs).toISOString(),
      data: eventData(object, next, { condition, limiters: limiters ?? null }),
    }))
    .filter(({ id }) => !known.has(id));
}

/**
 * Returns the event for a deleted object whose rules no limiter runs any more. Its id depends on the uid alone, so it is
 * reported once.
 */
export function removedEvent(
  { kind, namespace, name, uid, generation, served, removedMs }: RemovedObject,
  { total, nowMs }: { total: number; nowMs: number },
): WebhookEvent {
  const condition = {
    ...newCondition(
      'Programmed',
      'Removed',
      'the object was deleted, and no limiter applies its rules any more',
    ),
    lastTransitionTime: timeText(removedMs),
  };
  return {
    id: idOf([uid, condition.reason]),
    type: typeOf({ kind }, 'removed'),
    timestamp: new Date(nowMs).toISOString(),
    data: {
      namespace,
      name,
      uid,
      generation,
      domain: served?.domain ?? null,
      fleet: served?.fleet ?? null,
      condition,
      servedGeneration: null,
      servedVersion: null,
      limiters: total === 0 ? null : { inForce: 0, refused: 0, total },
    },
  };
}

type WhatHappened = 'accepted' | 'rejected' | 'programmed' | 'refused' | 'removed' | 'expired';

/** Returns the type of the event. Only an override expires. */
function typeOf({ kind }: Pick<ConfigObject, 'kind'>, happened: WhatHappened): WebhookEventType {
  return `${kind === undefined ? 'ratelimitconfig' : 'ratelimitoverride'}.${happened}` as WebhookEventType;
}

function reportedConditions(
  status: ConfigStatus | undefined,
): { type: WhatHappened; condition: Condition }[] {
  const reported: { type: WhatHappened; condition: Condition }[] = [];
  const accepted = findCondition(status, 'Accepted');
  if (accepted?.status === 'True') reported.push({ type: 'accepted', condition: accepted });
  if (accepted?.status === 'False') {
    reported.push({ type: isEndReason(accepted.reason) ? 'expired' : 'rejected', condition: accepted });
  }
  const programmed = findCondition(status, 'Programmed');
  if (programmed?.status === 'True') reported.push({ type: 'programmed', condition: programmed });
  if (programmed?.status === 'False' && hasReason(programmed, 'Refused')) {
    reported.push({ type: 'refused', condition: programmed });
  }
  return reported;
}

/**
 * Returns the id. It does not include the message, because the wording may change while the condition stays. It has no periods, because
 * they separate the signed parts.
 */
function eventId(uid: string, condition: Condition): string {
  const { observedGeneration, type, status, reason, lastTransitionTime } = condition;
  return idOf([uid, observedGeneration, type, status, reason, lastTransitionTime]);
}

function idOf(parts: readonly (string | number)[]): string {
  return `msg_${createHash('sha256').update(JSON.stringify(parts)).digest('hex').slice(0, 32)}`;
}

function eventData(
  object: StatusChange['object'],
  status: ConfigStatus,
  { condition, limiters }: { condition: Condition; limiters: WebhookEventData['limiters'] },
): WebhookEventData {
  const { type, reason, message, lastTransitionTime, observedGeneration } = condition;
  return {
    namespace: object.namespace,
    name: object.name,
    uid: object.uid,
    generation: observedGeneration,
    domain: status.domain ?? namedInSpec(object.spec, 'domain') ?? null,
    fleet: status.fleet ?? namedInSpec(object.spec, 'fleet') ?? null,
    condition: {
      type,
      status: condition.status,
      reason,
      message: shortened(message, longestMessage),
      lastTransitionTime,
    },
    servedGeneration: status.servedGeneration ?? null,
    servedVersion: status.servedVersion ?? null,
    limiters,
  };
}

function namedInSpec(spec: unknown, field: 'domain' | 'fleet'): string | undefined {
  const text = textIn(spec, field);
  return text !== undefined && text.length <= longestName ? text : undefined;
}

/** An event as log lines name it. */
export interface EventName {
  id: string;
  type: WebhookEvent['type'];
  /** The object as `namespace/name`. */
  object: string;
  generation: number;
}
