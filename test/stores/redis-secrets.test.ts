/** Whatever goes wrong with Redis, nothing that a limiter prints or serves shows a password. */
import { once } from 'node:events';
import { mkdirSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { gunzipSync } from 'node:zlib';
import { Redis } from 'ioredis';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { describeWithServer } from '../support/describe-with-server.ts';
import { eventually } from '../support/eventually.ts';
import { redisProgram } from '../support/find-server.ts';
import { InProcessLimiter, startLimiterHere } from '../support/in-process-limiter.ts';
import { type RunningLimiter, spawnLimiter } from '../support/limiter-process.ts';
import { type RedisServer, startRedis } from '../support/redis-server.ts';
import { suiteFolder } from '../support/suite-folder.ts';

const secret = 'tr0ub4dor';
const pages = [
  '/',
  '/stats',
  '/rlconfig',
  '/livez',
  '/debug/pprof/',
  '/debug/pprof/heap',
  '/debug/pprof/cmdline',
];

/** What a listener says to a request, header and body. */
async function served(port: number, path: string, init: RequestInit = {}): Promise<string> {
  const response = await fetch(`http://127.0.0.1:${port}${path}`, init);
  const bytes = Buffer.from(await response.arrayBuffer());
  const body = bytes[0] === 0x1f && bytes[1] === 0x8b ? gunzipSync(bytes) : bytes;
  return `${path} ${response.status} ${JSON.stringify([...response.headers])} ${body.toString('latin1')}`;
}

function expectNoSecret(texts: string[]): void {
  expect(texts.filter((text) => text.includes(secret))).toEqual([]);
}

async function debugPages(program: RunningLimiter['program']): Promise<string[]> {
  const [, port] = await program.printed(/Listening for debug on '[^']*:(\d+)'/);
  return Promise.all(pages.map((path) => served(Number(port), path)));
}

describe('a limiter that rejects its settings shows no password', () => {
  const sentinel = { REDIS_TYPE: 'sentinel' };
  const cluster = { REDIS_TYPE: 'cluster' };
  const refused: Record<string, string>[] = [
    { REDIS_URL: `redis://me:${secret}@h:1` },
    { REDIS_SOCKET_TYPE: 'tcp', REDIS_URL: `me:${secret}@h:1` },
    { REDIS_SOCKET_TYPE: 'tcp', REDIS_URL: `rediss://me:${secret}@h:1` },
    { REDIS_SOCKET_TYPE: 'tcp', REDIS_URL: `redis://me:${secret}` },
    { REDIS_SOCKET_TYPE: 'tcp', REDIS_URL: `redis://me:${secret}%@h:1` },
    { REDIS_SOCKET_TYPE: 'tcp', REDIS_URL: `redis://:${secret}` },
    { REDIS_SOCKET_TYPE: 'tcp', REDIS_URL: `redis://me:${secret}@h:port` },
    { REDIS_SOCKET_TYPE: 'tcp', REDIS_URL: `redis://h:1/x?password=${secret}` },
    { ...sentinel, REDIS_URL: `redis://me:${secret}@h:1` },
    { ...sentinel, REDIS_URL: `mymaster,redis://me:${secret}@` },
    { ...cluster, REDIS_URL: `redis://me:${secret}@h:1/3,h:2` },
    {
      REDIS_SOCKET_TYPE: 'tcp',
      REDIS_URL: 'h:1',
      REDIS_PERSECOND: 'true',
      REDIS_PERSECOND_URL: `redis://:${secret}@h`,
    },
    {
      REDIS_TIMEOUT: 'soon',
      REDIS_AUTH: secret,
      REDIS_URL: `redis://:${secret}@h`,
      REDIS_PERSECOND_AUTH: secret,
    },
  ];
  const settings = { BACKEND_TYPE: 'redis', LOG_LEVEL: 'trace', REDIS_ULR: secret };

  it.each(refused)('%j', async (env) => {
    const limiter = await InProcessLimiter.start({ env: { ...settings, ...env } });
    expect(await limiter.ended).toBe(1);
    expect(limiter.lines).toContainEqual(expect.stringMatching(/level=fatal msg="REDIS_/));
    expectNoSecret([...limiter.lines, ...limiter.output]);
  });

  it('as a program, on all of its streams', async () => {
    const program = spawnLimiter({ env: { ...settings, ...refused[0] } });
    expect((await program.ended).code).toBe(1);
    expect(program.output).toMatch(/level=fatal msg="REDIS_/);
    expectNoSecret([program.output]);
  });
});

describeWithServer('a limiter whose Redis fails shows no password', redisProgram, (path) => {
  const folder = suiteFolder();
  let guarded: RedisServer;
  let withoutAuth: RedisServer;
  let plain: RedisServer;
  beforeAll(async () => {
    mkdirSync(join(folder, 'config'));
    writeFileSync(
      join(folder, 'config/d.yaml'),
      'domain: d\ndescriptors:\n  - key: k\n    rate_limit: { unit: year, requests_per_unit: 5 }\n',
    );
    [guarded, withoutAuth, plain] = await Promise.all([
      startRedis({ path, args: ['--requirepass', 'another'] }),
      startRedis({ path, args: ['--rename-command', 'AUTH', ''] }),
      startRedis({ path }),
    ]);
  });
  afterAll(() => Promise.all([guarded, withoutAuth, plain].map((server) => server?.stop())));

  const tcp = { REDIS_SOCKET_TYPE: 'tcp' };
  const starts: [what: string, env: () => Record<string, string>, printed: RegExp][] = [
    [
      'REDIS_AUTH is wrong',
      () => ({ ...tcp, REDIS_AUTH: secret, REDIS_URL: `127.0.0.1:${guarded.port}` }),
      /WRONGPASS/,
    ],
    [
      'REDIS_URL has a wrong password',
      () => ({ ...tcp, REDIS_URL: `redis://me:${secret}@127.0.0.1:${guarded.port}/2` }),
      /WRONGPASS/,
    ],
    [
      'REDIS_URL has a wrong password in its query',
      () => ({ ...tcp, REDIS_URL: `redis://127.0.0.1:${guarded.port}?username=me&password=${secret}` }),
      /WRONGPASS/,
    ],
    [
      'REDIS_SENTINEL_AUTH is wrong',
      () => ({
        REDIS_TYPE: 'sentinel',
        REDIS_AUTH: secret,
        REDIS_SENTINEL_AUTH: `me:${secret}`,
        REDIS_URL: `mymaster,127.0.0.1:${guarded.port}`,
      }),
      /sentinel \S+: Redis answered: WRONGPASS/,
    ],
    [
      'a sentinel has a wrong password in REDIS_URL',
      () => ({ REDIS_TYPE: 'sentinel', REDIS_URL: `mymaster,redis://:${secret}@127.0.0.1:${guarded.port}` }),
      /WRONGPASS/,
    ],
    [
      'a cluster has a wrong password',
      () => ({
        REDIS_TYPE: 'cluster',
        REDIS_URL: `redis://me:${secret}@127.0.0.1:${guarded.port},127.0.0.1:1`,
      }),
      /WRONGPASS|ECONNREFUSED/,
    ],
    [
      'the Redis of limits per second has a wrong password',
      () => ({
        ...tcp,
        REDIS_URL: `127.0.0.1:${plain.port}`,
        REDIS_PERSECOND: 'true',
        REDIS_PERSECOND_SOCKET_TYPE: 'tcp',
        REDIS_PERSECOND_AUTH: secret,
        REDIS_PERSECOND_URL: `127.0.0.1:${guarded.port}`,
      }),
      /WRONGPASS/,
    ],
    [
      'the server repeats what it does not know',
      () => ({ ...tcp, REDIS_AUTH: secret, REDIS_URL: `127.0.0.1:${withoutAuth.port}` }),
      /unknown command/,
    ],
    [
      'the database does not exist',
      () => ({ ...tcp, REDIS_AUTH: '', REDIS_URL: `redis://${plainUser}127.0.0.1:${plain.port}/99` }),
      /DB index is out of range/,
    ],
    ['nobody listens', () => ({ ...tcp, REDIS_URL: `redis://me:${secret}@127.0.0.1:1` }), /ECONNREFUSED/],
    [
      'the name does not exist',
      () => ({ ...tcp, REDIS_URL: `redis://me:${secret}@nowhere.invalid:6379` }),
      /getaddrinfo/,
    ],
    [
      'the server speaks no TLS',
      () => ({
        ...tcp,
        REDIS_TLS: 'true',
        REDIS_TIMEOUT: '300ms',
        REDIS_AUTH: secret,
        REDIS_URL: `127.0.0.1:${plain.port}`,
      }),
      /Retrying/,
    ],
    [
      'it is no Redis and sends back what it gets',
      () => ({ ...tcp, REDIS_TIMEOUT: '300ms', REDIS_AUTH: secret, REDIS_URL: `127.0.0.1:${echoPort}` }),
      /Redis gave an answer of an unexpected form/,
    ],
  ];
  const plainUser = `me:${secret}@`;
  let echoPort = 0;
  beforeAll(async () => {
    const client = new Redis(plain.port, '127.0.0.1', { protocol: 2 });
    await client.acl('SETUSER', 'me', 'on', `>${secret}`, '~*', '&*', '+@all');
    client.disconnect();
    const echo = createServer((socket) => socket.on('error', () => {}).pipe(socket));
    echo.listen(0, '127.0.0.1');
    await once(echo, 'listening');
    echoPort = (echo.address() as { port: number }).port;
    return () => void echo.close();
  });

  it.each(starts)('while it waits for it: %s', async (what, env, printed) => {
    const limiter = new InProcessLimiter(
      {
        env: {
          BACKEND_TYPE: 'redis',
          RUNTIME_ROOT: folder,
          LOG_LEVEL: 'trace',
          LOG_FORMAT: what.length % 2 === 0 ? 'text' : 'json',
          REDIS_STARTUP_INITIAL_INTERVAL: '10ms',
          REDIS_STARTUP_MAX_INTERVAL: '10ms',
          ...env(),
        },
      },
      () => {},
    );
    const { program } = limiter;
    onTestFinished(async () => void (await limiter.stop()));
    await program.printed(/Retrying Redis connection/);
    await program.printed(printed);
    const texts = await debugPages(program);
    await limiter.stop();
    expectNoSecret([...texts, program.output]);
  });

  it('while it runs and its password is not taken any more', async () => {
    const redis = await startRedis({ path, args: ['--requirepass', secret] });
    onTestFinished(() => redis.stop());
    const limiter = await startLimiterHere({
      env: {
        RUNTIME_ROOT: folder,
        LOG_LEVEL: 'trace',
        REDIS_SOCKET_TYPE: 'tcp',
        REDIS_URL: `redis://:${secret}@127.0.0.1:${redis.port}`,
        REDIS_HEALTH_CHECK_ACTIVE_CONNECTION: 'true',
      },
    });
    onTestFinished(async () => void (await limiter.stop()));
    const ask = () =>
      served(limiter.ports.http, '/json', {
        method: 'POST',
        body: '{"domain":"d","descriptors":[{"entries":[{"key":"k","value":"v"}]}]}',
      });
    expect(await ask()).toContain('"overallCode":"OK"');
    const admin = new Redis(redis.port, '127.0.0.1', { protocol: 2, password: secret });
    onTestFinished(() => admin.disconnect());
    await admin.config('SET', 'requirepass', 'another');
    await admin.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes');
    const texts: string[] = [];
    await eventually(async () => {
      texts.push(await ask());
      expect(texts.at(-1)).toContain('/json 400');
    });
    await limiter.program.printed(/WRONGPASS/);
    texts.push(await ask(), await served(limiter.ports.http, '/healthcheck'));
    expect(texts.at(-1)).toContain('/healthcheck 500');
    texts.push(...(await debugPages(limiter.program)));
    await limiter.stop();
    expectNoSecret([...texts, limiter.program.output]);
  });
});
