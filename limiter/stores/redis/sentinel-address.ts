/** A master that sentinels know: REDIS_URL, REDIS_AUTH and REDIS_SENTINEL_AUTH read together for REDIS_TYPE=sentinel. */
import { maskRedisUrl } from './mask-url.ts';
import { type Credentials, parseAuth, parseRedisAddress } from './redis-address.ts';

export interface SentinelAddress {
  masterName: string;
  sentinels: readonly { host: string; port: number }[];
  /** How to log in to each sentinel. */
  sentinelAuth: Credentials;
  /** How to log in to the master. */
  username: string | undefined;
  password: string | undefined;
  db: number;
  /** How logs and errors name the whole; holds no credentials. */
  label: string;
}

export interface SentinelAddressSettings {
  /** `<master name>,<sentinel>,...`, a sentinel as `host:port` or `redis://[user:password@]host:port`. */
  url: string;
  /** For the master: `password` or `user:password`; empty: none. */
  auth: string;
  /** For the sentinels, likewise; empty: those of the first sentinel's URL, if any. */
  sentinelAuth: string;
}

/** Throws an Error that shows the URL masked. */
export function parseSentinelAddress(settings: SentinelAddressSettings): SentinelAddress {
  const label = maskRedisUrl(settings.url);
  const [masterName = '', ...items] = settings.url.split(',').map((item) => item.trim());
  if (masterName === '' || masterName.includes('://') || items.length === 0 || items.includes('')) {
    throw new Error(
      'Expected master name and a list of urls for the sentinels, in the format: ' +
        `<redis master name>,<sentinel1>,...,<sentineln>; it is "${label}"`,
    );
  }
  const parsed = items.map((url) =>
    parseRedisAddress({ socketType: 'tcp', url, auth: settings.sentinelAuth }),
  );
  const withDb = parsed.find(({ db }) => db !== 0);
  if (withDb !== undefined) {
    throw new Error(
      `Redis URL "${withDb.label}" has a database, which a sentinel has not; the master counts in 0`,
    );
  }
  const sentinels = parsed.map(({ endpoint }) => endpoint as { host: string; port: number });
  const { username, password } = parsed[0] as Credentials;
  const sentinelAuth = { username, password };
  return { masterName, sentinels, sentinelAuth, ...parseAuth(settings.auth), db: 0, label };
}
