/** The peer of a connection: its name, the address that represents all of its connections, and its certificate. */
import type { X509Certificate } from 'node:crypto';
import { isIP, isIPv6, type Socket } from 'node:net';
import { TLSSocket } from 'node:tls';
import { addressText } from './bind.ts';

/** The name of a peer on a Unix socket, which has no address. */
export const unixPeer = 'unix socket';

/** Undefined if the connection is gone, because the system has forgotten the address. */
export function peerName(peer: {
  remoteAddress?: string | undefined;
  remotePort?: number | undefined;
}): string | undefined {
  const { remoteAddress: host, remotePort: port } = peer;
  return host === undefined || port === undefined ? undefined : addressText({ host, port });
}

/** The group of an address: the address itself, or for IPv6 its /64, which usually belongs to one machine. */
export function addressGroup(remoteAddress: string | undefined): string {
  if (remoteAddress === undefined) return '';
  const mapped = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i.exec(remoteAddress);
  if (mapped !== null) return mapped[1] as string;
  if (!isIPv6(remoteAddress)) return remoteAddress;
  const [head = '', tail] = remoteAddress.split('%', 1)[0]!.split('::') as [string, string?];
  const before = head === '' ? [] : head.split(':');
  // An IPv4 address at the end counts as two parts.
  const after = tail === undefined || tail === '' ? 0 : tail.split(':').length + (tail.includes('.') ? 1 : 0);
  const missing = tail === undefined ? 0 : 8 - before.length - after;
  const parts = [...before, ...new Array<string>(missing).fill('0'), ...(tail ?? '').split(':')];
  return `${parts.slice(0, 4).map(shortest).join(':')}::/64`;
}

function shortest(part: string): string {
  return Number.parseInt(part, 16).toString(16);
}

export interface Peer {
  /** The name in logs. */
  readonly address: string;
  /** Returns the certificate that was presented and verified; undefined if there is none. */
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
 * Whether a certificate is valid for a DNS name or an IP address. Only its alternative names count, as in Go, and not the common name.
 * RFC 6125, section 6.4.4.
 */
export function isOfName(certificate: X509Certificate | undefined, name: string): boolean {
  if (certificate === undefined) return false;
  if (isIP(name) !== 0) return certificate.checkIP(name) !== undefined;
  return certificate.checkHost(name, { subject: 'never' }) !== undefined;
}
