/** One connection of our own, to see what gRPC's library does not tell: what is at the other end, and why it hung up. */
import { connect as connectPlain } from 'node:net';
import { type ConnectionOptions, connect as connectTls, type TLSSocket } from 'node:tls';
import { systemErrorReason } from '../../process/log/error-text.ts';
import type { AskEndpoint } from './ask-address.ts';
import type { AskTls } from './ask-tls.ts';

/** What of the server's certificate helps to see what is wrong with it. */
export interface SeenCertificate {
  issuer: string;
  /** As `DNS:a, IP Address:1.2.3.4`; empty: none. */
  names: string;
  validFrom: Date;
  validTo: Date;
}

export type ProbeOutcome =
  /** SETTINGS came. */
  | { kind: 'http2' }
  | { kind: 'http1' }
  /** Something else came. */
  | { kind: 'foreign' }
  | { kind: 'unreachable'; code: string | undefined; reason: string }
  /** It hung up: before the end of the handshake or after it, where there is one. */
  | { kind: 'closed'; isSecure: boolean }
  /** An alert of the other side, or no TLS at all, in the words of OpenSSL. */
  | { kind: 'tls'; reason: string }
  /** `doubt` is a code of Node or OpenSSL. */
  | { kind: 'certificate'; doubt: string; seen: SeenCertificate | undefined }
  | { kind: 'silent' };

/** The client's preface and empty SETTINGS. RFC 9113, section 3.4. */
const preface = Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0', 'latin1');

/**
 * A server of TLS 1.3 refuses a certificate after the client's part of the handshake. Its alert is lost when it closes with
 * bytes of ours unread, so it gets this long to send it.
 */
const alertMs = 200;

/** Never rejects. `tls` undefined: without TLS. */
export function probe(
  endpoint: AskEndpoint,
  tls: AskTls | undefined,
  timeoutMs: number,
): Promise<ProbeOutcome> {
  const socket = tls === undefined ? connectPlain(endpoint) : connectTls(tlsOptions(endpoint, tls));
  return new Promise((resolve) => {
    let isConnected = false;
    let isSecure = false;
    let speaking: NodeJS.Timeout | undefined;
    const finish = (outcome: ProbeOutcome): void => {
      clearTimeout(timer);
      clearTimeout(speaking);
      socket.destroy();
      resolve(outcome);
    };
    const timer = setTimeout(() => finish({ kind: 'silent' }), timeoutMs);
    socket.once('connect', () => {
      isConnected = true;
      if (tls === undefined) socket.write(preface);
    });
    socket.once('secureConnect', () => {
      isSecure = true;
      const doubted = doubtOf(socket as TLSSocket);
      if (doubted !== undefined) finish(doubted);
      else speaking = setTimeout(() => socket.write(preface), alertMs);
    });
    socket.once('data', (bytes: Buffer) => finish(kindOf(bytes)));
    socket.on('error', (error) => finish(outcomeOf(error, isConnected, isSecure)));
    socket.once('close', () => finish({ kind: 'closed', isSecure }));
  });
}

/** Doubts are ours to tell, so that they do not end the handshake. */
function tlsOptions(endpoint: AskEndpoint, tls: AskTls): ConnectionOptions {
  return { ...endpoint, ...tls, ALPNProtocols: ['h2'], rejectUnauthorized: false };
}

function doubtOf(socket: TLSSocket): ProbeOutcome | undefined {
  if (socket.authorized) return undefined;
  const certificate = socket.getPeerX509Certificate();
  const seen =
    certificate === undefined
      ? undefined
      : {
          issuer: certificate.issuer.replaceAll('\n', ', '),
          names: certificate.subjectAltName ?? '',
          validFrom: certificate.validFromDate,
          validTo: certificate.validToDate,
        };
  // A code, despite its type.
  return { kind: 'certificate', doubt: String(socket.authorizationError), seen };
}

function kindOf(bytes: Buffer): ProbeOutcome {
  if (bytes.toString('latin1', 0, 5) === 'HTTP/') return { kind: 'http1' };
  return { kind: bytes[3] === 4 ? 'http2' : 'foreign' };
}

function outcomeOf(error: Error, isConnected: boolean, isSecure: boolean): ProbeOutcome {
  const { reason } = error as { reason?: unknown };
  if (typeof reason === 'string') return { kind: 'tls', reason };
  if (isConnected) return { kind: 'closed', isSecure };
  const first = error instanceof AggregateError ? (error.errors[0] as Error) : error;
  return {
    kind: 'unreachable',
    code: (first as NodeJS.ErrnoException).code,
    reason: systemErrorReason(first),
  };
}
