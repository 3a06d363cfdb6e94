/** What may be a key in memcache, and where it lives. */
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

/** CRC-32 (IEEE) of the key's bytes, from which gomemcache, the Go service's client, chooses the node. */
export function keyHash(key: string): number {
  return crc32(key);
}
