import { setTimeout as sleep } from 'node:timers/promises';
import { RedisStore, type RedisStoreOptions } from '../../limiter/stores/redis/redis-store.ts';
import {
  parseRedisAddress,
  type RedisAddressSettings,
} from '../../limiter/stores/redis/wire/redis-address.ts';

/** A store that is not connected yet. */
export function newRedisStore(
  settings: Partial<RedisAddressSettings> & { url: string },
  options: Partial<RedisStoreOptions> = {},
): RedisStore {
  const address = parseRedisAddress({ socketType: 'tcp', auth: '', ...settings });
  return new RedisStore({ address, timeoutMs: 5000, random: Math.random, ...options });
}

/** Tries to connect every 20 ms, for 5 s. */
export function connectStore(store: RedisStore): Promise<void> {
  return store.connect({
    initialMs: 20,
    maxMs: 20,
    maxElapsedMs: 5000,
    monotonicMs: () => performance.now(),
    sleep: (ms) => sleep(ms),
  });
}

/** A store that is connected. */
export async function openRedisStore(...given: Parameters<typeof newRedisStore>): Promise<RedisStore> {
  const store = newRedisStore(...given);
  await connectStore(store);
  return store;
}
