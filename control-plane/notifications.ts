import type { HttpListener } from '../process/http/http-server.ts';
import type { Logger } from '../process/log/logger.ts';
import { Seldom } from '../process/log/seldom.ts';
import type { Clock, Timers } from '../process/time/clock.ts';
import type { ControlPlaneSettings } from './settings/table.ts';
import type { ControlPlaneMetrics } from './telemetry/control-plane-metrics.ts';
import * as lines from './telemetry/log-lines.ts';
import { type LookupRefusal, openSecretApi } from './webhooks/secret-api.ts';
import type { SecretPlace } from './webhooks/signing-keys.ts';
import type { DropReason, WebhookListener } from './webhooks/webhook-event.ts';
import { openWebhooks, type Webhooks } from './webhooks/webhook-sender.ts';

/** Chosen: a full queue drops an event for every new one. */
const dropsToldMs = 60_000;
const refusalsToldMs = 1_000;

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
  const drops = new Seldom<Drop>(parts.timers, dropsToldMs, (drop, count) =>
    lines.webhooksDropped(parts.log, { ...drop, count }),
  );
  const webhooks = await openWebhooks({
    ...parts,
    urls: settings.webhookUrls,
    secret: placeOf('WEBHOOK_SECRET', settings.webhookSecret, settings.webhookSecretFile),
    queueSize: settings.webhookQueueSize,
    timeoutMs: settings.webhookTimeoutMs,
    secretOverlapMs: settings.webhookSecretOverlapMs,
    listener: webhookHappenings(parts, drops),
  });
  return {
    ...webhooks,
    close: async (graceMs) => {
      await webhooks.close(graceMs);
      drops.close();
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
  const refusals = new Seldom<{ from: string; reason: LookupRefusal }>(
    timers,
    refusalsToldMs,
    (refusal, times) => lines.lookupRefused(log, { ...refusal, times }),
  );
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
      lookupRefused: (refusal) => {
        metrics.lookupRefused(refusal.reason);
        refusals.note(refusal, refusal.reason);
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
      refusals.close();
    },
  };
}

function placeOf(variable: string, value: string, file: string): SecretPlace {
  return file === '' ? { variable, value } : { file };
}

interface Drop {
  endpoint: string;
  reason: DropReason;
}

function webhookHappenings({ log, metrics }: NotificationParts, drops: Seldom<Drop>): WebhookListener {
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
      drops.note({ endpoint, reason }, JSON.stringify([endpoint, reason]), events.length);
    },
    endpointGone: (endpoint) => lines.webhookEndpointGone(log, endpoint),
    secretRotated: () => lines.secretRotated(log, 'WEBHOOK_SECRET_FILE'),
    secretRefused: (reason) => lines.secretRefused(log, 'WEBHOOK_SECRET_FILE', reason),
  };
}
