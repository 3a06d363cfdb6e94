import { once } from 'node:events';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import { describe, expect, it, onTestFinished } from 'vitest';
import { counterOp, submit } from '../../../test/support/counter-ops.ts';
import { eventually } from '../../../test/support/eventually.ts';
import { MemcacheNews, openMemcacheStore } from '../../../test/support/memcache-stores.ts';

/** A node that has `value` for each key, and answers increments only when it is told to. */
async function startNode(value: string) {
  const sockets: Socket[] = [];
  const waiting: (() => void)[] = [];
  const server = createServer((socket) => {
    sockets.push(socket);
    socket.on('error', () => {});
    socket.on('data', (bytes) => {
      for (const command of String(bytes).split('\r\n').slice(0, -1)) {
        const [name, key] = command.split(' ');
        if (name === 'version') socket.write('VERSION 1\r\n');
        else if (name === 'incr') waiting.push(() => socket.write('1\r\n'));
        else socket.write(`VALUE ${key} 0 ${value.length}\r\n${value}\r\nEND\r\n`);
      }
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  return { address: `127.0.0.1:${(server.address() as AddressInfo).port}`, waiting };
}

describe('MemcacheStore', () => {
  it.each([
    ['7', 8, []],
    ['7  ', 8, []],
    ['x7', 1, ['bad value of k']],
    ['7x', 1, ['bad value of k']],
  ])('counts on from %j as %i', async (value, after, lines) => {
    const node = await startNode(value);
    const events = new MemcacheNews();
    const store = openMemcacheStore(node.address, { events });
    onTestFinished(() => store.close());
    const [op] = await submit(store, [counterOp({ key: 'k' })]);
    expect([op!.after, events.lines]).toEqual([after, lines]);
    await eventually(() => expect(node.waiting).toHaveLength(1));
    node.waiting[0]!();
  });

  it('waits at its end until every node has counted what was admitted', async () => {
    const nodes = [await startNode('0'), await startNode('0')];
    const store = openMemcacheStore(nodes.map(({ address }) => address).join(','), { timeoutMs: 10_000 });
    await submit(store, [counterOp({ key: 'k' })]);
    let isClosed = false;
    const closing = store.close().then(() => {
      isClosed = true;
    });
    const waiting = await eventually(() => {
      expect(nodes.flatMap((node) => node.waiting)).toHaveLength(1);
    }).then(() => nodes.flatMap((node) => node.waiting));
    await new Promise((resolve) => setTimeout(resolve, 50));
    expect(isClosed).toBe(false);
    waiting[0]!();
    await closing;
  });
});
