import { afterAll, beforeAll, describe } from 'vitest';
import type { Operation } from '../../limiter/stores/operation.ts';
import { PerSecondStore } from '../../limiter/stores/per-second-store.ts';
import { systemClock } from '../../process/time/clock.ts';
import { describeWithEachRedis } from '../support/describe-with-each-redis.ts';
import { describeWithServer } from '../support/describe-with-server.ts';
import { redisProgram } from '../support/find-server.ts';
import { ManualClock } from '../support/manual-clock.ts';
import { openMemoryStore } from '../support/open-memory-store.ts';
import { type RedisServer, startRedis } from '../support/redis-server.ts';
import { openRedisStore } from '../support/redis-stores.ts';
import { closedStoreSuite, counterStoreSuite } from './counter-store.suite.ts';

describe('memory', () => {
  const open = async () => openMemoryStore({ clock: systemClock });
  counterStoreSuite(open);
  closedStoreSuite(open);

  describe('by a clock that the test sets', () => {
    const clock = new ManualClock();
    counterStoreSuite(async () => openMemoryStore({ clock }), { clock });
  });
});

describeWithEachRedis('redis', (path) => {
  let server: RedisServer;
  beforeAll(async () => {
    server = await startRedis({ path, unixSocket: true });
  });
  afterAll(() => server.stop());

  describe('over TCP', () => {
    const open = () => openRedisStore({ url: `127.0.0.1:${server.port}` });
    counterStoreSuite(open);
    closedStoreSuite(open);
  });

  describe('over a unix socket', () => {
    closedStoreSuite(() => openRedisStore({ socketType: 'unix', url: server.socketPath }));
  });
});

/** Counts some of the keys in one store and some in the other, by what they are called. */
class SplitByKey extends PerSecondStore {
  override submit(ops: Operation[], ...rest: [options: { stopWhenOver: boolean }, done: () => void]): void {
    for (const op of ops) {
      const perSecond = (op.key.codePointAt(op.key.length - 1) ?? 0) % 2 === 1;
      Object.assign(op, { counter: { ...op.counter, perSecond } });
    }
    super.submit(ops, ...rest);
  }
}

describeWithServer('two redis, one for limits per second', redisProgram, (path) => {
  let servers: [RedisServer, RedisServer];
  beforeAll(async () => {
    servers = [await startRedis({ path }), await startRedis({ path })];
  });
  afterAll(() => Promise.all(servers.map((server) => server.stop())));

  const open = async () =>
    new SplitByKey({
      main: await openRedisStore({ url: `127.0.0.1:${servers[0].port}` }),
      perSecond: await openRedisStore({ url: `127.0.0.1:${servers[1].port}` }),
    });
  counterStoreSuite(open, { stopsInOrder: false });
  closedStoreSuite(open);
});
