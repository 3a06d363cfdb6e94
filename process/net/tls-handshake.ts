/** Explains why a TLS handshake with a caller failed. */
import type { TLSSocket } from 'node:tls';
import { errorText } from '../log/error-text.ts';

/** Chosen: far longer than a handshake takes over any network. */
export const handshakeTimeoutMs = 10_000;

/** The measured memory of a connection during its handshake. */
export const handshakeBytes = 65_536;

/** The error of a failed handshake, as Node reports it. */
interface HandshakeError extends Error {
  code?: string;
  /** OpenSSL's reason, without the file and line of its source that its message contains. */
  reason?: unknown;
}

const noTls = 'the caller does not speak TLS';

const failures: Readonly<Record<string, string>> = {
  ERR_SSL_HTTP_REQUEST: noTls,
  ERR_SSL_HTTPS_PROXY_REQUEST: noTls,
  ERR_SSL_WRONG_VERSION_NUMBER: noTls,
  ERR_SSL_PACKET_LENGTH_TOO_LONG: noTls,
  ERR_SSL_UNSUPPORTED_PROTOCOL: 'the caller supports no allowed version of TLS (1.2 and 1.3)',
  ERR_SSL_NO_SHARED_CIPHER: 'the caller supports no allowed cipher',
  ERR_SSL_PEER_DID_NOT_RETURN_A_CERTIFICATE: 'the caller sent no certificate',
  ERR_SSL_NO_APPLICATION_PROTOCOL: 'the caller does not choose HTTP/2 (ALPN h2)',
  ERR_TLS_HANDSHAKE_TIMEOUT: `the handshake was not complete after ${handshakeTimeoutMs / 1000} s`,
  ECONNRESET: 'the caller hung up during the handshake',
};

const strangerCodes: ReadonlySet<string> = new Set([
  'DEPTH_ZERO_SELF_SIGNED_CERT',
  'SELF_SIGNED_CERT_IN_CHAIN',
  'UNABLE_TO_GET_ISSUER_CERT',
  'UNABLE_TO_GET_ISSUER_CERT_LOCALLY',
  'UNABLE_TO_VERIFY_LEAF_SIGNATURE',
]);

const doubts: Readonly<Record<string, string>> = {
  CERT_HAS_EXPIRED: "the caller's certificate has expired",
  CERT_NOT_YET_VALID: "the caller's certificate is not valid yet",
  INVALID_PURPOSE: "the caller's certificate is not for clients",
};

/** The alerts with which a caller rejects the server's certificate. RFC 8446, section 6.2. */
const distrust =
  /alert (bad certificate|unsupported certificate|certificate revoked|certificate expired|certificate unknown|unknown ca)$/;

/**
 * Returns the reason for a `tlsClientError`. A certificate that is not trusted ends the connection without a message: only the socket
 * has the reason.
 */
export function handshakeProblem(error: HandshakeError, socket: TLSSocket): string {
  // This is a code, despite its type.
  const doubt = socket.authorizationError as unknown;
  if (doubt) return certificateProblem(String(doubt));
  const { code = '', reason } = error;
  const known = Object.hasOwn(failures, code) ? failures[code] : undefined;
  if (known !== undefined) return known;
  if (typeof reason !== 'string') return errorText(error);
  const alert = distrust.exec(reason)?.[1];
  return alert === undefined ? reason : `the caller does not trust the server's certificate (${alert})`;
}

function certificateProblem(code: string): string {
  if (strangerCodes.has(code)) return `the caller's certificate is from an unknown authority (${code})`;
  return Object.hasOwn(doubts, code)
    ? (doubts[code] as string)
    : `the caller's certificate is not accepted (${code})`;
}
