/** Signed notifications about RateLimitConfigs, for the endpoints of WEBHOOK_URLS. */
import { LogThrottle } from '../../process/log/log-throttle.ts';
import type { Clock, Timers } from '../../process/time/clock.ts';
import { objectKey } from '../model/config-object.ts';
import type { Telemetry } from '../telemetry/control-plane-metrics.ts';
import { lines } from '../telemetry/log-lines.ts';
import type { WebhookDropReason } from '../telemetry/metric-set.ts';
import { DeliveryQueue } from './delivery-queue.ts';
import { openSecret, parseSigningSecrets, type SecretPlace, SigningKeys } from './signing-keys.ts';
import { parseEndpoint } from './target-address.ts';
import type { EventName, WebhookEvent } from './webhook-event.ts';
import { type AttemptResult, type WebhookMessage, WebhookSender } from './webhook-sender.ts';

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
  /** The number of events that wait or are in flight, of all endpoints. */
  readonly queued: number;
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
    ...{ timers, log, place: options.secret, setting: 'WEBHOOK_SECRET_FILE' },
    parse: parseSigningSecrets,
    intervalMs: options.secretIntervalMs,
    replace: (secrets) => keys.replace(secrets),
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
    get queued() {
      return deliveries.reduce((sum, { queued }) => sum + queued, 0);
    },
    signingSecret: () => keys.current,
    async close(graceMs) {
      await Promise.all(deliveries.map((delivery) => delivery.close(graceMs)));
      secret.close();
      drops.close();
    },
  };
}

export interface QueuedEvent extends WebhookMessage {
  event: EventName;
  /** Called when the endpoint has accepted the event, or never will. */
  settled?(): void;
}

/** An event that an endpoint will never receive. */
export interface DroppedEvent {
  endpoint: string;
  reason: WebhookDropReason;
}

interface EndpointDeliveryOptions extends Telemetry {
  /** The endpoint's masked name. */
  label: string;
  queue: DeliveryQueue<QueuedEvent>;
  sender: { send(message: WebhookMessage): Promise<AttemptResult>; close(): void };
  clock: Clock;
  timers: Timers;
  drops: LogThrottle<DroppedEvent>;
}

/** Delivers the events in one endpoint's queue, at the queue's pace. Endpoints are independent of each other. */
class EndpointDelivery {
  readonly #options: EndpointDeliveryOptions;
  /** Whether the endpoint has answered 410. */
  #isGone = false;
  /** Whether no more events are accepted. */
  #isClosing = false;
  /** Whether no more deliveries start, and none is repeated. */
  #isOver = false;
  readonly #underWay = new Set<Promise<void>>();
  #callOff: (() => void) | undefined;
  /** Set during shutdown. Called when nothing is left that can be delivered now. */
  #onIdle: (() => void) | undefined;

  constructor(options: EndpointDeliveryOptions) {
    this.#options = options;
  }

  get queued(): number {
    return this.#options.queue.size;
  }

  add(queued: QueuedEvent): void {
    if (this.#isGone || this.#isClosing) {
      this.#drop(this.#isGone ? 'endpoint gone' : 'shutdown', [queued]);
      return;
    }
    this.#drop('queue full', this.#options.queue.add(queued, this.#nowMs()));
    this.#pump();
  }

  /** Delivers due events for at most `graceMs`. The other events are dropped. */
  async close(graceMs: number): Promise<void> {
    this.#isClosing = true;
    const { queue, sender, timers } = this.#options;
    await new Promise<void>((resolve) => {
      const callOff = timers.after(graceMs, resolve);
      this.#onIdle = () => {
        callOff();
        resolve();
      };
      this.#pump();
    });
    this.#callOff?.();
    this.#isOver = true;
    this.#drop('shutdown', queue.clear());
    sender.close();
    await Promise.all(this.#underWay);
  }

  #pump(): void {
    const { queue, timers } = this.#options;
    this.#callOff?.();
    this.#callOff = undefined;
    this.#drop('too old', queue.expire(this.#nowMs()));
    while (!this.#isOver) {
      const taken = queue.take(this.#nowMs());
      if (taken === undefined) break;
      this.#begin(taken.message, taken.attempt);
    }
    const { dueMs } = queue;
    if (this.#onIdle !== undefined) {
      if (queue.inFlight === 0) this.#onIdle();
    } else if (dueMs !== undefined) {
      this.#callOff = timers.after(Math.max(0, dueMs - this.#nowMs()), () => this.#pump());
    }
  }

  #begin(message: QueuedEvent, attempt: number): void {
    const underWay = this.#options.sender.send(message).then((result) => {
      this.#underWay.delete(underWay);
      this.#settle(message, attempt, result);
      this.#pump();
    });
    this.#underWay.add(underWay);
  }

  #settle(message: QueuedEvent, attempt: number, result: AttemptResult): void {
    const { label: endpoint, queue, log, metrics } = this.#options;
    const { id, event } = message;
    if (result.outcome === 'delivered') {
      queue.delivered(id, this.#nowMs());
      metrics.all.webhookDelivered.inc();
      lines.webhookDelivered(log, { endpoint, ...event, attempt });
      message.settled?.();
      return;
    }
    if (result.outcome === 'gone' && !this.#isGone) {
      this.#isGone = true;
      lines.webhookEndpointGone(log, { endpoint });
    }
    if (this.#isGone || this.#isOver || result.outcome === 'gone') {
      queue.discard(id);
      this.#drop(this.#isGone ? 'endpoint gone' : 'shutdown', [message, ...queue.clear()]);
      return;
    }
    const { retryInMs, dropped } = queue.failed(id, this.#nowMs(), result);
    metrics.all.webhookFailed.inc();
    lines.webhookFailed(log, { ...event, endpoint, attempt, reason: result.reason, retryInMs });
    this.#drop('queue full', dropped);
  }

  #drop(reason: WebhookDropReason, lost: readonly QueuedEvent[]): void {
    if (lost.length === 0) return;
    const { label: endpoint, metrics, drops } = this.#options;
    if (reason !== 'shutdown') for (const { settled } of lost) settled?.();
    metrics.all.webhookDropped.inc({ reason }, lost.length);
    drops.note({ endpoint, reason }, JSON.stringify([endpoint, reason]), lost.length);
  }

  #nowMs(): number {
    return this.#options.clock.monotonicMs();
  }
}
