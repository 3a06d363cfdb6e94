import { readFileSync } from 'node:fs';
import { connect, type TLSSocket } from 'node:tls';
import { afterEach, expect, it, onTestFinished } from 'vitest';
import { clientPreface, Flag } from '../../limiter/http2/constants.ts';
import { defaultHttp2Limits } from '../../limiter/http2/limits.ts';
import type { RequestStream } from '../../limiter/http2/request-handler.ts';
import { Http2SocketServer } from '../../limiter/sockets/socket-server.ts';
import { systemClock, systemTimers } from '../../process/time/clock.ts';
import { createAuthority } from '../support/certificates.ts';
import { describeWithServer } from '../support/describe-with-server.ts';
import { eventually } from '../support/eventually.ts';
import { opensslProgram } from '../support/find-server.ts';
import { settings, settingsAck } from '../support/http2-frame-script.ts';
import { headersFrame } from '../support/socket-peer.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

const running: Http2SocketServer[] = [];
afterEach(() => Promise.all(running.splice(0).map((server) => server.close(0))));

const request = headersFrame(
  1,
  [
    [':method', 'POST'],
    [':scheme', 'https'],
    [':path', '/a.B/C'],
    [':authority', 'a'],
  ],
  Flag.END_STREAM,
);

describeWithServer('a caller over TLS that only ended its own side', opensslProgram, (openssl) => {
  it.each(['TLSv1.2', 'TLSv1.3'] as const)('still gets its answer (%s)', async (maxVersion) => {
    const authority = createAuthority(openssl, temporaryFolder(), 'authority');
    const files = authority.issue({ name: 'server', alternativeNames: 'IP:127.0.0.1' });
    const streams: RequestStream[] = [];
    const server = new Http2SocketServer({
      handler: {
        onRequest: (stream) => streams.push(stream),
      },
      limits: defaultHttp2Limits,
      maxConnections: 10,
      tls: files,
      clock: systemClock,
      timers: systemTimers,
      random: () => 0.5,
      listener: { rejected: () => {}, certificateInUse: () => {}, certificateRejected: () => {} },
      onFault: () => {},
    });
    running.push(server);
    const { port } = await server.listen({ host: '127.0.0.1', port: 0 });
    const address = { port, host: '127.0.0.1', ALPNProtocols: ['h2'], ca: readFileSync(authority.caFile) };
    const received: Buffer[] = [];
    let isClosed = false;
    const client: TLSSocket = connect({ ...address, maxVersion });
    client.allowHalfOpen = true;
    onTestFinished(() => void client.destroy());
    client.on('error', () => {});
    client.on('data', (chunk: Buffer) => received.push(chunk));
    client.on('close', () => {
      isClosed = true;
    });
    client.end(Buffer.concat([clientPreface, settings(), settingsAck, request]));
    await eventually(() => expect(streams).toHaveLength(1));
    // The caller's end is seen before the answer, or no later than it.
    await new Promise((resolve) => setTimeout(resolve, 50));
    streams[0]?.connection.respond(streams[0], [':status', '200'], Buffer.from('the answer'), [
      'grpc-status',
      '0',
    ]);
    await eventually(() => expect(isClosed).toBe(true));
    expect(Buffer.concat(received).toString('latin1')).toContain('the answer');
    expect(server.connections).toBe(0);
  });
});
