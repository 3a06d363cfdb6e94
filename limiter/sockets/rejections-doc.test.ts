/** Compares docs/connections.md with the texts that report TLS failures. */
import { readFileSync } from 'node:fs';
import type { TLSSocket } from 'node:tls';
import { expect, it } from 'vitest';
import { handshakeProblem } from '../../process/net/tls-handshake.ts';

const text = readFileSync(new URL('../../docs/connections.md', import.meta.url), 'utf8');
const section = text.slice(text.indexOf('## Misbehaving clients'), text.indexOf('### Certificates'));

it.each([
  ['ERR_SSL_HTTP_REQUEST'],
  ['ERR_SSL_UNSUPPORTED_PROTOCOL'],
  ['ERR_SSL_NO_SHARED_CIPHER'],
  ['ERR_SSL_PEER_DID_NOT_RETURN_A_CERTIFICATE'],
  ['ERR_SSL_NO_APPLICATION_PROTOCOL'],
  ['ERR_TLS_HANDSHAKE_TIMEOUT'],
  ['ECONNRESET'],
  ['x', 'tlsv1 alert unknown ca'],
  ['x', '', 'CERT_HAS_EXPIRED'],
  ['x', '', 'CERT_NOT_YET_VALID'],
  ['x', '', 'SELF_SIGNED_CERT_IN_CHAIN'],
  ['x', '', 'INVALID_PURPOSE'],
  ['x', '', 'CERT_REVOKED'],
])('docs/connections.md has the words for %s %s%s', (code, reason = '', authorizationError = '') => {
  const error = Object.assign(new Error(), { code, reason });
  const problem = handshakeProblem(error, { authorizationError } as unknown as TLSSocket);
  // The text in parentheses at the end differs from case to case.
  const words = problem.replace(/ \((?!ALPN).*\)$/, '');
  expect(section).toContain(`\`${words}`);
});
