/** Codes of a certificate whose signer is not known. */
const unknownSigner = new Set([
  'DEPTH_ZERO_SELF_SIGNED_CERT',
  'SELF_SIGNED_CERT_IN_CHAIN',
  'UNABLE_TO_GET_ISSUER_CERT',
  'UNABLE_TO_GET_ISSUER_CERT_LOCALLY',
  'UNABLE_TO_VERIFY_LEAF_SIGNATURE',
]);

/**
 * Goes behind the text of an attempt to connect that failed: which setting of TLS may be why, or nothing. A server that
 * has been there before, in the same settings, is not suspected of speaking TLS.
 */
export function connectingHint(error: unknown, given: { tls: boolean; wasConnected: boolean }): string {
  if (!(error instanceof Error)) return '';
  const { code } = error as { code?: unknown };
  if (given.tls) {
    if (code === 'ETIMEDOUT') return ' (no connection, or no answer to TLS: is it a port that speaks TLS?)';
    return unknownSigner.has(String(code)) ? ' (REDIS_TLS_CACERT names authorities to trust)' : '';
  }
  const wasHungUp = code === 'ECONNRESET' || code === 'EPIPE' || error.message === 'Connection is closed.';
  return wasHungUp && !given.wasConnected ? ' (if it speaks TLS, set REDIS_TLS=true)' : '';
}
