/** The keys that memcache accepts, the replacements of others, and the choice of the node. */
import { hash } from 'node:crypto';
import { crc32 } from 'node:zlib';

/** The longest key of the text protocol, in bytes. */
const maxKeyBytes = 250;

// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what a key must not have
const forbidden = /[\x00-\x20\x7f]/;

/** Whether a text is a legal key. Any other text would end, split or extend a command, so it must not reach the protocol. */
export function isLegalKey(key: string): boolean {
  if (key === '' || key.length > maxKeyBytes || forbidden.test(key)) return false;
  // A UTF-16 unit takes at most three bytes.
  return key.length * 3 <= maxKeyBytes || Buffer.byteLength(key) <= maxKeyBytes;
}

/** `~` and the SHA-256, in hexadecimal digits. */
const hashBytes = 65;
/** The maximum length of CACHE_KEY_PREFIX, in bytes: a hashed key still begins with the whole prefix. */
export const longestMemcachePrefix = maxKeyBytes - hashBytes;

/**
 * Returns a key that memcache accepts. A key that it does not accept is replaced by as much of its beginning as fits, for proxies that
 * choose nodes by prefix, then `~` and the SHA-256 of the whole. No counter has such a key itself: each ends in the start of its window,
 * digits after `_` or `:`, while this one has `~` or a letter there.
 */
export function memcacheKey(key: string): string {
  if (isLegalKey(key)) return key;
  const end = key.search(forbidden);
  const legal = Buffer.from(end < 0 ? key : key.slice(0, end));
  let kept = Math.min(legal.length, longestMemcachePrefix);
  // The cut is between characters: UTF-8 bytes that begin with 10 continue a character.
  while (((legal[kept] ?? 0) & 0xc0) === 0x80) kept--;
  return `${legal.toString('utf8', 0, kept)}~${hash('sha256', key)}`;
}

/** Returns the problem of a CACHE_KEY_PREFIX; undefined for a valid one. */
export function memcachePrefixProblem(prefix: string): string | undefined {
  const bytes = Buffer.byteLength(prefix);
  if (bytes > longestMemcachePrefix) {
    return `has ${bytes} bytes, and with BACKEND_TYPE=memcache it can have ${longestMemcachePrefix} at most`;
  }
  if (!forbidden.test(prefix)) return undefined;
  return `${JSON.stringify(prefix)} has a blank or a control character, which memcached does not allow in a key`;
}

/** The CRC-32 (IEEE) of the key's bytes, with which gomemcache, the Go service's client, chooses the node. */
export function keyHash(key: string): number {
  return crc32(key);
}
