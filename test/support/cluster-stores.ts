import { setTimeout as sleep } from 'node:timers/promises';
import {
  RedisClusterStore,
  type RedisClusterStoreOptions,
} from '../../limiter/stores/redis/cluster/cluster-store.ts';
import { parseClusterAddress } from '../../limiter/stores/redis/wire/redis-address.ts';

/** A store that counts in a Redis Cluster and is connected; it tries every 20 ms. */
export async function openClusterStore(
  settings: { url: string; auth?: string },
  options: Partial<RedisClusterStoreOptions> = {},
  maxElapsedMs = 5_000,
): Promise<RedisClusterStore> {
  const address = parseClusterAddress({ auth: '', ...settings });
  const store = new RedisClusterStore({ address, timeoutMs: 5000, random: Math.random, ...options });
  await store.connect({
    initialMs: 20,
    maxMs: 20,
    maxElapsedMs,
    monotonicMs: () => performance.now(),
    sleep: (ms) => sleep(ms),
  });
  return store;
}
