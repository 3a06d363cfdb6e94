/** What memcached holds after counting, and what happens to a node that fails. */
import { randomUUID } from 'node:crypto';
import { createServer, type Server, type Socket } from 'node:net';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { crc32 } from 'node:zlib';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { memcacheKey } from '../../limiter/stores/memcache/memcache-key.ts';
import { parseMemcacheAddresses } from '../../limiter/stores/memcache/memcache-nodes.ts';
import type { MemcacheStore, MemcacheStoreOptions } from '../../limiter/stores/memcache/memcache-store.ts';
import { StoreError } from '../../limiter/stores/store-error.ts';
import { counterOp, submit, totalOf } from '../support/counter-ops.ts';
import { describeWithServer } from '../support/describe-with-server.ts';
import { eventually } from '../support/eventually.ts';
import { memcachedProgram } from '../support/find-server.ts';
import { freePort } from '../support/free-port.ts';
import { LoadedDeadline } from '../support/machine-load.ts';
import { MemcacheNews, openMemcacheStore } from '../support/memcache-stores.ts';
import { type MemcachedServer, startMemcached } from '../support/memcached-server.ts';

const dayS = 86_400;

describeWithServer('memcache store', memcachedProgram, (path) => {
  let a: MemcachedServer;
  let b: MemcachedServer;
  const stores: MemcacheStore[] = [];
  beforeAll(async () => {
    [a, b] = await Promise.all([startMemcached({ path }), startMemcached({ path })]);
  });
  afterEach(async () => {
    await Promise.all(stores.splice(0).map((store) => store.close()));
    await Promise.all([a.kill('SIGCONT'), b.kill('SIGCONT')]);
  });
  afterAll(() => Promise.all([a.stop(), b.stop()]));

  function open(
    nodes = a.address,
    options: Partial<MemcacheStoreOptions> = {},
  ): { store: MemcacheStore; news: MemcacheNews } {
    const news = new MemcacheNews();
    const store = openMemcacheStore(nodes, { events: news, ...options });
    stores.push(store);
    return { store, news };
  }
  const fresh = (name = 'key') => `${name}:${randomUUID()}`;
  /** A key that lives on the node of this index, of two. */
  function keyOn(index: number): string {
    for (;;) {
      const key = fresh();
      if (crc32(key) % 2 === index) return key;
    }
  }

  describe('claiming', () => {
    it('is true for one of several, and again when its time is over', async () => {
      const stores = [open().store, open().store];
      const name = `${fresh()}~warned:80%`;
      const claimed = await Promise.all([...stores, ...stores].map((store) => store.claim(name, 1)));
      expect(claimed.filter((isFirst) => isFirst)).toHaveLength(1);
      await eventually(async () => expect(await stores[0]!.claim(name, 60)).toBe(true));
    });

    it('takes names that are no keys of memcache, and long times', async () => {
      const { store } = open();
      const name = `a b ${'x'.repeat(300)}${fresh()}`;
      expect(await store.claim(name, 40 * dayS)).toBe(true);
      expect(await store.claim(name, 40 * dayS)).toBe(false);
    });

    it('fails while its node is away', async () => {
      const { store } = open(`127.0.0.1:${await freePort()}`);
      await expect(store.claim('k', 60)).rejects.toThrow(StoreError);
      await store.close();
      await expect(store.claim('k', 60)).rejects.toThrow('closed');
    });
  });

  describe('counting', () => {
    it('sends incr, and add if the key is missing', async () => {
      const { store, news } = open();
      const key = fresh();
      await totalOf(store, { key, hits: 3 });
      await totalOf(store, { key, hits: 4 });
      await store.ping();
      expect(await a.valueOf(key)).toBe('7');
      expect(news.commands).toEqual(['increment miss', 'add success', 'increment success']);
      expect(news.requests).toEqual([
        { keys: 1, found: 0, failed: false },
        { keys: 1, found: 1, failed: false },
      ]);
    });

    it('counts every hit of limiters that make one key at the same time', async () => {
      const key = fresh();
      const all = Array.from({ length: 8 }, () => open().store);
      await Promise.all(all.map((store) => totalOf(store, { key, hits: 5 })));
      await Promise.all(all.map((store) => store.ping()));
      await eventually(async () => expect(await a.valueOf(key)).toBe('40'));
    });

    it('asks once a turn for all keys, and counts a key once a turn', async () => {
      const { store, news } = open();
      await store.ping();
      const before = await a.stat('cmd_get');
      const keys = [fresh(), fresh(), fresh()];
      await Promise.all(
        Array.from({ length: 50 }, () =>
          submit(
            store,
            keys.map((key) => counterOp({ key })),
          ),
        ),
      );
      await store.ping();
      expect(await a.stat('cmd_get')).toBe(before + 3);
      expect(news.commands.sort()).toEqual([
        ...Array(3).fill('add success'),
        ...Array(3).fill('increment miss'),
      ]);
      expect(await Promise.all(keys.map((key) => a.valueOf(key)))).toEqual(['50', '50', '50']);
    });

    it('reckons with hits that were on their way when it asked', async () => {
      const { store } = open();
      const key = fresh();
      await store.ping();
      await a.kill('SIGSTOP');
      const answered: Promise<number>[] = [];
      for (const hits of [1, 2, 3]) {
        answered.push(totalOf(store, { key, hits }));
        await nextTurn();
      }
      await a.kill('SIGCONT');
      expect(await Promise.all(answered)).toEqual([1, 3, 6]);
      await store.ping();
      expect(await a.valueOf(key)).toBe('6');
    });

    it('takes hits back by decr, and leaves a missing key missing', async () => {
      const { store, news } = open();
      const key = fresh();
      await totalOf(store, { key, hits: 10 });
      expect(await totalOf(store, { key, hits: 3, negative: true })).toBe(7);
      // memcached leaves the length as it was.
      expect(await a.valueOf(key)).toBe('7 ');
      expect(await totalOf(store, { key, hits: 1 })).toBe(8);
      await totalOf(store, { key: fresh(), hits: 3, negative: true });
      await store.ping();
      expect(news.commands.slice(-2)).toEqual(['increment success', 'decrement miss']);
    });

    it('reads 64 bits', async () => {
      const { store } = open();
      const [large, larger] = [fresh(), fresh()];
      await a.set(large, '4294967296');
      await a.set(larger, '18446744073709551615');
      expect(await totalOf(store, { key: large })).toBe(4_294_967_297);
      expect(await totalOf(store, { key: larger })).toBe(2 ** 53);
      await store.ping();
      expect(await a.valueOf(larger)).toBe('18446744073709551615');
    });

    it.each([
      ['an hour', 3600, 3600],
      ['30 days', 30 * dayS, 30 * dayS],
      ['30 days and a second, as seconds since 1970', 30 * dayS + 1, 30 * dayS + 1],
      ['a year', 365 * dayS, 365 * dayS],
    ])('lets a key live for %s', async (_, ttlSeconds, seconds) => {
      const { store } = open();
      const key = fresh();
      await totalOf(store, { key, ttlSeconds });
      await totalOf(store, { key, ttlSeconds: 5 });
      await store.ping();
      expect(Math.abs((await a.ttlOf(key)) - seconds)).toBeLessThan(3);
    });

    it('takes an invalid number for 0, says so, and continues', async () => {
      const { store, news } = open();
      const [text, long, good] = [fresh(), fresh(), fresh()];
      await a.set(text, 'END');
      await a.set(long, 'x'.repeat(100_000));
      const ops = await submit(
        store,
        [text, long, good].map((key) => counterOp({ key })),
      );
      expect(ops.map(({ after, error }) => [after, error])).toEqual(Array(3).fill([1, undefined]));
      await store.ping();
      const refusal = 'memcached answered: CLIENT_ERROR cannot increment or decrement non-numeric value';
      expect(news.lines).toEqual([
        `bad value of ${text}`,
        `bad value of ${long}`,
        `Failed to increment ${text}: ${refusal}`,
        `Failed to increment ${long}: ${refusal}`,
      ]);
      expect(await a.valueOf(good)).toBe('1');
    });
  });

  describe('keys that memcache does not take', () => {
    it.each([
      ['251 bytes', 'k'.repeat(251)],
      ['a command', 'k\r\nset smuggled 0 0 1\r\n1\r\n'],
      ['a second key', 'k smuggled'],
      ['DEL', 'k\x7f'],
    ])('are hashed: %s counts and spoils nothing', async (_, key) => {
      const { store, news } = open();
      const good = fresh();
      const before = await a.stat('cmd_set');
      const ops = await submit(store, [counterOp({ key, hits: 2 }), counterOp({ key: good, hits: 3 })]);
      expect(ops.map(({ after, error }) => [after, error])).toEqual([
        [2, undefined],
        [3, undefined],
      ]);
      expect(await totalOf(store, { key, hits: 2 })).toBe(4);
      expect(news.lines).toEqual(['hashed', 'hashed']);
      await store.ping();
      expect(await a.stat('cmd_set')).toBe(before + 2);
      expect(await a.valueOf(memcacheKey(key))).toBe('4');
      expect(await a.valueOf('smuggled')).toBeUndefined();
      expect(await a.valueOf(good)).toBe('3');
    });
  });

  describe('nodes', () => {
    it('have the keys that the Go service would look for there', async () => {
      const { store } = open(`${a.address},${b.address},${a.address}`, { connectionsPerNode: 3 });
      const keys = Array.from({ length: 200 }, () => fresh());
      await submit(
        store,
        keys.map((key) => counterOp({ key })),
      );
      await store.ping();
      await eventually(async () => {
        for (const key of keys) {
          const [here, there] = crc32(key) % 3 === 1 ? [b, a] : [a, b];
          expect([await here.valueOf(key), await there.valueOf(key)]).toEqual(['1', undefined]);
        }
      });
    });

    it('keep as many connections as they are given', async () => {
      const before = await a.stat('curr_connections');
      const { store } = open(a.address, { connectionsPerNode: 3 });
      await submit(
        store,
        Array.from({ length: 500 }, () => counterOp({ key: fresh() })),
      );
      await eventually(async () => expect(await a.stat('curr_connections')).toBe(before + 3));
      await store.close();
      await eventually(async () => expect(await a.stat('curr_connections')).toBe(before));
    });

    it('can be replaced while it runs', async () => {
      const { store } = open(a.address);
      const key = fresh();
      await totalOf(store, { key });
      store.setNodes(parseMemcacheAddresses(b.address));
      expect(await totalOf(store, { key, hits: 5 })).toBe(5);
      await store.ping();
      expect([await a.valueOf(key), await b.valueOf(key)]).toEqual(['1', '5']);
      expect(store.figures).toEqual({ nodes: 1, down: 0, connections: 1 });
    });
  });

  describe('a node that fails', () => {
    it('lets its own keys pass, at once, until it is back', async () => {
      const { store, news } = open(`${a.address},${b.address}`);
      const [onA, onB] = [keyOn(0), keyOn(1)];
      await submit(store, [counterOp({ key: onA, hits: 5 }), counterOp({ key: onB, hits: 5 })]);
      await store.ping();
      await b.kill('SIGKILL');
      await eventually(() => expect(store.figures.down).toBe(1));
      // The system may take one more connection for a process that is ending.
      const reason = `(?:connect ECONNREFUSED ${b.address}|read ECONNRESET|the node closed the connection)`;
      expect(news.lines).toEqual([
        expect.stringMatching(new RegExp(`^${b.address} down: ${reason}$`.replaceAll('.', '\\.'))),
      ]);

      const deadline = new LoadedDeadline(100);
      const ops = await submit(store, [counterOp({ key: onA }), counterOp({ key: onB })]);
      deadline.assertInTime();
      expect(ops.map(({ after, error }) => [after, error])).toEqual([
        [6, undefined],
        [1, undefined],
      ]);
      expect(news.requests.at(-1)).toEqual({ keys: 2, found: 1, failed: true });
      expect(news.lines.slice(1)).toEqual([
        'get: memcached is not connected',
        `Failed to increment ${onB}: memcached is not connected`,
      ]);

      await b.start();
      await eventually(() => expect(news.lines.at(-1)).toBe(`${b.address} up`));
      expect(await totalOf(store, { key: onB, hits: 2 })).toBe(2);
      expect(await totalOf(store, { key: onB, hits: 2 })).toBe(4);
    });

    it('passes every request of a turn, though together they exceed the limit', async () => {
      const { store } = open(`127.0.0.1:${await freePort()}`);
      const key = fresh();
      const all = await Promise.all(Array.from({ length: 20 }, () => submit(store, [counterOp({ key })])));
      expect(all.map(([op]) => op?.after)).toEqual(Array(20).fill(1));
    });

    it('holds up requests by 500 ms at most, and none of them once it is known to be hung', async () => {
      const { store, news } = open(`${a.address},${b.address}`);
      const [onA, onB] = [keyOn(0), keyOn(1)];
      await store.ping();
      await b.kill('SIGSTOP');
      const timeOf = async (key: string, maxMs: number) => {
        const deadline = new LoadedDeadline(maxMs);
        const startedMs = performance.now();
        await totalOf(store, { key });
        deadline.assertInTime();
        return performance.now() - startedMs;
      };
      const [, slow] = await Promise.all([timeOf(onA, 200), timeOf(onB, 900)]);
      expect(slow).toBeGreaterThan(400);
      await eventually(() => expect(store.figures.down).toBe(1));
      expect(news.lines.at(-1)).toBe(`${b.address} down: memcached did not answer within 500 ms`);
      await timeOf(onB, 100);
      await b.kill('SIGCONT');
      await eventually(() => expect(store.figures.down).toBe(0));
    });

    it('sends nothing twice when a connection breaks', async () => {
      const seen: string[] = [];
      const cut = await listen((socket, data) => {
        if (data.startsWith('version')) socket.write('VERSION 1\r\n');
        else if (data.startsWith('get')) socket.write('END\r\n');
        else {
          seen.push(data);
          socket.destroy();
        }
      });
      const { store, news } = open(`127.0.0.1:${cut.port}`);
      const key = fresh();
      expect(await totalOf(store, { key })).toBe(1);
      await eventually(() => expect(news.lines).toHaveLength(1));
      expect(news.lines).toEqual([
        `Failed to increment ${key}: connection to memcached was lost before it answered`,
      ]);
      await store.ping();
      expect(seen).toEqual([`incr ${key} 1\r\nadd ${key} 0 60 1\r\n1\r\n`]);
      cut.server.close();
    });

    it('is left when its answer is invalid', async () => {
      const odd = await listen((socket, data) => {
        socket.write(data.startsWith('version') ? 'VERSION 1\r\n' : 'HTTP/1.1 400 Bad Request\r\n');
      });
      const { store, news } = open(`127.0.0.1:${odd.port}`);
      expect(await totalOf(store, { key: fresh(), hits: 4 })).toBe(4);
      expect(news.lines[0]).toBe('get: connection to memcached was lost before it answered');
      odd.server.close();
    });

    it('counts what was admitted before the store is closed', async () => {
      const { store } = open();
      const key = fresh();
      const answered = totalOf(store, { key, hits: 6 });
      await store.close();
      expect(await answered).toBe(6);
      expect(await a.valueOf(key)).toBe('6');
    });
  });
});

/** A node of the test's own, for what memcached does not do. */
async function listen(
  answer: (socket: Socket, data: string) => void,
): Promise<{ server: Server; port: number }> {
  const port = await freePort();
  const server = createServer((socket) => {
    socket.on('error', () => {});
    socket.on('data', (data) => answer(socket, String(data)));
  });
  await new Promise<void>((resolve) => server.listen(port, '127.0.0.1', resolve));
  return { server, port };
}
