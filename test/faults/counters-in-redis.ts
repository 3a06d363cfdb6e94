import { Redis } from 'ioredis';
import { domain, nameInKey } from './counter-plan.ts';

export interface CountersInRedisOptions {
  port: number;
  password?: string;
  /** How often a command waits for another connection. Defaults to what ioredis does. */
  retries?: number;
}

/** What a Redis without TLS holds of the counters of a domain, that of the load unless reported, by name. */
export async function countersInRedis(
  options: CountersInRedisOptions,
  counted = domain,
): Promise<Map<string, number>> {
  return withRedis(options, async (client) => {
    const keys = await client.keys(`${counted}_*`);
    const values = keys.length === 0 ? [] : await client.mget(keys);
    return new Map(keys.map((key, i) => [nameInKey(key), Number(values[i])]));
  });
}

/** Talks to the server itself, past the limiter. */
export async function withRedis<T>(
  { port, password, retries }: CountersInRedisOptions,
  act: (client: Redis) => Promise<T>,
): Promise<T> {
  const client = new Redis(port, '127.0.0.1', {
    protocol: 2,
    ...(password === undefined ? {} : { password }),
    ...(retries === undefined ? {} : { maxRetriesPerRequest: retries }),
  });
  client.on('error', () => {});
  try {
    return await act(client);
  } finally {
    client.disconnect();
  }
}
