import { describe, expect, it } from 'vitest';
import { type ProbeOutcome, type TroubleFacts, troubleOf } from './ask-diagnosis.ts';

const now = new Date('2026-05-01T00:00:00Z');
const noFiles = { ca: undefined, cert: undefined, key: undefined };
const closed = { kind: 'closed', isSecure: false } as const;
const seen = {
  issuer: 'CN=a',
  names: '',
  validFrom: new Date('2026-06-01T00:00:00Z'),
  validTo: new Date('2026-07-01T00:00:00Z'),
};

function reasonOf(facts: Partial<TroubleFacts> & { outcome: ProbeOutcome }): string | undefined {
  const endpoint = { host: 'l', port: 8081 };
  return troubleOf({ endpoint, tls: undefined, otherWay: undefined, now, ...facts })?.reason;
}

describe('troubleOf', () => {
  it.each<[ProbeOutcome, string | undefined]>([
    [{ kind: 'http2' }, undefined],
    [{ kind: 'foreign' }, 'l:8081 does not speak HTTP/2'],
    [{ kind: 'silent' }, 'l:8081 does not answer'],
    [{ kind: 'unreachable', code: 'EACCES', reason: 'permission denied' }, 'l:8081: permission denied'],
    [closed, 'l:8081 closed the connection without a word'],
  ])('tells of a connection without TLS: %j', (outcome, reason) => {
    expect(reasonOf({ outcome })).toBe(reason);
  });

  it.each<[ProbeOutcome]>([
    [{ kind: 'http2' }],
    [{ kind: 'certificate', doubt: 'SELF_SIGNED_CERT_IN_CHAIN', seen }],
    [{ kind: 'tls', reason: 'tlsv13 alert certificate required' }],
    [{ kind: 'closed', isSecure: true }],
  ])('finds TLS on the other side alone: %j', (otherWay) => {
    expect(reasonOf({ outcome: closed, otherWay })).toBe('l:8081 speaks TLS alone');
  });

  it.each<[ProbeOutcome]>([
    [{ kind: 'tls', reason: 'wrong version number' }],
    [closed],
    [{ kind: 'silent' }],
  ])('finds no TLS in %j', (otherWay) => {
    expect(reasonOf({ outcome: { kind: 'foreign' }, otherWay })).toBe('l:8081 does not speak HTTP/2');
  });

  it.each<[ProbeOutcome, string]>([
    [
      { kind: 'certificate', doubt: 'CERT_NOT_YET_VALID', seen },
      'the certificate of l:8081 is not good before 2026-06-01T00:00:00.000Z',
    ],
    // Not its own days are over, but those of one above it.
    [
      { kind: 'certificate', doubt: 'CERT_HAS_EXPIRED', seen },
      'the certificate of l:8081 is not accepted: CERT_HAS_EXPIRED',
    ],
    [
      { kind: 'certificate', doubt: 'ERR_TLS_CERT_ALTNAME_INVALID', seen },
      'the certificate of l:8081 is for no name at all, not for l',
    ],
    [
      { kind: 'tls', reason: 'ssl/tls alert handshake failure' },
      'l:8081 closed the connection in the TLS handshake: ssl/tls alert handshake failure',
    ],
    [
      { kind: 'tls', reason: 'tlsv13 alert certificate required' },
      'l:8081 wants a certificate of its callers',
    ],
  ])('tells of a connection with TLS: %j', (outcome, reason) => {
    expect(reasonOf({ outcome, tls: noFiles })).toBe(reason);
  });

  it('holds the certificate of a Unix socket against localhost, as gRPC does', () => {
    const outcome = { kind: 'certificate', doubt: 'ERR_TLS_CERT_ALTNAME_INVALID', seen } as const;
    expect(reasonOf({ outcome, tls: noFiles, endpoint: { path: '/run/w.sock' } })).toBe(
      'the certificate of /run/w.sock is for no name at all, not for localhost',
    );
  });
});
