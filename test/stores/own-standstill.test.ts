/** A process that stands still for longer than any patience with its store, while calls are under way: the store is blameless. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setImmediate as turn } from 'node:timers/promises';
import { expect, it, onTestFinished } from 'vitest';
import { BreakerStore } from '../../limiter/stores/failure/breaker-store.ts';
import type { Operation } from '../../limiter/stores/operation.ts';
import { ClusterNodes } from '../../limiter/stores/redis/cluster/cluster-nodes.ts';
import { parseRedisAddress } from '../../limiter/stores/redis/wire/redis-address.ts';
import { RedisConnection } from '../../limiter/stores/redis/wire/redis-connection.ts';
import type { Store } from '../../limiter/stores/store.ts';
import { unblockedMs, unblockedTimers } from '../../process/time/clock.ts';
import { openClusterStore } from '../support/cluster-stores.ts';
import { counterOp, submit } from '../support/counter-ops.ts';
import { describeWithServer } from '../support/describe-with-server.ts';
import { eventually } from '../support/eventually.ts';
import { memcachedProgram, redisProgram } from '../support/find-server.ts';
import { InProcessLimiter } from '../support/in-process-limiter.ts';
import { MemcacheNews, openMemcacheStore } from '../support/memcache-stores.ts';
import { startMemcached } from '../support/memcached-server.ts';
import { startRedisCluster } from '../support/redis-cluster.ts';
import { startRedis } from '../support/redis-server.ts';
import { openRedisStore } from '../support/redis-stores.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

const silenceMs = 160;
const timeoutMs = 200;
const standstillMs = 500;

function standStill(): void {
  const endMs = performance.now() + standstillMs;
  while (performance.now() < endMs);
}

const request = (name: string): Operation[] =>
  Array.from({ length: 20 }, (_, i) => counterOp({ key: `${name}_${i}` }));

/** Standing still after 0, 1, 2, ... turns of the event loop: before and after the calls were written. */
async function callsAroundStandstills(store: Store): Promise<unknown[]> {
  const errors: unknown[] = [];
  for (let turns = 0; turns < 5; turns += 1) {
    const answer = submit(store, request(`turns_${turns}`));
    for (let i = 0; i < turns; i += 1) await turn();
    standStill();
    for (const op of await answer) errors.push(op.error);
  }
  return errors.filter((error) => error !== undefined);
}

function behindBreaker(store: Store): { store: BreakerStore; changes: unknown[] } {
  const changes: unknown[] = [];
  const breaker = new BreakerStore({
    store,
    timers: unblockedTimers,
    random: Math.random,
    silenceMs,
    probeIntervalMs: 100,
    patienceMs: timeoutMs,
    maxWaiting: 1000,
    maxWaitingBytes: 1_000_000,
    onChange: (open, reason) => changes.push(open, reason),
  });
  onTestFinished(() => breaker.close());
  return { store: breaker, changes };
}

describeWithServer('standing still with Redis', redisProgram, (path) => {
  it('neither opens the breaker nor fails a call', { timeout: 30_000 }, async () => {
    const server = await startRedis({ path });
    onTestFinished(() => server.stop());
    const inner = await openRedisStore({ url: `127.0.0.1:${server.port}` }, { timeoutMs });
    const { store, changes } = behindBreaker(inner);
    expect(await callsAroundStandstills(store)).toEqual([]);
    expect([changes, inner.connectionCounts]).toEqual([[], { active: 1, total: 1, localClose: 0 }]);
  });

  it('takes nothing from the time in which a server that hangs is found out', async () => {
    const server = await startRedis({ path });
    onTestFinished(() => server.stop());
    const inner = await openRedisStore({ url: `127.0.0.1:${server.port}` }, { timeoutMs: 5000 });
    const { store, changes } = behindBreaker(inner);
    await server.kill('SIGSTOP');
    onTestFinished(() => server.kill('SIGCONT'));
    const askedMs = performance.now();
    const [op] = await submit(store, request('hangs'));
    expect(op?.error?.message).toMatch(/^the store did not answer/);
    expect(performance.now() - askedMs).toBeGreaterThan(silenceMs * 0.9);
    expect(changes[0] ?? true).toBe(true);
  });

  it('neither opens the breaker of a cluster nor those of its nodes', { timeout: 60_000 }, async () => {
    const cluster = await startRedisCluster({ path });
    onTestFinished(() => cluster.stop());
    const nodeChanges: unknown[] = [];
    const inner = await openClusterStore(
      { url: cluster.url },
      { timeoutMs, silenceMs, onNodeChange: (_, reached, reason) => nodeChanges.push(reached, reason) },
    );
    const { store, changes } = behindBreaker(inner);
    nodeChanges.length = 0;
    expect(await callsAroundStandstills(store)).toEqual([]);
    expect([changes, nodeChanges]).toEqual([[], []]);
  });

  it('leaves calls to a dropped node their time', async () => {
    const server = await startRedis({ path });
    onTestFinished(() => server.stop());
    const place = { host: '127.0.0.1', port: server.port };
    const random = Math.random;
    const nodes = new ClusterNodes({
      newConnection: ({ host, port }, counts) => {
        const address = parseRedisAddress({ socketType: 'tcp', url: `${host}:${port}`, auth: '' });
        return new RedisConnection({ address, timeoutMs, random, counts });
      },
      timeoutMs,
    });
    onTestFinished(() => nodes.close());
    const node = nodes.at(place);
    await node.open();
    await server.kill('SIGSTOP');
    const askedMs = unblockedMs();
    let tookMs = 0;
    const failure = node.connection.send('get', ['a']).catch((error: Error) => {
      tookMs = unblockedMs() - askedMs;
      return error.message;
    });
    nodes.keep(new Set());
    await turn();
    standStill();
    expect(await failure).toBe('Command timed out');
    expect(tookMs).toBeGreaterThanOrEqual(timeoutMs);
    await eventually(() => expect(nodes.counts).toEqual({ active: 0, total: 1, localClose: 1 }));
  });

  it('is no outage for a whole limiter', { timeout: 30_000 }, async () => {
    const server = await startRedis({ path });
    onTestFinished(() => server.stop());
    const folder = temporaryFolder();
    mkdirSync(join(folder, 'config'));
    const rules =
      'domain: d\ndescriptors:\n  - key: k\n    rate_limit: { unit: year, requests_per_unit: 1000 }\n';
    writeFileSync(join(folder, 'config/d.yaml'), rules);
    const limiter = await InProcessLimiter.start({
      env: {
        RUNTIME_ROOT: folder,
        BACKEND_TYPE: 'redis',
        REDIS_SOCKET_TYPE: 'tcp',
        REDIS_URL: `127.0.0.1:${server.port}`,
        REDIS_TIMEOUT: `${timeoutMs}ms`,
        STORE_BREAKER_SILENCE: `${silenceMs}ms`,
      },
    });
    onTestFinished(async () => void (await limiter.stop()));
    const errors: unknown[] = [];
    for (let round = 0; round < 3; round += 1) {
      const answers = Array.from({ length: 50 }, (_, i) => limiter.ask('d', [{ k: `${round}_${i}` }]));
      for (let i = 0; i < 3 + round; i += 1) await turn();
      standStill();
      for (const { error } of await Promise.all(answers)) if (error !== null) errors.push(error);
    }
    const stats = await limiter.stats();
    expect([errors, stats.get('ratelimit.store_breaker.opened')]).toEqual([[], 0]);
  });
});

describeWithServer('standing still with memcached', memcachedProgram, (path) => {
  it('loses no node and no hit', { timeout: 30_000 }, async () => {
    const server = await startMemcached({ path });
    onTestFinished(() => server.stop());
    const news = new MemcacheNews();
    const store = openMemcacheStore(`127.0.0.1:${server.port}`, { timeoutMs, events: news });
    onTestFinished(() => store.close());
    await store.ping();
    expect(await callsAroundStandstills(store)).toEqual([]);
    expect(news.lines).toEqual([]);
  });
});
