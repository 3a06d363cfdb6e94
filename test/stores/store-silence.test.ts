/** A limiter whose network swallows what it says to Redis: nothing is closed, nothing is answered. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll, expect, it, onTestFinished } from 'vitest';
import { describeWithServer } from '../support/describe-with-server.ts';
import { eventually } from '../support/eventually.ts';
import { redisProgram } from '../support/find-server.ts';
import { InProcessLimiter } from '../support/in-process-limiter.ts';
import { startRedis } from '../support/redis-server.ts';
import { suiteFolder } from '../support/suite-folder.ts';
import { TcpProxy } from '../support/tcp-proxy.ts';

const rule = (key: string, unit: string) =>
  `  - key: ${key}\n    rate_limit: { unit: ${unit}, requests_per_unit: 1000 }\n`;

/** What the limiter waits for when it can say nothing sooner: longer than any test. */
const longTimeout = '60s';

describeWithServer('a limiter whose Redis falls silent', redisProgram, (path) => {
  const folder = suiteFolder();
  beforeAll(() => {
    mkdirSync(join(folder, 'config'));
    writeFileSync(
      join(folder, 'config/d.yaml'),
      `domain: d\ndescriptors:\n${rule('year', 'year')}${rule('second', 'second')}`,
    );
  });

  async function proxyToRedis(): Promise<TcpProxy> {
    const redis = await startRedis({ path });
    onTestFinished(() => redis.stop());
    const proxy = await TcpProxy.to(redis.port);
    onTestFinished(() => proxy.close());
    return proxy;
  }

  const env = (proxy: TcpProxy, more: Record<string, string> = {}) => ({
    RUNTIME_ROOT: folder,
    BACKEND_TYPE: 'redis',
    REDIS_SOCKET_TYPE: 'tcp',
    REDIS_URL: `127.0.0.1:${proxy.port}`,
    REDIS_TIMEOUT: longTimeout,
    REDIS_HEALTH_CHECK_ACTIVE_CONNECTION: 'true',
    ...more,
  });

  async function start(given: Record<string, string>): Promise<InProcessLimiter> {
    const limiter = await InProcessLimiter.start({ env: given });
    onTestFinished(async () => void (await limiter.stop()));
    return limiter;
  }

  const outageLines = (limiter: InProcessLimiter) =>
    limiter.lines.flatMap(
      (line) => /msg="(The store [^"]*)" store=(\w+)/.exec(line)?.slice(1).join(' ') ?? [],
    );

  it.each([
    { key: 'year', store: 'store', other: 'per_second_store', otherKey: 'second' },
    { key: 'second', store: 'per_second_store', other: 'store', otherKey: 'year' },
  ])(
    'reports by error, health, gauge and log line of its $store alone',
    async ({ key, store, other, otherKey }) => {
      const [main, perSecond] = [await proxyToRedis(), await proxyToRedis()];
      const limiter = await start(
        env(main, {
          REDIS_PERSECOND: 'true',
          REDIS_PERSECOND_SOCKET_TYPE: 'tcp',
          REDIS_PERSECOND_URL: `127.0.0.1:${perSecond.port}`,
          REDIS_PERSECOND_TIMEOUT: longTimeout,
          // No probe comes, which would close the connection and report that.
          STORE_BREAKER_PROBE_INTERVAL: '1h',
        }),
      );
      const open = async () => {
        const stats = await limiter.stats();
        return [store, other].map((name) => stats.get(`ratelimit.${name}_breaker.open`));
      };
      expect([await limiter.healthStatus(), ...(await open())]).toEqual([200, 0, 0]);
      (store === 'store' ? main : perSecond).swallow();
      expect((await limiter.ask('d', [{ [key]: 'a' }])).error).toBe('the store did not answer within 700 ms');
      expect([await limiter.healthStatus(), ...(await open())]).toEqual([500, 1, 0]);
      expect((await limiter.ask('d', [{ [otherKey]: 'a' }])).error).toBeNull();
      expect(outageLines(limiter)).toEqual([
        `The store does not answer: the limiter stops asking it until it answers again ${store}`,
      ]);
    },
  );

  it('finds the way back by a new connection, long before REDIS_TIMEOUT', async () => {
    const proxy = await proxyToRedis();
    const limiter = await start(env(proxy));
    proxy.forget();
    expect((await limiter.ask('d', [{ year: 'a' }])).error).toBe('the store did not answer within 700 ms');
    await eventually(async () => expect((await limiter.ask('d', [{ year: 'a' }])).error).toBeNull());
    await eventually(async () => expect(await limiter.healthStatus()).toBe(200));
    const { body } = await limiter.ask('d', [{ year: 'a' }]);
    expect(body.overallCode).toBe('OK');
    const lost = limiter.lines.filter((line) => line.includes('Lost the connection to Redis'));
    expect(lost).toEqual([expect.stringContaining('reason="Redis did not answer within 700 ms"')]);
    await eventually(() =>
      expect(outageLines(limiter)).toEqual([
        'The store does not answer: the limiter stops asking it until it answers again store',
        'The store answers again store',
      ]),
    );
  });

  it.each([
    {
      type: 'single',
      url: (port: number) => `127.0.0.1:${port}`,
      reason: 'Redis did not answer within 200 ms',
    },
    {
      type: 'sentinel',
      url: (port: number) => `mymaster,127.0.0.1:${port}`,
      reason: /^sentinel 127\.0\.0\.1:\d+: Redis did not answer within 200 ms$/,
    },
    {
      type: 'cluster',
      url: (port: number) => `127.0.0.1:${port}`,
      reason: 'Redis did not answer within 200 ms',
    },
  ])('says that it waits when it starts into silence, REDIS_TYPE=$type', async ({ type, url, reason }) => {
    const proxy = await proxyToRedis();
    proxy.swallow();
    let listens = false;
    const limiter = new InProcessLimiter(
      {
        env: env(proxy, {
          REDIS_TYPE: type,
          REDIS_URL: url(proxy.port),
          REDIS_TIMEOUT: '200ms',
          REDIS_STARTUP_INITIAL_INTERVAL: '50ms',
          REDIS_STARTUP_MAX_INTERVAL: '50ms',
        }),
      },
      () => {
        listens = true;
      },
    );
    onTestFinished(async () => void (await limiter.stop()));
    const reasons = () =>
      limiter.lines.flatMap(
        (line) => /Retrying Redis connection to \S+ in \S+ \(elapsed: \S+\): ([^"]*)"/.exec(line)?.[1] ?? [],
      );
    await eventually(() => expect(reasons().length).toBeGreaterThan(2));
    for (const one of reasons()) expect(one).toMatch(reason);
    expect(listens).toBe(false);
    if (type !== 'single') return;
    await proxy.heal();
    await eventually(() => expect(listens).toBe(true));
    expect(await limiter.healthStatus()).toBe(200);
  });
});
