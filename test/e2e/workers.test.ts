/** Limiters with several worker threads, counting in a real Redis. */
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { type AddressInfo, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Worker, type WorkerOptions } from 'node:worker_threads';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, onTestFinished } from 'vitest';
import { ruleStatNames } from '../../limiter/stats/registry/rule-stats.ts';
import type { SlotName } from '../../limiter/stats/registry/slot-table.ts';
import type { NumberedTask, WorkerMessage, WorkerTask } from '../../limiter/workers/messages.ts';
import { AdsServer } from '../support/ads-server.ts';
import { describeWithServer } from '../support/describe-with-server.ts';
import { eventually } from '../support/eventually.ts';
import { redisProgram } from '../support/find-server.ts';
import { freePort } from '../support/free-port.ts';
import { type HttpAnswer, httpAsk } from '../support/http-ask.ts';
import { InProcessLimiter, type InProcessLimiterOptions } from '../support/in-process-limiter.ts';
import { LimiterClient } from '../support/limiter-client.ts';
import { ManualTimers } from '../support/manual-timers.ts';
import { type RedisServer, startRedis } from '../support/redis-server.ts';
import { limit, rule, source } from '../support/rule-builder.ts';

const folder = mkdtempSync(join(tmpdir(), 'weir-workers-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const connections = 24;
const totalHits = 'ratelimit.service.rate_limit.w.k.total_hits';
const overLimit = 'ratelimit.service.rate_limit.w.k.over_limit';
const requests = 'ratelimit_server.ShouldRateLimit.total_requests';

function writeRules(requestsPerUnit: number): void {
  mkdirSync(join(folder, 'config'), { recursive: true });
  const text = `domain: w\ndescriptors:\n  - key: k\n    rate_limit: { unit: year, requests_per_unit: ${requestsPerUnit} }\n`;
  writeFileSync(join(folder, 'config/w.yaml'), text);
}

/** The threads of a limiter, in the order in which they were started. */
class Threads {
  readonly workers: Worker[] = [];
  /** Further options of those that start from now on. */
  options: WorkerOptions = {};
  readonly #names: SlotName[][] = [];
  readonly #values: Float64Array[] = [];

  readonly start = (program: URL, options: WorkerOptions): Worker => {
    const worker = new Worker(program, { ...options, ...this.options });
    const index = this.workers.push(worker) - 1;
    this.#names[index] = [];
    worker.on('message', (news: WorkerMessage) => {
      if (news.is === 'values') this.#values[index] = news.values;
      if (news.is === 'names') this.#names[index]?.push(...news.names);
    });
    return worker;
  };

  /** What each thread counted by itself, as of the last look at the statistics. */
  counts(name: string): number[] {
    return this.workers.map((_, index) => {
      let slot = 0;
      for (const one of this.#names[index] ?? []) {
        if (one.name === name) return this.#values[index]?.[slot] ?? 0;
        slot += one.kind === 'rule' ? ruleStatNames.length : 1;
      }
      return 0;
    });
  }

  /** Keeps tasks of a kind from a thread until the result is called. */
  hold(index: number, kind: WorkerTask['do']): () => void {
    const worker = this.workers[index] as Worker;
    const post = worker.postMessage.bind(worker);
    const held: NumberedTask[] = [];
    worker.postMessage = (message: NumberedTask) => {
      if (message.task.do === kind) held.push(message);
      else post(message);
    };
    return () => {
      worker.postMessage = post;
      for (const message of held) post(message);
    };
  }
}

let threads: Threads;
const running: InProcessLimiter[] = [];
const clients: LimiterClient[] = [];
beforeEach(() => {
  threads = new Threads();
  writeRules(100);
});
afterEach(async () => {
  for (const client of clients.splice(0)) client.close();
  await Promise.all(running.splice(0).map((limiter) => limiter.stop()));
});

function connect(limiter: InProcessLimiter, count = connections): LimiterClient[] {
  const opened = Array.from({ length: count }, () => new LimiterClient(limiter.ports.grpc));
  clients.push(...opened);
  return opened;
}

async function start(
  env: Record<string, string>,
  options: Partial<InProcessLimiterOptions> = {},
): Promise<InProcessLimiter> {
  const limiter = await InProcessLimiter.start({
    startThread: threads.start,
    ...options,
    env: {
      LIMITER_WORKERS: '2',
      BACKEND_TYPE: 'redis',
      REDIS_SOCKET_TYPE: 'tcp',
      RUNTIME_ROOT: folder,
      RUNTIME_WATCH_ROOT: 'false',
      LOG_LEVEL: 'info',
      ...env,
    },
  });
  running.push(limiter);
  return limiter;
}

/** How many of them pass, asked once each. */
async function passed(opened: LimiterClient[], value: string): Promise<number> {
  const answers = await Promise.all(opened.map((client) => client.allowed('w', 'k', value)));
  return answers.filter(Boolean).length;
}

/** The limit that each connection is decided by. */
async function limits(
  opened: LimiterClient[],
  domain = 'w',
  value = 'limits',
): Promise<Set<number | undefined>> {
  const descriptors = [{ entries: [{ key: 'k', value }] }];
  const answers = await Promise.all(opened.map((client) => client.ask({ domain, descriptors })));
  return new Set(answers.map(({ statuses }) => statuses[0]?.currentLimit?.requestsPerUnit));
}

/** The answers of `/healthcheck` over many connections. */
async function healths(limiter: InProcessLimiter): Promise<Set<number>> {
  const asked = Array.from({ length: connections }, () => httpAsk(limiter.ports.http, '/healthcheck'));
  return new Set((await Promise.all(asked)).map(({ status }) => status));
}

const logged = (limiter: InProcessLimiter, text: string): string[] =>
  limiter.lines.filter((line) => line.includes(text)).sort();

const loaded = 'Successfully loaded new configuration';

describeWithServer('a limiter with two workers', redisProgram, (path) => {
  let redis: RedisServer;
  let env: Record<string, string>;
  beforeAll(async () => {
    redis = await startRedis({ path });
    env = { REDIS_URL: `127.0.0.1:${redis.port}` };
  });
  afterAll(() => redis?.stop());

  it('counts exactly, and shows the sum of what its threads counted', async () => {
    const limiter = await start(env);
    const opened = connect(limiter);
    let allowed = 0;
    for (let round = 0; round < 10; round++) allowed += await passed(opened, 'exact');
    expect(allowed).toBe(100);
    const asked = 10 * connections;
    const stats = await limiter.stats();
    expect(stats.get(totalHits)).toBe(asked);
    expect(stats.get(overLimit)).toBe(asked - 100);
    expect(stats.get(requests)).toBe(asked);
    expect(stats.get('ratelimit.service.config_load_success')).toBe(1);
    expect(stats.get('ratelimit.workers.ready')).toBe(2);
    expect(stats.get('ratelimit.workers.crashed')).toBe(0);
    expect(stats.get('ratelimit.redis_pool.cx_active')).toBe(2);
    const [first = 0, second = 0] = threads.counts(requests);
    expect(first).toBeGreaterThan(0);
    expect(second).toBeGreaterThan(0);
    expect(first + second).toBe(asked);
    expect(await limiter.rlconfig()).toEqual([
      'w.k: unit=YEAR requests_per_unit=100, shadow_mode: false, quota_mode: false',
    ]);
    expect(await limiter.stop()).toBe(0);
    expect(limiter.lines).toEqual([
      expect.stringContaining('Listening for debug on'),
      expect.stringContaining(loaded),
      expect.stringContaining('Listening for gRPC on'),
      expect.stringContaining('Listening for HTTP on'),
      'level=warning msg="Shutting down after a signal" signal=SIGTERM drainDelayMs=0',
      'level=info msg="Shut down"',
    ]);
  });

  it('shows the requests over limit of all threads together', async () => {
    const limiter = await start(env);
    const opened = connect(limiter);
    for (let round = 0; round < 10; round++) await passed(opened, 'often');
    for (let round = 0; round < 5; round++) await passed(opened, 'seldom');
    const { domains } = await limiter.top();
    const [seldom, often] = [5 * connections - 100, 10 * connections - 100];
    expect(domains).toMatchObject([
      {
        domain: 'w',
        overLimit: often + seldom,
        missed: 0,
        keys: [
          { key: 'k_often', rule: 'w.k', atLeast: often, atMost: often },
          { key: 'k_seldom', rule: 'w.k', atLeast: seldom, atMost: seldom },
        ],
      },
    ]);
    const release = threads.hold(0, 'receive');
    const [alone] = (await limiter.top()).domains;
    expect(alone?.overLimit).toBeGreaterThan(0);
    expect(alone?.overLimit).toBeLessThan(often + seldom);
    release();
    const stats = await limiter.stats();
    expect(stats.get('ratelimit.top_offenders.domains')).toBe(2);
  });

  it('says that rules are loaded when every worker decides by them', async () => {
    const limiter = await start(env);
    const opened = connect(limiter);
    expect(await limits(opened)).toEqual(new Set([100]));
    const release = threads.hold(1, 'use-rules');
    writeRules(50);
    await eventually(async () => expect(await limits(opened)).toEqual(new Set([100, 50])));
    expect(logged(limiter, loaded)).toHaveLength(1);
    expect((await limiter.stats()).get('ratelimit.service.config_load_success')).toBe(1);
    release();
    await eventually(() => expect(logged(limiter, loaded)).toHaveLength(2));
    expect(await limits(opened)).toEqual(new Set([50]));
  });

  it('accepts a version of an xDS server when every worker decides by it', async () => {
    const server = await AdsServer.start();
    onTestFinished(() => server.stop());
    const starting = start({
      ...env,
      CONFIG_TYPE: 'GRPC_XDS_SOTW',
      CONFIG_GRPC_XDS_SERVER_URL: `127.0.0.1:${server.port}`,
    });
    const rules = (requestsPerUnit: number) => [
      source('w', [rule({ key: 'k', rateLimit: limit({ unit: 'year', requestsPerUnit }) })], 'team/w'),
    ];
    const stream = await server.stream();
    await stream.request();
    stream.respond({ version: '1', sources: rules(7) });
    expect(await stream.request()).toMatchObject({ versionInfo: '1' });
    const limiter = await starting;
    const opened = connect(limiter);
    const release = threads.hold(0, 'use-rules');
    stream.respond({ version: '2', sources: rules(8) });
    let hasAnswered = false;
    const answer = stream.request().finally(() => {
      hasAnswered = true;
    });
    await eventually(async () => expect(await limits(opened)).toEqual(new Set([7, 8])));
    expect(hasAnswered).toBe(false);
    release();
    expect(await answer).toMatchObject({ versionInfo: '2', responseNonce: 'nonce-2' });
    expect(await limits(opened)).toEqual(new Set([8]));
  });

  it('decides by a change of one domain in every worker, also in one that starts after it', async () => {
    const server = await AdsServer.start({ incremental: true });
    onTestFinished(() => server.stop());
    const starting = start({
      ...env,
      CONFIG_TYPE: 'GRPC_XDS_DELTA',
      CONFIG_GRPC_XDS_SERVER_URL: `127.0.0.1:${server.port}`,
    });
    const resource = (version: string, domain: string, requestsPerUnit: number) => {
      const rules = [rule({ key: 'k', rateLimit: limit({ unit: 'year', requestsPerUnit }) })];
      return [`team/${domain}`, [version, source(domain, rules)]] as const;
    };
    const others = Array.from({ length: 20 }, (_, i) => resource('v1', `w${i}`, 5));
    const stream = await server.deltaStream();
    await stream.request();
    stream.respond({ version: '1', resources: Object.fromEntries([resource('v1', 'w', 7), ...others]) });
    await stream.request();
    const limiter = await starting;
    const opened = connect(limiter);
    stream.respond({ version: '2', resources: Object.fromEntries([resource('v2', 'w', 8)]) });
    await stream.request();
    expect(await limits(opened)).toEqual(new Set([8]));
    expect(await limits(opened, 'w19')).toEqual(new Set([5]));
    await threads.workers[0]?.terminate();
    const back = 'level=warning msg="A new worker thread serves requests" worker=1';
    await eventually(() => expect(limiter.lines).toContain(back), { timeoutMs: 20_000 });
    stream.respond({ version: '3', removed: ['team/w19'] });
    await stream.request();
    const fresh = connect(limiter);
    expect(await limits(fresh)).toEqual(new Set([8]));
    expect(await limits(fresh, 'w19')).toEqual(new Set([undefined]));
  });

  it('replaces a worker that ends, while the other one continues, and loses nothing that was counted', async () => {
    const limiter = await start(env);
    const opened = connect(limiter);
    await passed(opened, 'crash');
    expect((await limiter.stats()).get(requests)).toBe(connections);
    await passed(opened, 'crash');
    threads.options = { resourceLimits: { maxOldGenerationSizeMb: 4, maxYoungGenerationSizeMb: 1 } };
    await threads.workers[0]?.terminate();
    const ends = 'A worker thread ended: starting another one';
    await eventually(() => expect(logged(limiter, ends).length).toBeGreaterThan(1), { timeoutMs: 20_000 });
    const fresh = connect(limiter);
    expect(await passed(fresh, 'crash')).toBe(connections);
    expect(await healths(limiter)).toEqual(new Set([200]));
    expect(logged(limiter, ends)[0]).toMatch(
      new RegExp(`^level=error msg="${ends}" worker=1 reason="[^"]+" waitMs=\\d+$`),
    );
    expect(logged(limiter, ends).join()).toContain('reason="the thread ended with code 1"');
    expect(logged(limiter, ends).join()).toContain('JS heap out of memory');
    threads.options = {};
    const back = 'level=warning msg="A new worker thread serves requests" worker=1';
    await eventually(() => expect(limiter.lines).toContain(back), { timeoutMs: 20_000 });
    const stats = await limiter.stats();
    expect(stats.get(requests)).toBe(3 * connections);
    expect(stats.get(totalHits)).toBe(3 * connections);
    expect(stats.get('ratelimit.redis_pool.cx_active')).toBe(2);
    expect(stats.get('ratelimit.workers.ready')).toBe(2);
    expect(stats.get('ratelimit.workers.crashed')).toBe(logged(limiter, ends).length);
    await passed(connect(limiter), 'crash');
    await limiter.stats();
    expect(threads.counts(requests).at(-1)).toBeGreaterThan(0);
  });

  it('replaces a worker that does not answer any more', async () => {
    const timers = new ManualTimers();
    const limiter = await start(env, { timers });
    threads.hold(0, 'show-statistics');
    const line =
      /^level=error msg="A worker thread ended: [^"]+" worker=1 reason="it did not answer for 30 s"/;
    await eventually(
      () => {
        timers.advance(5_000);
        expect(limiter.lines.at(-1)).toMatch(line);
      },
      // The other one answers meanwhile.
      { intervalMs: 300, timeoutMs: 20_000 },
    );
    timers.advance(100);
    const back = 'level=warning msg="A new worker thread serves requests" worker=1';
    await eventually(() => expect(limiter.lines.at(-1)).toBe(back));
    expect(await passed(connect(limiter), 'silent')).toBe(connections);
  });

  it('is unhealthy as a whole, over every connection, while it has no store and while it ends', async () => {
    const limiter = await start({
      ...env,
      REDIS_HEALTH_CHECK_ACTIVE_CONNECTION: 'true',
      SHUTDOWN_DRAIN_DELAY: '1s',
    });
    expect(await healths(limiter)).toEqual(new Set([200]));
    await redis.kill('SIGKILL');
    await eventually(async () => expect(await healths(limiter)).toEqual(new Set([500])));
    await redis.start();
    await eventually(async () => expect(await healths(limiter)).toEqual(new Set([200])));
    const lost = logged(limiter, 'Lost the connection to Redis');
    expect(lost.map((line) => /worker=\d+$/.exec(line)?.[0])).toEqual(['worker=1', 'worker=2']);
    const ended = limiter.stop();
    await eventually(async () => expect(await healths(limiter)).toEqual(new Set([500])), { intervalMs: 5 });
    expect(await ended).toBe(0);
  });

  it('bounds metrics of values, shows their sum, and loses no hit', async () => {
    const text = `domain: v\ndescriptors:\n  - key: k\n    detailed_metric: true\n    rate_limit: { unit: year, requests_per_unit: 1000000 }\n`;
    writeFileSync(join(folder, 'config/v.yaml'), text);
    const limiter = await start({
      ...env,
      USE_STATSD: 'false',
      STATS_MAX_DETAILED_METRICS: '3',
      STATS_FLUSH_INTERVAL: '100ms',
      EXTRA_TAGS: 'dc:eu',
    });
    const opened = connect(limiter);
    const values = 12;
    for (let value = 0; value < values; value++) {
      await Promise.all(opened.map((client) => client.allowed('v', 'k', String(value))));
      await new Promise((resolve) => setTimeout(resolve, 60));
    }
    const stats = await limiter.stats();
    expect(stats.get('ratelimit.stats.detailed_metrics.__dc=eu')).toBeLessThanOrEqual(3);
    await limiter.stop();
    rmSync(join(folder, 'config/v.yaml'));
    let hits = 0;
    const names = new Set<string>();
    for (const line of limiter.output.join('').trimEnd().split('\n')) {
      const { name, value } = JSON.parse(line).json;
      const of = /^ratelimit\.service\.rate_limit\.(v\.k_\d+|_overflow)\.total_hits\.__dc=eu$/.exec(
        name ?? '',
      );
      if (of === null) continue;
      names.add(of[1] as string);
      hits += Number(value);
    }
    expect(hits).toBe(values * connections);
    expect(names.size).toBeGreaterThan(3);
  });

  it('sends all that was counted, and every duration, to statsd', async () => {
    let received = '';
    const receiver = createServer((socket) => socket.on('data', (data) => (received += String(data))));
    receiver.listen(0, '127.0.0.1');
    await once(receiver, 'listening');
    onTestFinished(() => void receiver.close());
    const limiter = await start({
      ...env,
      USE_STATSD: 'true',
      STATSD_HOST: '127.0.0.1',
      STATSD_PORT: String((receiver.address() as AddressInfo).port),
      STATS_FLUSH_INTERVAL: '200ms',
    });
    const opened = connect(limiter);
    for (let round = 0; round < 5; round++) await passed(opened, 'statsd');
    await limiter.stop();
    await eventually(() => {
      const counted = [...received.matchAll(new RegExp(`^${requests}:(\\d+)\\|c$`, 'gm'))];
      expect(counted.reduce((sum, [, amount]) => sum + Number(amount), 0)).toBe(5 * connections);
      const durations = received.match(/^ratelimit_server\.ShouldRateLimit\.response_time:\d+\|ms$/gm);
      expect(durations).toHaveLength(5 * connections);
    });
  });

  describe('and the same rules throughout', () => {
    let limiter: InProcessLimiter;
    beforeAll(async () => {
      threads = new Threads();
      writeRules(100);
      limiter = await start(env);
      // Outlives the first test.
      running.length = 0;
    });
    afterAll(() => limiter?.stop());

    it('counts what is asked over HTTP as one, whichever of them a connection comes to', async () => {
      const body = JSON.stringify({ domain: 'w', descriptors: [[{ k: 'http' }]], hits: 10 });
      const headers = { 'content-type': 'application/json' };
      const asked = Array.from({ length: 30 }, () =>
        httpAsk(limiter.ports.http, '/v1/check', { method: 'POST', headers, body }),
      );
      const answers = await Promise.all(asked);
      expect(answers.filter(({ status }) => status === 200).length).toBe(10);
      expect(answers.filter(({ status }) => status === 429).length).toBe(20);
      const known = answers.map((answer) => JSON.parse(answer.body).descriptors[0].used);
      expect(known.sort((a, b) => a - b)).toEqual(Array.from({ length: 30 }, (_, n) => 10 * (n + 1)));
      expect((await limiter.stats()).get('ratelimit.http.v1_requests')).toBe(30);
    });

    it('holds budgets in one store, whichever of them reserves, commits or reports', async () => {
      const headers = { 'content-type': 'application/json' };
      const post = async (path: string, body: object): Promise<HttpAnswer> =>
        httpAsk(limiter.ports.http, path, { method: 'POST', headers, body: JSON.stringify(body) });
      const about = { domain: 'w', descriptors: [[{ k: 'budget' }]] };
      const reserved = await Promise.all(
        Array.from({ length: 15 }, () => post('/v1/reserve', { ...about, amount: 10, ttl: '1h' })),
      );
      expect(reserved.map(({ status }) => status).sort()).toEqual([
        ...Array(10).fill(200),
        ...Array(5).fill(429),
      ]);
      const ids = reserved.flatMap(({ body }) => JSON.parse(body).reservationId ?? []);
      const commits = ids
        .slice(0, 4)
        .map((reservationId) => post('/v1/commit', { reservationId, actualAmount: 5 }));
      for (const { body } of await Promise.all(commits))
        expect(JSON.parse(body)).toMatchObject({ outcome: 'settled', charged: 5 });
      const { body } = await httpAsk(limiter.ports.debug, '/v1/budgets?domain=w&entry=k=budget');
      expect(JSON.parse(body).budgets).toMatchObject([{ used: 80, reserved: 60, open: 6, left: 20 }]);
    });

    it('gives profiles of its workers on the debug port', async () => {
      const opened = connect(limiter);
      const page = (path: string) => httpAsk(limiter.ports.debug, `/debug/pprof/${path}`);
      const cpu = page('profile?seconds=1&worker=2');
      await eventually(async () => {
        await passed(opened, 'profile');
        expect((await page('profile?seconds=1&worker=2')).body).toMatch(/already in use/);
      });
      for (const { status, headers } of [await cpu, await page('heap?worker=1')]) {
        expect([status, headers['content-type']]).toEqual([200, 'application/octet-stream']);
        expect(Number(headers['content-length'])).toBeGreaterThan(100);
      }
      for (const worker of ['0', '3', '', 'x']) {
        const { status, body } = await page(`heap?worker=${worker}`);
        expect([status, body]).toEqual([404, expect.stringContaining(`there is no worker "${worker}"`)]);
      }
    });

    it('does not share its ports with another limiter', async () => {
      const { ports } = limiter;
      for (const [workers, name, port, listener] of [
        ['1', 'GRPC_PORT', ports.grpc, 'gRPC (GRPC_HOST, GRPC_PORT)'],
        ['2', 'PORT', ports.http, 'HTTP (HOST, PORT)'],
      ] as const) {
        const second = await start({ ...env, LIMITER_WORKERS: workers, [name]: String(port) });
        expect(await second.ended).toBe(1);
        expect(second.lines.at(-1)).toBe(
          `level=fatal msg="Cannot start: ${listener}: cannot listen on 127.0.0.1:${port}: address already in use (EADDRINUSE)"`,
        );
      }
    });
  });
});

describe('a limiter with two workers that cannot start', () => {
  it('ends with the message of the worker', async () => {
    const limiter = await start({
      REDIS_URL: `127.0.0.1:${await freePort()}`,
      REDIS_STARTUP_INITIAL_INTERVAL: '10ms',
      REDIS_STARTUP_MAX_ELAPSED_TIME: '1ms',
    });
    expect(await limiter.ended).toBe(1);
    expect(limiter.lines.at(-1)).toMatch(/^level=fatal msg="Cannot start: .*ECONNREFUSED/);
  });

  it('ends when it is asked to while it waits for its store', async () => {
    const starting = new Promise<InProcessLimiter>((resolve) => {
      const limiter: InProcessLimiter = new InProcessLimiter(
        {
          env: {
            LIMITER_WORKERS: '2',
            BACKEND_TYPE: 'redis',
            REDIS_SOCKET_TYPE: 'tcp',
            REDIS_URL: '127.0.0.1:1',
            RUNTIME_ROOT: folder,
          },
        },
        () => {},
      );
      resolve(limiter);
    });
    const limiter = await starting;
    await eventually(() =>
      expect(new Set(logged(limiter, 'Retrying Redis').map((line) => /worker=\d/.exec(line)?.[0]))).toEqual(
        new Set(['worker=1', 'worker=2']),
      ),
    );
    expect(await limiter.stop()).toBe(0);
    expect(logged(limiter, 'Could not end')).toEqual([]);
  });
});
