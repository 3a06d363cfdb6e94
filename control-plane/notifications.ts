import type { HttpListener } from '../process/http/http-server.ts';
import type { Logger } from '../process/log/logger.ts';
import type { Clock, Timers } from '../process/time/clock.ts';
import type { ControlPlaneSettings } from './settings/settings.ts';
import type { ControlPlaneMetrics } from './telemetry/control-plane-metrics.ts';
import * as lines from './telemetry/log-lines.ts';
import { type LookupRefusal, openSecretApi } from './webhooks/secret-api.ts';
import type { SecretPlace } from './webhooks/signing-keys.ts';
import type { DropReason, WebhookListener } from './webhooks/webhook-event.ts';
import { openWebhooks, type Webhooks } from './webhooks/webhook-sender.ts';

/** Ours: a full queue drops an event for every new one. */
const usualIntervalMs = 60_000;

/** Tells of losses at once, then once an interval how many there were since, until there are none. */
export class DropTally {
  readonly #timers: Timers;
  readonly #tell: (count: number) => void;
  readonly #intervalMs: number;
  #count = 0;
  #callOff: (() => void) | undefined;

  constructor(timers: Timers, tell: (count: number) => void, intervalMs = usualIntervalMs) {
    this.#timers = timers;
    this.#tell = tell;
    this.#intervalMs = intervalMs;
  }

  add(count: number): void {
    this.#count += count;
    if (this.#callOff === undefined) this.#round();
  }

  /** Tells what was not told yet. */
  close(): void {
    this.#callOff?.();
    if (this.#count > 0) this.#tell(this.#count);
    this.#count = 0;
  }

  #round(): void {
    this.#callOff = undefined;
    if (this.#count === 0) return;
    this.#tell(this.#count);
    this.#count = 0;
    this.#callOff = this.#timers.after(this.#intervalMs, () => this.#round());
  }
}

/** Webhooks and the lookup of their secret, as the settings ask for them. */

export interface NotificationParts {
  settings: ControlPlaneSettings;
  clock: Clock;
  timers: Timers;
  random(): number;
  log: Logger;
  metrics: ControlPlaneMetrics;
}

/** Undefined without WEBHOOK_URLS. Rejects with a SecretError. */
export async function openNotifications(parts: NotificationParts): Promise<Webhooks | undefined> {
  const { settings } = parts;
  if (settings.webhookUrls.length === 0) return undefined;
  const tallies = new Map<string, DropTally>();
  const webhooks = await openWebhooks({
    ...parts,
    urls: settings.webhookUrls,
    secret: placeOf('WEBHOOK_SECRET', settings.webhookSecret, settings.webhookSecretFile),
    queueSize: settings.webhookQueueSize,
    timeoutMs: settings.webhookTimeoutMs,
    secretOverlapMs: settings.webhookSecretOverlapMs,
    listener: webhookHappenings(parts, tallies),
  });
  return {
    ...webhooks,
    close: async (graceMs) => {
      await webhooks.close(graceMs);
      for (const tally of tallies.values()) tally.close();
    },
  };
}

/** Undefined without API_TOKEN and API_TOKEN_FILE. Rejects with a SecretError. */
export async function openSecretLookup(
  { settings, clock, timers, log, metrics }: NotificationParts,
  webhooks: Webhooks | undefined,
): Promise<HttpListener | undefined> {
  const { apiToken, apiTokenFile, apiTlsCert: certFile, apiTlsKey: keyFile } = settings;
  if (apiToken === '' && apiTokenFile === '') return undefined;
  const refusals = new Map<LookupRefusal, { from: string; tally: DropTally }>();
  const listener = await openSecretApi({
    token: placeOf('API_TOKEN', apiToken, apiTokenFile),
    signingSecret: () => webhooks?.signingSecret(),
    ...(certFile === '' ? {} : { tls: { certFile, keyFile } }),
    clock,
    timers,
    closeGraceMs: 1_000,
    listener: {
      tokenRotated: () => lines.secretRotated(log, 'API_TOKEN_FILE'),
      tokenRefused: (reason) => lines.secretRefused(log, 'API_TOKEN_FILE', reason),
      certificateChanged: () => lines.certificateChanged(log, 'secret lookup'),
      certificateRefused: (reason) => lines.certificateRefused(log, 'secret lookup', reason),
      secretRead: (reader) => {
        metrics.secretRead();
        lines.secretRead(log, reader);
      },
      lookupRefused: ({ from, reason }) => {
        metrics.lookupRefused(reason);
        let refusal = refusals.get(reason);
        if (refusal === undefined) {
          const tell = (times: number) =>
            lines.lookupRefused(log, { from: refusal?.from ?? from, reason, times });
          refusal = { from, tally: new DropTally(timers, tell, 1_000) };
          refusals.set(reason, refusal);
        }
        refusal.from = from;
        refusal.tally.add(1);
      },
      fault: (error) => {
        metrics.fault();
        lines.fault(log, 'secret lookup', error);
      },
    },
  });
  return {
    listen: (address) => listener.listen(address),
    close: async () => {
      await listener.close();
      for (const { tally } of refusals.values()) tally.close();
    },
  };
}

function placeOf(variable: string, value: string, file: string): SecretPlace {
  return file === '' ? { variable, value } : { file };
}

function webhookHappenings(
  { log, metrics, timers }: NotificationParts,
  tallies: Map<string, DropTally>,
): WebhookListener {
  const tallyOf = (endpoint: string, reason: DropReason): DropTally => {
    const key = JSON.stringify([endpoint, reason]);
    const known = tallies.get(key);
    if (known !== undefined) return known;
    const tally = new DropTally(timers, (count) => lines.webhooksDropped(log, { endpoint, reason, count }));
    tallies.set(key, tally);
    return tally;
  };
  return {
    delivered: (delivery) => {
      metrics.webhookDelivered();
      lines.webhookDelivered(log, delivery);
    },
    deliveryFailed: (failure) => {
      metrics.webhookAttemptFailed();
      lines.webhookFailed(log, failure);
    },
    dropped: ({ endpoint, reason, events }) => {
      metrics.webhookDropped(reason, events.length);
      tallyOf(endpoint, reason).add(events.length);
    },
    endpointGone: (endpoint) => lines.webhookEndpointGone(log, endpoint),
    secretRotated: () => lines.secretRotated(log, 'WEBHOOK_SECRET_FILE'),
    secretRefused: (reason) => lines.secretRefused(log, 'WEBHOOK_SECRET_FILE', reason),
  };
}
