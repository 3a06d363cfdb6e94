/** Posts one event to one endpoint, signed according to Standard Webhooks, and returns the result. */
import { fetch, type Response } from 'undici';
import { packageVersion } from '../../process/files/package-file.ts';
import { systemErrorReason } from '../../process/log/error-text.ts';
import type { Clock } from '../../process/time/clock.ts';
import type { DeliveryFailure } from './delivery-queue.ts';
import { signatures } from './signing-keys.ts';
import { type WebhookEndpoint, webhookAgent } from './target-address.ts';

export interface WebhookMessage {
  /** The header `webhook-id`. */
  id: string;
  /** The JSON, which is the same for every endpoint and attempt. */
  body: string;
}

export interface WebhookSenderOptions {
  endpoint: WebhookEndpoint;
  /** Returns the secrets, all of which sign. Called for every attempt. */
  secrets(): readonly string[];
  /** The time from the start of the connection to the end of the response. */
  timeoutMs: number;
  /** Whether events may be posted to this machine, and to its link and metadata services: see `localAddressKind`. */
  allowLocal: boolean;
  clock: Clock;
}

/** `gone`: the endpoint wants no more events (410), as defined in Standard Webhooks. */
export type AttemptResult =
  | { outcome: 'delivered' }
  | { outcome: 'gone'; reason: string }
  | ({ outcome: 'failed'; reason: string } & DeliveryFailure);

/** Chosen: the maximum time for which a receiver can pause an endpoint at once. */
const longestRetryAfterMs = 3_600_000;
/** Chosen: enough to reuse the connection for the next event after any reasonable response. */
const maxAnswerBytes = 65_536;

export class WebhookSender {
  readonly #options: WebhookSenderOptions;
  readonly #userAgent = `weir/${packageVersion()}`;
  readonly #agent: ReturnType<typeof webhookAgent>;
  readonly #ended = new AbortController();

  constructor(options: WebhookSenderOptions) {
    this.#options = options;
    this.#agent = webhookAgent(options);
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
        dispatcher: this.#agent,
        signal: AbortSignal.any([timeout, this.#ended.signal]),
      });
      await readAway(response);
      return resultOf(response, clock.nowMs());
    } catch (error) {
      const reason = timeout.aborted ? `no answer within ${timeoutMs} ms` : connectionProblem(error);
      return { outcome: 'failed', side: 'endpoint', reason };
    }
  }

  /** Cancels running attempts. */
  close(): void {
    this.#ended.abort();
    void this.#agent.destroy();
  }

  #headers(message: WebhookMessage): Record<string, string> {
    const { endpoint, secrets, clock } = this.#options;
    const now = new Date(clock.nowMs());
    return {
      'content-type': 'application/json',
      'user-agent': this.#userAgent,
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
    reason: isRedirect
      ? `answered ${status}: webhooks do not follow redirects, so configure the final URL`
      : `answered ${status}`,
    retryAfterMs: parseRetryAfterMs(headers.get('retry-after'), nowMs),
  };
}

/** Returns whether a 4xx answer is about the event. Some are about the endpoint's state: timeout, too early, too many requests. */
function isEventsFault(status: number): boolean {
  return status >= 400 && status < 500 && ![408, 425, 429].includes(status);
}

/** The status has decided. A body that is too long or incomplete changes nothing. */
async function readAway(response: Response): Promise<void> {
  let bytes = 0;
  try {
    for await (const chunk of response.body ?? []) {
      bytes += chunk.byteLength;
      if (bytes > maxAnswerBytes) break;
    }
  } catch {
    // If the rest of the body is lost, so is the connection.
  }
}

/** Returns the text of a connection error. `fetch` puts it into the cause. After attempts to several addresses, there is one for each. */
function connectionProblem(error: unknown): string {
  const cause = error instanceof Error && error.cause !== undefined ? error.cause : error;
  const first: unknown = cause instanceof AggregateError ? cause.errors[0] : cause;
  return systemErrorReason(first);
}

/** Parses seconds or a date. Returns undefined if the header is missing or invalid. RFC 9110, section 10.2.3. */
export function parseRetryAfterMs(header: string | null, nowMs: number): number | undefined {
  const text = header?.trim() ?? '';
  const waitMs = /^\d+$/.test(text) ? Number(text) * 1_000 : dateMs(text) - nowMs;
  return Number.isNaN(waitMs) ? undefined : Math.min(longestRetryAfterMs, Math.max(0, waitMs));
}

function dateMs(text: string): number {
  // Date.parse accepts much that is not an HTTP date, such as plain numbers.
  return /^[A-Z][a-z]+,? .*\d\d:\d\d:\d\d/.test(text) ? Date.parse(text) : Number.NaN;
}
