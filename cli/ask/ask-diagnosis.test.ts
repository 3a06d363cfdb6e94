import { createServer, type Socket } from 'node:net';
import { describe, expect, it, onTestFinished } from 'vitest';
import { explainFailure, type ProbeFacts, type ProbeOutcome, probe } from './ask-diagnosis.ts';

/** What a probe sees of a server that does this with each connection. */
async function probed(
  serve: (socket: Socket) => void,
  isTls = false,
  timeoutMs = 20_000,
): Promise<ProbeOutcome> {
  const server = createServer((socket) => {
    socket.on('error', () => {});
    onTestFinished(() => void socket.destroy());
    serve(socket);
  });
  onTestFinished(() => void server.close());
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as { port: number };
  const tls = isTls ? {} : undefined;
  return probe({ host: '127.0.0.1', port }, tls, timeoutMs);
}

describe('probe', () => {
  it('says what answers', async () => {
    const answer = (text: string) => (socket: Socket) => void socket.end(text, 'latin1');
    expect(await probed(answer('\0\0\0\x04\0\0\0\0\0'))).toEqual({ kind: 'http2' });
    expect(await probed(answer('HTTP/1.1 400 Bad Request\r\n\r\n'))).toEqual({ kind: 'http1' });
    expect(await probed(answer('220 mail.example\r\n'))).toEqual({ kind: 'foreign' });
    expect(await probed(answer('220 mail.example\r\n'), true)).toEqual({
      kind: 'tls',
      reason: 'wrong version number',
    });
  });

  it('reports a server that hangs up, and one that does not answer', async () => {
    const hangUp = (socket: Socket) => void socket.destroy();
    expect(await probed(hangUp)).toEqual({ kind: 'closed' });
    expect(await probed(hangUp, true)).toEqual({ kind: 'closed' });
    expect(await probed(() => {}, false, 50)).toEqual({ kind: 'silent' });
    expect(await probed(() => {}, true, 50)).toEqual({ kind: 'silent' });
  });

  it('says why there is no connection', async () => {
    expect(await probe({ path: '/nowhere/weir.sock' }, undefined, 20_000)).toEqual({
      kind: 'unreachable',
      code: 'ENOENT',
      reason: 'no such file or directory',
    });
  });
});

const now = new Date('2026-05-01T00:00:00Z');
const closed = { kind: 'closed' } as const;
const seen = {
  issuer: 'CN=a',
  subjectAltName: undefined,
  validFromDate: new Date('2026-06-01T00:00:00Z'),
  validToDate: new Date('2026-07-01T00:00:00Z'),
};

function reasonOf(facts: Partial<ProbeFacts> & { outcome: ProbeOutcome }): string | undefined {
  const endpoint = { host: 'l', port: 8081 };
  return explainFailure({ endpoint, tls: undefined, otherWay: undefined, now, ...facts })?.split('\n')[0];
}

describe('explainFailure', () => {
  it.each<[ProbeOutcome, string | undefined]>([
    [{ kind: 'http2' }, undefined],
    [{ kind: 'foreign' }, 'l:8081 does not speak HTTP/2'],
    [{ kind: 'silent' }, 'l:8081 does not answer'],
    [{ kind: 'unreachable', code: 'EACCES', reason: 'permission denied' }, 'l:8081: permission denied'],
    [closed, 'l:8081 closed the connection without an error'],
  ])('reports a connection without TLS: %j', (outcome, reason) => {
    expect(reasonOf({ outcome })).toBe(reason);
  });

  it.each<[ProbeOutcome]>([
    [{ kind: 'http2' }],
    [{ kind: 'certificate', doubt: 'SELF_SIGNED_CERT_IN_CHAIN', seen }],
    [{ kind: 'tls', reason: 'tlsv13 alert certificate required' }],
    [{ kind: 'closed-over-tls' }],
  ])('finds TLS on the other side alone: %j', (otherWay) => {
    expect(reasonOf({ outcome: closed, otherWay })).toBe('l:8081 accepts only TLS');
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
      'the certificate of l:8081 is not valid before 2026-06-01T00:00:00.000Z',
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
    [{ kind: 'tls', reason: 'tlsv1 alert no application protocol' }, 'l:8081 does not speak HTTP/2 over TLS'],
    [{ kind: 'tls', reason: 'wrong version number' }, 'l:8081 does not speak HTTP/2 over TLS'],
    [
      { kind: 'tls', reason: 'tlsv13 alert certificate required' },
      'l:8081 requires a certificate of its callers',
    ],
  ])('reports a connection with TLS: %j', (outcome, reason) => {
    expect(reasonOf({ outcome, tls: {} })).toBe(reason);
  });

  it('holds the certificate of a Unix socket against localhost, as gRPC does', () => {
    const outcome = { kind: 'certificate', doubt: 'ERR_TLS_CERT_ALTNAME_INVALID', seen } as const;
    expect(reasonOf({ outcome, tls: {}, endpoint: { path: '/run/w.sock' } })).toBe(
      'the certificate of /run/w.sock is for no name at all, not for localhost',
    );
  });
});
