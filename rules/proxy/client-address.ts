/** The address of a client: how to derive it from the headers of proxies, and how Envoy writes it. */
import { isIPv4, isIPv6 } from 'node:net';

/** An address of 4 or 16 bytes. */
export type ClientAddress = Uint8Array;

/**
 * Returns the client address from X-Forwarded-For, whose lines count as one list: the last address before `trustedHops` others,
 * as Envoy's `xff_num_trusted_hops` does. Undefined if there are too few, or if it is no address.
 */
export function forwardedAddress(lines: readonly string[], trustedHops: number): ClientAddress | undefined {
  let hops = trustedHops;
  for (let index = lines.length - 1; index >= 0; index--) {
    const line = lines[index]!;
    let end = line.length;
    while (end >= 0) {
      const comma = end === 0 ? -1 : line.lastIndexOf(',', end - 1);
      if (hops === 0) return parseAddress(line.slice(comma + 1, end));
      hops -= 1;
      end = comma;
    }
  }
  return undefined;
}

/** The maximum length of an address with brackets, zone and port. */
const longestAddress = 100;

/**
 * Reads an address such as `192.0.2.1` or `2001:db8::1`. It ignores a port (`192.0.2.1:80`, `[2001:db8::1]:80`) or a zone, which
 * some proxies write. An IPv4 address that is mapped into IPv6 is the IPv4 address, because it is the same client.
 */
export function parseAddress(text: string): ClientAddress | undefined {
  if (text.length > longestAddress) return undefined;
  const plain = text.trim();
  const inBrackets = /^\[([^\]]*)\](?::\d{1,5})?$/.exec(plain);
  if (inBrackets !== null) return parseV6(inBrackets[1]!);
  const withPort = /^([\d.]+):\d{1,5}$/.exec(plain);
  return plain.includes(':') && withPort === null ? parseV6(plain) : parseV4(withPort?.[1] ?? plain);
}

function parseV4(text: string): ClientAddress | undefined {
  return isIPv4(text) ? Uint8Array.from(text.split('.'), Number) : undefined;
}

function parseV6(withZone: string): ClientAddress | undefined {
  const text = withZone.replace(/%[^%]+$/, '');
  if (text.includes('%') || !isIPv6(text)) return undefined;
  const [before = [], after = []] = text.split('::').map(bytesOf);
  const zeros = new Array<number>(16 - before.length - after.length).fill(0);
  const bytes = new Uint8Array([...before, ...zeros, ...after]);
  return isMapped(bytes) ? bytes.slice(12) : bytes;
}

/** The bytes of parts between colons, of which the last may be an IPv4 address. */
function bytesOf(text: string): number[] {
  return text === ''
    ? []
    : text.split(':').flatMap((part) => {
        const value = Number.parseInt(part, 16);
        return part.includes('.') ? part.split('.').map(Number) : [value >> 8, value & 0xff];
      });
}

function isMapped(bytes: Uint8Array): boolean {
  return bytes.subarray(0, 10).every((byte) => byte === 0) && bytes[10] === 0xff && bytes[11] === 0xff;
}

/** Returns a range such as `192.0.2.0/24`, as `masked_remote_address` does. */
export function maskedText(address: ClientAddress, v4Bits: number, v6Bits: number): string {
  const bits = address.length === 4 ? v4Bits : v6Bits;
  const masked = address.map((byte, index) => {
    const prefixBits = Math.min(8, Math.max(0, bits - 8 * index));
    return byte & (0xff << (8 - prefixBits));
  });
  return `${addressText(masked)}/${bits}`;
}

/** Returns an address as text. IPv6 addresses follow RFC 5952, as the C library and therefore Envoy write them. */
export function addressText(address: ClientAddress): string {
  if (address.length === 4) return address.join('.');
  const parts = Array.from({ length: 8 }, (_, index) => (address[2 * index]! << 8) | address[2 * index + 1]!);
  const { start, length } = longestZeros(parts);
  // The IPv4-compatible addresses, which are obsolete.
  if (start === 0 && length === 6) return `::${address.slice(12).join('.')}`;
  const texts = parts.map((part) => part.toString(16));
  if (length < 2) return texts.join(':');
  return `${texts.slice(0, start).join(':')}::${texts.slice(start + length).join(':')}`;
}

/** The first of the longest runs. */
function longestZeros(parts: readonly number[]): { start: number; length: number } {
  let best = { start: 0, length: 0 };
  for (let start = 0; start < parts.length; start++) {
    let end = start;
    while (parts[end] === 0) end++;
    if (end - start > best.length) best = { start, length: end - start };
    start = end;
  }
  return best;
}
