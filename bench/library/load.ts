/**
 * Puts one library under load, in a separate process: `node bench/library/load.ts <library> <modules> <port> <open calls> <ms>`. It uses
 * fixed windows of a minute and 1,000 keys, and nothing is over limit. Prints decisions, CPU time and latencies as JSON.
 */
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

type Decide = (key: string) => Promise<unknown>;

const [name, modules, port, openCalls, durationMs] = process.argv.slice(2) as [
  string,
  string,
  string,
  string,
  string,
];
const require = createRequire(join(modules, 'package.json'));
const limit = 1_000_000_000;
const timeoutMs = 5_000;

const libraries: Readonly<Record<string, () => Promise<Decide>>> = {
  async weir() {
    const built = fileURLToPath(new URL('../../packages/limiter/dist/index.js', import.meta.url));
    const { createLimiter } = await import(built);
    const rules = {
      domain: 'bench',
      descriptors: [{ key: 'user', rate_limit: { unit: 'minute', requests_per_unit: limit } }],
    };
    const store = port === '0' ? undefined : { redis: `127.0.0.1:${port}`, timeoutMs };
    const limiter = await createLimiter({ rules, store, onError: 'throw' });
    return (user) => limiter.check('bench', { user });
  },
  async 'rate-limiter-flexible'() {
    const { RateLimiterMemory, RateLimiterRedis } = require('rate-limiter-flexible');
    const options = { points: limit, duration: 60 };
    if (port === '0') {
      const memory = new RateLimiterMemory(options);
      return (user) => memory.consume(user);
    }
    const { default: Redis } = require('ioredis');
    const storeClient = new Redis(Number(port), { enableOfflineQueue: false });
    await new Promise((ready) => storeClient.once('ready', ready));
    const limiter = new RateLimiterRedis({ storeClient, ...options });
    return (user) => limiter.consume(user);
  },
  /**
   * Uses the adapter that its issues suggest for your own Redis: https://github.com/upstash/ratelimit-js/issues/81. From version 2.1 on,
   * its scripts run only on Upstash's server, so this is the last earlier version.
   */
  async '@upstash/ratelimit'() {
    const { createClient } = require('redis');
    const { Ratelimit } = require('@upstash/ratelimit');
    const client = await createClient({ url: `redis://127.0.0.1:${port}` }).connect();
    const redis = {
      evalsha: (sha: string, keys: string[], args: unknown[]) =>
        client.evalSha(sha, { keys, arguments: args.map(String) }),
      eval: (script: string, keys: string[], args: unknown[]) =>
        client.eval(script, { keys, arguments: args.map(String) }),
    };
    const limiter = new Ratelimit({
      redis,
      limiter: Ratelimit.fixedWindow(limit, '60 s'),
      ephemeralCache: false,
    });
    return (user) => limiter.limit(user);
  },
};

const decide = await libraries[name]!();
const keys = Array.from({ length: 1_000 }, (_, index) => `user-${index}`);
let next = 0;

async function run(forMs: number, note: (ms: number) => void): Promise<number> {
  const endMs = performance.now() + forMs;
  let decisions = 0;
  const caller = async (): Promise<void> => {
    for (let nowMs = performance.now(); nowMs < endMs; ) {
      await decide(keys[next++ % keys.length]!);
      decisions += 1;
      const afterMs = performance.now();
      note(afterMs - nowMs);
      nowMs = afterMs;
    }
  };
  await Promise.all(Array.from({ length: Number(openCalls) }, caller));
  return decisions;
}

// Runs until V8 has optimized the code of the library.
for (let warm = 0; warm < 50_000; ) warm += await run(Number(durationMs), () => {});
const latencies: number[] = [];
process.send?.('begin');
await new Promise((begun) => process.once('message', begun));
const before = process.cpuUsage();
const decisions = await run(Number(durationMs), (ms) => latencies.push(ms));
const { user, system } = process.cpuUsage(before);
latencies.sort((a, b) => a - b);
process.send?.({
  decisions,
  cpuSeconds: (user + system) / 1e6,
  p50Ms: latencies[Math.floor(latencies.length / 2)],
  p99Ms: latencies[Math.floor(latencies.length * 0.99)],
});
process.exit();
