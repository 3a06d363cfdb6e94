import { randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { afterAll, beforeAll, expect, it, onTestFinished } from 'vitest';
import type { Operation } from '../../limiter/stores/operation.ts';
import type { RedisStore } from '../../limiter/stores/redis/redis-store.ts';
import { counterOp, submit, totalOf } from '../support/counter-ops.ts';
import { describeWithServer } from '../support/describe-with-server.ts';
import { eventually } from '../support/eventually.ts';
import { redisProgram } from '../support/find-server.ts';
import { freePort } from '../support/free-port.ts';
import { LoadedDeadline } from '../support/machine-load.ts';
import { RedisServer, type RedisServerOptions, startRedis } from '../support/redis-server.ts';
import { connectStore, newRedisStore, openRedisStore } from '../support/redis-stores.ts';

const never = () => Promise.reject(new Error('retried'));
const once = { monotonicMs: () => performance.now(), sleep: never };

/** Stops with the test, however that ends. */
async function serverForTest(options: RedisServerOptions): Promise<RedisServer> {
  const server = await startRedis(options);
  onTestFinished(() => server.stop());
  return server;
}

/** Not connected yet; closes with the test. */
function storeForTest(...given: Parameters<typeof newRedisStore>): RedisStore {
  const store = newRedisStore(...given);
  onTestFinished(() => store.close());
  return store;
}

async function connectedStoreForTest(...given: Parameters<typeof newRedisStore>): Promise<RedisStore> {
  const store = storeForTest(...given);
  await connectStore(store);
  return store;
}

describeWithServer('RedisStore when its server fails', redisProgram, (path) => {
  it('counts nothing twice when the server is killed under load, and continues when it is back', async () => {
    // Every write is on disk before it is answered, so what was counted outlives the kill.
    const server = await serverForTest({ path, args: ['--appendonly', 'yes', '--appendfsync', 'always'] });
    const store = await connectedStoreForTest({ url: `127.0.0.1:${server.port}` }, { timeoutMs: 2000 });
    const answered: Operation[] = [];
    let late = 0;
    let stopped = false;
    onTestFinished(() => {
      stopped = true;
    });
    const caller = async () => {
      while (!stopped) {
        const op = counterOp({ key: randomUUID(), ttlSeconds: 3600 });
        const deadline = new LoadedDeadline(2_500);
        await submit(store, [op]);
        if (deadline.isOver) late += 1;
        answered.push(op);
        if (op.error !== undefined) await sleep(5);
      }
    };
    const callers = Array.from({ length: 50 }, caller);
    const succeeded = () => answered.filter(({ error }) => error === undefined).length;
    await eventually(() => expect(succeeded()).toBeGreaterThan(500));
    await server.kill('SIGKILL');
    await eventually(() => expect(answered.at(-1)?.error?.message).toMatch(/^Redis is not connected/));
    const before = succeeded();
    await server.start();
    await eventually(() => expect(succeeded()).toBeGreaterThan(before + 500));
    stopped = true;
    await Promise.all(callers);

    const client = new Redis(server.port, '127.0.0.1', { protocol: 2 });
    const held = await client.mget(answered.map(({ key }) => key));
    client.disconnect();
    for (const [i, op] of answered.entries()) {
      if (op.error === undefined) expect([op.after, held[i]]).toEqual([1, '1']);
      else expect(held[i] ?? '1').toBe('1');
      expect(op.error?.transient ?? true).toBe(true);
    }
    expect(late).toBe(0);
    const texts = new Set(answered.flatMap(({ error }) => error?.message ?? []));
    texts.delete('connection to Redis was lost before it answered');
    expect(texts.size).toBeGreaterThan(0);
    // An attempt to connect again may have reported why by then.
    const why = /^Redis is not connected(: connect ECONNREFUSED .*|: Redis answered: LOADING .*)?$/;
    for (const text of texts) expect(text).toMatch(why);
  });

  it('answers within the timeout when the server hangs, and continues when it is back', async () => {
    const server = await serverForTest({ path });
    const store = await connectedStoreForTest({ url: `127.0.0.1:${server.port}` }, { timeoutMs: 300 });
    await server.kill('SIGSTOP');
    const deadline = new LoadedDeadline(600);
    const [op] = await submit(store, [counterOp({ key: 'hanging' })]);
    expect(op?.error?.message).toBe('Redis did not answer within 300 ms');
    deadline.assertInTime();
    const [next] = await submit(store, [counterOp({ key: 'hanging' })]);
    expect(next?.error?.message).toMatch(/^Redis (is not connected.*|did not answer within 300 ms)$/);
    await server.kill('SIGCONT');
    await eventually(async () => expect(await totalOf(store, { key: randomUUID() })).toBe(1));
    expect(store.connectionCounts.localClose).toBeGreaterThan(0);
  });

  it('fails at once without a connection', async () => {
    const store = storeForTest({ url: '127.0.0.1:1' });
    const op = counterOp({ key: 'a' });
    let answered = false;
    store.submit([op], { stopWhenOver: true }, () => {
      answered = true;
    });
    expect([answered, op.error?.message]).toEqual([true, 'Redis is not connected']);
    await expect(store.ping()).rejects.toThrow('Redis is not connected');
    await store.close();
  });

  it('waits for a server that starts later', async () => {
    const server = new RedisServer({ path }, await freePort());
    onTestFinished(() => server.stop());
    const store = storeForTest({ url: `127.0.0.1:${server.port}` });
    const errors: string[] = [];
    const connected = store.connect({
      initialMs: 20,
      maxMs: 20,
      monotonicMs: () => performance.now(),
      sleep: async () => {
        if (errors.length === 1) await server.start();
      },
      onRetry: ({ error }) => errors.push(error.message),
    });
    await connected;
    expect(errors[0]).toBe(`connect ECONNREFUSED 127.0.0.1:${server.port}`);
    expect(await totalOf(store, { key: 'a' })).toBe(1);
  });

  it('gives up connecting when closed', async () => {
    const store = storeForTest({ url: '127.0.0.1:1' });
    const connected = store.connect({ ...once, sleep: () => store.close() });
    await expect(connected).rejects.toThrow('Redis store is closed');
  });

  it('answers all ops under way when closed', async () => {
    const server = await serverForTest({ path });
    const store = await connectedStoreForTest({ url: `127.0.0.1:${server.port}` });
    await server.kill('SIGSTOP');
    const sent = submit(store, [counterOp({ key: 'a' })]);
    await new Promise((resolve) => setImmediate(resolve));
    const gathered = submit(store, [counterOp({ key: 'a' })]);
    await store.close();
    expect((await sent)[0]?.error?.message).toBe('connection to Redis was lost before it answered');
    expect((await gathered)[0]?.error).toBeDefined();
    expect(store.connected).toBe(false);
  });

  it('says when the connection comes and goes, and counts connections', async () => {
    const server = await serverForTest({ path });
    const changes: boolean[] = [];
    const failures: string[] = [];
    const store = storeForTest(
      { url: `127.0.0.1:${server.port}` },
      { onChange: (connected) => changes.push(connected), onFailure: (message) => failures.push(message) },
    );
    expect(store.connected).toBe(false);
    await connectStore(store);
    expect(store.connectionCounts).toEqual({ active: 1, total: 1, localClose: 0 });
    await server.kill('SIGKILL');
    await eventually(() => expect(changes).toEqual([true, false]));
    expect(store.connectionCounts).toEqual({ active: 0, total: 1, localClose: 1 });
    await eventually(() => expect(failures).toContain(`connect ECONNREFUSED 127.0.0.1:${server.port}`));
    await server.start();
    await eventually(() => expect(changes).toEqual([true, false, true]));
    expect(store.connectionCounts).toEqual({ active: 1, total: 2, localClose: 1 });
    await store.close();
    expect(store.connectionCounts).toEqual({ active: 0, total: 2, localClose: 2 });
  });
});

describeWithServer('RedisStore logging in', redisProgram, (path) => {
  const secret = 'tr0ub4dor';
  let server: RedisServer;
  let url: string;

  beforeAll(async () => {
    server = await startRedis({
      path,
      args: ['--requirepass', secret, '--user', 'me', 'on', `>${secret}2`, '~*', '+@all'],
    });
    url = `127.0.0.1:${server.port}`;
  });
  afterAll(() => server.stop());

  /** The text of the first failure, or undefined when it connects. */
  async function tryConnect(store: RedisStore): Promise<string | undefined> {
    try {
      await store.connect({ ...once, maxElapsedMs: Number.MIN_VALUE });
      return undefined;
    } catch (error) {
      return (error as Error).message;
    } finally {
      await store.close();
    }
  }

  it.each([
    { settings: { auth: secret } },
    { settings: { auth: `me:${secret}2` } },
    { settings: { auth: '' }, prefix: `redis://:${secret}@` },
    { settings: { auth: '' }, prefix: `redis://me:${secret}2@` },
    { settings: { auth: secret }, prefix: 'redis://me:wrong@' },
  ])('logs in with $prefix and REDIS_AUTH "$settings.auth"', async ({ settings, prefix = '' }) => {
    expect(await tryConnect(newRedisStore({ url: `${prefix}${url}`, ...settings }))).toBeUndefined();
  });

  it('needs of its user no more than docs/store.md says', async () => {
    const admin = new Redis(server.port, '127.0.0.1', { protocol: 2, password: secret });
    onTestFinished(() => admin.disconnect());
    const text = readFileSync(join(import.meta.dirname, '../../docs/store.md'), 'utf8');
    const rules = /ACL SETUSER weir on >\S+ (.*)/.exec(text)?.[1]?.split(' ') ?? [];
    await admin.call('ACL', 'SETUSER', 'weir', 'on', `>${secret}3`, ...rules);
    const store = await openRedisStore(
      { url, auth: `weir:${secret}3` },
      { scripts: 'auto', onScriptsRejected: (reason) => expect.fail(reason) },
    );
    onTestFinished(() => store.close());
    const max = Number.MAX_SAFE_INTEGER;
    const steps = [{ hits: 3 }, { hits: 1, negative: true }, { hits: 0 }, { hits: max }, { hits: max }];
    const totals: number[] = [];
    for (const step of steps) totals.push(await totalOf(store, { key: 'weir', ...step }));
    expect(totals).toEqual([3, 2, 2, max + 1, max + 1]);
    const ops = await submit(store, [counterOp({ key: 'weir2' }), counterOp({ key: 'weir3' })], {
      stopWhenOver: true,
    });
    expect(ops.map(({ after }) => after)).toEqual([1, 1]);
  });

  it('says that the password is wrong without showing it', async () => {
    const failures: string[] = [];
    const store = newRedisStore(
      { url: `redis://me:not-${secret}@${url}` },
      { onFailure: (text) => failures.push(text) },
    );
    const message = await tryConnect(store);
    expect(message).toMatch(
      /^timed out waiting for Redis connection to redis:\/\/\*\*\*\*\*@127\.0\.0\.1:\d+ after \d+ ms: Redis answered: WRONGPASS /,
    );
    expect(failures.length).toBeGreaterThan(0);
    expect([message, ...failures].join()).not.toContain(secret);
  });

  it('says that a password is missing', async () => {
    expect(await tryConnect(newRedisStore({ url }))).toMatch(
      /Redis answered: NOAUTH Authentication required\.$/,
    );
  });

  it('counts in the database of the URL', async () => {
    const store = await openRedisStore({ url: `redis://:${secret}@${url}/5` });
    await totalOf(store, { key: 'in-five' });
    await store.close();
    const client = new Redis(server.port, '127.0.0.1', { protocol: 2, password: secret, db: 5 });
    expect(await client.get('in-five')).toBe('1');
    client.disconnect();
  });

  it('does not count in database 0 when that of the URL does not exist', async () => {
    const changes: boolean[] = [];
    const refusals: string[] = [];
    const errors: string[] = [];
    const store = newRedisStore(
      { url: `redis://:${secret}@${url}/99` },
      { onChange: (connected) => changes.push(connected), onFailure: (message) => refusals.push(message) },
    );
    const connected = store.connect({
      ...once,
      sleep: () => (errors.length < 3 ? sleep(20) : store.close()),
      onRetry: ({ error }) => errors.push(error.message),
    });
    await expect(connected).rejects.toThrow('Redis store is closed');
    expect(errors).toEqual(Array(3).fill('Redis answered: ERR DB index is out of range'));
    expect(refusals).toEqual(errors);
    expect(changes).toEqual([]);
  });
});

describeWithServer('RedisStore on a server that became a replica', redisProgram, (path) => {
  let server: RedisServer;
  let client: Redis;
  beforeAll(async () => {
    server = await startRedis({ path, lifetimes: { own: ['own:'] } });
    client = new Redis(server.port, '127.0.0.1', { protocol: 2 });
  });
  afterAll(async () => {
    client.disconnect();
    await server.stop();
  });

  it.each([
    [true, false],
    [true, true],
    [false, false],
  ])(
    'answers with the error, closes the connection %s, stop when over %s',
    async (closeOnReadOnly, stopWhenOver) => {
      const changes: string[] = [];
      const store = await connectedStoreForTest(
        { url: `127.0.0.1:${server.port}` },
        { closeOnReadOnly, onChange: (connected, reason) => changes.push(reason ?? String(connected)) },
      );
      await client.call('REPLICAOF', '127.0.0.1', '1');
      const ops = [counterOp({ key: 'a' }), counterOp({ key: 'b' })];
      await submit(store, ops, { stopWhenOver });
      for (const { error } of ops) {
        expect(error?.message).toBe("Redis answered: READONLY You can't write against a read only replica.");
        expect(error?.transient).toBe(true);
      }
      expect(store.connected).toBe(!closeOnReadOnly);
      await client.call('REPLICAOF', 'NO', 'ONE');
      await eventually(async () => expect(await totalOf(store, { key: randomUUID() })).toBe(1));
      expect(changes).toEqual(closeOnReadOnly ? ['true', 'the server accepts no writes', 'true'] : ['true']);
    },
  );

  it('stays connected when one key fails for another reason', async () => {
    const store = await connectedStoreForTest({ url: `127.0.0.1:${server.port}` }, { closeOnReadOnly: true });
    await client.rpush('own:list', 'no number');
    const [broken, well] = await submit(store, [
      counterOp({ key: 'own:list' }),
      counterOp({ key: randomUUID() }),
    ]);
    expect([broken?.error?.message.slice(0, 25), well?.after]).toEqual(['Redis answered: WRONGTYPE', 1]);
    expect(store.connectionCounts.localClose).toBe(0);
  });
});
