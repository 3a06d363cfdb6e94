import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { nodesAtATime, perSecondRedis } from '../../limiter/settings/redis-settings.ts';
import { type LimiterSettings, parseLimiterSettings } from '../../limiter/settings/settings.ts';
import { describeWithServer } from '../support/describe-with-server.ts';
import { eventually } from '../support/eventually.ts';
import { redisProgram } from '../support/find-server.ts';
import { InProcessLimiter } from '../support/in-process-limiter.ts';
import { machineLoad } from '../support/machine-load.ts';
import { type RedisServer, startRedis } from '../support/redis-server.ts';
import { suiteFolder } from '../support/suite-folder.ts';

const onCluster = { REDIS_TYPE: 'cluster', REDIS_URL: 'a:7000,b:7001' };

describe('nodesAtATime', () => {
  it.each([
    { parallelism: 1, poolSize: 10, nodes: 1 },
    { parallelism: 3, poolSize: 10, nodes: 3 },
    { parallelism: 30, poolSize: 10, nodes: 10 },
    { parallelism: 0, poolSize: 10, nodes: 10 },
    { parallelism: 0, poolSize: 0, nodes: 4 },
    { parallelism: 9, poolSize: 0, nodes: 4 },
  ])('is $nodes for a parallelism of $parallelism and a pool of $poolSize', ({ nodes, ...given }) => {
    const { parallelism, poolSize } = given;
    expect(nodesAtATime({ redisClusterPipelineParallelism: parallelism, redisPoolSize: poolSize })).toBe(
      nodes,
    );
  });
});

describe('settings of batches', () => {
  it('take the window that the Go service suggests', () => {
    const { settings } = parseLimiterSettings({ ...onCluster, REDIS_PIPELINE_WINDOW: '150us' });
    expect(settings?.redisPipelineWindowMs).toBe(0.15);
  });

  it.each([
    [
      { REDIS_CLUSTER_PIPELINE_PARALLELISM: '-1' },
      'REDIS_CLUSTER_PIPELINE_PARALLELISM: redis cluster pipeline parallelism must be >= 0',
    ],
    [
      {
        REDIS_PERSECOND: 'true',
        REDIS_PERSECOND_TYPE: 'cluster',
        REDIS_PERSECOND_URL: 'c:7000',
        REDIS_PERSECOND_CLUSTER_PIPELINE_PARALLELISM: '-2',
      },
      'REDIS_PERSECOND_CLUSTER_PIPELINE_PARALLELISM: redis cluster pipeline parallelism must be >= 0',
    ],
    [{ REDIS_URL: 'a:7000,b' }, 'REDIS_URL: Redis URL "b" is not host:port'],
    [
      { REDIS_SCRIPTS: 'always' },
      'REDIS_SCRIPTS: "always" is not accepted, expected auto or never, in any letter case',
    ],
  ])('reject %j with a cluster', (given, message) => {
    const { errors } = parseLimiterSettings({ ...onCluster, ...given });
    expect(errors?.map((error) => error.message)).toEqual([message]);
  });

  it('take a negative parallelism if there is no cluster', () => {
    const env = { REDIS_CLUSTER_PIPELINE_PARALLELISM: '-1' };
    expect(parseLimiterSettings(env).errors ?? []).toEqual([]);
  });
});

describe('settings of batches of both stores', () => {
  const values = {
    PIPELINE_WINDOW: '2ms',
    CLUSTER_PIPELINE_PARALLELISM: '3',
    POOL_SIZE: '7',
    POOL_ON_EMPTY_BEHAVIOR: 'error',
    POOL_ON_EMPTY_WAIT_DURATION: '50ms',
  };
  const read = {
    redisPipelineWindowMs: 2,
    redisClusterPipelineParallelism: 3,
    redisPoolSize: 7,
    redisPoolOnEmptyBehavior: 'ERROR',
    redisPoolOnEmptyWaitMs: 50,
  };
  const mainRedis = (settings: LimiterSettings) => settings;

  it.each([
    ['REDIS_', mainRedis],
    ['REDIS_PERSECOND_', perSecondRedis],
  ] as const)('are read from %s and go to its own store', (prefix, of) => {
    const env = Object.fromEntries(Object.entries(values).map(([name, value]) => [prefix + name, value]));
    const settings = parseLimiterSettings({ ...onCluster, ...env }).settings as LimiterSettings;
    expect(of(settings)).toMatchObject(read);
    const other = of === mainRedis ? perSecondRedis : mainRedis;
    expect(other(settings)).toMatchObject({
      redisPoolSize: 10,
      redisPoolOnEmptyBehavior: 'CREATE',
      redisPoolOnEmptyWaitMs: 1_000,
    });
  });
});

describeWithServer('a pool of calls on a Redis that does not answer', redisProgram, (path) => {
  const folder = suiteFolder();
  /** Within it the second request has to come while the first still waits. */
  const timeoutMs = Math.ceil(2_000 * machineLoad());
  let redis: RedisServer;
  beforeAll(async () => {
    mkdirSync(join(folder, 'config'));
    const rule = (key: string, unit: string): string =>
      `  - key: ${key}\n    rate_limit: { unit: ${unit}, requests_per_unit: 5 }\n`;
    writeFileSync(
      join(folder, 'config/p.yaml'),
      `domain: p\ndescriptors:\n${rule('day', 'day')}${rule('second', 'second')}`,
    );
    redis = await startRedis({ path });
  });
  afterAll(() => redis?.stop());

  /** Why the second of two requests failed, the first of which waits for its answer. */
  async function reasonOfSecond(
    key: 'day' | 'second',
    env: Record<string, string>,
    patienceMs = timeoutMs,
  ): Promise<string | undefined> {
    const url = `127.0.0.1:${redis.port}`;
    const active = `ratelimit.${key === 'second' ? 'redis_per_second_pool' : 'redis_pool'}.calls_active`;
    const limiter = await InProcessLimiter.start({
      env: {
        RUNTIME_ROOT: folder,
        BACKEND_TYPE: 'redis',
        REDIS_SOCKET_TYPE: 'tcp',
        REDIS_URL: url,
        REDIS_TIMEOUT: `${patienceMs}ms`,
        REDIS_PERSECOND: String(key === 'second'),
        REDIS_PERSECOND_SOCKET_TYPE: 'tcp',
        REDIS_PERSECOND_URL: url,
        REDIS_PERSECOND_TIMEOUT: `${patienceMs}ms`,
        STORE_BREAKER_SILENCE: '30s',
        ...env,
      },
    });
    try {
      // The first call of all takes its time to come through, and must not share a batch with the second.
      await limiter.ask('p', [{ [key]: 'a' }]);
      await redis.kill('SIGSTOP');
      const first = limiter.ask('p', [{ [key]: 'a' }]);
      let isGivenUp = false;
      void first.then(() => {
        isGivenUp = true;
      });
      const isUnderWay = async () => isGivenUp || expect((await limiter.stats()).get(active)).toBe(1);
      await eventually(async () => void (await isUnderWay()), { intervalMs: 5 });
      if (!isGivenUp) {
        const { error } = await limiter.ask('p', [{ [key]: 'b' }]);
        return error?.replace(`${patienceMs} ms`, 'REDIS_TIMEOUT');
      }
    } finally {
      await redis.kill('SIGCONT');
      await limiter.stop();
    }
    // The machine was too busy to see the first one wait.
    return reasonOfSecond(key, env, 2 * patienceMs);
  }

  const noPlace = (ms: number): RegExp =>
    new RegExp(`too many calls to Redis were open within ${ms} ms \\(REDIS_POOL_SIZE\\)`);
  const noAnswer = /Redis did not answer within REDIS_TIMEOUT/;
  /** On a busy machine the first request must not be given up before the second has waited for its place. */
  const patience = (reason: RegExp): Record<string, string> =>
    reason === noAnswer ? {} : { REDIS_TIMEOUT: '20s', REDIS_PERSECOND_TIMEOUT: '20s' };

  it.each([
    ['error', { REDIS_POOL_SIZE: '1', REDIS_POOL_ON_EMPTY_BEHAVIOR: 'ERROR' }, noPlace(50)],
    ['create', { REDIS_POOL_SIZE: '1', REDIS_POOL_ON_EMPTY_BEHAVIOR: 'CREATE' }, noAnswer],
    ['a larger pool', { REDIS_POOL_SIZE: '2', REDIS_POOL_ON_EMPTY_BEHAVIOR: 'ERROR' }, noAnswer],
  ])('does what its settings say: %s', async (_, env, reason) => {
    const wait = { REDIS_POOL_ON_EMPTY_WAIT_DURATION: '50ms' };
    expect(await reasonOfSecond('day', { ...env, ...wait, ...patience(reason) })).toMatch(reason);
  });

  it.each([
    ['REDIS_PERSECOND_POOL_SIZE', '1', noPlace(50)],
    ['REDIS_PERSECOND_POOL_SIZE', '2', noAnswer],
    ['REDIS_PERSECOND_POOL_ON_EMPTY_BEHAVIOR', 'CREATE', noAnswer],
    ['REDIS_PERSECOND_POOL_ON_EMPTY_WAIT_DURATION', '70ms', noPlace(70)],
  ])('is one of its own for limits of a second: %s=%s', async (name, value, reason) => {
    const env = {
      REDIS_PERSECOND_POOL_SIZE: '1',
      REDIS_PERSECOND_POOL_ON_EMPTY_BEHAVIOR: 'ERROR',
      REDIS_PERSECOND_POOL_ON_EMPTY_WAIT_DURATION: '50ms',
    };
    expect(await reasonOfSecond('second', { ...env, [name]: value, ...patience(reason) })).toMatch(reason);
  });

  it.each([
    ['REDIS_PIPELINE_LIMIT', 'store'],
    ['REDIS_PERSECOND_PIPELINE_LIMIT', 'per_second_store'],
  ])('warns of %s', async (name, store) => {
    const limiter = await InProcessLimiter.start({
      env: {
        RUNTIME_ROOT: folder,
        BACKEND_TYPE: 'redis',
        REDIS_SOCKET_TYPE: 'tcp',
        REDIS_URL: `127.0.0.1:${redis.port}`,
        REDIS_PERSECOND: 'true',
        REDIS_PERSECOND_SOCKET_TYPE: 'tcp',
        REDIS_PERSECOND_URL: `127.0.0.1:${redis.port}`,
        [name]: '8',
      },
    });
    await limiter.stop();
    const warning = `level=warning msg="REDIS_PIPELINE_LIMIT is deprecated and has no effect" url="127.0.0.1:${redis.port}" store=${store}`;
    expect(limiter.lines.filter((line) => line.includes('PIPELINE'))).toEqual([warning]);
  });
});

describe('warnings of settings of Redis that have no effect', () => {
  const warningsOf = (env: Record<string, string>) =>
    parseLimiterSettings({
      BACKEND_TYPE: 'redis',
      REDIS_SOCKET_TYPE: 'tcp',
      REDIS_URL: 'a:1',
      ...env,
    }).warnings;
  const perSecond = {
    REDIS_PERSECOND: 'true',
    REDIS_PERSECOND_SOCKET_TYPE: 'tcp',
    REDIS_PERSECOND_URL: 'b:1',
  };

  it.each([
    [
      { REDIS_TLS_CACERT: '/ca.pem' },
      'REDIS_TLS_CACERT has no effect without REDIS_TLS=true: the limiter connects to Redis in plain text',
    ],
    [
      { REDIS_TLS_SKIP_HOSTNAME_VERIFICATION: 'true' },
      'REDIS_TLS_SKIP_HOSTNAME_VERIFICATION has no effect without REDIS_TLS=true: the limiter connects to Redis in plain text',
    ],
    [
      { REDIS_PASSWORD: 'x' },
      'REDIS_PASSWORD is unknown to this version and ignored; did you mean REDIS_AUTH?',
    ],
  ])('%j', (env, warning) => expect(warningsOf(env as Record<string, string>)).toEqual([warning]));

  it.each([
    [{ REDIS_PIPELINE_WINDOW: '1ms', REDIS_TYPE: 'cluster' }],
    [{ REDIS_TLS_CACERT: '/ca.pem', REDIS_TLS: 'true' }],
    [{ REDIS_TLS_CACERT: '/ca.pem', ...perSecond, REDIS_PERSECOND_TLS: 'true' }],
  ])('none with %j', (env) => expect(warningsOf(env as unknown as Record<string, string>)).toEqual([]));

  it('come with errors, too: they may say why something is missing', () => {
    const { errors, warnings } = parseLimiterSettings({ BACKEND_TYPE: 'redis', REDIS_UR: 'a:1', PORT: 'x' });
    expect(errors).toHaveLength(1);
    expect(warnings).toEqual(['REDIS_UR is unknown to this version and ignored; did you mean REDIS_URL?']);
  });
});

// Its effect, gathering, is shown on a cluster by test/stores/redis-cluster.test.ts.
describe('REDIS_PERSECOND_PIPELINE_WINDOW', () => {
  it('is a duration', () => {
    const { errors } = parseLimiterSettings({ REDIS_PERSECOND_PIPELINE_WINDOW: 'soon' });
    expect(errors?.[0]?.message).toContain('REDIS_PERSECOND_PIPELINE_WINDOW: "soon" is not accepted');
  });
});
