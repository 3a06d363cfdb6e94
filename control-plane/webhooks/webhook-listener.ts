import type { WebhookEvent } from './webhook-event.ts';

/** Told as it happens; `endpoint` is the endpoint's masked name. Nothing here holds a secret. */
export interface WebhookListener {
  delivered(delivery: { endpoint: string; event: EventName; attempt: number }): void;
  /** The event stays queued and is tried again. */
  deliveryFailed(failure: {
    endpoint: string;
    event: EventName;
    attempt: number;
    reason: string;
    retryInMs: number;
  }): void;
  /** This endpoint will never hear of these events. */
  dropped(loss: { endpoint: string; reason: DropReason; events: readonly EventName[] }): void;
  /** It answered 410: nothing more is sent to it until the process starts anew. */
  endpointGone(endpoint: string): void;
  secretRotated(): void;
  /** The secret's file holds no good secret now; the one before goes on signing. */
  secretRefused(reason: string): void;
}

export type DropReason = 'queue full' | 'too old' | 'endpoint gone' | 'shutdown';

/** An event as log lines name it. */
export interface EventName {
  id: string;
  type: WebhookEvent['type'];
  /** `namespace/name`. */
  object: string;
  generation: number;
}
