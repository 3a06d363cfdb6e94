/** The suite of all stores, on memcached. One limiter's requests are distinguished, so that its totals are exact. */
import { afterAll, beforeAll, describe } from 'vitest';
import { describeWithServer } from '../support/describe-with-server.ts';
import { memcachedProgram } from '../support/find-server.ts';
import { openMemcacheStore } from '../support/memcache-stores.ts';
import { type MemcachedServer, startMemcached } from '../support/memcached-server.ts';
import { closedStoreSuite, counterStoreSuite } from './counter-store.suite.ts';

describeWithServer('memcache', memcachedProgram, (path) => {
  let servers: MemcachedServer[];
  beforeAll(async () => {
    servers = await Promise.all([
      startMemcached({ path }),
      startMemcached({ path }),
      startMemcached({ path, unixSocket: true }),
    ]);
  });
  afterAll(async () => {
    await Promise.all(servers.map((server) => server.stop()));
  });
  const address = (index: number): string => servers[index]!.address;

  describe('on one node', () => {
    const open = async () => openMemcacheStore(address(0));
    counterStoreSuite(open, { bounds: 'none' });
    closedStoreSuite(open);
  });

  describe('over a unix socket', () => {
    const open = async () => openMemcacheStore(address(2));
    counterStoreSuite(open, { bounds: 'none' });
    closedStoreSuite(open);
  });
});
