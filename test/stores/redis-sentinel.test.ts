import { randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Redis } from 'ioredis';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import type { Operation } from '../../limiter/stores/operation.ts';
import { RedisStore, type RedisStoreOptions } from '../../limiter/stores/redis/redis-store.ts';
import {
  parseSentinelAddress,
  type SentinelAddressSettings,
} from '../../limiter/stores/redis/wire/redis-address.ts';
import { counterOp, submit, totalOf } from '../support/counter-ops.ts';
import { describeWithEachRedis } from '../support/describe-with-each-redis.ts';
import { describeWithServer } from '../support/describe-with-server.ts';
import { eventually } from '../support/eventually.ts';
import { redisProgram } from '../support/find-server.ts';
import { LoadedDeadline } from '../support/machine-load.ts';
import { type SentinelTrio, startSentinelTrio } from '../support/redis-sentinels.ts';
import { connectStore } from '../support/redis-stores.ts';
import { suiteFolder } from '../support/suite-folder.ts';
import { closedStoreSuite, counterStoreSuite } from './counter-store.suite.ts';

function newStore(
  settings: Partial<SentinelAddressSettings> & { url: string },
  options: Partial<RedisStoreOptions> = {},
): RedisStore {
  const address = parseSentinelAddress({ auth: '', sentinelAuth: '', ...settings });
  return new RedisStore({ address, timeoutMs: 5000, random: Math.random, ...options });
}

async function openStore(...given: Parameters<typeof newStore>): Promise<RedisStore> {
  const store = newStore(...given);
  await connectStore(store);
  return store;
}

/** The text of the first failure; closes the store. */
async function firstFailure(store: RedisStore): Promise<string> {
  try {
    await store.connect({
      maxElapsedMs: Number.MIN_VALUE,
      monotonicMs: () => performance.now(),
      sleep: () => Promise.reject(new Error('retried')),
    });
    return 'connected';
  } catch (error) {
    return (error as Error).message.replace(/^.* after \d+ ms: /, '');
  } finally {
    await store.close();
  }
}

describeWithEachRedis('RedisStore behind sentinels', (path) => {
  const folder = suiteFolder();
  let trio: SentinelTrio;
  beforeAll(async () => {
    trio = await startSentinelTrio({ path, folder });
  }, 60_000);
  afterAll(() => trio?.stop());

  describe('counts', () => {
    const open = () => openStore({ url: trio.url });
    counterStoreSuite(open);
    closedStoreSuite(open);
  });

  it('says that no sentinel answers', async () => {
    expect(await firstFailure(newStore({ url: 'mymaster,127.0.0.1:1,127.0.0.1:2' }))).toBe(
      'sentinel 127.0.0.1:1: connect ECONNREFUSED 127.0.0.1:1',
    );
  });

  it('needs one sentinel that answers', async () => {
    const url = `mymaster,127.0.0.1:1,127.0.0.1:${trio.sentinelPorts[2]}`;
    expect(await firstFailure(newStore({ url }))).toBe('connected');
  });

  it('says that a sentinel does not know the master', async () => {
    const port = trio.sentinelPorts[0];
    expect(await firstFailure(newStore({ url: `other,127.0.0.1:${port}` }))).toBe(
      `sentinel 127.0.0.1:${port} knows no master "other"`,
    );
  });

  it('needs of its user at the sentinels no more than docs/store.md says', async () => {
    const text = readFileSync(join(import.meta.dirname, '../../docs/store.md'), 'utf8');
    const [, rights = ''] = /A sentinel's user needs `([^`]*)`/.exec(text) ?? [];
    const sentinels = trio.sentinelPorts.map((port) => new Redis(port, '127.0.0.1', { protocol: 2 }));
    onTestFinished(() => {
      for (const client of sentinels) client.disconnect();
    });
    for (const client of sentinels) {
      await client.call('ACL', 'SETUSER', 'weir', 'on', '>pw', ...rights.split(' '));
    }
    const store = await openStore({ url: trio.url, sentinelAuth: 'weir:pw' });
    onTestFinished(() => store.close());
    await eventually(async () => {
      for (const client of sentinels) {
        expect(String(await client.call('CLIENT', 'LIST'))).toMatch(/ sub=1 .* user=weir /);
      }
    });
  });

  it('gives up asking when closed', async () => {
    const store = newStore({ url: 'mymaster,192.0.2.1:26379' }, { timeoutMs: 60_000 });
    const connected = store.connect({
      monotonicMs: () => performance.now(),
      sleep: () => Promise.reject(new Error('retried')),
    });
    connected.catch(() => {});
    await new Promise((resolve) => setImmediate(resolve));
    const deadline = new LoadedDeadline(2_000);
    await store.close();
    await expect(connected).rejects.toThrow();
    deadline.assertInTime();
  });
});

describeWithServer('RedisStore when its master fails', redisProgram, (path) => {
  const folder = suiteFolder();
  const newTrio = async (options = {}) => {
    const trio = await startSentinelTrio({ path, folder, ...options });
    onTestFinished(() => trio.stop());
    return trio;
  };

  it('continues with the next master, counts nothing twice there, and comes back to no replica', async () => {
    const trio = await newTrio();
    const [first, second] = trio.servers;
    const failures: string[] = [];
    const store = await openStore(
      { url: trio.url },
      { timeoutMs: 2000, onFailure: (text) => failures.push(text) },
    );
    onTestFinished(() => store.close());
    const answered: Operation[] = [];
    let stopped = false;
    const caller = async () => {
      while (!stopped) {
        const [op] = await submit(store, [counterOp({ key: randomUUID(), ttlSeconds: 3600 })]);
        answered.push(op as Operation);
        if (op?.error !== undefined) await new Promise((resolve) => setTimeout(resolve, 5));
      }
    };
    const callers = Array.from({ length: 10 }, caller);
    const succeeded = () => answered.filter(({ error }) => error === undefined).length;
    await eventually(() => expect(succeeded()).toBeGreaterThan(100));
    await first.kill('SIGKILL');
    await eventually(() => expect(answered.at(-1)?.error?.message).toMatch(/^Redis is not connected/));
    const before = answered.length;
    await eventually(
      () => expect(answered.slice(before).some(({ error }) => error === undefined)).toBe(true),
      {
        timeoutMs: 30_000,
      },
    );
    stopped = true;
    await Promise.all(callers);
    expect(await trio.masterPort()).toBe(second.port);

    const client = new Redis(second.port, '127.0.0.1', { protocol: 2 });
    const held = await client.mget(answered.map(({ key }) => key));
    for (const [i, op] of answered.entries()) {
      if (i >= before && op.error === undefined) expect([op.after, held[i]]).toEqual([1, '1']);
      else expect(held[i] ?? '1').toBe('1');
    }
    client.disconnect();
    const messages = answered.flatMap(
      ({ error }) => error?.message.replace(/^(Redis is not connected): .*/, '$1') ?? [],
    );
    expect(new Set(messages)).toEqual(
      new Set(['Redis is not connected', 'connection to Redis was lost before it answered']),
    );
    expect(failures).toContain(`connect ECONNREFUSED 127.0.0.1:${first.port}`);
  }, 90_000);

  it('leaves a master that hangs when the sentinels choose another, before the timeout is over', async () => {
    const trio = await newTrio();
    const [first] = trio.servers;
    const reasons: string[] = [];
    const store = await openStore(
      { url: trio.url },
      { timeoutMs: 60_000, onChange: (_, reason) => reasons.push(reason ?? 'connected') },
    );
    onTestFinished(() => store.close());
    await first.kill('SIGSTOP');
    const hanging = submit(store, [counterOp({ key: randomUUID() })]);
    const [op] = await hanging;
    expect(op?.error?.message).toBe('connection to Redis was lost before it answered');
    await eventually(async () => expect(await totalOf(store, { key: randomUUID() })).toBe(1));
    const second = trio.servers[1];
    expect(reasons).toEqual(['connected', `the master is 127.0.0.1:${second.port} now`, 'connected']);
    await first.kill('SIGCONT');
  }, 90_000);

  it('logs in to the sentinels and to the master, each with its own password', async () => {
    const trio = await newTrio({ password: 'hunter2', sentinelPassword: 'hunter3' });
    expect(await firstFailure(newStore({ url: trio.url, auth: 'hunter2', sentinelAuth: 'hunter3' }))).toBe(
      'connected',
    );
    const withUrl = trio.url.replace('127.0.0.1', 'redis://:hunter3@127.0.0.1');
    expect(await firstFailure(newStore({ url: withUrl, auth: 'hunter2' }))).toBe('connected');
    const failures: string[] = [];
    const onFailure = (text: string) => failures.push(text);
    const wrong = newStore({ url: trio.url, auth: 'hunter2', sentinelAuth: 'not-hunter3' }, { onFailure });
    expect(await firstFailure(wrong)).toMatch(/^sentinel 127\.0\.0\.1:\d+: Redis answered: WRONGPASS /);
    const missing = newStore({ url: trio.url, auth: 'not-hunter2', sentinelAuth: 'hunter3' }, { onFailure });
    expect(await firstFailure(missing)).toMatch(/^master 127\.0\.0\.1:\d+: Redis answered: WRONGPASS /);
    expect(failures.length).toBeGreaterThan(1);
    expect(failures.join()).not.toMatch(/hunter/);
  }, 60_000);

  it('rejects a replica that a sentinel names', async () => {
    const trio = await newTrio();
    const failures: string[] = [];
    const store = await openStore({ url: trio.url }, { onFailure: (text) => failures.push(text) });
    onTestFinished(() => store.close());
    const [first, second] = trio.servers;
    const client = new Redis(first.port, '127.0.0.1', { protocol: 2 });
    // The sentinels still name it, until they set it right again.
    await client.call('REPLICAOF', '127.0.0.1', String(second.port));
    await client.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes');
    await eventually(() => expect(failures).toContain('the server that the sentinels name is a replica'));
    await client.call('REPLICAOF', 'NO', 'ONE');
    client.disconnect();
    await eventually(async () => expect(await totalOf(store, { key: randomUUID() })).toBe(1), {
      timeoutMs: 30_000,
    });
  }, 90_000);
});
