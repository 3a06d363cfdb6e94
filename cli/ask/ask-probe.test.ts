import { createServer, type Socket } from 'node:net';
import { describe, expect, it, onTestFinished } from 'vitest';
import { type ProbeOutcome, probe } from './ask-diagnosis.ts';

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
  const tls = isTls ? { ca: undefined, cert: undefined, key: undefined } : undefined;
  return probe({ host: '127.0.0.1', port }, tls, timeoutMs);
}

describe('probe', () => {
  it('tells what answers', async () => {
    const answer = (text: string) => (socket: Socket) => void socket.end(text, 'latin1');
    expect(await probed(answer('\0\0\0\x04\0\0\0\0\0'))).toEqual({ kind: 'http2' });
    expect(await probed(answer('HTTP/1.1 400 Bad Request\r\n\r\n'))).toEqual({ kind: 'http1' });
    expect(await probed(answer('220 mail.example\r\n'))).toEqual({ kind: 'foreign' });
    expect(await probed(answer('220 mail.example\r\n'), true)).toEqual({
      kind: 'tls',
      reason: 'wrong version number',
    });
  });

  it('tells who hangs up, and who says nothing', async () => {
    const hangUp = (socket: Socket) => void socket.destroy();
    expect(await probed(hangUp)).toEqual({ kind: 'closed', isSecure: false });
    expect(await probed(hangUp, true)).toEqual({ kind: 'closed', isSecure: false });
    expect(await probed(() => {}, false, 50)).toEqual({ kind: 'silent' });
    expect(await probed(() => {}, true, 50)).toEqual({ kind: 'silent' });
  });

  it('tells why there is no connection', async () => {
    expect(await probe({ path: '/nowhere/weir.sock' }, undefined, 20_000)).toEqual({
      kind: 'unreachable',
      code: 'ENOENT',
      reason: 'no such file or directory',
    });
  });
});
