/** What of Redis's settings has no effect beside the others: said at the start. */
import { mainRedis, perSecondRedis, type RedisSettings } from './redis-settings.ts';

/** With `BACKEND_TYPE=redis`. */
export function redisSettingsWarnings(settings: RedisSettings): string[] {
  const stores = [mainRedis(settings), ...(settings.redisPerSecond ? [perSecondRedis(settings)] : [])];
  return stores.some(({ tls }) => tls) ? [] : unusedTlsFiles(settings);
}

function unusedTlsFiles(settings: RedisSettings): string[] {
  const { redisTlsCaCert, redisTlsClientCert, redisTlsClientKey, redisTlsSkipHostnameVerification } =
    settings;
  const unused: [string, boolean][] = [
    ['REDIS_TLS_CACERT', redisTlsCaCert !== ''],
    ['REDIS_TLS_CLIENT_CERT', redisTlsClientCert !== ''],
    ['REDIS_TLS_CLIENT_KEY', redisTlsClientKey !== ''],
    ['REDIS_TLS_SKIP_HOSTNAME_VERIFICATION', redisTlsSkipHostnameVerification],
  ];
  return unused
    .filter(([, isSet]) => isSet)
    .map(([name]) => `${name} has no effect without REDIS_TLS=true: Redis is spoken to in plain text`);
}
