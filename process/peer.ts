/** What the other end of a connection showed of itself. */
import type { X509Certificate } from 'node:crypto';
import { isIP, type Socket } from 'node:net';
import { TLSSocket } from 'node:tls';

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
