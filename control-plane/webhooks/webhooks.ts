/** Signed notifications about RateLimitConfigs, for the endpoints of WEBHOOK_URLS. Only the leader notifies. */

import { packageVersion } from '../../process/log/version.ts';
import type { Timers } from '../../process/time/clock.ts';
import type { Clock } from '../../process/time/process-clock.ts';
import { objectKey } from '../model/config-object.ts';
import { DeliveryQueue } from './delivery-queue.ts';
import { EndpointDelivery, type EndpointStatus } from './endpoint-delivery.ts';
import { parseEndpoint } from './endpoint-url.ts';
import { openSecret, type SecretPlace } from './secret-place.ts';
import { SigningKeys } from './signing-keys.ts';
import { parseSigningSecrets } from './signing-secret.ts';
import type { WebhookEvent } from './webhook-event.ts';
import type { EventName, WebhookListener } from './webhook-listener.ts';
import { WebhookSender } from './webhook-sender.ts';

export interface WebhooksOptions {
  /** Checked before by `webhookUrlProblem`; the same URL twice is one endpoint. */
  urls: readonly string[];
  secret: SecretPlace;
  /** Events that wait for one endpoint, at most. */
  queueSize: number;
  /** Of one attempt. */
  timeoutMs: number;
  /** How long a secret that was replaced still signs. */
  secretOverlapMs: number;
  /** Events that could not be delivered for so long are dropped. Defaults to 24 h. */
  maxAgeMs?: number;
  /** How often the secret's file is looked at. Defaults to 5 s. */
  secretIntervalMs?: number;
  clock: Clock;
  timers: Timers;
  random(): number;
  listener: WebhookListener;
}

export interface Webhooks {
  /** Queues the event for every endpoint and returns at once; what follows is told to the listener. */
  notify(event: WebhookEvent): void;
  /** One for each endpoint, in the order of `urls`. */
  status(): EndpointStatus[];
  /** For receivers; never for logs. */
  signingSecret(): string;
  /** Tries what is due once more, waits for it at most so long, and drops the rest. */
  close(graceMs: number): Promise<void>;
}

const dayMs = 86_400_000;
/** Ours: a receiver 80 ms away takes 100 events a second. */
const concurrency = 8;

/** Rejects with a SecretError when there is no good secret to begin with. */
export async function openWebhooks(options: WebhooksOptions): Promise<Webhooks> {
  const { clock, timers, listener } = options;
  const secret = await openSecret({
    place: options.secret,
    parse: parseSigningSecrets,
    timers,
    ...(options.secretIntervalMs === undefined ? {} : { intervalMs: options.secretIntervalMs }),
    changed: (secrets) => {
      if (keys.replace(secrets)) listener.secretRotated();
    },
    refused: (reason) => listener.secretRefused(reason),
  });
  const keys = new SigningKeys({ secrets: secret.first, overlapMs: options.secretOverlapMs, clock });
  const deliveries = [...new Set(options.urls)].map((url) => openDelivery(url, keys, options));
  return {
    notify(event) {
      const queued = { id: event.id, body: JSON.stringify(withoutId(event)), event: nameOf(event) };
      for (const delivery of deliveries) delivery.add(queued);
    },
    status: () => deliveries.map(({ status }) => status),
    signingSecret: () => keys.current,
    async close(graceMs) {
      await Promise.all(deliveries.map((delivery) => delivery.close(graceMs)));
      secret.close();
    },
  };
}

function openDelivery(url: string, keys: SigningKeys, options: WebhooksOptions): EndpointDelivery {
  const { queueSize, timeoutMs, maxAgeMs = dayMs, clock, timers, random, listener } = options;
  const endpoint = parseEndpoint(url);
  const userAgent = `weir/${packageVersion()}`;
  return new EndpointDelivery({
    label: endpoint.label,
    queue: new DeliveryQueue({ capacity: queueSize, concurrency, maxAgeMs, random }),
    sender: new WebhookSender({ endpoint, secrets: () => keys.all(), timeoutMs, userAgent, clock }),
    clock,
    timers,
    listener,
  });
}

/** The id travels in its header. */
function withoutId({ type, timestamp, data }: WebhookEvent): Omit<WebhookEvent, 'id'> {
  return { type, timestamp, data };
}

function nameOf({ id, type, data }: WebhookEvent): EventName {
  return { id, type, object: objectKey(data), generation: data.generation };
}
