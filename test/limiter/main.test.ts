/** What every setting does to a whole limiter: the tests that notice a setting read, checked and then not handed on. */

import { once } from 'node:events';
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { Redis } from 'ioredis';
import { afterAll, beforeAll, beforeEach, describe, expect, it, onTestFinished } from 'vitest';
import { forwardAnswers } from '../../limiter/forward-auth/stats.ts';
import { kuadrantMethods } from '../../limiter/kuadrant/kuadrant-service.ts';
import { budgetOutcomes } from '../../limiter/service/decision.ts';
import { limiterSettingGroups } from '../../limiter/settings/settings.ts';
import { connectionRejections } from '../../limiter/sockets/socket-server.ts';
import { adminChanges } from '../../limiter/stats/registry/operator-stats.ts';
import { packageVersion } from '../../process/files/package-file.ts';
import { systemTimers } from '../../process/time/clock.ts';
import { describeWithServer } from '../support/describe-with-server.ts';
import { eventually } from '../support/eventually.ts';
import { redisProgram } from '../support/find-server.ts';
import { InProcessLimiter } from '../support/in-process-limiter.ts';
import { LimiterClient } from '../support/limiter-client.ts';
import { limitersOfSuite } from '../support/limiters-of-suite.ts';
import { ManualTimers } from '../support/manual-timers.ts';
import { type RedisServer, startRedis } from '../support/redis-server.ts';
import { describeSettingRows } from '../support/setting-tests.ts';

const folder = mkdtempSync(join(tmpdir(), 'weir-main-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

function writeRules(path: string, text: string): void {
  mkdirSync(dirname(join(folder, path)), { recursive: true });
  writeFileSync(join(folder, path), text);
}

function oneRule(domain: string, key = 'k'): string {
  return `domain: ${domain}\ndescriptors:\n  - key: ${key}\n    rate_limit: { unit: day, requests_per_unit: 5 }\n`;
}

writeRules(
  'usual/config/w.yaml',
  `domain: w
descriptors:
  - key: one
    rate_limit: { unit: hour, requests_per_unit: 1 }
  - key: ten
    rate_limit: { unit: day, requests_per_unit: 10 }
  - key: monthly
    rate_limit: { unit: month, requests_per_unit: 5, warn_at: [20] }
`,
);
writeRules(
  'each/config/w.yaml',
  oneRule('w.e', 'each').replace('rate_limit:', 'detailed_metric: true\n    rate_limit:'),
);
writeRules('tree/config/a.yaml', oneRule('plain'));
writeRules('tree/config/.hidden/b.yaml', oneRule('hidden'));
writeRules('tree/config.yaml', oneRule('beside'));
writeRules('tree/other/c.yaml', oneRule('other'));
writeRules('tree/sub/config/d.yaml', oneRule('below'));
writeRules('twice/config/a.yaml', oneRule('same', 'a'));
writeRules('twice/config/b.yaml', oneRule('same', 'b'));
mkdirSync(join(folder, 'empty/config'), { recursive: true });
writeRules('wrong/config/a.yaml', 'domain: ""\n');
writeRules('unreadable/config/b.yaml', oneRule('good'));
symlinkSync('a.yaml', join(folder, 'unreadable/config/a.yaml'));

const common = { RUNTIME_ROOT: join(folder, 'usual') };

/** Midnight in a February of 29 days. */
const now = Date.UTC(2024, 1, 10) / 1000;
const standingClock = { nowMs: () => now * 1000, monotonicMs: () => performance.now() };

let timers: ManualTimers;

/** With time standing still, unless configured otherwise. */
const start = limitersOfSuite(() => ({ clock: standingClock, random: () => 0.5, timers, env: common }));

beforeEach(() => {
  timers = new ManualTimers();
});

/** Set aside for documentation, so no machine has it. */
const foreignAddress = '192.0.2.1';

/** Takes connections on a port, and keeps what comes. */
class Receiver {
  received = '';
  readonly #sockets = new Set<Socket>();
  readonly #server = createServer((socket) => {
    this.#sockets.add(socket);
    socket.on('data', (data) => {
      this.received += String(data);
    });
    socket.on('close', () => this.#sockets.delete(socket));
  });

  async listen(): Promise<void> {
    this.#server.listen(0, '127.0.0.1');
    await once(this.#server, 'listening');
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  /** How often a whole line came. */
  count(line: string): number {
    return this.received.split('\n').filter((one) => one === line).length;
  }

  /** Everything came that was sent before: later connections are taken later. */
  async settled(): Promise<void> {
    const last = connect(this.port, '127.0.0.1');
    last.end('last\n');
    await once(last, 'close');
    await eventually(() => expect([this.count('last'), this.#sockets.size]).toEqual([1, 0]));
  }

  close(): void {
    this.#server.close();
  }
}

const receiver = new Receiver();
await receiver.listen();
afterAll(() => receiver.close());
beforeEach(() => {
  receiver.received = '';
});

interface Row {
  setting: string;
  /** By the value of the setting; `unset` is none. */
  seen: Record<string, unknown>;
  /** What it takes to see something. */
  env?: Record<string, string>;
  observe(limiter: InProcessLimiter): unknown;
}

const ask = (limiter: InProcessLimiter, ...descriptors: Record<string, string>[]) =>
  limiter.ask('w', descriptors);

/** The overall codes of requests for one descriptor each, one after another. */
async function codes(limiter: InProcessLimiter, ...descriptors: Record<string, string>[]): Promise<string[]> {
  const seen: string[] = [];
  for (const descriptor of descriptors) seen.push((await ask(limiter, descriptor)).body.overallCode);
  return seen;
}

/** The listeners that opened, in order, and why another one did not. */
function listeners({ lines }: InProcessLimiter): string[] {
  return lines.flatMap((line) => /(?<=Listening for )\w+|cannot listen on .*?\)/.exec(line)?.[0] ?? []);
}

async function loadedRules(limiter: InProcessLimiter): Promise<string[]> {
  return (await limiter.rlconfig()).map((line) => line.slice(0, line.indexOf(':')));
}

/** How often statistics came to the receiver, the flush at the end included. */
async function flushes(limiter: InProcessLimiter): Promise<number> {
  await limiter.stop();
  await receiver.settled();
  return receiver.count('runtime.num_values:1|g');
}

async function writesToOutput(limiter: InProcessLimiter): Promise<boolean> {
  await limiter.stop();
  return limiter.output.join('').includes('"name":"runtime.num_values","type":"gauge","value":"1.000000"');
}

/** Of the rules that counted two values. */
async function metricKeys(limiter: InProcessLimiter): Promise<string[]> {
  for (const value of ['a.b', 'c']) await limiter.ask('w.e', [{ each: value }]);
  return [...(await limiter.stats()).keys()].flatMap(
    (name) => /^ratelimit\.service\.rate_limit\.(.+)\.total_hits$/.exec(name)?.[1] ?? [],
  );
}

const texts = (headers: { key: string; value: string }[] = []): string[] =>
  headers.map(({ key, value }) => `${key}: ${value}`);

async function headers(limiter: InProcessLimiter): Promise<{ response: string[]; request: string[] }> {
  const { body } = await ask(limiter, { ten: 'a' });
  return { response: texts(body.responseHeadersToAdd), request: texts(body.requestHeadersToAdd) };
}

const taken = String(receiver.port);
const foreign = `cannot listen on ${foreignAddress}:0: address not available (EADDRNOTAVAIL)`;
const inUse = `cannot listen on 127.0.0.1:${taken}: address already in use (EADDRINUSE)`;
const allOpen = ['debug', 'gRPC', 'HTTP'];

const listenerRows: Row[] = [
  ['DEBUG_HOST', foreignAddress, [foreign, 'gRPC', 'HTTP']] as const,
  ['DEBUG_PORT', taken, [inUse, 'gRPC', 'HTTP']] as const,
  ['GRPC_HOST', foreignAddress, ['debug', foreign]] as const,
  ['GRPC_PORT', taken, ['debug', inUse]] as const,
  ['HOST', foreignAddress, ['debug', 'gRPC', foreign]] as const,
  ['PORT', taken, ['debug', 'gRPC', inUse]] as const,
].map(([setting, value, seen]) => ({ setting, seen: { unset: allOpen, [value]: seen }, observe: listeners }));

const processRows: Row[] = [
  {
    setting: 'HTTP_MAX_BODY_BYTES',
    seen: { unset: [200, null], 64: [429, 'the body is longer than 64 bytes (HTTP_MAX_BODY_BYTES)'] },
    observe: async (limiter) => {
      const { status, error } = await ask(limiter, { ten: 'a' });
      return [status, error];
    },
  },
  {
    setting: 'HTTP_MAX_CONNECTIONS',
    seen: { unset: [false, false], 1: [true, true] },
    observe: async (limiter) => {
      const idle = connect({ port: limiter.ports.http, host: '127.0.0.1' });
      onTestFinished(() => void idle.destroy());
      let isClosed = false;
      idle.on('close', () => {
        isClosed = true;
      });
      await once(idle.resume(), 'connect');
      await ask(limiter, { ten: 'a' });
      await eventually(async () => {
        expect((await limiter.stats()).get('ratelimit.http.connections')).toBeGreaterThan(0);
      });
      // Those of the debug port count as well, where one ends a little later than its answer.
      const closed = (await limiter.stats()).get('ratelimit.http.too_many_connections') ?? 0;
      return [isClosed, closed > 0];
    },
  },
  {
    setting: 'CONNECTIONS_MAX_BYTES',
    env: { REQUEST_MAX_BYTES: '4000000' },
    seen: { unset: undefined, 1048576: 503 },
    observe: async (limiter) => {
      const unfinished = connect({ port: limiter.ports.http, host: '127.0.0.1' });
      onTestFinished(() => void unfinished.destroy());
      let answer = '';
      unfinished.on('error', () => {});
      unfinished.on('data', (bytes) => {
        answer += bytes.toString();
      });
      unfinished.write(
        `POST /json HTTP/1.1\r\nHost: a\r\nContent-Length: 4000000\r\n\r\n${' '.repeat(1_500_000)}`,
      );
      await eventually(async () => {
        const stats = await limiter.stats();
        const bufferedBytes = stats.get('ratelimit.connections.held_bytes') ?? 0;
        expect(bufferedBytes > 1_500_000 || answer !== '').toBe(true);
      });
      // The limiter would wait for the rest at its end.
      unfinished.destroy();
      return /^HTTP\/1.1 (\d+)/.exec(answer)?.[1] === '503' ? 503 : undefined;
    },
  },
  {
    setting: 'SHUTDOWN_DRAIN_DELAY',
    seen: { unset: 0, '90s': 90_000 },
    observe: async (limiter) => {
      const ended = limiter.stop();
      const delayMs = Number(/drainDelayMs=(\d+)/.exec(limiter.lines.at(-1) ?? '')?.[1]);
      timers.advance(delayMs);
      await ended;
      return delayMs;
    },
  },
  {
    setting: 'LOG_LEVEL',
    seen: { unset: false, info: true },
    observe: ({ lines }) => lines.some((line) => line.includes('Successfully loaded new configuration')),
  },
  {
    setting: 'LOG_FORMAT',
    seen: { unset: false, json: true },
    observe: ({ lines }) => lines[0]?.startsWith('{"level":'),
  },
];

const tree = { RUNTIME_ROOT: join(folder, 'tree') };

const ruleRows: Row[] = [
  {
    setting: 'RUNTIME_ROOT',
    seen: {
      [common.RUNTIME_ROOT]: ['w.monthly', 'w.one', 'w.ten'],
      [tree.RUNTIME_ROOT]: ['beside.k', 'hidden.k', 'plain.k'],
    },
    observe: loadedRules,
  },
  {
    setting: 'RUNTIME_SUBDIRECTORY',
    env: tree,
    seen: { unset: ['beside.k', 'hidden.k', 'plain.k'], sub: ['below.k'] },
    observe: loadedRules,
  },
  {
    setting: 'RUNTIME_APPDIRECTORY',
    env: tree,
    seen: { unset: ['beside.k', 'hidden.k', 'plain.k'], other: ['other.k'] },
    observe: loadedRules,
  },
  {
    setting: 'RUNTIME_IGNOREDOTFILES',
    env: tree,
    seen: { unset: ['beside.k', 'hidden.k', 'plain.k'], true: ['beside.k', 'plain.k'] },
    observe: loadedRules,
  },
  {
    setting: 'RUNTIME_WATCH_ROOT',
    env: tree,
    seen: { unset: ['beside.k', 'hidden.k', 'plain.k'], false: ['hidden.k', 'plain.k'] },
    observe: loadedRules,
  },
  {
    setting: 'MERGE_DOMAIN_CONFIG',
    env: { RUNTIME_ROOT: join(folder, 'twice') },
    seen: { unset: [], true: ['same.a', 'same.b'] },
    observe: loadedRules,
  },
  {
    setting: 'HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED',
    env: { RUNTIME_ROOT: join(folder, 'empty') },
    seen: { unset: 200, true: 500 },
    observe: (limiter) => limiter.healthStatus(),
  },
];

const decidedByTen = {
  decidedBy: {
    domain: 'w',
    rule: 'w.ten',
    limit: 10,
    window: '1d',
    algorithm: 'fixed_window',
    used: 1,
  },
};
const tenNamed = 'X-RateLimit-Rule: "w";rule="w.ten";limit=10;window="1d";algorithm=fixed_window;used=1';

const decisionRows: Row[] = [
  {
    setting: 'MEMORY_STORE_MAX_COUNTERS',
    seen: { unset: ['OK', 'OK', 'OVER_LIMIT'], 1: ['OK', 'OK', 'OK'] },
    observe: (limiter) => codes(limiter, { one: 'a' }, { one: 'b' }, { one: 'a' }),
  },
  {
    setting: 'MEMORY_STORE_MAX_BYTES',
    env: { REQUEST_MAX_BYTES: '4194304', REQUEST_MAX_TEXT_BYTES: '4000000' },
    seen: { unset: 0, 16777216: 2 },
    observe: async (limiter) => {
      for (const letter of 'abcdef') await ask(limiter, { ten: letter.repeat(3_900_000) });
      return (await limiter.stats()).get('ratelimit.memory_store.evicted');
    },
  },
  {
    setting: 'REQUEST_MAX_DESCRIPTORS',
    seen: { unset: 200, 1: 429 },
    observe: async (limiter) => (await ask(limiter, { ten: 'a' }, { ten: 'b' })).status,
  },
  {
    setting: 'REQUEST_MAX_ENTRIES',
    // Without a limit of its own it would match nothing.
    seen: { unset: 200, 1: 429 },
    observe: async (limiter) => {
      const entries = ['ten', 'more'].map((key) => ({ key, value: 'a' }));
      const limit = { requestsPerUnit: 5, unit: 'DAY' };
      const body = JSON.stringify({ domain: 'w', descriptors: [{ entries, limit }] });
      return (await fetch(`http://127.0.0.1:${limiter.ports.http}/json`, { method: 'POST', body })).status;
    },
  },
  {
    setting: 'REQUEST_MAX_TEXT_BYTES',
    seen: { unset: 0, 16: 1 },
    observe: async (limiter) => {
      await ask(limiter, { ten: 'a'.repeat(17) });
      return (await limiter.stats()).get('ratelimit.service.long_texts');
    },
  },
  {
    setting: 'REQUEST_MAX_BYTES',
    env: { REQUEST_MAX_TEXT_BYTES: '1024' },
    seen: { unset: 200, 1024: 429 },
    observe: async (limiter) => (await ask(limiter, { ten: 'a'.repeat(1000) })).status,
  },
  {
    setting: 'REQUEST_TOO_LARGE',
    env: { REQUEST_MAX_DESCRIPTORS: '1' },
    seen: { unset: 429, error: 400 },
    observe: async (limiter) => (await ask(limiter, { ten: 'a' }, { ten: 'b' })).status,
  },
  {
    setting: 'LOCAL_CACHE_SIZE_IN_BYTES',
    seen: { unset: [0, undefined], 1: [0, 0], 100000: [1, 1] },
    observe: async (limiter) => {
      await codes(limiter, { one: 'a' }, { one: 'a' }, { one: 'a' });
      const stats = await limiter.stats();
      return [
        stats.get('ratelimit.service.rate_limit.w.one.over_limit_with_local_cache'),
        stats.get('ratelimit.localcache.hitCount'),
      ];
    },
  },
  {
    setting: 'NEAR_LIMIT_RATIO',
    seen: { unset: 0, '0.5': 1 },
    observe: async (limiter) => {
      await limiter.ask('w', [{ ten: 'a' }], 6);
      return (await limiter.stats()).get('ratelimit.service.rate_limit.w.ten.near_limit');
    },
  },
  {
    setting: 'USE_CALENDAR_MONTH_RATE_LIMIT',
    seen: { unset: '604800s', true: `${Date.UTC(2024, 2) / 1000 - now}s` },
    observe: async (limiter) => (await ask(limiter, { monthly: 'a' })).body.statuses[0].durationUntilReset,
  },
  {
    setting: 'SHADOW_MODE',
    seen: { unset: { codes: ['OK', 'OVER_LIMIT'], counted: 0 }, true: { codes: ['OK', 'OK'], counted: 1 } },
    observe: async (limiter) => ({
      codes: await codes(limiter, { one: 'a' }, { one: 'a' }),
      counted: (await limiter.stats()).get('ratelimit.service.global_shadow_mode'),
    }),
  },
  {
    setting: 'QUOTA_MODE',
    seen: { unset: 'OVER_LIMIT', true: 'OK' },
    observe: async (limiter) => {
      await ask(limiter, { one: 'a' });
      return (await ask(limiter, { one: 'a' }, { ten: 'a' })).body.overallCode;
    },
  },
  {
    setting: 'RESPONSE_DYNAMIC_METADATA',
    seen: { unset: undefined, true: { domain: 'w', descriptors: [{ entries: ['ten=a'] }], hitsAddend: 1 } },
    observe: async (limiter) => (await ask(limiter, { ten: 'a' })).body.dynamicMetadata,
  },
  {
    setting: 'RESPONSE_RULE_IDENTITY',
    seen: {
      unset: [undefined, []],
      metadata: [decidedByTen, []],
      header: [undefined, [tenNamed]],
      both: [decidedByTen, [tenNamed]],
    },
    observe: async (limiter) => {
      const { body } = await ask(limiter, { ten: 'a' });
      return [body.dynamicMetadata, texts(body.responseHeadersToAdd)];
    },
  },
];

const defaultHeaders = ['RateLimit-Limit: 10', 'RateLimit-Remaining: 9', 'RateLimit-Reset: 86400'];
const noHeaders = { response: [], request: [] };
const bothEnabled = { LIMIT_RESPONSE_HEADERS_ENABLED: 'true', LIMIT_REQUEST_HEADERS_ENABLED: 'true' };

const headerRows: Row[] = [
  {
    setting: 'RULE_IDENTITY_HEADER',
    env: { RESPONSE_RULE_IDENTITY: 'header' },
    seen: {
      unset: { response: [tenNamed], request: [] },
      'x-rule': { response: [tenNamed.replace('X-RateLimit-Rule', 'x-rule')], request: [] },
    },
    observe: headers,
  },
  {
    setting: 'LIMIT_WARNING_HEADER',
    seen: {
      unset: ['X-RateLimit-Warning: 20;policy="1mo";r=4'],
      'x-near': ['x-near: 20;policy="1mo";r=4'],
      '': [],
    },
    observe: async (limiter) => texts((await ask(limiter, { monthly: 'a' })).body.responseHeadersToAdd),
  },
  {
    setting: 'LIMIT_RESPONSE_HEADERS_STYLE',
    env: bothEnabled,
    seen: {
      unset: { response: defaultHeaders, request: defaultHeaders },
      ietf: {
        response: ['RateLimit-Policy: "1d";q=10;w=86400', 'RateLimit: "1d";r=9;t=86400'],
        request: defaultHeaders,
      },
    },
    observe: headers,
  },
  {
    setting: 'LIMIT_QUOTA_UNIT',
    env: { LIMIT_RESPONSE_HEADERS_ENABLED: 'true', LIMIT_RESPONSE_HEADERS_STYLE: 'ietf' },
    seen: {
      unset: 'RateLimit-Policy: "1d";q=10;w=86400',
      tokens: 'RateLimit-Policy: "1d";q=10;qu="tokens";w=86400',
    },
    observe: async (limiter) => (await headers(limiter)).response[0],
  },
  {
    setting: 'LIMIT_RETRY_AFTER_HEADER_ENABLED',
    seen: { unset: [[], []], true: [[], ['Retry-After: 3600']] },
    observe: async (limiter) => [
      texts((await ask(limiter, { one: 'a' })).body.responseHeadersToAdd),
      texts((await ask(limiter, { one: 'a' })).body.responseHeadersToAdd),
    ],
  },
  {
    setting: 'LIMIT_RESPONSE_HEADERS_ENABLED',
    seen: { unset: noHeaders, true: { response: defaultHeaders, request: [] } },
    observe: headers,
  },
  {
    setting: 'LIMIT_REQUEST_HEADERS_ENABLED',
    seen: { unset: noHeaders, true: { response: [], request: defaultHeaders } },
    observe: headers,
  },
  {
    setting: 'LIMIT_PER_UNIT_HEADERS_ENABLED',
    seen: {
      unset: noHeaders,
      true: { response: ['RateLimit-Limit-Days: 10', 'RateLimit-Remaining-Days: 9'], request: [] },
    },
    observe: headers,
  },
  ...[
    ['LIMIT_LIMIT_HEADER', 'response', 0] as const,
    ['LIMIT_REMAINING_HEADER', 'response', 1] as const,
    ['LIMIT_RESET_HEADER', 'response', 2] as const,
    ['LIMIT_REQUEST_LIMIT_HEADER', 'request', 0] as const,
    ['LIMIT_REQUEST_REMAINING_HEADER', 'request', 1] as const,
    ['LIMIT_REQUEST_RESET_HEADER', 'request', 2] as const,
  ].map(([setting, side, position]): Row => {
    const common = { response: defaultHeaders, request: defaultHeaders };
    const renamed = defaultHeaders.with(position, defaultHeaders[position]!.replace(/^[^:]+/, 'x-renamed'));
    return {
      setting,
      env: bothEnabled,
      seen: { unset: common, 'x-renamed': { ...common, [side]: renamed } },
      observe: headers,
    };
  }),
];

const toReceiver = { USE_STATSD: 'true', STATSD_HOST: '127.0.0.1', STATSD_PORT: taken, LOG_LEVEL: 'info' };

const statisticsRows: Row[] = [
  { setting: 'USE_STATSD', env: toReceiver, seen: { false: 0, true: 1 }, observe: flushes },
  { setting: 'DISABLE_STATS', env: toReceiver, seen: { unset: 1, true: 0 }, observe: flushes },
  { setting: 'STATSD_PROTOCOL', env: toReceiver, seen: { unset: 1, udp: 0 }, observe: flushes },
  {
    setting: 'USE_DOG_STATSD',
    env: { USE_STATSD: 'false', STATSD_HOST: '127.0.0.1', STATSD_PORT: taken },
    seen: { false: true, true: false },
    observe: writesToOutput,
  },
  {
    setting: 'USE_PROMETHEUS',
    env: { USE_STATSD: 'false', PROMETHEUS_ADDR: '127.0.0.1:0' },
    seen: { false: true, true: false },
    observe: writesToOutput,
  },
  {
    setting: 'EXTRA_TAGS',
    seen: { unset: ['runtime.num_values'], 'b:2,a:1.5': ['runtime.num_values.__a=1_5.__b=2'] },
    observe: async (limiter) =>
      [...(await limiter.stats()).keys()].filter((name) => name.startsWith('runtime.num_values')),
  },
  {
    setting: 'SANITIZE_DESCRIPTOR_METRIC_DOTS',
    env: { RUNTIME_ROOT: join(folder, 'each') },
    seen: { unset: ['w.e.each_a.b', 'w.e.each_c'], true: ['w.e.each_a_b', 'w.e.each_c'] },
    observe: metricKeys,
  },
  {
    setting: 'STATS_MAX_DETAILED_METRICS',
    env: { RUNTIME_ROOT: join(folder, 'each') },
    seen: { unset: ['w.e.each_a.b', 'w.e.each_c'], 1: ['_overflow', 'w.e.each_a.b'], 0: ['_overflow'] },
    observe: metricKeys,
  },
  { setting: 'STATSD_HOST', env: toReceiver, seen: { '127.0.0.1': 1, '::1': 0 }, observe: flushes },
  { setting: 'STATSD_PORT', env: toReceiver, seen: { [taken]: 1, 1: 0 }, observe: flushes },
  {
    setting: 'STATS_FLUSH_INTERVAL',
    env: toReceiver,
    seen: { unset: 1, '5s': 2 },
    observe: async (limiter) => {
      await eventually(() => expect(limiter.lines.join()).toContain('Connected to the statsd receiver'));
      timers.advance(5_000);
      return flushes(limiter);
    },
  },
];

const rows = [
  ...listenerRows,
  ...processRows,
  ...ruleRows,
  ...decisionRows,
  ...headerRows,
  ...statisticsRows,
];

/** A test for each value of each row. */
const cases = (of: Row[]) =>
  of.flatMap((row) =>
    Object.entries(row.seen).map(([value, seen]) => {
      const shown = value.replace(folder, '').replace(taken, 'the port of another');
      return { name: `${row.setting} ${value === 'unset' ? value : `= ${shown}`}`, row, value, seen };
    }),
  );

/** What was seen already: many rows begin with the same limiter. */
const seenBefore = new Map<Row['observe'], Map<string, Promise<unknown>>>();

function observed(row: Row, value: string, common: Record<string, string> = {}): Promise<unknown> {
  const env = { ...common, ...row.env, ...(value === 'unset' ? {} : { [row.setting]: value }) };
  for (const [name, text] of Object.entries(env)) env[name] = withRedis(text);
  const known = seenBefore.get(row.observe) ?? new Map<string, Promise<unknown>>();
  seenBefore.set(row.observe, known);
  const seen = known.get(JSON.stringify(env)) ?? start(env).then((limiter) => row.observe(limiter));
  known.set(JSON.stringify(env), seen);
  return seen;
}

let redis: RedisServer | undefined;

/** Tables are written down before Redis has its port and its path. */
function withRedis(text: string): string {
  return text.replace('REDIS_PORT', String(redis?.port)).replace('REDIS_SOCKET', String(redis?.socketPath));
}

describe('what a setting does', () => {
  it.each(cases(rows))('$name', async ({ row, value, seen }) => {
    expect(await observed(row, value)).toEqual(seen);
  });
});

let direct: Redis;

/** Every counter with its count and the seconds it has to live, to the nearest ten. */
async function counters(): Promise<string[]> {
  const keys = (await direct.keys('*')).filter((key) => !key.startsWith('weir:')).sort();
  return Promise.all(
    keys.map(
      async (key) => `${key}: ${await direct.get(key)}, ${Math.round((await direct.ttl(key)) / 10) * 10} s`,
    ),
  );
}

const countOnce = async (limiter: InProcessLimiter) => {
  await ask(limiter, { ten: 'a' });
  return counters();
};

const redisRows: Row[] = [
  {
    setting: 'BACKEND_TYPE',
    seen: { memory: [], redis: [`w_ten_a_${now}: 1, 86400 s`] },
    observe: countOnce,
  },
  {
    setting: 'CACHE_KEY_PREFIX',
    seen: { unset: [`w_ten_a_${now}: 1, 86400 s`], 'prod:': [`prod:w_ten_a_${now}: 1, 86400 s`] },
    observe: countOnce,
  },
  {
    setting: 'COUNTER_KEYS',
    seen: {
      compatible: [`w_ten_a_${now}: 1, 86400 s`],
      unambiguous: [`1{w;ten=a}86400:${now}: 1, 86400 s`],
    },
    observe: countOnce,
  },
  {
    setting: 'EXPIRATION_JITTER_MAX_SECONDS',
    seen: { 0: [`w_ten_a_${now}: 1, 86400 s`], 10000: [`w_ten_a_${now}: 1, 91400 s`] },
    observe: countOnce,
  },
  {
    setting: 'USE_CALENDAR_MONTH_RATE_LIMIT',
    seen: {
      unset: ['w_monthly_a_1705536000: 1, 2592000 s'],
      true: [`w_monthly_a_${Date.UTC(2024, 1) / 1000}: 1, ${20 * 86_400} s`],
    },
    observe: async (limiter) => {
      await ask(limiter, { monthly: 'a' });
      return counters();
    },
  },
  {
    setting: 'STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT',
    seen: {
      unset: [`w_one_a_${now}: 2, 3600 s`, `w_ten_a_${now}: 1, 86400 s`],
      true: [`w_one_a_${now}: 2, 3600 s`],
    },
    observe: async (limiter) => {
      await ask(limiter, { one: 'a' });
      await ask(limiter, { one: 'a' }, { ten: 'a' });
      return counters();
    },
  },
  {
    setting: 'REDIS_TIMEOUT',
    seen: { unset: null, '50ms': 'Redis did not answer within 50 ms' },
    observe: async (limiter) => {
      await direct.call('CLIENT', 'PAUSE', '300', 'ALL');
      return (await ask(limiter, { ten: 'a' })).error;
    },
  },
  {
    setting: 'REDIS_URL',
    seen: { '127.0.0.1:REDIS_PORT': 'db0', 'redis://127.0.0.1:REDIS_PORT/3': 'db3' },
    observe: async (limiter) => {
      await ask(limiter, { ten: 'a' });
      return /^(db\d+):keys=/m.exec(await direct.info('keyspace'))?.[1];
    },
  },
  {
    setting: 'REDIS_SOCKET_TYPE',
    env: { REDIS_URL: 'REDIS_SOCKET' },
    seen: { unix: [`w_ten_a_${now}: 1, 86400 s`], tcp: 'refused' },
    observe: (limiter) =>
      limiter.lines.some((line) => line.includes('is not host:port')) ? 'refused' : countOnce(limiter),
  },
  { setting: 'REDIS_AUTH', seen: { unset: ['default'], 'weir:secret': ['weir'] }, observe: () => users() },
];

/** Who is logged in, but for the test itself. */
async function users(): Promise<string[]> {
  const clients = String(await direct.call('CLIENT', 'LIST'))
    .trim()
    .split('\n');
  // Decisions have a connection, and what operators ask others. One that has sent nothing is yet to log in.
  const names = clients
    .filter((line) => !line.includes(' name=test ') && !line.includes(' cmd=NULL '))
    .map((line) => / user=(\S+)/.exec(line)?.[1] ?? '');
  return [...new Set(names)];
}

const onRedis = {
  BACKEND_TYPE: 'redis',
  REDIS_SOCKET_TYPE: 'tcp',
  REDIS_URL: '127.0.0.1:REDIS_PORT',
  EXPIRATION_JITTER_MAX_SECONDS: '0',
};

const startOnRedis = (env: Record<string, string> = {}) =>
  start({ ...onRedis, REDIS_URL: withRedis(onRedis.REDIS_URL), ...env });

describeWithServer('what a setting does with Redis', redisProgram, (path) => {
  beforeAll(async () => {
    redis = await startRedis({ path, unixSocket: true });
    direct = new Redis(redis.port, '127.0.0.1', { connectionName: 'test' });
    await direct.call('ACL', 'SETUSER', 'weir', 'on', '>secret', '~*', '&*', '+@all');
  });
  afterAll(async () => {
    direct?.disconnect();
    await redis?.stop();
  });
  beforeEach(async () => {
    await direct.flushall();
    await eventually(async () => expect(await users()).toEqual([]));
  });

  it.each(cases(redisRows))('$name', async ({ row, value, seen }) => {
    expect(await observed(row, value, onRedis)).toEqual(seen);
  });

  it('shows its connection in the statistics, and closes it at the end', async () => {
    const limiter = await startOnRedis();
    const pool = async () => {
      const stats = await limiter.stats();
      return ['active', 'total', 'local_close'].map((name) => stats.get(`ratelimit.redis_pool.cx_${name}`));
    };
    expect(await pool()).toEqual([1, 1, 0]);
    expect(await users()).toEqual(['default']);
    expect(await limiter.healthStatus()).toBe(200);
    await direct.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes');
    await eventually(async () => expect(await pool()).toEqual([1, 2, 1]));
    await limiter.stop();
    await eventually(async () => expect(await users()).toEqual([]));
  });

  it('closes its connection when it cannot start', async () => {
    const limiter = await startOnRedis({ PORT: taken });
    expect(await limiter.ended).toBe(1);
    expect(listeners(limiter)).toEqual(['debug', 'gRPC', inUse]);
    await eventually(async () => expect(await users()).toEqual([]));
  });

  it('counts a failure of the store', async () => {
    await direct.rpush(`w_ten_a_${now}`, 'no number');
    const limiter = await startOnRedis();
    expect((await ask(limiter, { ten: 'a' })).error).toContain('WRONGTYPE');
    const stats = await limiter.stats();
    expect(stats.get('ratelimit.service.call.should_rate_limit.redis_error')).toBe(1);
    expect(stats.get('ratelimit.service.call.should_rate_limit.service_error')).toBe(0);
    await direct.del(`w_ten_a_${now}`);
  });
});

describe('a limiter', () => {
  it('counts and answers over gRPC', async () => {
    const limiter = await start();
    const client = new LimiterClient(limiter.ports.grpc);
    expect(await client.allowed('w', 'one', 'a')).toBe(true);
    expect(await client.allowed('w', 'one', 'a')).toBe(false);
    client.close();
  });

  it.each([
    ['rules', 'usual', 200, 1],
    ['no rules', 'empty', 500, 2],
    ['wrong rules', 'wrong', 500, 2],
  ])(
    'that needs rules to be healthy reports so over HTTP and gRPC, with %s',
    async (_, name, status, serving) => {
      const env = { RUNTIME_ROOT: join(folder, name), HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED: 'true' };
      const limiter = await start(env);
      const client = new LimiterClient(limiter.ports.grpc);
      const health: number[] = [];
      const watch = client.watchHealth('ratelimit', (state) => health.push(state));
      await eventually(() => expect(health).toEqual([serving]));
      expect(await limiter.healthStatus()).toBe(status);
      await limiter.stop();
      await watch;
      client.close();
    },
  );

  it('is unhealthy and continues answering for the whole drain delay', async () => {
    const limiter = await start({ SHUTDOWN_DRAIN_DELAY: '90s' });
    const ended = limiter.stop();
    timers.advance(89_999);
    expect(await limiter.healthStatus()).toBe(500);
    expect(await codes(limiter, { ten: 'a' })).toEqual(['OK']);
    timers.advance(1);
    expect(await ended).toBe(0);
  });

  it('says at the level warning where it listens when it starts, and nothing else', async () => {
    const { lines } = await start({});
    expect(lines.join('\n')).toContain('level=warning msg="Listening for gRPC on ');
    const others = lines.filter((line) => !line.includes('Listening for '));
    expect(others.filter((line) => /level=(warning|error)/.test(line))).toEqual([]);
  });

  it('shows in its statistics what it loaded, counted and holds', async () => {
    const limiter = await start({ MEMORY_STORE_MAX_COUNTERS: '2', LOCAL_CACHE_SIZE_IN_BYTES: '100000' });
    const client = new LimiterClient(limiter.ports.grpc);
    await client.allowed('w', 'ten', 'a');
    client.close();
    await codes(limiter, { one: 'a' }, { one: 'a' }, { one: 'b' });
    await limiter.ask('', [{ one: 'a' }]);
    const stats = await limiter.stats();
    for (const name of [...stats.keys()]) if (name.includes('.rate_limit.w.')) stats.delete(name);
    const version = /__version=([0-9a-f]{16})$/m.exec([...stats.keys()].join('\n'))?.[1];
    const underscored = (text: string): string => text.replaceAll('.', '_');
    const zero = (name: string, tags: readonly string[]) =>
      Object.fromEntries(tags.map((tag) => [`ratelimit.${name}${tag}`, 0]));
    expect(Object.fromEntries(stats)).toEqual({
      'ratelimit.health.serving': 1,
      ...zero('admin.changes.__what=', ['counters-reset', 'grant-given', 'override-removed', 'override-set']),
      ...zero('admin.refused.__reason=', ['foreign', 'permission_denied', 'slowed', 'unauthenticated']),
      ...zero('budget.calls.__call=reserve.__outcome=', budgetOutcomes.reserve),
      ...zero('budget.calls.__call=settle.__outcome=', budgetOutcomes.settle),
      'ratelimit.budget.expired_hits': 0,
      ...zero('overrides.hits.__effect=', ['block', 'grant', 'limit', 'shadow', 'unlimited']),
      ...zero('overrides.', ['conflicted', 'files_refused', 'in_force']),
      ...zero('forward_auth.requests.__answer=', [...forwardAnswers]),
      ...zero('profiles.', ['entries', 'load_error', 'load_failed', 'load_success']),
      'ratelimit.connections.held_bytes': expect.any(Number),
      'ratelimit.http.connections': expect.any(Number),
      'ratelimit.http.foreign_host': 0,
      'ratelimit.http.json_requests': 4,
      'ratelimit.http.v1_requests': 0,
      'ratelimit.http.too_many_bytes': 0,
      'ratelimit.http.too_many_connections': 0,
      'ratelimit.http.too_many_header_bytes': 0,
      'ratelimit.http.too_many_pieces': 0,
      'ratelimit.localcache.averageAccessTime': 0,
      'ratelimit.localcache.entryCount': 1,
      'ratelimit.localcache.evacuateCount': 0,
      'ratelimit.localcache.expiredCount': 0,
      'ratelimit.localcache.hitCount': 0,
      'ratelimit.localcache.lookupCount': 4,
      'ratelimit.localcache.missCount': 4,
      'ratelimit.localcache.overwriteCount': 0,
      'ratelimit.memory_store.bytes': expect.any(Number),
      'ratelimit.memory_store.counters': 2,
      'ratelimit.memory_store.evicted': 1,
      'ratelimit.output.lines_dropped': 0,
      'ratelimit.rules.age_seconds': expect.any(Number),
      'ratelimit.rules.domains': 1,
      [`ratelimit.rules.info.__version=${version}`]: 1,
      'ratelimit.rules.load_failed': 0,
      'ratelimit.rules.rules': 3,
      'ratelimit.service.call.should_rate_limit.redis_error': 0,
      'ratelimit.service.call.should_rate_limit.service_error': 1,
      'ratelimit.service.call.should_rate_limit.abandoned': 0,
      'ratelimit.service.call.should_rate_limit.too_large.__bound=HTTP_MAX_BODY_BYTES': 0,
      'ratelimit.service.call.should_rate_limit.too_large.__bound=REQUEST_MAX_BYTES': 0,
      'ratelimit.service.call.should_rate_limit.too_large.__bound=REQUEST_MAX_DESCRIPTORS': 0,
      'ratelimit.service.call.should_rate_limit.too_large.__bound=REQUEST_MAX_ENTRIES': 0,
      'ratelimit.service.long_texts': 0,
      'ratelimit.service.invalid_utf8_values': 0,
      'ratelimit.service.call.should_rate_limit.store_failure_mode': 0,
      'ratelimit.service.config_load_error': 0,
      'ratelimit.service.config_load_success': 1,
      'ratelimit.service.global_shadow_mode': 0,
      'ratelimit.stats.detailed_metrics': 0,
      'ratelimit.stats.detailed_metrics_left': 0,
      'ratelimit.stats.detailed_metrics_refused': 0,
      ...Object.fromEntries(
        [
          ...adminChanges.map((what) => `admin.changes.__what=${what}`),
          ...['foreign', 'permission_denied', 'slowed', 'unauthenticated'].map(
            (reason) => `admin.refused.__reason=${reason}`,
          ),
          ...['block', 'grant', 'limit', 'shadow', 'unlimited'].map(
            (effect) => `overrides.hits.__effect=${effect}`,
          ),
          ...['conflicted', 'files_refused', 'in_force'].map((name) => `overrides.${name}`),
        ].map((name) => [`ratelimit.${name}`, 0]),
      ),
      'ratelimit.refusals.bytes': expect.any(Number),
      'ratelimit.refusals.kept': 1,
      'ratelimit.refusals.left_out': 0,
      'ratelimit.top_offenders.bytes': expect.any(Number),
      'ratelimit.top_offenders.domains': 1,
      'ratelimit.top_offenders.dropped': 0,
      ...Object.fromEntries(
        ['Check', 'List', ...kuadrantMethods].map((name) => [`ratelimit_server.${name}.total_requests`, 0]),
      ),
      'ratelimit_server.ShouldRateLimit.total_requests': 1,
      ...Object.fromEntries(connectionRejections.map((reason) => [`ratelimit_server.http2.${reason}`, 0])),
      'ratelimit_server.http2.connections': expect.any(Number),
      'runtime.load_attempts': 1,
      'runtime.load_failures': 0,
      'runtime.num_values': 1,
      [`weir.build_info.__node=${underscored(process.version)}.__version=${underscored(packageVersion())}`]: 1,
      'weir.store_info.__backend=memory.__failure_mode=none': 1,
    });
  });

  it('keeps no counter in memory beyond its window, whatever the jitter', async () => {
    let nowMs = now * 1000;
    const clock = { ...standingClock, nowMs: () => nowMs };
    const limiter = await start({ EXPIRATION_JITTER_MAX_SECONDS: '5000' }, { clock });
    await ask(limiter, { one: 'a' });
    const held = async () => (await limiter.stats()).get('ratelimit.memory_store.counters');
    nowMs += 3_599_000;
    expect(await held()).toBe(1);
    nowMs += 2_000;
    expect(await held()).toBe(0);
  });

  it('logs warnings beside the settings that it rejects', async () => {
    const limiter = await InProcessLimiter.start({ env: { PORT: 'x', REDIS_PASSWORD: 'hunter2' } });
    expect(await limiter.ended).toBe(1);
    expect(limiter.lines).toEqual([
      'level=warning msg="REDIS_PASSWORD is unknown to this version and ignored; did you mean REDIS_AUTH?"',
      expect.stringMatching(/^level=fatal msg="PORT: /),
    ]);
  });

  it('logs warnings of settings and of rules', async () => {
    writeRules('warned/config/a.yaml', `${oneRule('warned')}  - key: idle\nunit: day\n`);
    symlinkSync(folder, join(folder, 'warned/config/link.yaml'));
    const env = { RUNTIME_ROOT: join(folder, 'warned'), STATSD_PREFIX: 'true' };
    const { lines } = await start(env);
    const reported = () => lines.filter((line) => !line.includes('Listening'));
    await eventually(() => expect(reported().length).toBeGreaterThan(3));
    expect(reported()).toEqual([
      'level=warning msg="STATSD_PREFIX is a setting that this version does not have; it is ignored"',
      'level=warning msg="config.link.yaml: symbolic link to a directory, skipped"',
      `level=warning msg="config.a.yaml: config warning, key 'unit' has no effect here, it belongs to rate_limit" line=6 column=1`,
      'level=warning msg="config.a.yaml: the rule has no limit, no rules below it, and takes no requests from other rules: it has no effect" rule=idle line=5 column=10 hint="give it a rate_limit or descriptors, or remove it"',
    ]);
  });

  it('warns once of rules in a file that it does not read by its name', async () => {
    writeRules('passed/config/a.yaml', oneRule('a'));
    writeRules('passed/config/old.conf', oneRule('b'));
    writeRules('passed/config/.hidden', oneRule('c'));
    writeRules('passed/config/README.md', '# domain: what this is\n');
    const env = { RUNTIME_ROOT: join(folder, 'passed'), RUNTIME_WATCH_ROOT: 'false', LOG_LEVEL: 'info' };
    const { lines } = await start(env, { timers: systemTimers });
    const reported = (text: string) => lines.filter((line) => line.includes(text));
    writeRules('passed/config/a.yaml', oneRule('a2'));
    await eventually(() => expect(reported('Successfully loaded').length).toBeGreaterThanOrEqual(2));
    await eventually(() => expect(reported('is not read')).not.toEqual([]));
    expect(reported('is not read')).toEqual([
      'level=warning msg="old.conf: has rules but is not read: only *.yaml and *.yml are rule files"',
    ]);
  });

  it('warns of rules whose counters could meet, and again only when they are others', async () => {
    const [first, second] = [oneRule('meet', 'a'), oneRule('meet_a', 'b')];
    writeRules('meet/config/a.yaml', first);
    writeRules('meet/config/b.yaml', second);
    const env = { RUNTIME_ROOT: join(folder, 'meet'), RUNTIME_WATCH_ROOT: 'false', LOG_LEVEL: 'info' };
    const { lines } = await start(env, { timers: systemTimers });
    const reported = () => lines.filter((line) => line.includes('could share a key'));
    const loads = () => lines.filter((line) => line.includes('Successfully loaded')).length;
    const line = (key: string, other: number) =>
      `level=warning msg="Counters of these rules could share a key: set COUNTER_KEYS=unambiguous when no limiter of envoyproxy/ratelimit uses the store" pairs=1 first="b.yaml:3:10: rule ${key} of domain meet_a counts as meet_a_${key}_*_, which can be a key of rule a of domain meet as well (a.yaml line ${other})"`;
    await eventually(() => expect(reported()).toEqual([line('b', 3)]));
    writeRules(
      'meet/config/a.yaml',
      `# moves the lines\n${first.replace('requests_per_unit: 5', 'requests_per_unit: 6')}`,
    );
    await eventually(() => expect(loads()).toBe(2));
    writeRules('meet/config/b.yaml', oneRule('meet_a', 'c'));
    await eventually(() => expect(reported().slice(1)).toEqual([line('c', 4)]));
    const unambiguous = await start({ ...env, COUNTER_KEYS: 'unambiguous' });
    await new Promise((next) => setTimeout(next, 500));
    expect(unambiguous.lines.filter((one) => one.includes('could share a key'))).toEqual([]);
  });

  it('lists what it loaded at the level debug alone', async () => {
    const listed = ({ lines }: InProcessLimiter) => lines.filter((line) => line.includes('msg="loading '));
    const limiter = await start({ LOG_LEVEL: 'debug' });
    await eventually(() => expect(listed(limiter)).toHaveLength(4));
    expect(listed(limiter).slice(0, 2)).toEqual([
      'level=debug msg="loading domain: w"',
      'level=debug msg="loading descriptor: key=w.monthly ratelimit={requests_per_unit=5, unit=MONTH, warn_at=20, unlimited=false, shadow_mode=false, quota_mode=false}"',
    ]);
    expect(listed(await start({ LOG_LEVEL: 'info' }))).toEqual([]);
  });

  it.each([
    ['wrong', 'config.a.yaml: config file cannot have empty domain', 0],
    ['unreadable', 'config.a.yaml: too many symbolic links encountered', 1],
  ])('logs and counts a load that failed for a file that is %s', async (name, reason, unreadable) => {
    const limiter = await start({ RUNTIME_ROOT: join(folder, name) });
    expect(limiter.lines.join('\n')).toContain(`level=error msg="Error loading new configuration: ${reason}`);
    expect(limiter.lines).toContain(
      'level=error msg="No rules are loaded yet: the limiter answers every request with an error until rules are loaded"',
    );
    const stats = await limiter.stats();
    expect(stats.get('ratelimit.service.config_load_error')).toBe(1);
    expect(stats.get('ratelimit.service.config_load_success')).toBe(0);
    expect(stats.get('runtime.load_attempts')).toBe(1);
    expect(stats.get('runtime.load_failures')).toBe(unreadable);
    expect(stats.get('runtime.num_values')).toBe(0);
  });

  it('loads again when a file changes, and says when it cannot watch any more', async () => {
    writeRules('watched/config/a.yaml', oneRule('first'));
    const path = join(folder, 'watched/config');
    const env = { RUNTIME_ROOT: join(folder, 'watched'), RUNTIME_WATCH_ROOT: 'false' };
    const limiter = await start(env, { timers: systemTimers });
    writeRules('watched/config/b.yaml', oneRule('second'));
    await eventually(async () => expect(await loadedRules(limiter)).toEqual(['first.k', 'second.k']));
    expect((await limiter.stats()).get('runtime.num_values')).toBe(2);
    writeRules('watched/config/bad.yaml', 'domain: ""\n');
    await eventually(() => expect(limiter.lines.join('\n')).toContain('Error loading new configuration'));
    expect(limiter.lines.join('\n')).not.toContain('No rules are loaded yet');
    expect(await loadedRules(limiter)).toEqual(['first.k', 'second.k']);
    rmSync(path, { recursive: true });
    const lost = `level=error msg="Cannot watch rule files" path=${path} error="unable to watch file (${path}): no such file or directory"`;
    await eventually(() => expect(limiter.lines).toContain(lost));
    expect(await loadedRules(limiter)).toEqual(['first.k', 'second.k']);
    writeRules('watched/config/c.yaml', oneRule('third'));
    await eventually(() =>
      expect(limiter.lines).toContain(`level=warning msg="Watching rule files again" path=${path}`),
    );
    await eventually(async () => expect(await loadedRules(limiter)).toEqual(['third.k']));
  });

  it('logs its own faults, with the call', async () => {
    let broken = false;
    const nowMs = () => {
      if (!broken) return now * 1000;
      broken = false;
      throw new Error('the clock broke');
    };
    const limiter = await start({}, { clock: { ...standingClock, nowMs } });
    broken = true;
    expect((await ask(limiter, { ten: 'a' })).status).toBe(500);
    broken = true;
    await limiter.stats().catch(() => {});
    expect(limiter.lines.slice(-2)).toEqual([
      'level=error msg="Fault while answering a call" call=ShouldRateLimit error="the clock broke"',
      'level=error msg="Fault while answering a call" call=debug error="the clock broke"',
    ]);
  });

  it('leaves nothing open when it cannot start', async () => {
    const limiter = await start({ ...toReceiver, PORT: taken });
    expect(await limiter.ended).toBe(1);
    expect(timers.size).toBe(0);
    const ports = limiter.lines.flatMap((line) => /Listening for \w+ on '.*:(\d+)'/.exec(line)?.[1] ?? []);
    expect(ports).toHaveLength(2);
    for (const port of ports) {
      await expect(fetch(`http://127.0.0.1:${port}/`)).rejects.toMatchObject({
        cause: { code: 'ECONNREFUSED' },
      });
    }
    await receiver.settled();
  });
});

describeSettingRows([...rows, ...redisRows], limiterSettingGroups, {
  file: 'test/limiter/main.test.ts',
  others: [
    'test/{allocate,e2e,limiter,operate,stores}/**/*.test.ts',
    'limiter/settings/dogstatsd-settings.test.ts',
  ],
});
