/**
 * Creates the TLS of a store's client from settings. It is separate from the store, so that a process that counts in memory never loads
 * TLS.
 */
import type { Logger } from '../../process/log/logger.ts';
import { connectionLines } from '../log/connection-lines.ts';
import type { LimiterSettings } from '../settings/settings.ts';
import { ClientTls } from '../stores/client-tls.ts';

/** Opens the TLS of a client: REDIS_TLS_* or MEMCACHE_TLS_*. @throws Error if files cannot be used */
export function openClientTls(
  settings: LimiterSettings,
  client: 'redis' | 'memcache',
  log: Logger,
): ClientTls {
  const files = {
    certPath: settings[`${client}TlsClientCert`],
    keyPath: settings[`${client}TlsClientKey`],
    caPath: settings[`${client}TlsCaCert`],
    skipHostnameVerification: settings[`${client}TlsSkipHostnameVerification`],
    settingPrefix: client === 'redis' ? 'REDIS_TLS_' : 'MEMCACHE_TLS_',
  } as const;
  return new ClientTls(files, (reason) => connectionLines.clientTlsRejected(log, { client, reason }));
}
