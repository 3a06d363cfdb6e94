import type { TLSSocket } from 'node:tls';
import { errorText } from './error-text.ts';

/** Ours: far above what a handshake takes over any network. */
export const handshakeTimeoutMs = 10_000;

/** Why a `tlsClientError` happened. A certificate that is not believed ends the connection without a word: only the socket knows why. */
export function handshakeProblem(error: Error & { reason?: unknown }, socket: TLSSocket): string {
  // A code, despite its type.
  const doubt = socket.authorizationError as unknown;
  if (doubt) return `the client's certificate is not accepted: ${String(doubt)}`;
  // The message of OpenSSL has the file and line in its sources around the reason.
  return typeof error.reason === 'string' ? error.reason : errorText(error);
}
