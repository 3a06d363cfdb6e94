/** What every setting of xDS does to a whole limiter, as main.test.ts has it for the others. */
import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import { createServer as createHttp2Server, type ServerHttp2Session } from 'node:http2';
import type { AddressInfo } from 'node:net';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { ServerCredentials } from '@grpc/grpc-js';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { DiscoveryRequest } from '../../gen/envoy/service/discovery/v3/discovery_pb.ts';
import { parseLimiterSettings } from '../../limiter/settings/settings.ts';
import { xdsSettings } from '../../limiter/settings/xds-settings.ts';
import { capabilities } from '../../rules/language/capabilities.ts';
import type { RuleSource } from '../../rules/model.ts';
import { AdsServer, type AdsServerStream } from '../support/ads-server.ts';
import { createAuthority } from '../support/certificates.ts';
import { describeWithServer } from '../support/describe-with-server.ts';
import { eventually } from '../support/eventually.ts';
import { opensslProgram } from '../support/find-server.ts';
import { InProcessLimiter } from '../support/in-process-limiter.ts';
import { limitersOfSuite } from '../support/limiters-of-suite.ts';
import { ManualTimers } from '../support/manual-timers.ts';
import { limit, rule, source } from '../support/rule-builder.ts';
import { describeSettingRows } from '../support/setting-tests.ts';
import { suiteFolder } from '../support/suite-folder.ts';

let ads: AdsServer;
let incremental: AdsServer;
let timers: ManualTimers;

const folder = suiteFolder();
const pem = (name: string) => join(folder, `${name}.pem`);
const key = (name: string) => join(folder, `${name}.key`);
const tokenFile = join(folder, 'token');
writeFileSync(tokenFile, 'a-token-of-the-limiter\n');

beforeAll(async () => {
  ads = await AdsServer.start();
  incremental = await AdsServer.start({ incremental: true });
});
afterAll(() => Promise.all([ads.stop(), incremental.stop()]));
beforeEach(() => {
  timers = new ManualTimers();
});

/** With rules from `server`, and time that stands still. */
const startOn = limitersOfSuite(() => ({
  timers,
  random: () => 0.5,
  env: {
    CONFIG_TYPE: 'GRPC_XDS_SOTW',
    // No timers but those of the connection.
    DISABLE_STATS: 'true',
    STATS_FLUSH_INTERVAL: '24h',
    FORCE_START_WITHOUT_INITIAL_CONFIG: 'true',
    LOG_LEVEL: 'info',
  },
}));
const start = (env: Record<string, string> = {}, server: { port: number } = ads) =>
  startOn({ CONFIG_GRPC_XDS_SERVER_URL: `127.0.0.1:${server.port}`, ...env });

interface Row {
  setting: string;
  /** By the value of the setting; `unset` is none. */
  seen: Record<string, unknown>;
  /** What it takes to see something. */
  env?: Record<string, string>;
  observe(limiter: InProcessLimiter): unknown;
}

function oneRule(domain: string, requestsPerUnit: number, name = `team/${domain}`): RuleSource {
  return source(domain, [rule({ key: 'k', rateLimit: limit({ unit: 'day', requestsPerUnit }) })], name);
}

/** What the limiter says of itself in its first request. */
const node =
  (show: (request: DiscoveryRequest) => unknown): Row['observe'] =>
  async () =>
    show(await (await ads.stream()).request());

const metadata = (name: string) => node((request) => request.node?.metadata?.[name]);

/** The first two waits of an outage. */
async function retryWaits(limiter: InProcessLimiter, fail: () => Promise<void>): Promise<number[]> {
  const waits = () =>
    limiter.lines.flatMap((line) => {
      const found = /An attempt to connect .* retryMs=(\d+)/.exec(line)?.[1];
      return found === undefined ? [] : [Number(found)];
    });
  await fail();
  await eventually(() => expect(limiter.lines.join()).toContain('The xDS server sends no rules'));
  const lostMs = timers.nowMs;
  timers.advanceToNext();
  const firstMs = timers.nowMs - lostMs;
  await fail();
  await eventually(() => expect(waits()).toHaveLength(1));
  return [firstMs, ...waits()];
}

/** After two streams that broke. */
const backoff: Row['observe'] = (limiter) =>
  retryWaits(limiter, async () => {
    (await ads.stream()).end();
  });

async function connection({ lines }: InProcessLimiter): Promise<string> {
  if (lines.join().includes('Cannot start')) return 'cannot start';
  const lost = /The xDS server sends no rules/;
  let seen = '';
  await eventually(() => {
    if (lines.some((line) => lost.test(line))) seen = 'not connected';
    else if (ads.waiting > 0) seen = 'connected';
    expect(seen).not.toBe('');
  });
  while (ads.waiting > 0) await ads.stream();
  return seen;
}

const rows: Row[] = [
  {
    setting: 'CONFIG_GRPC_XDS_SERVER_URL',
    seen: { ADS: 'connected', '127.0.0.1:1': 'not connected' },
    observe: connection,
  },
  {
    setting: 'CONFIG_GRPC_XDS_NODE_ID',
    seen: { unset: 'default', edge: 'edge' },
    observe: node((request) => request.node?.id),
  },
  {
    setting: 'CONFIG_GRPC_XDS_FLEET',
    seen: { unset: 'default', edge: 'edge' },
    observe: metadata('fleet'),
  },
  {
    setting: 'CONFIG_GRPC_XDS_NODE_METADATA',
    seen: {
      unset: {
        pod: hostname(),
        fleet: 'default',
        instance: expect.stringMatching(/^[-0-9a-f]{36}$/),
        counter_keys: 'compatible',
        capabilities: [...capabilities],
      },
      'fleet=edge,team=a=b,instance=i,x,capabilities=windows': {
        pod: hostname(),
        fleet: 'edge',
        instance: 'i',
        team: 'a=b',
        counter_keys: 'compatible',
        capabilities: [...capabilities],
      },
    },
    observe: node((request) => request.node?.metadata),
  },
  { setting: 'POD_NAME', seen: { unset: hostname(), 'pod-7': 'pod-7' }, observe: metadata('pod') },
  {
    setting: 'CONFIG_GRPC_XDS_SERVER_CONNECT_RETRY_INTERVAL',
    env: { CONFIG_GRPC_XDS_SERVER_URL: '127.0.0.1:1' },
    seen: { unset: [3_900, 3_900], '20s': [26_000, 26_000], '2m': [120_000, 120_000] },
    observe: (limiter) => retryWaits(limiter, async () => {}),
  },
  {
    setting: 'CONFIG_GRPC_XDS_TOKEN_FILE',
    seen: { unset: [], [tokenFile]: ['Bearer a-token-of-the-limiter'] },
    observe: async () => (await ads.stream()).headers.get('authorization'),
  },
  {
    setting: 'CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS',
    seen: {
      unset: [],
      'X-Team:a,X-Bytes-bin:b': [
        ['x-bytes-bin', Buffer.from('b')],
        ['x-team', 'a'],
      ],
    },
    observe: async () => {
      const { headers } = await ads.stream();
      const names = Object.keys(headers.getMap()).filter((name) => name.startsWith('x-'));
      return names.sort().map((name) => [name, headers.get(name)[0]]);
    },
  },
  {
    setting: 'XDS_CLIENT_BACKOFF_INITIAL_INTERVAL',
    seen: { unset: [13_000, 13_000], '20s': [26_000, 26_000] },
    observe: backoff,
  },
  {
    setting: 'XDS_CLIENT_BACKOFF_MAX_INTERVAL',
    env: { XDS_CLIENT_BACKOFF_RANDOM_FACTOR: '100', XDS_CLIENT_BACKOFF_JITTER: 'false' },
    seen: { unset: [10_000, 60_000], '30s': [10_000, 30_000] },
    observe: backoff,
  },
  {
    setting: 'XDS_CLIENT_BACKOFF_RANDOM_FACTOR',
    // One that is set keeps the Go service's formula: the first wait is exact, whatever the jitter.
    seen: { unset: [13_000, 13_000], '1.6': [10_000, 13_000], '0.5': [10_000, 10_000] },
    observe: backoff,
  },
  {
    setting: 'XDS_CLIENT_BACKOFF_JITTER',
    env: { XDS_CLIENT_BACKOFF_RANDOM_FACTOR: '3' },
    seen: { unset: [10_000, 20_000], false: [10_000, 30_000] },
    observe: backoff,
  },
  {
    setting: 'XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES',
    seen: { unset: ['loaded'], 5000000: ['too large'] },
    observe: async (limiter) => {
      const stream = await ads.stream();
      const large = rule({ key: 'k', value: 'v'.repeat(5_000_000) });
      stream.respond({ version: '1', sources: [source('large', [large])] });
      const seen = () =>
        limiter.lines.flatMap((line) => {
          if (line.includes('Received message larger than max')) return ['too large'];
          return line.includes('Successfully loaded') ? ['loaded'] : [];
        });
      await eventually(() => expect(seen()).not.toEqual([]));
      return seen();
    },
  },
];

const totalRow: Row = {
  setting: 'XDS_CLIENT_MAX_TOTAL_BYTES',
  env: { CONFIG_TYPE: 'GRPC_XDS_DELTA' },
  seen: { unset: undefined, 1048576: 'the resources have more than 1048576 bytes in total' },
  observe: async () => {
    const stream = await incremental.deltaStream();
    await stream.request();
    const large = rule({ key: 'k', value: 'v'.repeat(2_000_000), rateLimit: limit() });
    stream.respond({ version: '1', resources: { large: ['1', source('large', [large])] } });
    const { errorDetail } = await stream.request();
    return errorDetail?.message.replace(/ \(.*/, '');
  },
};

const tlsRows: Row[] = [
  {
    setting: 'CONFIG_GRPC_XDS_SERVER_USE_TLS',
    seen: { unset: 'not connected', true: 'connected' },
    observe: connection,
  },
  {
    setting: 'CONFIG_GRPC_XDS_SERVER_TLS_CACERT',
    seen: { unset: 'not connected', [pem('authority')]: 'connected', [pem('missing')]: 'cannot start' },
    observe: connection,
  },
  {
    setting: 'CONFIG_GRPC_XDS_SERVER_TLS_SAN',
    seen: { unset: 'connected', 'other.internal': 'not connected' },
    observe: connection,
  },
  {
    setting: 'CONFIG_GRPC_XDS_CLIENT_TLS_CERT',
    seen: { [pem('client')]: 'connected', [pem('server')]: 'cannot start' },
    observe: connection,
  },
  {
    setting: 'CONFIG_GRPC_XDS_CLIENT_TLS_KEY',
    seen: { [key('client')]: 'connected', [key('server')]: 'cannot start' },
    observe: connection,
  },
];

const keepaliveRow: Row = {
  setting: 'CONFIG_GRPC_XDS_KEEPALIVE_INTERVAL',
  seen: { unset: false, '50ms': true },
  observe: () => pinged,
};
let pinged: Promise<boolean>;

const cases = (of: Row[]) =>
  of.flatMap((row) =>
    Object.entries(row.seen).map(([value, seen]) => {
      const shown = value.replace(folder, '');
      return { name: `${row.setting} ${value === 'unset' ? value : `= ${shown}`}`, row, value, seen };
    }),
  );

async function observed(
  row: Row,
  value: string,
  common: Record<string, string> = {},
  server?: { port: number },
) {
  const set = value === 'unset' ? {} : { [row.setting]: value.replace('ADS', `127.0.0.1:${ads.port}`) };
  const unset = Object.fromEntries(Object.entries(common).filter(([name]) => name !== row.setting));
  return row.observe(await start({ ...unset, ...row.env, ...set }, server));
}

describe('what a setting of xDS does', () => {
  it.each(cases(rows))('$name', async ({ row, value, seen }) => {
    expect(await observed(row, value)).toEqual(seen);
  });

  it.each(cases([totalRow]))('$name', async ({ row, value, seen }) => {
    expect(await observed(row, value, {}, incremental)).toEqual(seen);
  });

  it.each(cases([keepaliveRow]))('$name', async ({ row, value, seen }) => {
    const server = createHttp2Server();
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    const sessions: ServerHttp2Session[] = [];
    pinged = new Promise((resolve) => {
      server.on('session', (session: ServerHttp2Session) => {
        sessions.push(session);
        session.on('ping', () => resolve(true));
        setTimeout(() => resolve(false), 1_000);
      });
    });
    expect(await observed(row, value, {}, { port: (server.address() as AddressInfo).port })).toBe(seen);
    for (const session of sessions) session.destroy();
    server.close();
  });
});

describeWithServer('what a setting of xDS does with TLS', opensslProgram, (openssl) => {
  let plain: AdsServer;
  beforeAll(async () => {
    const authority = createAuthority(openssl, folder, 'authority');
    authority.issue({ name: 'server', alternativeNames: 'IP:127.0.0.1' });
    authority.issue({ name: 'client' });
    const pair = { cert_chain: readFileSync(pem('server')), private_key: readFileSync(key('server')) };
    plain = ads;
    const credentials = ServerCredentials.createSsl(readFileSync(pem('authority')), [pair], true);
    ads = await AdsServer.start({ credentials });
  });
  afterAll(async () => {
    await ads.stop();
    ads = plain;
  });

  it.each(cases(tlsRows))('$name', async ({ row, value, seen }) => {
    const all = {
      CONFIG_GRPC_XDS_SERVER_USE_TLS: 'true',
      CONFIG_GRPC_XDS_SERVER_TLS_CACERT: pem('authority'),
      CONFIG_GRPC_XDS_CLIENT_TLS_CERT: pem('client'),
      CONFIG_GRPC_XDS_CLIENT_TLS_KEY: key('client'),
    };
    expect(await observed(row, value, all)).toEqual(seen);
  });
});

it('rejects a shortest wait above the longest, if rules come from an xDS server', () => {
  const env = { XDS_CLIENT_BACKOFF_INITIAL_INTERVAL: '2m' };
  const errors = (type: string) =>
    parseLimiterSettings({ ...env, CONFIG_TYPE: type, BACKEND_TYPE: 'memory' }).errors;
  expect(errors('GRPC_XDS_SOTW')?.map(({ message }) => message)).toEqual([
    'XDS_CLIENT_BACKOFF_INITIAL_INTERVAL: 2m must not be above XDS_CLIENT_BACKOFF_MAX_INTERVAL, 1m',
  ]);
  expect(errors('FILE')).toBeUndefined();
});

describe('a limiter with rules from an xDS server', () => {
  const waiting = { FORCE_START_WITHOUT_INITIAL_CONFIG: 'false' };
  const isServing = ({ lines }: InProcessLimiter) =>
    lines.some((line) => line.includes('Listening for gRPC'));

  /** Begins while `stream` has not answered yet. */
  async function startWaiting(env: Record<string, string> = {}): Promise<{
    limiter: Promise<InProcessLimiter>;
    stream: AdsServerStream;
  }> {
    const limiter = start({ ...waiting, ...env });
    const stream = await ads.stream();
    await stream.request();
    return { limiter, stream };
  }

  it.each([
    [
      'rules',
      [oneRule('d', 1)],
      ['d.k: unit=DAY requests_per_unit=1, shadow_mode: false, quota_mode: false'],
    ],
    ['rules that it refuses', [oneRule('', 1)], []],
  ])('opens its listeners when the first response came, with %s', async (_, sources, lines) => {
    const { limiter, stream } = await startWaiting();
    stream.respond({ version: '1', sources });
    const opened = await limiter;
    expect(isServing(opened)).toBe(true);
    expect(await opened.rlconfig()).toEqual(lines);
  });

  it('says that it serves no requests while it waits for rules, and ends on a signal', async () => {
    const limiter = new InProcessLimiter(
      { timers, env: { CONFIG_TYPE: 'GRPC_XDS_SOTW', CONFIG_GRPC_XDS_SERVER_URL: `127.0.0.1:${ads.port}` } },
      () => {},
    );
    const stream = await ads.stream();
    await stream.request();
    expect(isServing(limiter)).toBe(false);
    timers.advance(10_000);
    expect(limiter.lines.at(-1)).toMatch(
      /^level=error msg="Not serving yet: the gRPC and HTTP listeners open when the start is complete" waitsFor=rules seconds=\d+$/,
    );
    expect(await limiter.stop()).toBe(0);
    expect(timers.size).toBe(0);
    await stream.ended;
  });

  it.each(['GRPC_XDS_SOTW', 'GRPC_XDS_DELTA'])(
    'says that trouble is over when what is in force comes again, with %s',
    async (type) => {
      const limiter = await start({ CONFIG_TYPE: type });
      const stream = await ads.stream();
      await stream.request();
      for (const requests of [[1], [1, 2], [1]]) {
        const sources = requests.map((one) => oneRule('d', one, `r${one}`));
        stream.respond({ version: `${requests.length}`, sources });
        await stream.request();
        const { length } = requests;
        expect((await limiter.stats()).get('ratelimit.rules.load_failed')).toBe(length - 1);
      }
      const reported = limiter.lines.filter((line) => line.includes('Successfully loaded new configuration'));
      expect(reported.map((line) => line.split(' ')[0])).toEqual(['level=info', 'level=warning']);
    },
  );

  it('counts its loads, and shows no statistics of files', async () => {
    const limiter = await start();
    const stream = await ads.stream();
    await stream.request();
    stream.respond({ version: '1', sources: [oneRule('d', 1)] });
    await stream.request();
    stream.respond({ version: '2', sources: [oneRule('d', 1, 'r1'), oneRule('d', 2, 'r2')] });
    expect((await stream.request()).errorDetail?.message).toBe("r2: duplicate domain 'd' in config file");
    const stats = await limiter.stats();
    expect(stats.get('ratelimit.service.config_load_success')).toBe(1);
    expect(stats.get('ratelimit.service.config_load_error')).toBe(1);
    expect(stats.get('ratelimit.xds.connected')).toBe(1);
    expect([...stats.keys()].filter((name) => name.startsWith('runtime.'))).toEqual([]);
    expect(limiter.lines).toContain(
      `level=error msg="Error loading new configuration: r2: duplicate domain 'd' in config file"`,
    );
  });

  it('merges domains if it is asked to', async () => {
    const limiter = await start({ MERGE_DOMAIN_CONFIG: 'true' });
    const stream = await ads.stream();
    await stream.request();
    const other = source('d', [rule({ key: 'l', rateLimit: limit() })], 'r2');
    stream.respond({ version: '1', sources: [oneRule('d', 1), other] });
    await stream.request();
    expect((await limiter.rlconfig()).map((line) => line.replace(/:.*/, ''))).toEqual(['d.k', 'd.l']);
  });

  it('is healthy with rules only, if it needs them for it', async () => {
    const { limiter, stream } = await startWaiting({ HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED: 'true' });
    stream.respond({ version: '1', sources: [] });
    const opened = await limiter;
    await stream.request();
    expect(await opened.healthStatus()).toBe(500);
    stream.respond({ version: '2', sources: [oneRule('d', 1)] });
    await stream.request();
    expect(await opened.healthStatus()).toBe(200);
    stream.respond({ version: '3', sources: [oneRule('', 1)] });
    await stream.request();
    expect(await opened.healthStatus()).toBe(200);
    stream.respond({ version: '4', sources: [] });
    await stream.request();
    expect(await opened.healthStatus()).toBe(500);
  });

  it('names the server when it cannot start', async () => {
    const limiter = await start({
      CONFIG_GRPC_XDS_SERVER_USE_TLS: 'true',
      CONFIG_GRPC_XDS_SERVER_TLS_CACERT: pem('nowhere'),
    });
    expect(await limiter.ended).toBe(1);
    expect(limiter.lines.at(-1)).toBe(
      `level=fatal msg="Cannot start: CONFIG_GRPC_XDS_SERVER_TLS_CACERT: failed to read file: ${pem('nowhere')}: no such file or directory" CONFIG_GRPC_XDS_SERVER_URL="127.0.0.1:${ads.port}"`,
    );
  });
});

describeSettingRows([...rows, ...tlsRows, totalRow, keepaliveRow], [{ settings: xdsSettings }], {
  file: 'test/limiter/xds-settings.test.ts',
  others: [],
});
