/**
 * The listener of the secret lookup. It is separate from all others, so that network policies can isolate it. It has one path, `GET
 * /v1/webhooks/default/secret`, for callers with the token.
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { HttpConnectionsOptions } from '../../process/http/http-connections.ts';
import type { HttpCall, HttpListener } from '../../process/http/http-server.ts';
import { sendError, sendNotFound } from '../../process/http/text-response.ts';
import { LogThrottle } from '../../process/log/log-throttle.ts';
import { AddressThrottle } from '../../process/net/address-throttle.ts';
import {
  bearerChallenge,
  bearerToken,
  isSameToken,
  shortestToken,
  tokenProblem,
} from '../../process/net/bearer-token.ts';
import type { TlsFiles } from '../../process/net/tls-credentials.ts';
import type { Clock, Timers } from '../../process/time/clock.ts';
import type { Telemetry } from '../telemetry/control-plane-metrics.ts';
import { lines } from '../telemetry/log-lines.ts';
import type { LookupRejection } from '../telemetry/metric-set.ts';
import { openSecret, SecretError, type SecretPlace, secretPath } from '../webhooks/signing-keys.ts';
import { openTlsListener, reportedMs } from './ports.ts';

/** Chosen: the longest text that a caller may send about itself. */
const longestUserAgent = 100;
export interface SecretApiOptions extends Telemetry {
  token: SecretPlace;
  /** Undefined while webhooks are off. Every path then answers 404. */
  signingSecret(): string | undefined;
  /** PEM files. Without them, callers use plain HTTP. */
  tls?: TlsFiles;
  clock: Clock;
  timers: Timers;
  /** The interval at which files are checked. Defaults to 5 s. */
  intervalMs?: number;
  /** Bounds on its connections. Undefined if they are not bounded. */
  connections?: HttpConnectionsOptions | undefined;
  /** How long requests may continue at shutdown before they are cut. */
  closeGraceMs: number;
}

/**
 * Opens the listener, which then has to `listen`. Rejects with a SecretError or a WatchedFilesError if token or certificate are invalid
 * at the start.
 */
export async function openSecretApi(options: SecretApiOptions): Promise<HttpListener> {
  const token = await openToken(options);
  const doorkeeper = new Doorkeeper(options);
  return openTlsListener({
    ...options,
    name: 'secret lookup',
    files: options.tls,
    reloadIntervalMs: options.intervalMs,
    admit: (request, response) => doorkeeper.admit(request, response, token.current()),
    serve: (call) => answerSecret(call, options),
    closed: () => {
      token.close();
      doorkeeper.close();
    },
  }).catch((error: unknown) => {
    token.close();
    throw error;
  });
}

/** Checks each request first. A caller without a token gets no information, not even which paths exist. */
class Doorkeeper {
  readonly #clock: Clock;
  readonly #metrics: Telemetry['metrics'];
  readonly #rejections: LogThrottle<{ from: string; reason: LookupRejection }>;
  readonly #throttle = new AddressThrottle();

  constructor({ clock, timers, log, metrics }: SecretApiOptions) {
    this.#clock = clock;
    this.#metrics = metrics;
    this.#rejections = new LogThrottle(
      timers,
      (rejection, times) => lines.lookupRejected(log, { ...rejection, times }),
      reportedMs,
    );
  }

  /** Logs rejections that were not logged yet. */
  close(): void {
    this.#rejections.close();
  }

  /** The right token is never slowed down, so other clients cannot lock its holder out. */
  admit(request: IncomingMessage, response: ServerResponse, token: string): boolean {
    response.setHeader('Cache-Control', 'no-store');
    const { authorization } = request.headers;
    const given = bearerToken(authorization);
    if (given !== undefined && isSameToken(given, token)) return true;
    const from = addressOf(request);
    const isMissing = authorization === undefined;
    const waitMs = isMissing ? 0 : this.#wrong(from);
    const reason = isMissing ? 'no token' : waitMs === 0 ? 'wrong token' : 'slowed';
    this.#metrics.all.secretLookupsRejected.inc({ reason });
    this.#rejections.note({ from, reason }, reason);
    if (reason === 'slowed') {
      response.setHeader('Retry-After', Math.ceil(waitMs / 1000));
      sendError(response, 429, 'Too Many Requests');
      return false;
    }
    response.setHeader('WWW-Authenticate', bearerChallenge(authorization));
    sendError(response, 401, 'Unauthorized');
    return false;
  }

  /** Returns how long this address must wait. Returns 0 if it need not wait; this attempt is then counted. */
  #wrong(from: string): number {
    const nowMs = this.#clock.monotonicMs();
    const waitMs = this.#throttle.waitMs(from, nowMs);
    if (waitMs === 0) this.#throttle.wrong(from, nowMs);
    return waitMs;
  }
}

/** Uses the address of the socket, because any client could send a proxy's header. */
function addressOf(request: IncomingMessage): string {
  return request.socket.remoteAddress ?? 'unknown';
}

/** Answers with the secret. While webhooks are off, there is no secret, and the path does not exist. */
function answerSecret(
  { target, request, response }: HttpCall,
  { token, signingSecret, log, metrics }: SecretApiOptions,
): void {
  const secret = signingSecret();
  if (target.path !== secretPath || secret === undefined) {
    sendNotFound(response);
  } else if (request.method !== 'GET') {
    response.setHeader('Allow', 'GET');
    sendError(response, 405, 'Method Not Allowed');
  } else {
    const body = JSON.stringify({ key: secret });
    response.writeHead(200, { 'Content-Type': 'application/json', 'Content-Length': body.length });
    response.end(body);
    const userAgent = (request.headers['user-agent'] ?? '').slice(0, longestUserAgent);
    metrics.all.secretReads.inc();
    lines.secretRead(log, {
      from: addressOf(request),
      token: 'file' in token ? token.file : token.variable,
      userAgent,
    });
  }
}

/** Parses a token. White space around it is removed. */
function parseApiToken(text: string): string {
  const token = text.trim();
  const problem = tokenProblem(token, shortestToken);
  if (problem !== undefined) throw new SecretError(problem);
  return token;
}

async function openToken(options: SecretApiOptions): Promise<{ current(): string; close(): void }> {
  const { timers, log, intervalMs, token: place } = options;
  let current = '';
  const opened = await openSecret({
    ...{ timers, log, intervalMs, place, setting: 'API_TOKEN_FILE' },
    parse: parseApiToken,
    replace: (token) => {
      const isOther = token !== current;
      current = token;
      return isOther;
    },
  });
  current = opened.first;
  return { current: () => current, close: () => opened.close() };
}
