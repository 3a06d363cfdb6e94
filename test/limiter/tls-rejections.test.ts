/** Whose handshake failed, and why, when many fail at a time. */
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { connect as connectTcp, type Socket } from 'node:net';
import { connect as connectTls } from 'node:tls';
import { afterEach, expect, it, onTestFinished } from 'vitest';
import { defaultHttp2Limits } from '../../limiter/http2/limits.ts';
import {
  Http2SocketServer,
  type Http2SocketServerOptions,
  type RejectedConnection,
} from '../../limiter/sockets/socket-server.ts';
import { ConnectionMemory } from '../../process/net/connection-memory.ts';
import { handshakeBytes } from '../../process/net/tls-handshake.ts';
import { systemClock, systemTimers } from '../../process/time/clock.ts';
import { type CertificatePair, createAuthority } from '../support/certificates.ts';
import { describeWithServer } from '../support/describe-with-server.ts';
import { eventually } from '../support/eventually.ts';
import { opensslProgram } from '../support/find-server.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

const running: Http2SocketServer[] = [];
afterEach(() => Promise.all(running.splice(0).map((server) => server.close(0))));

const nothing = { onRequest: () => {} };

/** One that says nothing but whom it rejected. */
function createSockets(
  options: Pick<Http2SocketServerOptions, 'tls' | 'connectionMemory'> & { refused: RejectedConnection[] },
): Http2SocketServer {
  const { refused, ...rest } = options;
  const sockets = new Http2SocketServer({
    ...rest,
    handler: nothing,
    limits: defaultHttp2Limits,
    maxConnections: 1_000,
    clock: systemClock,
    timers: systemTimers,
    random: () => 0.5,
    listener: {
      rejected: (connection) => refused.push(connection),
      certificateInUse: () => {},
      certificateRejected: () => {},
    },
    onFault: () => {},
  });
  running.push(sockets);
  return sockets;
}

describeWithServer('TLS rejections', opensslProgram, (openssl) => {
  it('name the peer of each, and no probe, when many come at once', async () => {
    const authority = createAuthority(openssl, temporaryFolder(), 'authority');
    const other = createAuthority(openssl, temporaryFolder(), 'other');
    const server = authority.issue({ name: 'server', alternativeNames: 'IP:127.0.0.1' });
    const expired = authority.issue({ name: 'expired', days: -1 });
    const foreign = other.issue({ name: 'foreign' });
    const refused: RejectedConnection[] = [];
    const sockets = createSockets({ tls: { ...server, clientCaFile: authority.caFile }, refused });
    const { port } = await sockets.listen({ host: '127.0.0.1', port: 0 });
    const address = { port, host: '127.0.0.1' };
    const wanted = new Map<string, string>();

    function leaves(socket: Socket, problem: string | undefined): Promise<void> {
      onTestFinished(() => void socket.destroy());
      socket.once('connect', () => {
        if (problem !== undefined) wanted.set(`127.0.0.1:${socket.localPort}`, problem);
      });
      return new Promise((resolve) =>
        socket
          .on('error', () => {})
          .on('close', () => resolve())
          .resume(),
      );
    }
    const ca = readFileSync(authority.caFile);
    const shows = ({ certFile, keyFile }: CertificatePair, problem: string) =>
      leaves(
        connectTls({
          ...{ ...address, ca, ALPNProtocols: ['h2'] },
          ...{ cert: readFileSync(certFile), key: readFileSync(keyFile) },
        }),
        problem,
      );
    const probe = () => {
      const socket = connectTcp(address, () => void socket.end());
      return leaves(socket, undefined);
    };
    const stranger =
      "the caller's certificate is from an unknown authority (UNABLE_TO_VERIFY_LEAF_SIGNATURE)";
    await Promise.all(
      Array.from({ length: 30 }, () => [
        shows(expired, "the caller's certificate has expired"),
        probe(),
        shows(foreign, stranger),
      ]).flat(),
    );
    await eventually(() => expect(refused).toHaveLength(60));
    expect(new Map(refused.map(({ peer, problem }) => [peer, problem]))).toEqual(wanted);
    expect(new Set(refused.map(({ reason }) => reason))).toEqual(new Set(['tls_handshake']));
  });

  it('ends a handshake of the address that holds most when they hold too much', async () => {
    const server = createAuthority(openssl, temporaryFolder(), 'authority').issue({
      name: 'server',
      alternativeNames: 'IP:127.0.0.1',
    });
    const refused: RejectedConnection[] = [];
    const connectionMemory = new ConnectionMemory({ maxBytes: 3 * handshakeBytes, timers: systemTimers });
    const sockets = createSockets({ connectionMemory, tls: server, refused });
    const { port } = await sockets.listen({ host: '127.0.0.1', port: 0 });
    const open = async (localAddress: string): Promise<Socket> => {
      const before = connectionMemory.bytes + refused.length;
      const socket = connectTcp({ port, host: '127.0.0.1', localAddress });
      onTestFinished(() => void socket.destroy());
      socket.on('error', () => {}).resume();
      // The beginning of a handshake record.
      socket.write(Buffer.from([0x16, 0x03, 0x01, 0x02, 0x00]));
      await eventually(() => expect(connectionMemory.bytes + refused.length).not.toBe(before));
      return socket;
    };
    const other = await open('127.0.0.2');
    const [first, second] = [await open('127.0.0.1'), await open('127.0.0.1')];
    const third = await open('127.0.0.1');
    // All hold as much: the one that came first.
    await eventually(() => expect(first.closed).toBe(true));
    expect([second.closed, third.closed]).toEqual([false, false]);
    expect([other.closed, connectionMemory.bytes, refused.map(({ reason }) => reason)]).toEqual([
      false,
      3 * handshakeBytes,
      ['too_many_bytes'],
    ]);
    const caller = connectTls({ port, host: '127.0.0.1', ALPNProtocols: ['h2'], rejectUnauthorized: false });
    onTestFinished(() => void caller.destroy());
    await once(caller, 'secureConnect');
    // What is established holds nothing any more.
    await eventually(() => expect(connectionMemory.bytes).toBe(2 * handshakeBytes));
    await eventually(() =>
      expect(refused.map(({ reason }) => reason)).toEqual(['too_many_bytes', 'too_many_bytes']),
    );
  });
});
