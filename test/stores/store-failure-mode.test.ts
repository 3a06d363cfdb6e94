import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Redis } from 'ioredis';
import { expect, it, onTestFinished } from 'vitest';
import { describeWithServer } from '../support/describe-with-server.ts';
import { eventually } from '../support/eventually.ts';
import { redisProgram } from '../support/find-server.ts';
import { InProcessLimiter } from '../support/in-process-limiter.ts';
import { LoadedDeadline } from '../support/machine-load.ts';
import { type RedisServer, startRedis } from '../support/redis-server.ts';
import { suiteFolder } from '../support/suite-folder.ts';

const rules = `
domain: d
descriptors:
  - key: five
    rate_limit: { unit: year, requests_per_unit: 5 }
  - key: shadow
    shadow_mode: true
    rate_limit: { unit: year, requests_per_unit: 5 }
`;

/** Behind it the reason why it is not, once it was tried again. */
const notConnected = expect.stringMatching(
  /^the limiter does not ask the store until it answers again: Redis is not connected(?:: connect ECONNREFUSED)?$/,
);

describeWithServer('a limiter whose Redis fails', redisProgram, (path) => {
  const folder = suiteFolder();

  /** A limiter with a Redis of its own, which keeps what it answered; both end with the test. */
  async function start(
    env: Record<string, string>,
  ): Promise<{ redis: RedisServer; limiter: InProcessLimiter }> {
    writeFileSync(join(folder, 'rules.yaml'), rules);
    const redis = await startRedis({ path, args: ['--appendonly', 'yes', '--appendfsync', 'always'] });
    onTestFinished(() => redis.stop());
    const limiter = await InProcessLimiter.start({
      env: {
        BACKEND_TYPE: 'redis',
        REDIS_SOCKET_TYPE: 'tcp',
        REDIS_URL: `127.0.0.1:${redis.port}`,
        RUNTIME_ROOT: folder,
        RUNTIME_APPDIRECTORY: '.',
        ...env,
      },
    });
    onTestFinished(async () => void (await limiter.stop()));
    return { redis, limiter };
  }

  const five = async (limiter: InProcessLimiter, times = 1) => {
    const codes: string[] = [];
    for (let i = 0; i < times; i += 1) {
      const { status, body, error } = await limiter.ask('d', [{ five: 'a' }]);
      codes.push(error ?? `${status} ${body.overallCode} ${body.statuses[0].limitRemaining ?? '-'}`);
    }
    return codes;
  };

  const breakerIs = (limiter: InProcessLimiter, open: 0 | 1) =>
    eventually(async () => {
      await five(limiter);
      const stats = await limiter.stats();
      expect(stats.get('ratelimit.store_breaker.open')).toBe(open);
      expect(stats.get('ratelimit.store.available')).toBe(1 - open);
    });

  it('fails requests by default, and reports the outage once', async () => {
    const { redis, limiter } = await start({ REDIS_HEALTH_CHECK_ACTIVE_CONNECTION: 'true' });
    await redis.kill('SIGKILL');
    await breakerIs(limiter, 1);
    expect(await five(limiter)).toEqual([notConnected]);
    expect(await limiter.healthStatus()).toBe(500);
    await redis.start();
    await breakerIs(limiter, 0);
    await eventually(async () => expect(await limiter.healthStatus()).toBe(200));
    expect((await limiter.stats()).get('ratelimit.store_breaker.opened')).toBe(1);
    const lines = limiter.lines.filter((line) => line.includes('The store'));
    expect(lines).toEqual([
      expect.stringMatching(
        /^level=error msg="The store does not answer: the limiter stops asking it until it answers again" store=store reason="[^"]+" mode=error$/,
      ),
      expect.stringMatching(/^level=warning msg="The store answers again" store=store seconds=\d+(\.\d)?$/),
    ]);
  });

  it('leaves health alone if it should not follow connections', async () => {
    const { redis, limiter } = await start({});
    await redis.kill('SIGKILL');
    await breakerIs(limiter, 1);
    expect(await limiter.healthStatus()).toBe(200);
  });

  it.each([
    ['allow', '200 OK -', '200 OK -'],
    ['deny', '429 OVER_LIMIT -', '200 OK -'],
  ])('answers by STORE_FAILURE_MODE=%s', async (mode, answer, shadow) => {
    const { redis, limiter } = await start({ STORE_FAILURE_MODE: mode });
    expect(await five(limiter)).toEqual(['200 OK 4']);
    await redis.kill('SIGKILL');
    expect(await five(limiter, 10)).toEqual(Array(10).fill(answer));
    const { status, body } = await limiter.ask('d', [{ shadow: 'a' }]);
    expect(`${status} ${body.overallCode} -`).toBe(shadow);
    const stats = await limiter.stats();
    expect(stats.get('ratelimit.service.call.should_rate_limit.store_failure_mode')).toBe(11);
    expect(stats.get('ratelimit.service.call.should_rate_limit.redis_error')).toBe(0);
    expect(stats.get('ratelimit.service.rate_limit.d.five.over_limit')).toBe(0);
    await redis.start();
    await eventually(async () => expect(await five(limiter)).toEqual([expect.stringMatching(/ [0-3]$/)]));
  });

  it('continues counting by STORE_FAILURE_MODE=local, and adds what it counted when Redis is back', async () => {
    const { redis, limiter } = await start({ STORE_FAILURE_MODE: 'local' });
    expect(await five(limiter, 2)).toEqual(['200 OK 4', '200 OK 3']);
    await redis.kill('SIGKILL');
    await eventually(() => expect(limiter.lines.join('\n')).toContain('Lost the connection to Redis'));
    expect(await five(limiter, 5)).toEqual([
      '200 OK 2',
      '200 OK 1',
      '200 OK -',
      '429 OVER_LIMIT -',
      '429 OVER_LIMIT -',
    ]);
    const stats = await limiter.stats();
    expect(stats.get('ratelimit.store_failure_mode.local_requests')).toBe(5);
    expect(stats.get('ratelimit.store_failure_mode.owed_counters')).toBe(1);
    await redis.start();
    await eventually(async () =>
      expect((await limiter.stats()).get('ratelimit.store_failure_mode.owed_counters')).toBe(0),
    );
    expect((await limiter.stats()).get('ratelimit.store_failure_mode.undelivered')).toBe(0);
    const client = new Redis(redis.port, '127.0.0.1');
    const [key = ''] = await client.keys('d_five_a_*');
    expect(await client.get(key)).toBe('7');
    expect(await client.ttl(key)).toBeGreaterThan(0);
    client.disconnect();
  });

  it('adds what STORE_FAILURE_MODE=local counted while Redis took no writes, too', async () => {
    const { redis, limiter } = await start({ STORE_FAILURE_MODE: 'local' });
    const client = new Redis(redis.port, '127.0.0.1');
    onTestFinished(() => client.disconnect());
    expect(await five(limiter, 2)).toEqual(['200 OK 4', '200 OK 3']);
    await client.call('REPLICAOF', '127.0.0.1', '1');
    expect(await five(limiter, 2)).toEqual(['200 OK 2', '200 OK 1']);
    await client.call('REPLICAOF', 'NO', 'ONE');
    const [key = ''] = await client.keys('d_five_a_*');
    await eventually(async () => expect(await client.get(key)).toBe('4'));
    expect((await limiter.stats()).get('ratelimit.store_failure_mode.undelivered')).toBe(0);
  });

  it('opens after STORE_BREAKER_SILENCE and asks again every STORE_BREAKER_PROBE_INTERVAL', async () => {
    const { redis, limiter } = await start({
      STORE_BREAKER_SILENCE: '200ms',
      STORE_BREAKER_PROBE_INTERVAL: '10ms',
    });
    await redis.kill('SIGSTOP');
    const deadline = new LoadedDeadline(1_000);
    expect(await five(limiter)).toEqual(['the store did not answer within 200 ms']);
    deadline.assertInTime();
    expect(await five(limiter)).toEqual([
      'the limiter does not ask the store until it answers again: the store did not answer within 200 ms',
    ]);
    await redis.kill('SIGCONT');
    const recovery = new LoadedDeadline(200);
    await eventually(async () => expect(await five(limiter)).toEqual([expect.stringMatching(/^200 OK/)]), {
      intervalMs: 5,
    });
    recovery.assertInTime();
  });

  it.each([
    [
      'STORE_BREAKER_MAX_WAITING',
      '1',
      /^1 requests wait for the store, and STORE_BREAKER_MAX_WAITING allows no more$/,
    ],
    [
      'STORE_BREAKER_MAX_WAITING_BYTES',
      '1024',
      /^requests that wait for the store would occupy \d+ bytes, and STORE_BREAKER_MAX_WAITING_BYTES allows 1024$/,
    ],
  ])('lets no more wait than %s', async (setting, value, message) => {
    const { redis, limiter } = await start({ [setting]: value });
    const client = new Redis(redis.port, '127.0.0.1');
    await client.call('CLIENT', 'PAUSE', '300', 'ALL');
    const answers = (await Promise.all(Array.from({ length: 10 }, () => five(limiter)))).flat();
    client.disconnect();
    const refused = answers.filter((answer) => !/^(200|429) /.test(answer));
    expect(refused.length).toBeGreaterThan(0);
    expect(refused.length).toBeLessThan(10);
    for (const answer of refused) expect(answer).toMatch(message);
  });
});
