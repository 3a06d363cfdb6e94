/** Opens webhooks and the lookup of their secret, according to the settings. */
import type { HttpConnectionsOptions } from '../process/http/http-connections.ts';
import type { HttpListener } from '../process/http/http-server.ts';
import type { ProcessTime } from '../process/time/clock.ts';
import { openSecretApi } from './http/secret-api.ts';
import type { ControlPlaneSettings } from './settings/table.ts';
import type { Telemetry } from './telemetry/control-plane-metrics.ts';
import type { SecretPlace } from './webhooks/signing-keys.ts';
import { openWebhooks, type Webhooks } from './webhooks/webhooks.ts';

export interface NotificationParts extends Telemetry, ProcessTime {
  settings: ControlPlaneSettings;
  random(): number;
}

/** Returns undefined without WEBHOOK_URLS. Rejects with a SecretError. */
export async function openNotifications(parts: NotificationParts): Promise<Webhooks | undefined> {
  const { settings } = parts;
  if (settings.webhookUrls.length === 0) return undefined;
  return openWebhooks({
    ...parts,
    urls: settings.webhookUrls,
    secret: placeOf('WEBHOOK_SECRET', settings.webhookSecret, settings.webhookSecretFile),
    queueSize: settings.webhookQueueSize,
    timeoutMs: settings.webhookTimeoutMs,
    allowLocal: settings.webhookAllowLocal,
    secretOverlapMs: settings.webhookSecretOverlapMs,
  });
}

/** Returns undefined without API_TOKEN and API_TOKEN_FILE. Rejects with a SecretError. */
export async function openSecretLookup(
  parts: NotificationParts,
  webhooks: Webhooks | undefined,
  connections: HttpConnectionsOptions,
): Promise<HttpListener | undefined> {
  const { apiToken, apiTokenFile, apiTlsCert: certFile, apiTlsKey: keyFile } = parts.settings;
  if (apiToken === '' && apiTokenFile === '') return undefined;
  return openSecretApi({
    ...parts,
    token: placeOf('API_TOKEN', apiToken, apiTokenFile),
    connections,
    signingSecret: () => webhooks?.signingSecret(),
    ...(certFile === '' ? {} : { tls: { certFile, keyFile } }),
    closeGraceMs: 1_000,
  });
}

function placeOf(variable: string, value: string, file: string): SecretPlace {
  return file === '' ? { variable, value } : { file };
}
