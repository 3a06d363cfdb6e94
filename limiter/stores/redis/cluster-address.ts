/** A cluster's seeds and how to log in to every node: REDIS_URL as a list, and REDIS_AUTH. */
import { maskRedisUrl } from './mask-url.ts';
import type { NodePlace } from './node-place.ts';
import { type Credentials, parseRedisAddress } from './redis-address.ts';

export interface ClusterAddress extends Credentials {
  seeds: readonly NodePlace[];
  /** How logs and errors name it; holds no credentials. */
  label: string;
}

/**
 * `host:port,...`, each also as `redis://[user:password@]host:port`. All nodes get the same credentials: REDIS_AUTH, or
 * those of the first item. Throws an Error that shows the URL masked.
 */
export function parseClusterAddress(settings: { url: string; auth: string }): ClusterAddress {
  const label = maskRedisUrl(settings.url);
  const items = splitList(settings.url);
  const addresses = items.map((url) => parseRedisAddress({ socketType: 'tcp', url, auth: settings.auth }));
  const [first] = addresses;
  if (first === undefined) throw new Error('Redis URL is empty');
  if (addresses.some(({ db }) => db !== 0))
    throw new Error(`Redis URL "${label}" names a database, of which a cluster has only 0`);
  const seeds = addresses.map(({ endpoint }) => endpoint as NodePlace);
  return { seeds, username: first.username, password: first.password, label };
}

/** At commas; those of a password belong to it, so a URL ends only where another item begins after its host. */
function splitList(text: string): string[] {
  return text
    .split(/,(?=rediss?:\/\/|[^,@]*(?:,|$))/i)
    .map((item) => item.trim())
    .filter((item) => item !== '');
}
