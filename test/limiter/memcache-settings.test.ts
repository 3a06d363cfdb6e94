/** What the settings of memcache do to a whole limiter. */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { parseLimiterSettings } from '../../limiter/settings/settings.ts';
import { createAuthority } from '../support/certificates.ts';
import { describeWithServer } from '../support/describe-with-server.ts';
import { eventually } from '../support/eventually.ts';
import { findServer, memcachedProgram, opensslProgram } from '../support/find-server.ts';
import { InProcessLimiter, type InProcessLimiterOptions } from '../support/in-process-limiter.ts';
import { ManualTimers } from '../support/manual-timers.ts';
import { type MemcachedServer, startMemcached } from '../support/memcached-server.ts';
import { SrvServer } from '../support/srv-server.ts';

const folder = mkdtempSync(join(tmpdir(), 'weir-memcache-settings-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
mkdirSync(join(folder, 'config'));
writeFileSync(
  join(folder, 'config/w.yaml'),
  'domain: w\ndescriptors:\n  - key: two\n    rate_limit: { unit: day, requests_per_unit: 2 }\n',
);

const now = Date.UTC(2024, 1, 10) / 1000;
const key = `w_two_a_${now}`;

describe('settings of memcache', () => {
  it.each([
    [{}, 'MEMCACHE_HOST_PORT: must not be empty with BACKEND_TYPE=memcache, unless MEMCACHE_SRV is set'],
    [
      { MEMCACHE_HOST_PORT: 'a:1', MEMCACHE_SRV: '_m._tcp.x' },
      'MEMCACHE_HOST_PORT: Both MEMCACHE_HOST_PORT and MEMCACHE_SRV are set',
    ],
    [{ MEMCACHE_SRV: 'm.x' }, 'MEMCACHE_SRV: "m.x" is not of the form _service._proto.name'],
    [
      { MEMCACHE_HOST_PORT: 'a:1,b' },
      'MEMCACHE_HOST_PORT: memcached node "b" is neither host:port nor a path',
    ],
    [
      { MEMCACHE_HOST_PORT: 'a:1', MEMCACHE_TLS: 'true', MEMCACHE_TLS_CLIENT_CERT: 'c.pem' },
      'MEMCACHE_TLS_CLIENT_CERT: needs MEMCACHE_TLS_CLIENT_KEY as well',
    ],
  ])('are rejected: %j', (env, message) => {
    const { errors } = parseLimiterSettings({ BACKEND_TYPE: 'memcache', ...env });
    expect(errors?.map((error) => error.message)).toEqual([message]);
  });

  it('are not looked at with another store', () => {
    const env = { BACKEND_TYPE: 'memory', MEMCACHE_HOST_PORT: 'a:1', MEMCACHE_SRV: 'x' };
    expect(parseLimiterSettings(env).errors).toBeUndefined();
  });
});

describeWithServer('a limiter on memcache', memcachedProgram, (path) => {
  const timers = new ManualTimers();
  const dns = new SrvServer();
  let resolveSrv: NonNullable<InProcessLimiterOptions['resolveSrv']>;
  let [a, b]: MemcachedServer[] = [];
  let limiter: InProcessLimiter | undefined;
  beforeAll(async () => {
    [a, b] = await Promise.all([startMemcached({ path }), startMemcached({ path })]);
    const resolver = await dns.start();
    resolveSrv = (name) => resolver.resolveSrv(name);
  });
  afterEach(async () => {
    await limiter?.stop();
    expect(timers.size).toBe(0);
    await Promise.all([a?.flush(), b?.flush()]);
  });
  afterAll(async () => {
    dns.stop();
    await Promise.all([a?.stop(), b?.stop()]);
  });

  async function start(env: Record<string, string>): Promise<InProcessLimiter> {
    limiter = await InProcessLimiter.start({
      clock: { nowMs: () => now * 1000, monotonicMs: () => performance.now() },
      random: () => 0.5,
      timers,
      resolveSrv,
      env: {
        RUNTIME_ROOT: folder,
        BACKEND_TYPE: 'memcache',
        EXPIRATION_JITTER_MAX_SECONDS: '0',
        ...env,
      },
    });
    return limiter;
  }
  const codeOf = async (value = 'a') => (await limiter?.ask('w', [{ two: value }]))?.body?.overallCode;
  const nodes = () => `${a?.address},${b?.address}`;
  const on = (server: MemcachedServer | undefined) => ({ target: 'localhost', port: server?.port ?? 0 });

  it('counts on the nodes of MEMCACHE_HOST_PORT, and is healthy', async () => {
    await start({ MEMCACHE_HOST_PORT: nodes() });
    expect(await limiter?.healthStatus()).toBe(200);
    expect([await codeOf(), await codeOf(), await codeOf()]).toEqual(['OK', 'OK', 'OVER_LIMIT']);
    await eventually(async () => {
      expect([await a?.valueOf(key), await b?.valueOf(key)].filter(Boolean)).toEqual(['3']);
    });
    const stats = Object.fromEntries(await limiter!.stats());
    expect(stats).toMatchObject({
      'ratelimit.memcache.multiget.__code=success': 3,
      'ratelimit.memcache.multiget.__code=error': 0,
      'ratelimit.memcache.increment.__code=success': 2,
      'ratelimit.memcache.increment.__code=miss': 1,
      'ratelimit.memcache.add.__code=success': 1,
      'ratelimit.memcache.keys_requested': 3,
      'ratelimit.memcache.keys_found': 2,
      'ratelimit.memcache.nodes': 2,
      'ratelimit.memcache.nodes_down': 0,
    });
  });

  it('lets requests pass and stays healthy while a node is away', async () => {
    await start({ MEMCACHE_HOST_PORT: '127.0.0.1:1' });
    const line =
      'level=error msg="No connection to a memcached node: trying again, its limits let requests pass" node="127.0.0.1:1" reason="connect ECONNREFUSED 127.0.0.1:1"';
    await eventually(() => expect(limiter?.lines.join('\n')).toContain(line));
    for (let i = 0; i < 5; i += 1) expect(await codeOf()).toBe('OK');
    expect(await limiter?.healthStatus()).toBe(200);
    const failures = limiter?.lines.filter((text) => text.includes('Failed to increment'));
    expect(failures).toEqual([
      `level=error msg="Failed to increment" error="memcached is not connected" further=0`,
    ]);
  });

  it.each(['compatible', 'unambiguous'])(
    'counts what memcache takes in no key, each value by itself, with COUNTER_KEYS=%s',
    async (COUNTER_KEYS) => {
      await start({ MEMCACHE_HOST_PORT: nodes(), COUNTER_KEYS });
      const values = [
        'x'.repeat(300),
        `${'x'.repeat(299)}y`,
        'Mozilla/5.0 (X11; Linux)',
        'a b',
        'a  b',
        'a\r\nb',
      ];
      for (const expected of ['OK', 'OK', 'OVER_LIMIT']) {
        for (const value of values) expect(await codeOf(value)).toBe(expected);
      }
      const hashed = COUNTER_KEYS === 'compatible' ? 18 : 0;
      expect((await limiter!.stats()).get('ratelimit.memcache.hashed_keys')).toBe(hashed);
    },
  );

  it.each([
    ['error', undefined],
    ['allow', 'OK'],
    ['deny', 'OVER_LIMIT'],
  ])('answers by STORE_FAILURE_MODE=%s, when it is set, while a node is away', async (mode, code) => {
    await start({ MEMCACHE_HOST_PORT: '127.0.0.1:1', STORE_FAILURE_MODE: mode });
    const line = `trying again, STORE_FAILURE_MODE=${mode} applies" node="127.0.0.1:1"`;
    await eventually(() => expect(limiter?.lines.join('\n')).toContain(line));
    expect(await codeOf()).toBe(code);
    const answered = code === undefined ? 'redis_error' : 'store_failure_mode';
    const stats = await limiter!.stats();
    expect(stats.get(`ratelimit.service.call.should_rate_limit.${answered}`)).toBe(1);
  });

  it('counts by itself with STORE_FAILURE_MODE=local, and delivers when the node is back', async () => {
    const node = await startMemcached({ path });
    await start({ MEMCACHE_HOST_PORT: node.address, STORE_FAILURE_MODE: 'local' });
    expect(await codeOf()).toBe('OK');
    await eventually(async () => expect(await node.valueOf(key)).toBe('1'));
    await node.kill('SIGKILL');
    await eventually(() => expect(limiter?.lines.join('\n')).toContain('STORE_FAILURE_MODE=local applies'));
    expect([await codeOf(), await codeOf()]).toEqual(['OK', 'OVER_LIMIT']);
    await node.start();
    await eventually(async () => {
      timers.advance(500);
      expect(await node.valueOf(key)).toBe('2');
    });
    await node.stop();
  });

  it.each([
    ['1', 1],
    ['3', 3],
    ['0', 2],
  ])('keeps MEMCACHE_MAX_IDLE_CONNS=%s connections: %i', async (text, connections) => {
    await start({ MEMCACHE_HOST_PORT: a!.address, MEMCACHE_MAX_IDLE_CONNS: text });
    const open = async () => (await limiter!.stats()).get('ratelimit.memcache.cx_active');
    await eventually(async () => expect(await open()).toBe(connections));
  });

  it('finds nodes by MEMCACHE_SRV, again every MEMCACHE_SRV_REFRESH', async () => {
    dns.records = [on(a)];
    await start({ MEMCACHE_SRV: '_memcache._tcp.x', MEMCACHE_SRV_REFRESH: '1m' });
    expect(await codeOf()).toBe('OK');
    await eventually(async () => expect(await a?.valueOf(key)).toBe('1'));

    dns.records = [];
    timers.advance(60_000);
    const line =
      'level=warning msg="failed to refresh memcache hosts" name=_memcache._tcp.x reason="querySrv ENOTFOUND _memcache._tcp.x"';
    await eventually(() => expect(limiter?.lines).toContain(line));
    expect((await limiter!.stats()).get('ratelimit.memcache.nodes')).toBe(1);

    dns.records = [on(a), on(b)];
    timers.advance(60_000);
    await eventually(async () => expect((await limiter!.stats()).get('ratelimit.memcache.nodes')).toBe(2));
  });

  it('looks MEMCACHE_SRV up once without MEMCACHE_SRV_REFRESH', async () => {
    dns.records = [on(a)];
    await start({ MEMCACHE_SRV: '_memcache._tcp.x' });
    const { questions } = dns;
    timers.advance(86_400_000);
    expect(await codeOf()).toBe('OK');
    expect(dns.questions).toBe(questions);
  });

  it('does not start when MEMCACHE_SRV has no nodes', async () => {
    dns.records = [];
    await start({ MEMCACHE_SRV: '_memcache._tcp.x' });
    expect(await limiter?.ended).toBe(1);
    expect(limiter?.lines.at(-1)).toContain(
      'Cannot start: Unable to fetch servers from SRV: querySrv ENOTFOUND _memcache._tcp.x',
    );
  });

  const openssl = findServer(opensslProgram);
  describe.skipIf('missing' in openssl)('over TLS', () => {
    const ca = createAuthority('path' in openssl ? openssl.path : '', folder, 'ca');
    const client = ca.issue({ name: 'limiter' });
    let server: MemcachedServer | undefined;
    beforeAll(async () => {
      const { certFile, keyFile } = ca.issue({ name: 'node', alternativeNames: 'DNS:other.example' });
      const options = `ssl_chain_cert=${certFile},ssl_key=${keyFile},ssl_ca_cert=${ca.caFile},ssl_verify_mode=2`;
      server = await startMemcached({ path, user: 'root', args: ['-Z', '-o', options] });
    });
    afterAll(() => server?.stop());
    const all = {
      MEMCACHE_TLS: 'true',
      MEMCACHE_TLS_CLIENT_CERT: client.certFile,
      MEMCACHE_TLS_CLIENT_KEY: client.keyFile,
      MEMCACHE_TLS_CACERT: ca.caFile,
      MEMCACHE_TLS_SKIP_HOSTNAME_VERIFICATION: 'true',
    };

    const noCertificate = { MEMCACHE_TLS_CLIENT_CERT: '', MEMCACHE_TLS_CLIENT_KEY: '' };
    it.each([
      ['with all of its settings', {}, 2],
      ['without MEMCACHE_TLS', { MEMCACHE_TLS: 'false' }, 0],
      ['without MEMCACHE_TLS_CLIENT_CERT and MEMCACHE_TLS_CLIENT_KEY', noCertificate, 0],
      ['without MEMCACHE_TLS_CACERT', { MEMCACHE_TLS_CACERT: '' }, 0],
      [
        'without MEMCACHE_TLS_SKIP_HOSTNAME_VERIFICATION',
        { MEMCACHE_TLS_SKIP_HOSTNAME_VERIFICATION: 'false' },
        0,
      ],
    ])('connects %s: %j', async (_, env, connections) => {
      await start({ MEMCACHE_HOST_PORT: server!.address, ...all, ...env });
      const figure = async (name: string) => (await limiter!.stats()).get(`ratelimit.memcache.${name}`);
      await eventually(async () => expect(await figure('nodes_down')).toBe(connections === 0 ? 1 : 0));
      await eventually(async () => expect(await figure('cx_active')).toBe(connections));
    });

    it('does not start with files that cannot be read', async () => {
      await start({ MEMCACHE_HOST_PORT: server!.address, ...all, MEMCACHE_TLS_CACERT: '/nowhere' });
      expect(limiter?.lines.at(-1)).toContain(
        'Cannot start: MEMCACHE_TLS_CACERT: failed to read file: /nowhere: no such file or directory',
      );
    });
  });
});

describe('CACHE_KEY_PREFIX', () => {
  const memcache = { BACKEND_TYPE: 'memcache', MEMCACHE_HOST_PORT: 'a:1' };
  const unambiguous = { BACKEND_TYPE: 'memory', COUNTER_KEYS: 'unambiguous' };
  const blank = 'has a blank or a control character, which memcached does not allow in a key';

  it.each<[string, Record<string, string>, string[]]>([
    ['weir ', memcache, [`CACHE_KEY_PREFIX: "weir " ${blank}`]],
    ['weir\n', memcache, [`CACHE_KEY_PREFIX: "weir\\n" ${blank}`]],
    [
      'p'.repeat(186),
      memcache,
      ['CACHE_KEY_PREFIX: has 186 bytes, and with BACKEND_TYPE=memcache it can have 185 at most'],
    ],
    ['p'.repeat(185), memcache, []],
    ['weir ', { BACKEND_TYPE: 'memory' }, []],
    ['weir ', unambiguous, []],
    ['p'.repeat(64), unambiguous, []],
    [
      'p'.repeat(65),
      unambiguous,
      ['CACHE_KEY_PREFIX: has 65 bytes, and with COUNTER_KEYS=unambiguous it can have 64 at most'],
    ],
    [
      '{a}',
      unambiguous,
      [
        'CACHE_KEY_PREFIX: "{a}" has a brace, and COUNTER_KEYS=unambiguous allows braces only around domain and entries',
      ],
    ],
    ['{a}', { BACKEND_TYPE: 'memory' }, []],
    ['{ }', { ...memcache, COUNTER_KEYS: 'unambiguous' }, [blank, 'brace']],
  ])('%j with %j: %j', (prefix, env, expected) => {
    const { errors = [] } = parseLimiterSettings({ ...env, CACHE_KEY_PREFIX: prefix });
    expect(errors.map(({ message }) => message)).toEqual(
      expected.map((text) => expect.stringContaining(text)),
    );
  });
});

describe('STORE_FAILURE_MODE with memcache', () => {
  it('holds when it is set, be it to its default', () => {
    const env = { BACKEND_TYPE: 'memcache', MEMCACHE_HOST_PORT: ' a:1 , b:1' };
    expect(parseLimiterSettings(env).settings?.isStoreFailureModeSet).toBe(false);
    const set = parseLimiterSettings({ ...env, STORE_FAILURE_MODE: 'error' });
    expect([set.settings?.isStoreFailureModeSet, set.warnings]).toEqual([true, []]);
  });
});
