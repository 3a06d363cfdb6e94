/** What may be a key in memcache, what stands for one that may not, and where it lives. */
import { hash } from 'node:crypto';
import { crc32 } from 'node:zlib';

/** Longest key of the text protocol, in bytes. */
const maxKeyBytes = 250;

// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what a key must not have
const forbidden = /[\x00-\x20\x7f]/;

/** A key that is not would end, split or prolong a command: it never reaches the protocol. */
export function isLegalKey(key: string): boolean {
  if (key === '' || key.length > maxKeyBytes || forbidden.test(key)) return false;
  // No character takes more than three bytes a UTF-16 unit.
  return key.length * 3 <= maxKeyBytes || Buffer.byteLength(key) <= maxKeyBytes;
}

/** `~` and the SHA-256, in hexadecimal digits. */
const hashBytes = 65;
/** Longest CACHE_KEY_PREFIX, in bytes: a key that is hashed still begins with all of it. */
export const longestMemcachePrefix = maxKeyBytes - hashBytes;

/**
 * The key as memcache takes it. In place of one that it does not take stands what can be kept of its beginning, for
 * proxies that choose nodes by prefix, then `~` and the SHA-256 of the whole. No counter has such a key of its own: each
 * ends in the start of its window, digits behind `_` or `:`, where this one has `~` or a letter.
 */
export function memcacheKey(key: string): string {
  if (isLegalKey(key)) return key;
  const end = key.search(forbidden);
  const legal = Buffer.from(end < 0 ? key : key.slice(0, end));
  let kept = Math.min(legal.length, longestMemcachePrefix);
  // Whole characters: those bytes of UTF-8 that begin with 10 continue one.
  while (kept > 0 && kept < legal.length && (legal[kept]! & 0xc0) === 0x80) kept--;
  return `${legal.toString('utf8', 0, kept)}~${hash('sha256', key)}`;
}

/** What is wrong with a CACHE_KEY_PREFIX; undefined for a good one. */
export function memcachePrefixProblem(prefix: string): string | undefined {
  const bytes = Buffer.byteLength(prefix);
  if (bytes > longestMemcachePrefix) {
    return `has ${bytes} bytes, and with BACKEND_TYPE=memcache it can have ${longestMemcachePrefix} at most`;
  }
  if (!forbidden.test(prefix)) return undefined;
  return `${JSON.stringify(prefix)} has a blank or a control character, which memcache takes in no key`;
}

/** CRC-32 (IEEE) of the key's bytes, from which gomemcache, the Go service's client, chooses the node. */
export function keyHash(key: string): number {
  return crc32(key);
}
