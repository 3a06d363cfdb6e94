/** What the settings of Redis do to a whole limiter, where it takes more than one plain server to see it. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Redis } from 'ioredis';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, onTestFinished } from 'vitest';
import { parseLimiterSettings } from '../../limiter/settings/settings.ts';
import { createAuthority, type TestAuthority } from '../support/certificates.ts';
import { describeWithServer } from '../support/describe-with-server.ts';
import { eventually } from '../support/eventually.ts';
import { findServer, opensslProgram, redisProgram } from '../support/find-server.ts';
import { freePort } from '../support/free-port.ts';
import { limitersOfSuite } from '../support/limiters-of-suite.ts';
import { type SentinelTrio, startSentinelTrio } from '../support/redis-sentinels.ts';
import { RedisServer, startRedis } from '../support/redis-server.ts';
import { type RedisTlsServer, startRedisTls } from '../support/redis-tls-server.ts';
import { suiteFolder } from '../support/suite-folder.ts';

const folder = suiteFolder();
mkdirSync(join(folder, 'config'));
writeFileSync(
  join(folder, 'config/w.yaml'),
  `domain: w
descriptors:
  - key: second
    rate_limit: { unit: second, requests_per_unit: 5 }
  - key: hour
    rate_limit: { unit: hour, requests_per_unit: 5 }
`,
);

const clock = { nowMs: () => 1_700_000_000_000, monotonicMs: () => performance.now() };

/** Gives up soon where it cannot connect. */
const common = {
  RUNTIME_ROOT: folder,
  BACKEND_TYPE: 'redis',
  REDIS_SOCKET_TYPE: 'tcp',
  REDIS_STARTUP_INITIAL_INTERVAL: '10ms',
  REDIS_STARTUP_MAX_ELAPSED_TIME: '1ms',
};

const start = limitersOfSuite(() => ({ clock, env: common }));

/** What counting gave, or why the limiter did not start. */
async function outcome(env: Record<string, string>): Promise<string> {
  const limiter = await start(env);
  const last = /(?<=level=fatal msg=").*(?=")/.exec(limiter.lines.at(-1) ?? '')?.[0];
  if (last !== undefined) return last.replace(/^.* after \d+ ms: /, '');
  const { body, error } = await limiter.ask('w', [{ hour: 'a' }, { second: 'a' }]);
  await limiter.stop();
  return error ?? body.overallCode;
}

function clientOf(port: number, password?: string): Redis {
  return new Redis(port, '127.0.0.1', {
    protocol: 2,
    connectionName: 'test',
    ...(password === undefined ? {} : { password }),
  });
}

const hour = 'w_hour_a_1699999200';
const second = 'w_second_a_1700000000';

describeWithServer('a limiter with a Redis', redisProgram, (path) => {
  it('starts and counts with no line at level warning but those of its ports', async () => {
    const server = await startRedis({ path });
    onTestFinished(() => server.stop());
    const limiter = await start({
      REDIS_URL: `127.0.0.1:${server.port}`,
      LOCAL_CACHE_SIZE_IN_BYTES: '100000',
    });
    expect((await limiter.ask('w', [{ hour: 'a' }])).body.overallCode).toBe('OK');
    expect(limiter.lines.some((line) => line.startsWith('level=warning msg="Listening for '))).toBe(true);
    const others = limiter.lines.filter((line) => !/^level=(info|debug) /.test(line));
    expect(others.filter((line) => !/^level=warning msg="Listening for /.test(line))).toEqual([]);
  });
});

describeWithServer('settings of a Redis for limits per second', redisProgram, (path) => {
  let servers: [RedisServer, RedisServer];
  let clients: [Redis, Redis];
  beforeAll(async () => {
    servers = [await startRedis({ path }), await startRedis({ path, unixSocket: true })];
    clients = [clientOf(servers[0].port), clientOf(servers[1].port)];
    await clients[1].call('ACL', 'SETUSER', 'weir', 'on', '>secret', '~*', '&*', '+@all');
  });
  afterAll(async () => {
    for (const client of clients) client.disconnect();
    await Promise.all(servers.map((server) => server.stop()));
  });
  beforeEach(() => Promise.all(clients.map((client) => client.flushall())));

  const env = (more: Record<string, string> = {}) => ({
    REDIS_URL: `127.0.0.1:${servers[0].port}`,
    REDIS_PERSECOND: 'true',
    REDIS_PERSECOND_SOCKET_TYPE: 'tcp',
    REDIS_PERSECOND_URL: `127.0.0.1:${servers[1].port}`,
    ...more,
  });
  const held = () => Promise.all(clients.map((client) => client.keys('*')));

  it('REDIS_PERSECOND parts the counters', async () => {
    expect(await outcome(env({ REDIS_PERSECOND: 'false' }))).toBe('OK');
    expect((await held()).map((keys) => keys.sort())).toEqual([[hour, second], []]);
    await clients[0].flushall();
    expect(await outcome(env())).toBe('OK');
    expect(await held()).toEqual([[hour], [second]]);
  });

  it('REDIS_PERSECOND_URL and REDIS_PERSECOND_SOCKET_TYPE say where they are', async () => {
    expect(await outcome(env({ REDIS_PERSECOND_URL: `redis://127.0.0.1:${servers[1].port}/3` }))).toBe('OK');
    expect(await clients[1].info('keyspace')).toContain('db3:keys=1,');
    const unix = { REDIS_PERSECOND_SOCKET_TYPE: 'unix', REDIS_PERSECOND_URL: servers[1].socketPath };
    expect(await outcome(env(unix))).toBe('OK');
    expect(await held()).toEqual([[hour], [second]]);
    expect(await outcome(env({ ...unix, REDIS_PERSECOND_SOCKET_TYPE: 'tcp' }))).toBe(
      `REDIS_PERSECOND_URL: Redis URL \\"${servers[1].socketPath}\\" is not host:port`,
    );
  });

  it.each([
    [{}, 'default'],
    [{ REDIS_PERSECOND_AUTH: 'weir:secret' }, 'weir'],
  ])('with %j it logs in as %s', async (more, user) => {
    await start(env(more));
    const list = String(await clients[1].call('CLIENT', 'LIST'));
    const ours = list.split('\n').filter((line) => line.includes(' user=') && !line.includes(' name=test '));
    expect(ours.map((line) => / user=(\S+)/.exec(line)?.[1])).toEqual([user]);
  });

  it('REDIS_PERSECOND_TIMEOUT bounds its commands alone', async () => {
    const limiter = await start(env({ REDIS_PERSECOND_TIMEOUT: '50ms' }));
    await clients[1].call('CLIENT', 'PAUSE', '300', 'ALL');
    expect((await limiter.ask('w', [{ second: 'a' }])).error).toBe('Redis did not answer within 50 ms');
    expect((await limiter.ask('w', [{ hour: 'a' }])).error).toBeNull();
    await clients[1].ping();
  });

  it('has statistics and a component of health for each', async () => {
    const limiter = await start(env({ REDIS_HEALTH_CHECK_ACTIVE_CONNECTION: 'true' }));
    const active = async () => {
      const stats = await limiter.stats();
      return ['redis_pool', 'redis_per_second_pool'].map((pool) => stats.get(`ratelimit.${pool}.cx_active`));
    };
    expect(await active()).toEqual([1, 1]);
    await servers[1].kill('SIGKILL');
    await eventually(async () => expect(await limiter.healthStatus()).toBe(500));
    expect(limiter.lines.find((line) => line.includes('Lost the connection'))).toMatch(
      / store=per_second_store$/,
    );
    const health = await limiter.stats();
    const components = ['redis', 'redis_per_second', 'serving'];
    expect(components.map((name) => health.get(`ratelimit.health.${name}`))).toEqual([1, 0, 0]);
    expect(await active()).toEqual([1, 0]);
    await servers[1].start();
    await eventually(async () => expect(await limiter.healthStatus()).toBe(200));
    expect(await active()).toEqual([1, 1]);
  });

  it('stop-when-over looks at both', async () => {
    const limiter = await start(env({ STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT: 'true' }));
    await limiter.ask('w', [{ second: 'a' }], 5);
    await limiter.ask('w', [{ hour: 'a' }, { second: 'a' }]);
    expect([await clients[0].get(hour), await clients[1].get(second)]).toEqual([null, '6']);
  });
});

describeWithServer('settings of one Redis', redisProgram, (path) => {
  let server: RedisServer;
  beforeAll(async () => {
    server = new RedisServer({ path }, await freePort());
  });
  beforeEach(() => server.start());
  afterEach(() => server.kill('SIGKILL'));
  afterAll(() => server.stop());

  const env = (more: Record<string, string> = {}) => ({ REDIS_URL: `127.0.0.1:${server.port}`, ...more });

  it.each([
    ['true', 500],
    ['false', 200],
  ])('REDIS_HEALTH_CHECK_ACTIVE_CONNECTION=%s', async (value, status) => {
    const limiter = await start(env({ REDIS_HEALTH_CHECK_ACTIVE_CONNECTION: value }));
    expect(await limiter.healthStatus()).toBe(200);
    await server.kill('SIGKILL');
    await eventually(() => expect(limiter.lines.join()).toContain('Lost the connection to Redis'));
    expect(await limiter.healthStatus()).toBe(status);
    await server.start();
    await eventually(() => expect(limiter.lines.join()).toContain('Connected to Redis again'));
    expect(await limiter.healthStatus()).toBe(200);
  });

  it.each([
    ['true', 1],
    ['false', 0],
  ])('REDIS_CLOSE_CONNECTION_ON_READONLY_ERROR=%s', async (value, closed) => {
    const limiter = await start(env({ REDIS_CLOSE_CONNECTION_ON_READONLY_ERROR: value }));
    const client = clientOf(server.port);
    await client.call('REPLICAOF', '127.0.0.1', '1');
    expect((await limiter.ask('w', [{ hour: 'a' }])).error).toMatch(/^Redis answered: READONLY /);
    expect((await limiter.stats()).get('ratelimit.redis_pool.cx_local_close')).toBe(closed);
    client.disconnect();
  });

  it('REDIS_STARTUP_* pace the attempts of a limiter that starts before its Redis, and end them', async () => {
    await server.kill('SIGKILL');
    const limiter = await start(
      env({
        REDIS_STARTUP_INITIAL_INTERVAL: '200ms',
        REDIS_STARTUP_MAX_INTERVAL: '400ms',
        REDIS_STARTUP_MAX_ELAPSED_TIME: '900ms',
      }),
    );
    expect(await limiter.ended).toBe(1);
    const refused = `connect ECONNREFUSED 127.0.0.1:${server.port}`;
    const retries = limiter.lines.filter((line) => line.includes('Retrying'));
    expect(retries.length).toBeGreaterThan(2);
    const waits = retries.map((line) => {
      const [, wait, reason] =
        /Retrying Redis connection to 127\.0\.0\.1:\d+ in (\S+)s \(elapsed: \S+s\): ([^"]*)"/.exec(line) ??
        [];
      expect(reason).toBe(refused);
      return Number(wait);
    });
    expect(waits[0]).toBeLessThanOrEqual(0.2);
    expect(Math.max(...waits)).toBeLessThanOrEqual(0.4);
    expect(limiter.lines.at(-1)).toMatch(
      new RegExp(
        `^level=fatal msg="Cannot start: timed out waiting for Redis connection to 127.0.0.1:\\d+ after \\d+ ms: ${refused}"`,
      ),
    );
  });

  it('starts when its Redis does, with REDIS_STARTUP_MAX_ELAPSED_TIME=0', async () => {
    await server.kill('SIGKILL');
    const starting = start(env({ REDIS_STARTUP_MAX_ELAPSED_TIME: '0' }));
    await server.start();
    expect(await (await starting).healthStatus()).toBe(200);
  });
});

const openssl = findServer(opensslProgram);

describeWithServer('settings of TLS', 'path' in openssl ? redisProgram : opensslProgram, (path) => {
  let authority: TestAuthority;
  let other: TestAuthority;
  let plain: RedisServer;
  let tls: RedisTlsServer;
  let env: Record<string, string>;
  beforeAll(async () => {
    const program = (openssl as { path: string }).path;
    authority = createAuthority(program, folder, 'authority');
    other = createAuthority(program, folder, 'other');
    const pair = authority.issue({ name: 'server', alternativeNames: 'IP:127.0.0.1' });
    const client = authority.issue({ name: 'client' });
    plain = await startRedis({ path });
    tls = await startRedisTls({ path, authority, pair, needsClient: true });
    env = {
      REDIS_TLS: 'true',
      REDIS_URL: `127.0.0.1:${tls.tlsPort}`,
      REDIS_TLS_CACERT: authority.caFile,
      REDIS_TLS_CLIENT_CERT: client.certFile,
      REDIS_TLS_CLIENT_KEY: client.keyFile,
    };
  });
  afterAll(() => Promise.all([plain, tls.server].map((server) => server.stop())));

  it('connect with TLS and the files, and say so if one is not as it should be', async () => {
    expect(await outcome(env)).toBe('OK');
    expect(await outcome({ ...env, REDIS_TLS: 'false' })).toMatch(/ \(if it uses TLS, set REDIS_TLS=true\)$/);
    expect(await outcome({ ...env, REDIS_TLS_CACERT: other.caFile })).toBe(
      'self-signed certificate in certificate chain (set REDIS_TLS_CACERT to authorities that the limiter should trust)',
    );
    expect(await outcome({ ...env, REDIS_TLS_CLIENT_CERT: '', REDIS_TLS_CLIENT_KEY: '' })).toMatch(
      /certificate required$/,
    );
    expect(await outcome({ ...env, REDIS_TLS_CACERT: '/missing.pem' })).toBe(
      'Cannot start: REDIS_TLS_CACERT: failed to read file: /missing.pem: no such file or directory',
    );
    expect(await outcome({ ...env, REDIS_TLS_CLIENT_KEY: '/missing.key' })).toBe(
      `Cannot start: REDIS_TLS_CLIENT_CERT and _KEY: failed lo load TLS key pair (${env['REDIS_TLS_CLIENT_CERT']},/missing.key): no such file or directory`,
    );
  });

  it('REDIS_TLS_SKIP_HOSTNAME_VERIFICATION takes a certificate of another name', async () => {
    const named = { ...env, REDIS_URL: `localhost:${tls.tlsPort}` };
    expect(await outcome(named)).toMatch(/^Hostname\/IP does not match certificate's altnames: /);
    expect(await outcome({ ...named, REDIS_TLS_SKIP_HOSTNAME_VERIFICATION: 'true' })).toBe('OK');
  });

  it('REDIS_PERSECOND_TLS is of the per-second store alone, with the same files', async () => {
    const perSecond = {
      ...env,
      REDIS_TLS: 'false',
      REDIS_URL: `127.0.0.1:${plain.port}`,
      REDIS_PERSECOND: 'true',
      REDIS_PERSECOND_SOCKET_TYPE: 'tcp',
      REDIS_PERSECOND_URL: `127.0.0.1:${tls.tlsPort}`,
    };
    expect(await outcome({ ...perSecond, REDIS_PERSECOND_TLS: 'true' })).toBe('OK');
    expect(await outcome({ ...perSecond, REDIS_PERSECOND_TLS: 'false' })).not.toBe('OK');
  });
});

describeWithServer('settings of sentinels', redisProgram, (path) => {
  let trio: SentinelTrio;
  let plain: RedisServer;
  beforeAll(async () => {
    trio = await startSentinelTrio({ path, folder, password: 'hunter2', sentinelPassword: 'hunter3' });
    plain = await startRedis({ path });
  }, 60_000);
  afterAll(() => Promise.all([trio.stop(), plain.stop()]));

  it('REDIS_TYPE, REDIS_AUTH and REDIS_SENTINEL_AUTH lead to the master', async () => {
    const env = {
      REDIS_TYPE: 'sentinel',
      REDIS_URL: trio.url,
      REDIS_AUTH: 'hunter2',
      REDIS_SENTINEL_AUTH: 'hunter3',
    };
    expect(await outcome(env)).toBe('OK');
    expect(await outcome({ ...env, REDIS_TYPE: 'single' })).toMatch(/ is not host:port$/);
    expect(await outcome({ ...env, REDIS_SENTINEL_AUTH: '' })).toMatch(/: NOAUTH /);
  });

  it('REDIS_URL may hold the password of the sentinels, for all of them in the first', async () => {
    const [, first, ...others] = trio.url.split(',');
    const url = (password: string) => ['mymaster', `redis://:${password}@${first}`, ...others].join(',');
    const env = { REDIS_TYPE: 'sentinel', REDIS_AUTH: 'hunter2' };
    expect(await outcome({ ...env, REDIS_URL: url('hunter3') })).toBe('OK');
    expect(await outcome({ ...env, REDIS_URL: url('x') })).toMatch(/: WRONGPASS /);
    expect(await outcome({ ...env, REDIS_URL: url('x'), REDIS_SENTINEL_AUTH: 'hunter3' })).toBe('OK');
  });

  it('REDIS_PERSECOND_TYPE and REDIS_PERSECOND_SENTINEL_AUTH lead the per-second store there', async () => {
    const env = {
      REDIS_URL: `127.0.0.1:${plain.port}`,
      REDIS_PERSECOND: 'true',
      REDIS_PERSECOND_TYPE: 'sentinel',
      REDIS_PERSECOND_URL: trio.url,
      REDIS_PERSECOND_AUTH: 'hunter2',
      REDIS_PERSECOND_SENTINEL_AUTH: 'hunter3',
    };
    expect(await outcome(env)).toBe('OK');
    expect(await outcome({ ...env, REDIS_PERSECOND_SENTINEL_AUTH: 'x' })).toMatch(/: WRONGPASS /);
  });
});

describe('settings of Redis together', () => {
  const refused: [env: Record<string, string>, variable: string, problem: string][] = [
    [
      { REDIS_TYPE: 'sentinel', REDIS_URL: 'redis://u:hunter2@s:1' },
      'REDIS_URL',
      'Expected master name and a list of urls for the sentinels, in the format: <redis master name>,<sentinel1>,...,<sentineln>; it is "redis://*****@s:1"',
    ],
    [
      { REDIS_PERSECOND: 'true', REDIS_PERSECOND_URL: 'h:1' },
      'REDIS_PERSECOND_URL',
      'is the path of a socket with REDIS_PERSECOND_SOCKET_TYPE=unix (the default); for host:port set REDIS_PERSECOND_SOCKET_TYPE=tcp',
    ],
    [
      { REDIS_TLS: 'true', REDIS_TLS_CLIENT_CERT: '/c' },
      'REDIS_TLS_CLIENT_CERT',
      'needs REDIS_TLS_CLIENT_KEY as well',
    ],
    [
      { REDIS_PERSECOND: 'true', REDIS_PERSECOND_TLS: 'true', REDIS_TLS_CLIENT_KEY: '/c' },
      'REDIS_TLS_CLIENT_KEY',
      'needs REDIS_TLS_CLIENT_CERT as well',
    ],
  ];
  it.each(refused)('rejects %j', (env, variable, problem) => {
    expect(parseLimiterSettings(env).errors).toEqual([{ variable, message: `${variable}: ${problem}` }]);
    expect(parseLimiterSettings({ ...env, BACKEND_TYPE: 'memory' }).errors).toBeUndefined();
  });

  it('does not look at the per-second store without REDIS_PERSECOND, nor at files without TLS', () => {
    const env = { REDIS_PERSECOND_URL: 'h:1', REDIS_PERSECOND_TLS: 'true', REDIS_TLS_CLIENT_CERT: '/c' };
    expect(parseLimiterSettings(env).errors).toBeUndefined();
  });
});
