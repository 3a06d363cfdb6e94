/** LEASES in a whole limiter with a real Redis: which rules are leased, what answers and statistics say of it, and what comes back. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Redis } from 'ioredis';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { describeWithServer } from '../support/describe-with-server.ts';
import { eventually } from '../support/eventually.ts';
import { redisProgram } from '../support/find-server.ts';
import type { InProcessLimiter } from '../support/in-process-limiter.ts';
import { limitersOfSuite } from '../support/limiters-of-suite.ts';
import { type RedisServer, startRedis } from '../support/redis-server.ts';
import { suiteFolder } from '../support/suite-folder.ts';

const folder = suiteFolder();
const thousand = 'unit: hour, requests_per_unit: 1000';
const rules: Record<string, string> = {
  common: `rate_limit: { ${thousand} }`,
  own: `rate_limit: { ${thousand} }, lease: 2%`,
  shadow: `rate_limit: { ${thousand} }, shadow_mode: true`,
  quota: `rate_limit: { ${thousand} }, quota_mode: true`,
  window: 'rate_limit: { window: 90m, requests_per_unit: 1000 }',
  never: `rate_limit: { ${thousand} }, lease: 0`,
  small: 'rate_limit: { unit: hour, requests_per_unit: 399 }',
  sliding: `rate_limit: { ${thousand}, algorithm: sliding_window }`,
  bucket: `rate_limit: { ${thousand}, algorithm: token_bucket }`,
  several: `rate_limits: [{ ${thousand} }, { unit: day, requests_per_unit: 9000 }]`,
  scarce: 'rate_limit: { unit: hour, requests_per_unit: 40 }, lease: 10%',
};
mkdirSync(join(folder, 'config'));
const lines = Object.entries(rules).map(([key, words]) => `  - { key: ${key}, ${words} }\n`);
writeFileSync(join(folder, 'config/l.yaml'), `domain: l\ndescriptors:\n${lines.join('')}`);

/** A folder of rules with one alone. */
const single = join(folder, 'single');
mkdirSync(join(single, 'config'), { recursive: true });
function writeSingle(words: string): void {
  writeFileSync(join(single, 'config/l.yaml'), `domain: l\ndescriptors: [{ key: own, ${words} }]\n`);
}

const name = (key: string): string => `ratelimit.service.rate_limit.l.${key}.leased_hits`;

/** What is left after each of so many requests; undefined for one that was rejected. */
async function left(limiter: InProcessLimiter, key: string, times: number): Promise<(number | undefined)[]> {
  const answers: (number | undefined)[] = [];
  for (let asked = 0; asked < times; asked++) {
    const { body } = await limiter.ask('l', [{ [key]: 'v' }]);
    answers.push(body.overallCode === 'OK' ? (body.statuses[0].limitRemaining ?? 0) : undefined);
  }
  return answers;
}

describeWithServer('LEASES', redisProgram, (path) => {
  let redis: RedisServer;
  let client: Redis;
  beforeAll(async () => {
    redis = await startRedis({ path });
    client = new Redis(redis.port, '127.0.0.1');
  });
  afterAll(async () => {
    client?.disconnect();
    await redis?.stop();
  });

  /** It stands still, so that all hits come within a second. */
  let nowMs: number;
  beforeEach(async () => {
    nowMs = Date.UTC(2026, 1, 10, 0, 30);
    await client.flushall();
  });
  const start = limitersOfSuite(() => ({
    clock: { nowMs: () => nowMs, monotonicMs: () => nowMs },
    env: {
      RUNTIME_ROOT: folder,
      BACKEND_TYPE: 'redis',
      REDIS_SOCKET_TYPE: 'tcp',
      REDIS_URL: `127.0.0.1:${redis.port}`,
      LEASES: 'on',
    },
  }));
  const inRedis = async (key: string): Promise<number> =>
    Number(await client.get(`l_${key}_v_${Date.UTC(2026, 1, 10) / 1000}`));

  it.each(['common', 'own', 'shadow', 'quota', 'window'])('are taken of the rule %s', async (key) => {
    const limiter = await start();
    const answers = await left(limiter, key, 12);
    expect(answers[0]).toBe(999);
    expect((await limiter.stats()).get(name(key))).toBeGreaterThan(4);
    // As much is left as Redis would let others have.
    if (key !== 'window') expect(answers.at(-1)).toBe(1000 - (await inRedis(key)));
    expect(answers.at(-1)).toBeLessThanOrEqual(988);
  });

  it.each(['never', 'small', 'sliding', 'bucket', 'several'])('are not taken of the rule %s', async (key) => {
    const limiter = await start();
    const answers = await left(limiter, key, 12);
    expect(answers.at(-1)).toBe((key === 'small' ? 399 : 1000) - 12);
    const stats = [...(await limiter.stats())].filter(([stat]) => stat.endsWith('.leased_hits'));
    expect(stats.filter(([, hits]) => hits > 0)).toEqual([]);
  });

  it('take more at a time if a rule says so', async () => {
    const limiter = await start({ LEASE_SHARE: '0.3%' });
    const min = async (key: string) => Math.min(...(await left(limiter, key, 60)).map((one) => one ?? 0));
    expect(await min('common')).toBeGreaterThanOrEqual(940 - 3);
    expect(await min('own')).toBeLessThan(940 - 3);
    expect(await min('own')).toBeGreaterThanOrEqual(880 - 20);
  });

  it('are not taken of more counters than LEASES_MAX_COUNTERS lets be watched', async () => {
    const limiter = await start({ LEASES_MAX_COUNTERS: '1' });
    await left(limiter, 'common', 12);
    expect((await left(limiter, 'own', 12)).at(-1)).toBe(988);
    const stats = await limiter.stats();
    expect(stats.get(name('common'))).toBeGreaterThan(4);
    expect(stats.get(name('own')) ?? 0).toBe(0);
  });

  it('admit no hit beyond the limit, and every one up to it', async () => {
    const limiter = await start({ LOCAL_CACHE_SIZE_IN_BYTES: '100000' });
    const answers = await left(limiter, 'scarce', 60);
    expect(answers.filter((one) => one !== undefined)).toHaveLength(40);
    expect(answers.slice(40)).toEqual(new Array(20).fill(undefined));
    const stats = await limiter.stats();
    expect(stats.get(name('scarce'))).toBeGreaterThan(4);
    expect(stats.get('ratelimit.service.rate_limit.l.scarce.within_limit')).toBe(40);
    expect(stats.get('ratelimit.service.rate_limit.l.scarce.over_limit')).toBe(20);
    expect(stats.get('ratelimit.service.rate_limit.l.scarce.near_limit')).toBe(8);
  });

  it('go back when a counter is idle, and when the limiter ends', async () => {
    const limiter = await start();
    await left(limiter, 'own', 2);
    expect(await inRedis('own')).toBeGreaterThan(2);
    nowMs += 5_000;
    await eventually(async () => expect(await inRedis('own')).toBe(2));
    await eventually(async () => expect((await limiter.stats()).get('ratelimit.leases.outstanding')).toBe(0));
    expect((await limiter.stats()).get('ratelimit.leases.lost_at_most')).toBe(0);
    await left(limiter, 'common', 2);
    expect(await inRedis('common')).toBeGreaterThan(2);
    await limiter.stop();
    expect(await inRedis('common')).toBe(2);
  });

  it('go back when a rule comes into force that forbids them', async () => {
    writeSingle(rules['own']!);
    const limiter = await start({ RUNTIME_ROOT: single, RUNTIME_WATCH_ROOT: 'false' });
    await left(limiter, 'own', 2);
    expect(await inRedis('own')).toBeGreaterThan(2);
    writeSingle(rules['never']!);
    await eventually(async () => expect(await inRedis('own')).toBe(2));
    expect(await left(limiter, 'own', 3)).toEqual([997, 996, 995]);
  });

  it('are not there if they are off, nor is anything said of them', async () => {
    const limiter = await start({ LEASES: 'off' });
    expect((await left(limiter, 'own', 12)).at(-1)).toBe(988);
    expect([...(await limiter.stats()).keys()].filter((stat) => stat.includes('lease'))).toEqual([]);
    expect(limiter.lines.join('\n')).not.toContain('LEASE');
    expect(await limiter.rlconfig()).toContain(
      'l.own: unit=HOUR requests_per_unit=1000, shadow_mode: false, quota_mode: false, lease: 2%',
    );
  });

  describe('have no effect, as a warning says,', () => {
    it.each([
      [
        { STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT: 'true' },
        'with STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT=true',
      ],
      [{ BACKEND_TYPE: 'memory' }, 'without BACKEND_TYPE=redis'],
      [{ REDIS_SCRIPTS: 'never' }, 'without REDIS_SCRIPTS=auto'],
    ])('with %o', async (env, why) => {
      writeSingle(rules['own']!);
      const limiter = await start({ ...env, RUNTIME_ROOT: single });
      expect(limiter.lines.join('\n')).toContain(`LEASES has no effect ${why}`);
      expect((await left(limiter, 'own', 12)).at(-1)).toBe(988);
      expect([...(await limiter.stats()).keys()].filter((stat) => stat.includes('lease'))).toEqual([]);
    });
  });
});
