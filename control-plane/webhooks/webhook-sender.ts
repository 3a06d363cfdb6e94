/** Posts one event to one endpoint, signed as the Standard Webhooks say, and says what came of it. */
import { Webhook } from 'standardwebhooks';
import { systemErrorReason } from '../../process/log/error-text.ts';
import { packageVersion } from '../../process/log/process-lines.ts';
import { Seldom } from '../../process/log/seldom.ts';
import type { Clock, Timers } from '../../process/time/clock.ts';
import { objectKey } from '../model/config-object.ts';
import type { Telemetry } from '../telemetry/control-plane-metrics.ts';
import * as lines from '../telemetry/log-lines.ts';
import { type DeliveryFailure, DeliveryQueue } from './delivery-queue.ts';
import { type Drop, EndpointDelivery, type EndpointStatus, parseRetryAfterMs } from './endpoint-delivery.ts';
import { parseEndpoint, type WebhookEndpoint } from './endpoint-url.ts';
import { openSecret, parseSigningSecrets, type SecretPlace, SigningKeys } from './signing-keys.ts';
import type { EventName, WebhookEvent } from './webhook-event.ts';

export interface WebhookMessage {
  /** Header `webhook-id`. */
  id: string;
  /** JSON, the same for every endpoint and attempt. */
  body: string;
}

export interface WebhookSenderOptions {
  endpoint: WebhookEndpoint;
  /** Asked at every attempt; all of them sign. */
  secrets(): readonly string[];
  /** From the start of the connection to the end of the answer. */
  timeoutMs: number;
  userAgent: string;
  clock: Clock;
}

/** `gone`: the endpoint wants no more events (410), as the Standard Webhooks have it. */
export type AttemptResult =
  | { outcome: 'delivered' }
  | { outcome: 'gone'; reason: string }
  | ({ outcome: 'failed'; reason: string } & DeliveryFailure);

/** Chosen: enough to keep the connection for the next event after any sensible answer. */
const mostAnswerBytes = 65_536;

/** `signature` header: one for each secret, in their order. */
export function signatures(
  secrets: readonly string[],
  { id, body }: WebhookMessage,
  timestamp: Date,
): string {
  return secrets.map((secret) => new Webhook(secret).sign(id, timestamp, body)).join(' ');
}

class WebhookSender {
  readonly #options: WebhookSenderOptions;
  readonly #ended = new AbortController();

  constructor(options: WebhookSenderOptions) {
    this.#options = options;
  }

  /** Never rejects. */
  async send(message: WebhookMessage): Promise<AttemptResult> {
    const { endpoint, timeoutMs, clock } = this.#options;
    const timeout = AbortSignal.timeout(timeoutMs);
    try {
      const response = await fetch(endpoint.url, {
        method: 'POST',
        headers: this.#headers(message),
        body: message.body,
        redirect: 'manual',
        signal: AbortSignal.any([timeout, this.#ended.signal]),
      });
      await readAway(response);
      return resultOf(response, clock.nowMs());
    } catch (error) {
      const reason = timeout.aborted ? `no answer within ${timeoutMs} ms` : connectionProblem(error);
      return { outcome: 'failed', side: 'endpoint', reason };
    }
  }

  /** Cuts what is under way. */
  close(): void {
    this.#ended.abort();
  }

  #headers(message: WebhookMessage): Record<string, string> {
    const { endpoint, secrets, userAgent, clock } = this.#options;
    const now = new Date(clock.nowMs());
    return {
      'content-type': 'application/json',
      'user-agent': userAgent,
      'webhook-id': message.id,
      'webhook-timestamp': String(Math.floor(now.getTime() / 1000)),
      'webhook-signature': signatures(secrets(), message, now),
      ...(endpoint.authorization === undefined ? {} : { authorization: endpoint.authorization }),
    };
  }
}

function resultOf(response: Response, nowMs: number): AttemptResult {
  const { status, headers } = response;
  if (status >= 200 && status < 300) return { outcome: 'delivered' };
  if (status === 410) return { outcome: 'gone', reason: 'answered 410' };
  const isRedirect = status >= 300 && status < 400;
  return {
    outcome: 'failed',
    side: isEventsFault(status) ? 'event' : 'endpoint',
    reason: isRedirect ? `answered ${status}, a redirect, which is not followed` : `answered ${status}`,
    retryAfterMs: parseRetryAfterMs(headers.get('retry-after'), nowMs),
  };
}

/** Of the answers 4xx these speak of the endpoint's state, not of the request: timeout, too early, too many. */
function isEventsFault(status: number): boolean {
  return status >= 400 && status < 500 && ![408, 425, 429].includes(status);
}

/** The status has decided: a body that is too long or breaks off changes nothing. */
async function readAway(response: Response): Promise<void> {
  let bytes = 0;
  try {
    for await (const chunk of response.body ?? []) {
      bytes += chunk.byteLength;
      if (bytes > mostAnswerBytes) break;
    }
  } catch {
    // The connection is lost with the rest of the body.
  }
}

/** `fetch` hides what happened in the cause; one that tried several addresses has one for each. */
function connectionProblem(error: unknown): string {
  const cause = error instanceof Error && error.cause !== undefined ? error.cause : error;
  const first: unknown = cause instanceof AggregateError ? cause.errors[0] : cause;
  return systemErrorReason(first);
}

export interface WebhooksOptions extends Telemetry {
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
}

/** Signed notifications about RateLimitConfigs, for the endpoints of WEBHOOK_URLS. Only the leader notifies. */
export interface Webhooks {
  /** Queues the event for every endpoint and returns at once. */
  notify(event: WebhookEvent): void;
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
/** Chosen: a full queue drops an event for every new one. */
const dropsToldMs = 60_000;

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
  const drops = new Seldom<Drop>(timers, dropsToldMs, (drop, count) =>
    lines.webhooksDropped(log, { ...drop, count }),
  );
  const deliveries = [...new Set(options.urls)].map((url) => openDelivery(url, keys, { ...options, drops }));
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
      drops.close();
    },
  };
}

function openDelivery(
  url: string,
  keys: SigningKeys,
  options: WebhooksOptions & { drops: Seldom<Drop> },
): EndpointDelivery {
  const { queueSize, timeoutMs, maxAgeMs = dayMs, clock, random } = options;
  const endpoint = parseEndpoint(url);
  const userAgent = `weir/${packageVersion()}`;
  return new EndpointDelivery({
    ...options,
    label: endpoint.label,
    queue: new DeliveryQueue({ capacity: queueSize, concurrency, maxAgeMs, random }),
    sender: new WebhookSender({ endpoint, secrets: () => keys.all(), timeoutMs, userAgent, clock }),
  });
}

/** The id travels in its header. */
function withoutId({ type, timestamp, data }: WebhookEvent): Omit<WebhookEvent, 'id'> {
  return { type, timestamp, data };
}

function nameOf({ id, type, data }: WebhookEvent): EventName {
  return { id, type, object: objectKey(data), generation: data.generation };
}
