import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { expect, it, onTestFinished } from 'vitest';
import { ManualTimers } from '../../test/support/manual-timers.ts';
import { LimiterConnections, peerOf } from './limiter-connections.ts';

/** Connections of clients on loopback, and the ones that were cut: `reason address`. */
async function setUp(maxIdle: number) {
  const cut: string[] = [];
  const connections = new LimiterConnections({
    timers: new ManualTimers(),
    maxIdle,
    wasCut: (reason, peer) => cut.push(`${reason} ${peer.replace(/:\d+$/, '')}`),
  });
  const server = createServer((socket) => {
    connections.add(socket);
    socket.resume();
  });
  server.listen({ host: '127.0.0.1', port: 0 });
  await once(server, 'listening');
  const clients: Socket[] = [];
  onTestFinished(() => {
    connections.close();
    for (const client of clients) client.destroy();
    server.close();
  });
  const open = async (localAddress: string) => {
    const { port } = server.address() as AddressInfo;
    const client = connect({ host: '127.0.0.1', port, localAddress });
    client.on('error', () => {});
    clients.push(client);
    const [socket] = (await once(server, 'connection')) as [Socket];
    return { client, socket, peer: peerOf(socket) };
  };
  return { connections, cut, open };
}

it('counts no idle connection that has closed, even if its stream ends later', async () => {
  const { connections, cut, open } = await setUp(3);
  const gone = await open('127.0.0.3');
  const connection = connections.of(gone.peer);
  connection?.countStream(1);
  gone.client.destroy();
  await once(gone.socket, 'close');
  connection?.countStream(-1);
  for (const address of ['127.0.0.1', '127.0.0.1', '127.0.0.2']) await open(address);
  expect(cut).toEqual([]);
  await open('127.0.0.2');
  expect(cut).toEqual(['idle 127.0.0.1']);
});

it('cuts a connection by its peer, and none that has closed', async () => {
  const { connections, open } = await setUp(3);
  const [one, other] = [await open('127.0.0.1'), await open('127.0.0.1')];
  connections.of(one.peer)?.destroy();
  await once(one.client, 'close');
  expect(connections.of(one.peer)).toBeUndefined();
  expect(other.socket.destroyed).toBe(false);
});
