/** Who is at the other end of a connection: by name, by the address that stands for all of its connections, by certificate. */
import type { X509Certificate } from 'node:crypto';
import { isIP, isIPv6, type Socket } from 'node:net';
import { TLSSocket } from 'node:tls';
import { addressText } from './bind.ts';

/** What a peer on a Unix socket is called: it has no address. */
export const unixPeer = 'unix socket';

/** Undefined when the connection is gone: the system has forgotten it then. */
export function peerName(peer: {
  remoteAddress?: string | undefined;
  remotePort?: number | undefined;
}): string | undefined {
  const { remoteAddress: host, remotePort: port } = peer;
  return host === undefined || port === undefined ? undefined : addressText({ host, port });
}

/** Who stands behind an address: itself, of IPv6 its /64, which one machine usually has to itself. */
export function addressGroup(remoteAddress: string | undefined): string {
  if (remoteAddress === undefined) return '';
  const mapped = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i.exec(remoteAddress);
  if (mapped !== null) return mapped[1] as string;
  if (!isIPv6(remoteAddress)) return remoteAddress;
  const [head = '', tail] = remoteAddress.split('%', 1)[0]!.split('::') as [string, string?];
  const before = head === '' ? [] : head.split(':');
  // An IPv4 address at the end stands for two parts.
  const after = tail === undefined || tail === '' ? 0 : tail.split(':').length + (tail.includes('.') ? 1 : 0);
  const missing = tail === undefined ? 0 : 8 - before.length - after;
  const parts = [...before, ...new Array<string>(missing).fill('0'), ...(tail ?? '').split(':')];
  return `${parts.slice(0, 4).map(shortest).join(':')}::/64`;
}

function shortest(part: string): string {
  return Number.parseInt(part, 16).toString(16);
}

export interface Peer {
  /** As logs name it. */
  readonly address: string;
  /** What it showed and what was verified; undefined where there is none. */
  certificate(): X509Certificate | undefined;
}

export class SocketPeer implements Peer {
  readonly address: string;
  readonly #socket: Socket;

  constructor(socket: Socket, address: string) {
    this.#socket = socket;
    this.address = address;
  }

  certificate(): X509Certificate | undefined {
    const socket = this.#socket;
    return socket instanceof TLSSocket && socket.authorized ? socket.getPeerX509Certificate() : undefined;
  }
}

/**
 * Whether a certificate is of a DNS name or an IP address: by its alternative names alone, as Go does it; the common name
 * does not count. RFC 6125, section 6.4.4.
 */
export function isOfName(certificate: X509Certificate | undefined, name: string): boolean {
  if (certificate === undefined) return false;
  if (isIP(name) !== 0) return certificate.checkIP(name) !== undefined;
  return certificate.checkHost(name, { subject: 'never' }) !== undefined;
}
