/** Signed notifications about RateLimitConfigs, for the endpoints of WEBHOOK_URLS. */
import { LogThrottle } from '../../process/log/log-throttle.ts';
import type { Clock, Timers } from '../../process/time/clock.ts';
import { objectKey } from '../model/config-object.ts';
import type { Telemetry } from '../telemetry/control-plane-metrics.ts';
import * as lines from '../telemetry/log-lines.ts';
import { DeliveryQueue } from './delivery-queue.ts';
import { type Drop, EndpointDelivery, type EndpointStatus } from './endpoint-delivery.ts';
import { openSecret, parseSigningSecrets, type SecretPlace, SigningKeys } from './signing-keys.ts';
import { parseEndpoint } from './target-address.ts';
import type { WebhookEvent } from './webhook-event.ts';
import { WebhookSender } from './webhook-sender.ts';

export interface WebhooksOptions extends Telemetry {
  /** Checked before by `webhookUrlProblem`; the same URL twice is one endpoint. */
  urls: readonly string[];
  secret: SecretPlace;
  /** Events that wait for one endpoint, at most. */
  queueSize: number;
  /** The timeout of one attempt. */
  timeoutMs: number;
  /** True if events may be posted to loopback, link-local and metadata addresses. */
  allowLocal: boolean;
  /** How long a secret that was replaced still signs. */
  secretOverlapMs: number;
  /** Events that could not be delivered for so long are dropped. Defaults to 24 h. */
  maxAgeMs?: number;
  /** How often the secret's file is looked at. Defaults to 5 s. */
  secretIntervalMs?: number;
  clock: Clock;
  timers: Timers;
  random(): number;
}

/** Only the leader notifies. */
export interface Webhooks {
  /**
   * Queues the event for every endpoint and returns at once. `settled` is called when each has taken it or never will, not when
   * this process ends before.
   */
  notify(event: WebhookEvent, settled?: () => void): void;
  /** One for each endpoint, in the order of `urls`. */
  status(): EndpointStatus[];
  /** For receivers; never for logs. */
  signingSecret(): string;
  /** Tries what is due once more, waits for it at most so long, and drops the rest. */
  close(graceMs: number): Promise<void>;
}

const dayMs = 86_400_000;
/** Chosen: a receiver 80 ms away takes 100 events a second. */
const concurrency = 8;

/** Rejects with a SecretError when there is no good secret to begin with. */
export async function openWebhooks(options: WebhooksOptions): Promise<Webhooks> {
  const { clock, timers, log } = options;
  const secret = await openSecret({
    place: options.secret,
    parse: parseSigningSecrets,
    timers,
    ...(options.secretIntervalMs === undefined ? {} : { intervalMs: options.secretIntervalMs }),
    changed: (secrets) => {
      if (keys.replace(secrets)) lines.secretRotated(log, 'WEBHOOK_SECRET_FILE');
    },
    refused: (reason) => lines.secretRefused(log, 'WEBHOOK_SECRET_FILE', reason),
  });
  const keys = new SigningKeys({ secrets: secret.first, overlapMs: options.secretOverlapMs, clock });
  const drops = new LogThrottle<Drop>(timers, (drop, count) =>
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
      // The id travels in its header.
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
