/** One node's address: MEMCACHE_HOST_PORT and the answers to MEMCACHE_SRV. */
export interface MemcacheAddress {
  endpoint: { host: string; port: number } | { path: string };
  /** As given; tells nodes apart, and names them in logs. */
  label: string;
}

/**
 * Items between commas, in their order, by which keys choose their node. One that comes twice counts twice: it then gets
 * twice the keys, as with the Go service. Throws an Error on an item that is neither `host:port` nor a path.
 */
export function parseMemcacheAddresses(text: string): MemcacheAddress[] {
  return text.split(',').map((item) => parseMemcacheAddress(item.trim()));
}

/** Throws an Error. What holds a `/` is the path of a unix socket. */
export function parseMemcacheAddress(label: string): MemcacheAddress {
  if (label.includes('/')) return { endpoint: { path: label }, label };
  const [, bracketed, plain, digits] = /^(?:\[([^\]]+)\]|([^:@/\s[\]]+)):(\d{1,5})$/.exec(label) ?? [];
  const host = bracketed ?? plain;
  const port = Number(digits);
  if (host === undefined) throw new Error(`memcache node "${label}" is neither host:port nor a path`);
  if (port < 1 || port > 65_535) throw new Error(`memcache node "${label}" has a port outside 1..65535`);
  return { endpoint: { host, port }, label };
}
