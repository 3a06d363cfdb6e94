import { afterAll, beforeAll, describe } from 'vitest';
import { systemClock } from '../../process/clock.ts';
import { describeWithServer } from '../support/describe-with-server.ts';
import { redisProgram } from '../support/find-server.ts';
import { openMemoryStore } from '../support/open-memory-store.ts';
import { type RedisServer, startRedis } from '../support/redis-server.ts';
import { openRedisStore } from '../support/redis-stores.ts';
import { closedStoreSuite, counterStoreSuite } from './counter-store.suite.ts';

describe('memory', () => {
  const open = async () => openMemoryStore({ clock: systemClock });
  counterStoreSuite(open);
  closedStoreSuite(open);
});

describeWithServer('redis', redisProgram, (path) => {
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
    const open = () => openRedisStore({ socketType: 'unix', url: server.socketPath });
    counterStoreSuite(open);
    closedStoreSuite(open);
  });
});
