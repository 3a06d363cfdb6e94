import { describe, expect, it } from 'vitest';
import { connectingHint } from './redis-error.ts';

const hint = (code: string, given: { tls: boolean; wasConnected: boolean }) =>
  connectingHint(Object.assign(new Error('x'), { code }), given);
const plain = { tls: false, wasConnected: false };
const tls = { tls: true, wasConnected: false };

describe('connectingHint', () => {
  it.each([
    ['ECONNRESET', plain, ' (if it uses TLS, set REDIS_TLS=true)'],
    ['ECONNRESET', { ...plain, wasConnected: true }, ''],
    ['ECONNREFUSED', plain, ''],
    ['ETIMEDOUT', plain, ''],
    ['ETIMEDOUT', tls, ' (no connection, or no TLS handshake: does the port support TLS?)'],
    [
      'SELF_SIGNED_CERT_IN_CHAIN',
      tls,
      ' (set REDIS_TLS_CACERT to authorities that the limiter should trust)',
    ],
    ['ECONNRESET', tls, ''],
  ])('of %s with %j is "%s"', (code, given, text) => expect(hint(code, given)).toBe(text));
});
