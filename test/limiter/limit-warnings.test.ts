/** `warn_at` in a fleet: whichever limiter passes a mark first reports it, and no other does. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { describeWithServer } from '../support/describe-with-server.ts';
import { eventually } from '../support/eventually.ts';
import { memcachedProgram, redisProgram } from '../support/find-server.ts';
import type { InProcessLimiter } from '../support/in-process-limiter.ts';
import { limitersOfSuite } from '../support/limiters-of-suite.ts';
import { type MemcachedServer, startMemcached } from '../support/memcached-server.ts';
import { type RedisServer, startRedis } from '../support/redis-server.ts';
import { suiteFolder } from '../support/suite-folder.ts';

const folder = suiteFolder();
mkdirSync(join(folder, 'config'));
writeFileSync(
  join(folder, 'config/l.yaml'),
  `domain: llm
descriptors:
  - key: team
    value_to_metric: true
    rate_limit: { unit: hour, requests_per_unit: 10, name: hourly, hits_unit: tokens, warn_at: [50, 80] }
`,
);

const warned = (limiters: readonly InProcessLimiter[]): string[] =>
  limiters.flatMap(({ lines }) => lines.filter((line) => line.includes('warn_at'))).toSorted();

const line = (team: string, mark: number, used: number): string =>
  `level=warning msg="A limit has reached a threshold of warn_at" rule=llm.team policy=hourly mark="${mark}%" metric=llm.team_${team} used=${used} of=10 unit=tokens`;

async function counted(limiters: readonly InProcessLimiter[], mark: number): Promise<number> {
  const name = `ratelimit.limits.warned.__limit=hourly.__mark=${mark}.__rule=llm_team`;
  const stats = await Promise.all(limiters.map((limiter) => limiter.stats()));
  return stats.reduce((sum, all) => sum + (all.get(name) ?? 0), 0);
}

/** What every fleet does, whatever its store. */
function fleetSuite(env: () => Record<string, string>): void {
  /** Inside an hour, which begins a minute later. */
  const startMs = Date.now() - (Date.now() % 3_600_000) + 3_540_000;
  let nowMs = startMs;
  const start = limitersOfSuite(() => ({
    clock: { nowMs: () => nowMs, monotonicMs: () => performance.now() },
    env: { RUNTIME_ROOT: folder, LOG_LEVEL: 'warn', ...env() },
  }));

  it('reports each mark once a window, whichever limiter passes it', async () => {
    const fleet = [await start(), await start()];
    const [one, other] = fleet as [InProcessLimiter, InProcessLimiter];
    const ask = async (limiter: InProcessLimiter, team: string, times: number): Promise<void> => {
      for (let i = 0; i < times; i++) await limiter.ask('llm', [{ team }]);
    };
    await ask(one, 'a', 4);
    expect(warned(fleet)).toEqual([]);
    await ask(other, 'a', 1);
    await eventually(() => expect(warned(fleet)).toEqual([line('a', 50, 5)]));
    await ask(one, 'a', 4);
    await ask(other, 'b', 6);
    await ask(other, 'a', 3);
    const first = [line('a', 50, 5), line('a', 80, 8), line('b', 50, 5)].toSorted();
    await eventually(() => expect(warned(fleet)).toEqual(first));
    expect([await counted(fleet, 50), await counted(fleet, 80)]).toEqual([2, 1]);
    nowMs += 60_000;
    await ask(one, 'a', 5);
    await eventually(() => expect(warned(fleet)).toEqual([...first, line('a', 50, 5)].toSorted()));
  });
}

describeWithServer('marks of limits in memcache', memcachedProgram, (path) => {
  let server: MemcachedServer;
  beforeAll(async () => {
    server = await startMemcached({ path });
  });
  afterAll(() => server?.stop());
  fleetSuite(() => ({ BACKEND_TYPE: 'memcache', MEMCACHE_HOST_PORT: server.address }));
});

describeWithServer('marks of limits in Redis', redisProgram, (path) => {
  let server: RedisServer;
  beforeAll(async () => {
    server = await startRedis({ path });
  });
  afterAll(() => server?.stop());
  const env = () => ({
    ...{ BACKEND_TYPE: 'redis', REDIS_SOCKET_TYPE: 'tcp', REDIS_URL: `127.0.0.1:${server.port}` },
  });
  describe('with scripts', () => fleetSuite(() => ({ ...env(), CACHE_KEY_PREFIX: 'a' })));
  describe('without scripts', () =>
    fleetSuite(() => ({ ...env(), CACHE_KEY_PREFIX: 'b', REDIS_SCRIPTS: 'never' })));
});
