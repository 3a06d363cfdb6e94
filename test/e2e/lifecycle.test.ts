import { mkdirSync, mkdtempSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { type AddressInfo, createServer, type Server } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';

import type { ChildProgram } from '../support/child-program.ts';
import { describeWithServer } from '../support/describe-with-server.ts';
import { eventually } from '../support/eventually.ts';
import { redisProgram } from '../support/find-server.ts';
import { freePort } from '../support/free-port.ts';
import { InProcessLimiter } from '../support/in-process-limiter.ts';
import { LimiterClient } from '../support/limiter-client.ts';
import { type LimiterProcess, spawnLimiter, startLimiter } from '../support/limiter-process.ts';
import { LoadedDeadline } from '../support/machine-load.ts';
import { RedisServer } from '../support/redis-server.ts';

const rules =
  'domain: life\ndescriptors:\n  - key: k\n    rate_limit: { unit: year, requests_per_unit: 5 }\n';

let folder: string;
const running: ChildProgram[] = [];
const runningHere: InProcessLimiter[] = [];

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'weir-life-'));
  writeFileSync(join(folder, 'life.yaml'), rules);
});
afterEach(async () => {
  await Promise.all([
    ...running.splice(0).map((program) => program.stop('SIGKILL')),
    ...runningHere.splice(0).map((limiter) => limiter.stop()),
  ]);
  rmSync(folder, { recursive: true, force: true });
});

const env = (more: Record<string, string> = {}): Record<string, string> => ({
  BACKEND_TYPE: 'memory',
  RUNTIME_ROOT: folder,
  RUNTIME_APPDIRECTORY: '.',
  LOG_LEVEL: 'info',
  ...more,
});

async function start(more?: Record<string, string>): Promise<LimiterProcess> {
  const limiter = await startLimiter({ env: env(more) });
  running.push(limiter.program);
  return limiter;
}

function spawn(more?: Record<string, string>): ChildProgram {
  const program = spawnLimiter({ env: env(more) });
  running.push(program);
  return program;
}

/** Without waiting for its listeners; for what is not about the process. */
function beginHere(more?: Record<string, string>): InProcessLimiter {
  const limiter = new InProcessLimiter({ env: env({ RUNTIME_WATCH_ROOT: 'false', ...more }) }, () => {});
  runningHere.push(limiter);
  return limiter;
}

async function startHere(more?: Record<string, string>): Promise<InProcessLimiter> {
  const limiter = beginHere(more);
  await limiter.program.printed(/Listening for HTTP/);
  return limiter;
}

async function debugPort(program: Pick<ChildProgram, 'printed'>): Promise<number> {
  const [, port] = await program.printed(/Listening for debug on '[^']*:(\d+)'/);
  return Number(port);
}

const status = async (port: number, path: string): Promise<number> =>
  (await fetch(`http://127.0.0.1:${port}${path}`)).status;

async function json(port: number): Promise<Response> {
  const body = JSON.stringify({ domain: 'life', descriptors: [{ entries: [{ key: 'k', value: 'v' }] }] });
  return fetch(`http://127.0.0.1:${port}/json`, { method: 'POST', body });
}

describe('a start', () => {
  it('reports every wrong setting at once and ends with status 1', async () => {
    // At the highest level still: why it ends is never left out.
    const env = { GRPC_PORT: '99999', NEAR_LIMIT_RATIO: '2', SHADOW_MODE: 'maybe', LOG_LEVEL: 'fatal' };
    const program = spawn(env);
    expect((await program.ended).code).toBe(1);
    const lines = program.output.trim().split('\n');
    expect(lines).toHaveLength(3);
    for (const name of ['GRPC_PORT', 'NEAR_LIMIT_RATIO', 'SHADOW_MODE'])
      expect(program.output).toContain(name);
  });

  it('fails on a gRPC port that is taken, and names it', async () => {
    const first = await startHere();
    const second = beginHere({ GRPC_PORT: String(first.ports.grpc) });
    expect(await second.ended).toBe(1);
    expect(second.program.output).toContain(
      `Cannot start: gRPC (GRPC_HOST, GRPC_PORT): cannot listen on 127.0.0.1:${first.ports.grpc}: address already in use`,
    );
  });

  it('continues without its debug port when that is taken', async () => {
    const first = await startHere();
    const second = beginHere({ DEBUG_PORT: String(first.ports.debug) });
    await second.program.printed(/Listening for HTTP/);
    expect(second.program.output).toContain(`cannot listen on 127.0.0.1:${first.ports.debug}`);
    expect(second.program.output).not.toContain('Listening for debug');
  });

  it('fails when the rules folder can not be watched', async () => {
    const limiter = beginHere({ RUNTIME_ROOT: join(folder, 'nowhere') });
    expect(await limiter.ended).toBe(1);
    expect(limiter.program.output).toContain(
      `unable to watch file (${folder}/nowhere): no such file or directory`,
    );
  });

  it('listens after a first load that failed, and answers with the reason', async () => {
    writeFileSync(join(folder, 'life.yaml'), 'domain: ""\n');
    const limiter = await startHere();
    const response = await json(limiter.ports.http);
    expect(response.status).toBe(400);
    expect(response.headers.get('weir-error')).toBe('no rate limit configuration loaded');
    expect(await status(limiter.ports.http, '/healthcheck')).toBe(200);
    expect(limiter.program.output).toContain('life.yaml: config file cannot have empty domain');
    writeFileSync(join(folder, 'life.yaml'), rules);
    await eventually(async () => expect((await json(limiter.ports.http)).status).toBe(200));
    await limiter.program.printed(/level=warning msg="Successfully loaded new configuration"/);
  });

  it('is healthy with a domain only, when that is asked for', async () => {
    rmSync(join(folder, 'life.yaml'));
    const limiter = await startHere({ HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED: 'true' });
    expect(await status(limiter.ports.http, '/healthcheck')).toBe(500);
    expect(limiter.program.output).toContain(`No rules are loaded: no request is limited" path=${folder}`);
    writeFileSync(join(folder, 'life.yaml'), rules);
    await eventually(async () => expect(await status(limiter.ports.http, '/healthcheck')).toBe(200));
    rmSync(join(folder, 'life.yaml'));
    await eventually(async () => expect(await status(limiter.ports.http, '/healthcheck')).toBe(500));
  });
});

describeWithServer('a start before its Redis', redisProgram, (path) => {
  it.each([
    ['waits, says so and can be looked at', 'false'],
    ['waits for it even when it may start without rules', 'true'],
  ])('%s', async (_, force) => {
    const redis = new RedisServer({ path }, await freePort());
    const limiter = beginHere({
      BACKEND_TYPE: 'redis',
      REDIS_SOCKET_TYPE: 'tcp',
      REDIS_URL: `redis://:hunter2@127.0.0.1:${redis.port}`,
      FORCE_START_WITHOUT_INITIAL_CONFIG: force,
    });
    try {
      await limiter.program.printed(/Retrying Redis connection to redis:\/\/\*\*\*\*\*@127\.0\.0\.1:\d+ in /);
      expect(await status(await debugPort(limiter.program), '/livez')).toBe(200);
      expect(limiter.program.output).not.toContain('Listening for gRPC');
      await redis.start();
      await limiter.program.printed(/Listening for HTTP/);
      expect(limiter.program.output).toMatch(
        /level=warning msg="Redis does not ask for a password, but one is set/,
      );
      expect(limiter.program.output).not.toContain('hunter2');
    } finally {
      await redis.stop();
    }
  });

  it('listens once Redis answers', async () => {
    const redis = new RedisServer({ path }, await freePort());
    const limiter = beginHere({
      BACKEND_TYPE: '',
      REDIS_SOCKET_TYPE: 'tcp',
      REDIS_URL: `127.0.0.1:${redis.port}`,
    });
    try {
      await limiter.program.printed(/Retrying Redis connection/);
      await redis.start();
      const [, port] = await limiter.program.printed(/Listening for HTTP on '[^']*:(\d+)'/);
      expect(await status(Number(port), '/healthcheck')).toBe(200);
      expect((await json(Number(port))).status).toBe(200);
    } finally {
      await redis.stop();
    }
  });

  it('says once that Redis is lost and once that it is back', async () => {
    const redis = new RedisServer({ path }, await freePort());
    await redis.start();
    const limiter = await startHere({
      BACKEND_TYPE: '',
      REDIS_SOCKET_TYPE: 'tcp',
      REDIS_URL: `127.0.0.1:${redis.port}`,
    });
    try {
      await redis.kill('SIGKILL');
      await limiter.program.printed(/Lost the connection to Redis/);
      // Attempts that fail are reported at a level that nobody runs at, so that the loss itself is reported once.
      await limiter.program.printed(/(?:An attempt to connect to Redis failed(?:.|\n)*){3}/);
      const refused = await json(limiter.ports.http);
      expect(refused.status).toBe(400);
      expect(refused.headers.get('weir-error')).toBe('Redis is not connected: connect ECONNREFUSED');
      await redis.start();
      await limiter.program.printed(/Connected to Redis again/);
      // The breaker asks Redis once more before requests go to it again.
      await eventually(async () => expect((await json(limiter.ports.http)).status).toBe(200));
      expect(limiter.program.output.match(/Lost the connection to Redis/g)).toHaveLength(1);
    } finally {
      await redis.stop();
    }
  });

  it('says that a Redis is lost that hangs, and is back only when it answers', async () => {
    const redis = new RedisServer({ path }, await freePort());
    await redis.start();
    const limiter = await startHere({
      BACKEND_TYPE: '',
      REDIS_SOCKET_TYPE: 'tcp',
      REDIS_URL: `127.0.0.1:${redis.port}`,
      REDIS_TIMEOUT: '200ms',
    });
    try {
      await redis.kill('SIGSTOP');
      for (let i = 0; i < 4; i++) expect((await json(limiter.ports.http)).status).toBe(400);
      await limiter.program.printed(
        /Lost the connection to Redis.*reason="Redis did not answer within 200 ms"/,
      );
      await new Promise((resolve) => setTimeout(resolve, 500));
      expect(limiter.program.output).not.toContain('Connected to Redis again');
      await redis.kill('SIGCONT');
      await limiter.program.printed(/Connected to Redis again/);
      // The breaker asks Redis once more before requests go to it again.
      await eventually(async () => expect((await json(limiter.ports.http)).status).toBe(200));
    } finally {
      await redis.stop();
    }
  });

  it.each([
    ['port', ''],
    ['port, without a drain delay that serves no requests', '1m'],
  ])('ends in order when it is stopped without an answer on the %s', async (_, drainDelay) => {
    const silent = createServer();
    await new Promise<void>((resolve) => silent.listen(0, '127.0.0.1', resolve));
    const { port } = silent.address() as AddressInfo;
    const connected = new Promise((resolve) => silent.once('connection', resolve));
    const limiter = beginHere({
      BACKEND_TYPE: '',
      REDIS_SOCKET_TYPE: 'tcp',
      REDIS_URL: `127.0.0.1:${port}`,
      ...(drainDelay === '' ? {} : { SHUTDOWN_DRAIN_DELAY: drainDelay }),
    });
    await connected;
    expect(await limiter.stop()).toBe(0);
    expect(limiter.program.output).not.toContain('Cannot start');
    silent.close();
  });

  it('ends in order when it is stopped while it waits', async () => {
    const program = spawn({
      BACKEND_TYPE: '',
      REDIS_SOCKET_TYPE: 'tcp',
      REDIS_URL: `127.0.0.1:${await freePort()}`,
    });
    await program.printed(/Retrying Redis connection/);
    expect(await program.stop()).toEqual({ code: 0, signal: null });
  });
});

describe('FORCE_START_WITHOUT_INITIAL_CONFIG', () => {
  /** Takes long enough to load that the listeners of a start that does not wait are open before. */
  const manyRules = (): string => {
    const rule = (i: number): string =>
      `  - key: k${i}\n    rate_limit: { unit: day, requests_per_unit: 1 }\n`;
    return `domain: big\ndescriptors:\n${Array.from({ length: 50_000 }, (_, i) => rule(i)).join('')}`;
  };

  it('opens the listeners before the rules arrived, and otherwise after', async () => {
    writeFileSync(join(folder, 'big.yaml'), manyRules());
    const forced = await start({ FORCE_START_WITHOUT_INITIAL_CONFIG: 'true' });
    expect((await json(forced.ports.http)).headers.get('weir-error')).toBe(
      'no rate limit configuration loaded',
    );
    await forced.program.printed(/Successfully loaded new configuration/);
    expect((await json(forced.ports.http)).status).toBe(200);
    expect(forced.program.output.indexOf('Listening for gRPC')).toBeLessThan(
      forced.program.output.indexOf('Successfully loaded'),
    );

    const waiting = await start();
    expect(waiting.program.output.indexOf('Successfully loaded')).toBeLessThan(
      waiting.program.output.indexOf('Listening for gRPC'),
    );
  });
});

describe('an end', () => {
  let receiver: Server | undefined;
  afterEach(() => {
    receiver?.close();
  });

  it('is unhealthy first, continues answering for the drain delay, flushes statistics and exits with 0', async () => {
    let received = '';
    receiver = createServer((socket) => socket.on('data', (data) => (received += String(data))));
    await new Promise<void>((resolve) => receiver?.listen(0, '127.0.0.1', resolve));
    const { port: statsdPort } = receiver.address() as AddressInfo;
    const limiter = await start({
      SHUTDOWN_DRAIN_DELAY: '1500ms',
      USE_STATSD: 'true',
      STATSD_HOST: '127.0.0.1',
      STATSD_PORT: String(statsdPort),
      STATS_FLUSH_INTERVAL: '1h',
    });
    const client = new LimiterClient(limiter.ports.grpc);
    try {
      expect(await client.allowed('life', 'k', 'before')).toBe(true);
      limiter.program.process.kill('SIGTERM');
      await eventually(async () => expect(await status(limiter.ports.http, '/healthcheck')).toBe(500));
      expect(await client.allowed('life', 'k', 'draining')).toBe(true);
      expect((await json(limiter.ports.http)).status).toBe(200);
      expect(await status(limiter.ports.debug, '/livez')).toBe(200);
      expect(await limiter.program.ended).toEqual({ code: 0, signal: null });
    } finally {
      client.close();
    }
    const lines = received.split('\n');
    expect(lines).toContain('ratelimit.service.rate_limit.life.k.total_hits:3|c');
    expect(lines).toContain('ratelimit_server.ShouldRateLimit.total_requests:2|c');
    expect(
      lines.some((line) => /^ratelimit_server\.ShouldRateLimit\.response_time:\d+\|ms$/.test(line)),
    ).toBe(true);
  });

  it.each(['SIGTERM', 'SIGINT', 'SIGHUP'] as const)(
    'comes at once without a delay, on %s',
    async (signal) => {
      const limiter = await start();
      const deadline = new LoadedDeadline(5_000);
      expect(await limiter.program.stop(signal)).toEqual({ code: 0, signal: null });
      deadline.assertInTime();
    },
  );

  it('does not wait for a watch of health that stays open', async () => {
    const limiter = await startHere();
    const client = new LimiterClient(limiter.ports.grpc);
    const seen: number[] = [];
    const watch = client.watchHealth('ratelimit', (state) => seen.push(state));
    await eventually(() => expect(seen).toEqual([1]));
    expect(await limiter.stop()).toBe(0);
    await watch;
    expect(seen).toEqual([1, 2]);
    client.close();
  });
});

describe('a Kubernetes ConfigMap as rules folder', () => {
  it('takes over a swap of its ..data link', async () => {
    const mount = join(folder, 'mount');
    const fill = (name: string, limit: number): void => {
      mkdirSync(join(mount, name), { recursive: true });
      writeFileSync(join(mount, name, 'life.yaml'), rules.replace('5', String(limit)));
    };
    fill('..2026_01', 0);
    symlinkSync('..2026_01', join(mount, '..data'));
    symlinkSync('..data/life.yaml', join(mount, 'life.yaml'));
    const limiter = await startHere({ RUNTIME_ROOT: mount });
    expect((await json(limiter.ports.http)).status).toBe(429);
    // More than are asked while the load takes its time.
    fill('..2026_02', 1_000_000);
    symlinkSync('..2026_02', join(mount, '..data_tmp'));
    renameSync(join(mount, '..data_tmp'), join(mount, '..data'));
    await eventually(async () => expect((await json(limiter.ports.http)).status).toBe(200));
  });
});
