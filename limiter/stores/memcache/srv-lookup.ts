/** MEMCACHE_SRV: nodes by the SRV records of a name. RFC 2782. */
import { type MemcacheAddress, parseMemcacheAddress } from './memcache-address.ts';

/** Like `resolveSrv` of node:dns/promises. */
export type ResolveSrv = (name: string) => Promise<readonly { name: string; port: number }[]>;

/** Whether a name has the form `_service._proto.name`, as the Go service wants it. */
export function isSrvName(name: string): boolean {
  return /^_.+?\._.+?\..+$/.test(name);
}

/**
 * In the one order that all limiters agree on, the Go service's: its texts `target.:port` sorted by their bytes. Go keeps
 * the dot at the end of a target, and it matters to the order. Rejects when there is no record.
 */
export async function lookUpNodes(name: string, resolve: ResolveSrv): Promise<MemcacheAddress[]> {
  const records = await resolve(name);
  if (records.length === 0) throw new Error(`no SRV record for ${name}`);
  return records
    .map((record) => `${record.name.replace(/\.$/, '')}.:${record.port}`)
    .sort()
    .map((text) => parseMemcacheAddress(text.replace(/\.:(?=\d+$)/, ':')));
}
