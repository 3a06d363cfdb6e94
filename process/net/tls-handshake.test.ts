import type { TLSSocket } from 'node:tls';
import { describe, expect, it } from 'vitest';
import { handshakeProblem } from './tls-handshake.ts';

const socket = (authorizationError: string | null = null) => ({ authorizationError }) as unknown as TLSSocket;
const failure = (code: string, reason?: string) =>
  Object.assign(new Error('as Node says it'), { code, reason });

describe('handshakeProblem', () => {
  it.each([
    ['ERR_SSL_HTTP_REQUEST', 'http request', 'the caller does not speak TLS'],
    ['ERR_SSL_WRONG_VERSION_NUMBER', 'wrong version number', 'the caller does not speak TLS'],
    ['ERR_SSL_NO_SHARED_CIPHER', 'no shared cipher', 'the caller supports no allowed cipher'],
    ['ERR_TLS_HANDSHAKE_TIMEOUT', undefined, 'the handshake was not complete after 10 s'],
    ['ECONNRESET', undefined, 'the caller hung up during the handshake'],
    [
      'ERR_SSL_SSL/TLS_ALERT_BAD_CERTIFICATE',
      'ssl/tls alert bad certificate',
      "the caller does not trust the server's certificate (bad certificate)",
    ],
    [
      'ERR_SSL_TLSV1_ALERT_UNKNOWN_CA',
      'tlsv1 alert unknown ca',
      "the caller does not trust the server's certificate (unknown ca)",
    ],
    ['ERR_SSL_UNEXPECTED_MESSAGE', 'unexpected message', 'unexpected message'],
    ['EPIPE', undefined, 'as Node says it'],
    ['constructor', undefined, 'as Node says it'],
  ])('says of %s what the caller did', (code, reason, text) => {
    expect(handshakeProblem(failure(code, reason), socket())).toBe(text);
  });

  it.each([
    ['CERT_HAS_EXPIRED', "the caller's certificate has expired"],
    ['CERT_NOT_YET_VALID', "the caller's certificate is not valid yet"],
    ['INVALID_PURPOSE', "the caller's certificate is not for clients"],
    [
      'SELF_SIGNED_CERT_IN_CHAIN',
      "the caller's certificate is from an unknown authority (SELF_SIGNED_CERT_IN_CHAIN)",
    ],
    ['CERT_REVOKED', "the caller's certificate is not accepted (CERT_REVOKED)"],
  ])('says of a certificate what is wrong: %s', (code, text) => {
    expect(handshakeProblem(failure('ECONNRESET'), socket(code))).toBe(text);
  });
});
