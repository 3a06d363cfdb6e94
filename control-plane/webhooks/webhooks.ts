/** Signed notifications about RateLimitConfigs, for the endpoints of WEBHOOK_URLS. */
import { LogThrottle } from '../../process/log/log-throttle.ts';
import type { Clock, Timers } from '../../process/time/clock.ts';
import { objectKey } from '../model/config-object.ts';
import type { Telemetry } from '../telemetry/control-plane-metrics.ts';
import { lines } from '../telemetry/log-lines.ts';
import { DeliveryQueue } from './delivery-queue.ts';
import { type DroppedEvent, EndpointDelivery, type EndpointStatus } from './endpoint-delivery.ts';
import { openSecret, parseSigningSecrets, type SecretPlace, SigningKeys } from './signing-keys.ts';
import { parseEndpoint } from './target-address.ts';
import type { WebhookEvent } from './webhook-event.ts';
import { WebhookSender } from './webhook-sender.ts';

export interface WebhooksOptions extends Telemetry {
  /** URLs that `webhookUrlProblem` has checked. A URL that occurs twice is one endpoint. */
  urls: readonly string[];
  secret: SecretPlace;
  /** The maximum number of events that wait for one endpoint. */
  queueSize: number;
  /** The timeout of one attempt. */
  timeoutMs: number;
  /** Whether events may be posted to loopback, link-local and metadata addresses. */
  allowLocal: boolean;
  /** How long a replaced secret still signs. */
  secretOverlapMs: number;
  /** The age at which undelivered events are dropped. Defaults to 24 h. */
  maxAgeMs?: number;
  /** The interval at which the secret's file is checked. Defaults to 5 s. */
  secretIntervalMs?: number;
  clock: Clock;
  timers: Timers;
  random(): number;
}

/** Webhooks of one replica. Only the leader notifies. */
export interface Webhooks {
  /**
   * Queues the event for every endpoint and returns at once. `settled` is called when each endpoint has accepted it or never
   * will, but not if this process ends before.
   */
  notify(event: WebhookEvent, settled?: () => void): void;
  /** Returns the status of each endpoint, in the order of `urls`. */
  status(): EndpointStatus[];
  /** Returns the secret for receivers. Never log it. */
  signingSecret(): string;
  /** Tries due events once more, waits for at most this time, and drops the rest. */
  close(graceMs: number): Promise<void>;
}

const dayMs = 86_400_000;
/** Chosen: enough to send 100 events a second to a receiver at a distance of 80 ms. */
const concurrency = 8;

/** Rejects with a SecretError if there is no valid secret at the start. */
export async function openWebhooks(options: WebhooksOptions): Promise<Webhooks> {
  const { clock, timers, log } = options;
  const secret = await openSecret({
    place: options.secret,
    parse: parseSigningSecrets,
    timers,
    ...(options.secretIntervalMs === undefined ? {} : { intervalMs: options.secretIntervalMs }),
    changed: (secrets) => {
      if (keys.replace(secrets)) lines.secretRotated(log, { secret: 'WEBHOOK_SECRET_FILE' });
    },
    rejected: (reason) => lines.secretRejected(log, { secret: 'WEBHOOK_SECRET_FILE', reason }),
  });
  const keys = new SigningKeys({ secrets: secret.first, overlapMs: options.secretOverlapMs, clock });
  const drops = new LogThrottle<DroppedEvent>(timers, (drop, count) =>
    lines.webhooksDropped(log, { ...drop, count }),
  );
  const { queueSize: capacity, maxAgeMs = dayMs } = options;
  const deliveries = [...new Set(options.urls)].map((url) => {
    const endpoint = parseEndpoint(url);
    return new EndpointDelivery({
      ...options,
      label: endpoint.label,
      queue: new DeliveryQueue({ ...options, capacity, concurrency, maxAgeMs }),
      sender: new WebhookSender({ ...options, endpoint, secrets: () => keys.all() }),
      drops,
    });
  });
  return {
    notify(event, settled) {
      // The id is sent in its header.
      const { id, type, timestamp, data } = event;
      const name = { id, type, object: objectKey(data), generation: data.generation };
      let open = deliveries.length;
      const settledOne = (): void => {
        open -= 1;
        if (open === 0) settled?.();
      };
      const queued = {
        id,
        body: JSON.stringify({ type, timestamp, data }),
        event: name,
        settled: settledOne,
      };
      for (const delivery of deliveries) delivery.add(queued);
    },
    status: () => deliveries.map(({ status }) => status),
    signingSecret: () => keys.current,
    async close(graceMs) {
      await Promise.all(deliveries.map((delivery) => delivery.close(graceMs)));
      secret.close();
      drops.close();
    },
  };
}
