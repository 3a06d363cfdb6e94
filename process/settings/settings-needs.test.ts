import { describe, expect, it } from 'vitest';
import { parseControlPlaneSettings } from '../../control-plane/settings/settings.ts';
import { controlPlaneSettingGroups } from '../../control-plane/settings/table.ts';
import { limiterSettingGroups, parseLimiterSettings } from '../../limiter/settings/settings.ts';
import { bool, choice, integer, text } from './settings-kinds.ts';
import { needing, needText, type SettingNeed } from './settings-needs.ts';
import { readSettings, type Setting, type SettingsTable } from './settings-reader.ts';

const on: SettingNeed = { name: 'ON', is: [true] };

const table = {
  kind: { name: 'KIND', kind: choice({ values: ['a', 'b', 'c'] }), default: 'a', summary: '' },
  ...needing([{ name: 'KIND', is: ['b', 'c'] }], {
    on: { name: 'ON', kind: bool(), default: false, summary: '' },
    second: { name: 'SECOND', kind: bool(), default: false, summary: '', needs: [on] },
  }),
  off: { name: 'OFF', kind: bool(), default: false, summary: '' },
  socket: { name: 'SOCKET', kind: text(), default: '', summary: '' },
  file: {
    name: 'FILE',
    kind: text(),
    default: '',
    summary: '',
    needs: [{ ...on, or: { name: 'SECOND', is: [true] }, otherwise: 'all is plain' }],
  },
  port: { name: 'PORT', kind: integer({ min: 0, max: 9 }), default: 1, summary: '' },
  mode: {
    name: 'MODE',
    kind: text(),
    default: 'x',
    summary: '',
    needs: [
      { name: 'SOCKET', is: 'set' },
      { name: 'OFF', is: [false] },
    ],
  },
  host: { name: 'HOST', kind: text(), default: '', summary: '', needs: [{ name: 'SOCKET', is: 'unset' }] },
  name: { name: 'NAME', kind: text(), default: '', summary: '', needs: [{ ...on, quiet: true }] },
} as const satisfies SettingsTable;

const warningsOf = (env: Record<string, string>) =>
  readSettings({ table, aliases: { prefixes: [], names: {} }, ownPrefixes: [] }, env).warnings;

describe('a setting that needs another one', () => {
  it.each([
    ['a value of several', { ON: 'true' }, ['ON has no effect without KIND=b or KIND=c']],
    ['one that is there', { ON: 'true', KIND: 'c' }, []],
    [
      'one of two, of which one cannot act',
      { KIND: 'b', FILE: '/f' },
      ['FILE has no effect without ON=true: all is plain'],
    ],
    ['one of two, and the second is there', { KIND: 'b', ON: 'true', SECOND: 'true', FILE: '/f' }, []],
    ['what needs something in its turn', { FILE: '/f' }, ['FILE has no effect without KIND=b or KIND=c']],
    [
      'a switch that is on and has no effect',
      { ON: 'true', FILE: '/f' },
      ['ON', 'FILE'].map((name) => `${name} has no effect without KIND=b or KIND=c`),
    ],
    ['another one that is set', { MODE: 'y' }, ['MODE has no effect without SOCKET']],
    ['a switch that is off', { MODE: 'y', SOCKET: '/s', OFF: '1' }, ['MODE has no effect with OFF=true']],
    ['all that it needs', { MODE: 'y', SOCKET: '/s' }, []],
    ['another one that is not set', { SOCKET: '/s', HOST: 'h' }, ['HOST has no effect with SOCKET']],
    ['what others set as well', { NAME: 'n' }, []],
  ] as [string, Record<string, string>, string[]][])('%s', (_, env, warnings) => {
    expect(warningsOf(env)).toEqual(warnings);
  });

  it('is warned about although it has its default, for somebody set it', () => {
    expect(warningsOf({ MODE: 'x' })).toEqual(['MODE has no effect without SOCKET']);
  });

  it('is not warned about when it asks for nothing', () => {
    expect(warningsOf({ ON: 'false', FILE: '', MODE: '' })).toEqual([]);
  });

  it('says so in the documents', () => {
    const shown = (setting: Setting<unknown>) =>
      setting.needs?.map((need) => needText(need, (demand) => `\`${demand}\``));
    expect(shown(table.on)).toEqual(['`KIND=b` or `KIND=c`']);
    expect(shown(table.file)).toEqual(['`ON=true` or `SECOND=true`']);
    expect(shown(table.mode)).toEqual(['`SOCKET`', '`OFF=false`']);
    expect(shown(table.host)).toEqual(['no `SOCKET`']);
  });
});

describe.each([
  ['limiter', limiterSettingGroups],
  ['control plane', controlPlaneSettingGroups],
])('what settings of the %s need', (_, groups) => {
  const settings = groups.flatMap((group) => Object.values(group.settings));
  const byName = new Map(settings.map((setting) => [setting.name, setting]));
  const waysOf = (need: SettingNeed): SettingNeed[] => (need.or ? [need, ...waysOf(need.or)] : [need]);
  const ways = settings.flatMap(({ name, needs = [] }) =>
    needs.flatMap(waysOf).map((way) => [name, way] as const),
  );

  it('is a setting, and values that it takes', () => {
    const wrong = ways.filter(([, { name, is }]) => {
      const { kind } = byName.get(name) as Setting<unknown>;
      if (typeof is === 'string') return false;
      return is.some((value) => value !== undefined && kind.schema.safeParse(String(value)).data !== value);
    });
    expect(wrong).toEqual([]);
    expect(ways.length).toBeGreaterThan(10);
  });

  it('is never in the end the setting itself', () => {
    const leads = (from: string, to: string, seen: readonly string[]): boolean =>
      (byName.get(from)?.needs ?? [])
        .flatMap(waysOf)
        .some(({ name }) => name === to || (!seen.includes(name) && leads(name, to, [...seen, name])));
    expect(settings.filter(({ name }) => leads(name, name, [])).map(({ name }) => name)).toEqual([]);
  });
});

const redisHere = { REDIS_SOCKET_TYPE: 'tcp', REDIS_URL: 'a:1' };

describe('the limiter warns of', () => {
  it.each([
    [{ REDIS_PERSECOND_URL: 'b:1' }, 'REDIS_PERSECOND_URL has no effect without REDIS_PERSECOND=true'],
    [{ MEMCACHE_HOST_PORT: 'm:1' }, 'MEMCACHE_HOST_PORT has no effect without BACKEND_TYPE=memcache'],
    [{ REDIS_SENTINEL_AUTH: 'x' }, 'REDIS_SENTINEL_AUTH has no effect without REDIS_TYPE=SENTINEL'],
    [
      { USE_DOG_STATSD_MOGRIFIERS: 'M' },
      'USE_DOG_STATSD_MOGRIFIERS has no effect without USE_DOG_STATSD=true',
    ],
    [
      { TAGGEDSTATS_MOGRIFIER_M_NAME: 'x' },
      'TAGGEDSTATS_MOGRIFIER_M_NAME has no effect without USE_DOG_STATSD=true',
    ],
    [{ TRACING_SAMPLING_RATE: '0.1' }, 'TRACING_SAMPLING_RATE has no effect without TRACING_ENABLED=true'],
    [
      { CONFIG_GRPC_XDS_SERVER_URL: 'x:1' },
      'CONFIG_GRPC_XDS_SERVER_URL has no effect without CONFIG_TYPE=GRPC_XDS_SOTW or CONFIG_TYPE=GRPC_XDS_DELTA',
    ],
    [
      { CONFIG_TYPE: 'grpc_xds_sotw', CONFIG_GRPC_XDS_SERVER_TLS_CACERT: '/ca.pem' },
      'CONFIG_GRPC_XDS_SERVER_TLS_CACERT has no effect without CONFIG_GRPC_XDS_SERVER_USE_TLS=true: the limiter connects to the xDS server in plain text',
    ],
    [
      { CONFIG_TYPE: 'grpc_xds_sotw', RUNTIME_ROOT: '/r' },
      'RUNTIME_ROOT has no effect without CONFIG_TYPE=FILE',
    ],
    [
      { LIMIT_LIMIT_HEADER: 'X-L' },
      'LIMIT_LIMIT_HEADER has no effect without LIMIT_RESPONSE_HEADERS_ENABLED=true',
    ],
    [
      { LIMIT_REQUEST_RESET_HEADER: 'X-R' },
      'LIMIT_REQUEST_RESET_HEADER has no effect without LIMIT_REQUEST_HEADERS_ENABLED=true',
    ],
    [
      { MEMORY_STORE_MAX_BYTES: '20000000' },
      'MEMORY_STORE_MAX_BYTES has no effect without BACKEND_TYPE=memory or STORE_FAILURE_MODE=local',
    ],
    [{ STATSD_HOST: 'h', USE_PROMETHEUS: '1' }, 'STATSD_HOST has no effect with USE_PROMETHEUS=true'],
    [
      { STATSD_PORT: '1', USE_STATSD: 'false' },
      'STATSD_PORT has no effect without USE_STATSD=true or USE_DOG_STATSD=true',
    ],
    [
      { STATSD_PROTOCOL: 'udp', USE_DOG_STATSD: '1' },
      'STATSD_PROTOCOL has no effect with USE_DOG_STATSD=true',
    ],
    [
      { BACKEND_TYPE: 'memcache', MEMCACHE_HOST_PORT: 'm:1', MEMCACHE_TLS_CACERT: '/ca.pem' },
      'MEMCACHE_TLS_CACERT has no effect without MEMCACHE_TLS=true: the limiter connects to memcached in plain text',
    ],
  ])('%j', (env, warning) => {
    const store = 'BACKEND_TYPE' in env ? {} : redisHere;
    expect(parseLimiterSettings({ ...store, ...(env as Record<string, string>) }).warnings).toEqual([
      warning,
    ]);
  });

  it.each(['memory', 'memcache'])('settings of Redis with BACKEND_TYPE=%s, each once', (backend) => {
    const env = {
      ...redisHere,
      REDIS_PERSECOND: 'true',
      REDIS_PERSECOND_URL: 'b:1',
      REDIS_TLS_CACERT: '/ca',
    };
    const rest = { BACKEND_TYPE: backend, ...(backend === 'memcache' ? { MEMCACHE_HOST_PORT: 'm:1' } : {}) };
    expect([...parseLimiterSettings({ ...env, ...rest }).warnings].sort()).toEqual(
      Object.keys(env)
        .sort()
        .map((name) => `${name} has no effect without BACKEND_TYPE=redis`),
    );
  });

  it('nothing that is said by the name of a pod or by statistics as they are', () => {
    const env = { ...redisHere, POD_NAME: 'p', STATSD_HOST: 'h', STATSD_PROTOCOL: 'udp', USE_STATSD: 'true' };
    expect(parseLimiterSettings(env).warnings).toEqual([]);
  });
});

describe('the control plane warns of', () => {
  const directory = { SOURCE: 'DIRECTORY', MANIFESTS_DIRECTORY: '/m' };
  const urls = { WEBHOOK_URLS: 'https://a.example', WEBHOOK_SECRET_FILE: '/s' };
  const lookup = { ...urls, API_TOKEN_FILE: '/t', API_TLS_CERT: '/c', API_TLS_KEY: '/k' };
  const tokens = 'API_TOKEN or API_TOKEN_FILE';

  it.each([
    [{ ...directory, LEASE_DURATION: '20s' }, ['LEASE_DURATION has no effect without SOURCE=KUBERNETES']],
    [{ ...directory, KUBECONFIG: '/k', POD_NAMESPACE: 'n' }, []],
    [{ WEBHOOK_TIMEOUT: '1s' }, ['WEBHOOK_TIMEOUT has no effect without WEBHOOK_URLS']],
    [
      { API_TOKEN_FILE: '/t', API_HOST: '127.0.0.1', WEBHOOK_SECRET_FILE: '/s' },
      [
        'WEBHOOK_SECRET_FILE has no effect without WEBHOOK_URLS',
        'API_TOKEN_FILE opens a listener that has no signing secret to serve: set WEBHOOK_URLS, or remove it',
      ],
    ],
    [{ API_PORT: '1' }, [`API_PORT has no effect without ${tokens}`]],
    [{ API_ALLOW_PLAIN: 'true' }, [`API_ALLOW_PLAIN has no effect without ${tokens}`]],
    [{ ...lookup, API_ALLOW_PLAIN: 'true' }, ['API_ALLOW_PLAIN has no effect with API_TLS_CERT']],
    [{ ...lookup, API_PORT: '1' }, []],
    [{ XDS_TOKEN_AUDIENCE: 'a' }, ['XDS_TOKEN_AUDIENCE has no effect without XDS_CLIENT_FLEETS']],
    [
      { XDS_TOKEN_REVIEWS_PER_SECOND: '7' },
      ['XDS_TOKEN_REVIEWS_PER_SECOND has no effect without XDS_CLIENT_FLEETS'],
    ],
  ] as [Record<string, string>, string[]][])('%j', (env, warnings) => {
    // With this, it starts without the warning about the authentication of limiters.
    const { errors, warnings: reported } = parseControlPlaneSettings({ XDS_HOST: '127.0.0.1', ...env });
    expect([errors, reported]).toEqual([undefined, warnings]);
  });
});
