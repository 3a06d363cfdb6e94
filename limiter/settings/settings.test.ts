import { describe, expect, it } from 'vitest';
import { defaultOf } from '../../process/settings/settings-reader.ts';
import { aliasesOf, canonicalName } from '../../process/settings/settings-unknown.ts';
import { defaultLease } from '../leases/settings.ts';
import { limiterAliases, limiterSettingGroups, parseLimiterSettings } from './settings.ts';

const all = limiterSettingGroups.flatMap(({ settings }) => Object.values(settings));

/**
 * The defaults of the Go service from section 9 of spec/reference.md, which Weir shares: an oracle independent of the table of settings.
 * The generated docs/settings.md shows the defaults of Weir's own settings.
 */
const goDefaults: [value: string, names: string][] = [
  ['0.0.0.0', 'HOST DEBUG_HOST GRPC_HOST'],
  ['8080', 'PORT'],
  ['6070', 'DEBUG_PORT'],
  ['8081', 'GRPC_PORT'],
  ['24h', 'GRPC_MAX_CONNECTION_AGE'],
  ['1h', 'GRPC_MAX_CONNECTION_AGE_GRACE'],
  ['warn', 'LOG_LEVEL'],
  ['text', 'LOG_FORMAT'],
  ['FILE', 'CONFIG_TYPE'],
  ['/srv/runtime_data/current', 'RUNTIME_ROOT'],
  ['config', 'RUNTIME_APPDIRECTORY'],
  ['true', 'RUNTIME_WATCH_ROOT XDS_CLIENT_BACKOFF_JITTER'],
  ['default', 'CONFIG_GRPC_XDS_NODE_ID'],
  ['localhost:18000', 'CONFIG_GRPC_XDS_SERVER_URL'],
  ['3s', 'CONFIG_GRPC_XDS_SERVER_CONNECT_RETRY_INTERVAL'],
  ['10s', 'XDS_CLIENT_BACKOFF_INITIAL_INTERVAL STATS_FLUSH_INTERVAL REDIS_TIMEOUT REDIS_PERSECOND_TIMEOUT'],
  ['1m', 'XDS_CLIENT_BACKOFF_MAX_INTERVAL'],
  ['localhost', 'STATSD_HOST'],
  ['8125', 'STATSD_PORT'],
  ['tcp', 'STATSD_PROTOCOL'],
  [':9090', 'PROMETHEUS_ADDR'],
  ['/metrics', 'PROMETHEUS_PATH'],
  ['300', 'EXPIRATION_JITTER_MAX_SECONDS'],
  ['0.8', 'NEAR_LIMIT_RATIO'],
  ['redis', 'BACKEND_TYPE'],
  ['RateLimit-Limit', 'LIMIT_LIMIT_HEADER'],
  ['RateLimit-Remaining', 'LIMIT_REMAINING_HEADER'],
  ['RateLimit-Reset', 'LIMIT_RESET_HEADER'],
  ['unix', 'REDIS_SOCKET_TYPE REDIS_PERSECOND_SOCKET_TYPE'],
  ['SINGLE', 'REDIS_TYPE REDIS_PERSECOND_TYPE'],
  ['/var/run/nutcracker/ratelimit.sock', 'REDIS_URL'],
  ['/var/run/nutcracker/ratelimitpersecond.sock', 'REDIS_PERSECOND_URL'],
  ['10', 'REDIS_POOL_SIZE REDIS_PERSECOND_POOL_SIZE'],
  ['1s', 'REDIS_STARTUP_INITIAL_INTERVAL'],
  ['30s', 'REDIS_STARTUP_MAX_INTERVAL'],
  ['0s', 'REDIS_STARTUP_MAX_ELAPSED_TIME REDIS_PIPELINE_WINDOW REDIS_PERSECOND_PIPELINE_WINDOW'],
  ['0s', 'MEMCACHE_SRV_REFRESH'],
  ['0', 'REDIS_PIPELINE_LIMIT REDIS_PERSECOND_PIPELINE_LIMIT LOCAL_CACHE_SIZE_IN_BYTES'],
  ['0', 'XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES'],
  ['1', 'REDIS_CLUSTER_PIPELINE_PARALLELISM REDIS_PERSECOND_CLUSTER_PIPELINE_PARALLELISM'],
  ['1', 'TRACING_SAMPLING_RATE'],
  ['2', 'MEMCACHE_MAX_IDLE_CONNS'],
  ['http', 'TRACING_EXPORTER_PROTOCOL'],
  ['RateLimit', 'TRACING_SERVICE_NAME'],
  ['false', 'GRPC_SERVER_USE_TLS CONFIG_GRPC_XDS_SERVER_USE_TLS REDIS_TLS REDIS_PERSECOND_TLS MEMCACHE_TLS'],
  ['false', 'REDIS_TLS_SKIP_HOSTNAME_VERIFICATION MEMCACHE_TLS_SKIP_HOSTNAME_VERIFICATION REDIS_PERSECOND'],
  ['false', 'FORCE_START_WITHOUT_INITIAL_CONFIG HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED MERGE_DOMAIN_CONFIG'],
  [
    'false',
    'RUNTIME_IGNOREDOTFILES STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT REDIS_HEALTH_CHECK_ACTIVE_CONNECTION',
  ],
  [
    'false',
    'SHADOW_MODE QUOTA_MODE RESPONSE_DYNAMIC_METADATA LIMIT_RESPONSE_HEADERS_ENABLED TRACING_ENABLED',
  ],
  ['false', 'USE_DOG_STATSD USE_PROMETHEUS PROMETHEUS_RESPONSE_TIME_AS_MILLISECONDS DISABLE_STATS'],
  ['', 'GRPC_UDS RUNTIME_SUBDIRECTORY CONFIG_GRPC_XDS_NODE_METADATA EXTRA_TAGS CACHE_KEY_PREFIX'],
  ['', 'REDIS_AUTH REDIS_SENTINEL_AUTH MEMCACHE_HOST_PORT MEMCACHE_SRV'],
];

describe('parseLimiterSettings', () => {
  it('has the defaults of the Go service', () => {
    const defaults = Object.fromEntries(
      goDefaults.flatMap(([value, names]) => names.split(/\s+/).map((name) => [name, value])),
    );
    const found = all.filter(({ name }) => name in defaults);
    expect(Object.fromEntries(found.map((one) => [one.name, one.kind.format(defaultOf(one))]))).toEqual(
      defaults,
    );
    const { errors, warnings } = parseLimiterSettings({});
    expect([errors, warnings]).toEqual([undefined, []]);
  });

  it('reads the names of the specification', () => {
    expect(
      parseLimiterSettings({
        KVS_SOCKET_TYPE: 'tcp',
        KVS_URL: 'localhost:6379',
        KVS_TYPE: 'single',
        KVS_TIMEOUT: '1m30s',
        KVS_AUTH: 'user:secret',
        USE_PUSHSTATS: 'false',
        LocalCacheSizeInBytes: '1024',
      }).settings,
    ).toMatchObject({
      redisSocketType: 'tcp',
      redisUrl: 'localhost:6379',
      redisType: 'SINGLE',
      redisTimeoutMs: 90_000,
      redisAuth: 'user:secret',
      useStatsd: false,
      localCacheSizeInBytes: 1024,
    });
  });

  const refused: [variable: string, value: string, message: string][] = [
    [
      'CONFIG_TYPE',
      'GRPC_XDS',
      'CONFIG_TYPE: "GRPC_XDS" is not accepted, expected FILE, GRPC_XDS_SOTW or GRPC_XDS_DELTA, in any letter case',
    ],
    [
      'CONFIG_GRPC_XDS_SERVER_URL',
      'http://cp:18000',
      'CONFIG_GRPC_XDS_SERVER_URL: "http://cp:18000" is not accepted, expected the address of a gRPC server: host:port, dns:///host:port, ipv4:address:port, ipv6:[address]:port or unix:path',
    ],
    [
      'CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS',
      'authorization=hunter2',
      'CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS: the value (not shown) is not accepted, expected name:value,name2:value2; part 1 has not exactly one colon',
    ],
    [
      'CONFIG_GRPC_XDS_FLEET',
      'Edge',
      'CONFIG_GRPC_XDS_FLEET: "Edge" is not accepted, expected up to 63 of a-z, 0-9 and -, without - at either end',
    ],
    [
      'BACKEND_TYPE',
      'disk',
      'BACKEND_TYPE: "disk" is not accepted, expected redis, memcache or memory, in any letter case',
    ],
    [
      'REDIS_TYPE',
      'sharded',
      'REDIS_TYPE: "sharded" is not accepted, expected SINGLE, SENTINEL or CLUSTER, in any letter case',
    ],
    ['REDIS_URL', '', 'REDIS_URL: must not be empty with BACKEND_TYPE=redis'],
    [
      'LOG_LEVEL',
      '',
      'LOG_LEVEL: "" is not accepted, expected panic, fatal, error, warn, warning, info, debug or trace, in any letter case',
    ],
    ['GRPC_PORT', '65536', 'GRPC_PORT: "65536" is not accepted, expected a whole number from 0 to 65535'],
    ['LEASES', 'yes', 'LEASES: "yes" is not accepted, expected on or off, in any letter case'],
    [
      'LEASE_SHARE',
      '0.5',
      'LEASE_SHARE: "0.5" is not accepted, expected a share of the limit such as 2% or 0.5%, of 100% at most, or 0',
    ],
    ['NEAR_LIMIT_RATIO', '-0.1', 'NEAR_LIMIT_RATIO: "-0.1" is not accepted, expected a number from 0 to 1'],
  ];
  for (const [variable, value, message] of refused) {
    it(`rejects ${variable}="${value}"`, () => {
      expect(parseLimiterSettings({ [variable]: value }).errors).toEqual([{ variable, message }]);
    });
  }

  it('takes an empty BACKEND_TYPE for redis, and needs no REDIS_URL with memory', () => {
    expect(parseLimiterSettings({ BACKEND_TYPE: '' }).settings?.backendType).toBe('redis');
    expect(parseLimiterSettings({ BACKEND_TYPE: 'memory', REDIS_URL: '' }).settings?.backendType).toBe(
      'memory',
    );
  });

  it('reads levels and formats of logs in any letter case', () => {
    expect(parseLimiterSettings({ LOG_LEVEL: 'DEBUG', LOG_FORMAT: 'Json' }).settings).toMatchObject({
      logLevel: 'debug',
      logFormat: 'json',
    });
    expect(parseLimiterSettings({ LOG_FORMAT: '' }).settings?.logFormat).toBe('text');
  });

  it('warns of settings that it has not, and not of those of gRPC libraries', () => {
    expect(
      parseLimiterSettings({ KVS_PIPELINE_WINDOW: '0', STATSD_PREFIX: 'x', GRPC_TRACE: 'all' }).warnings,
    ).toEqual(['STATSD_PREFIX is a setting that this version does not have; it is ignored']);
  });

  const tls = { GRPC_SERVER_USE_TLS: 'true', GRPC_SERVER_TLS_CERT: '/c.pem', GRPC_SERVER_TLS_KEY: '/k.pem' };
  it.each<[env: Record<string, string>, messages: string[]]>([
    [
      { GRPC_SERVER_USE_TLS: 'true' },
      ['CERT', 'KEY'].map(
        (name) => `GRPC_SERVER_TLS_${name}: must not be empty with GRPC_SERVER_USE_TLS=true`,
      ),
    ],
    [
      { ...tls, GRPC_SERVER_USE_TLS: 'false', GRPC_CLIENT_TLS_CACERT: '/ca.pem' },
      [
        'GRPC_CLIENT_TLS_CACERT: needs GRPC_SERVER_USE_TLS=true: without TLS callers cannot send a certificate',
      ],
    ],
    [
      { ...tls, GRPC_CLIENT_TLS_SAN: 'proxy' },
      ['GRPC_CLIENT_TLS_SAN: needs GRPC_CLIENT_TLS_CACERT: without it the limiter asks for no certificates'],
    ],
    [
      { GRPC_UDS_MODE: '0888' },
      ['GRPC_UDS_MODE: "0888" is not accepted, expected permissions in octal, 0 to 0777'],
    ],
  ])('rejects %j', (env, messages) => {
    expect(parseLimiterSettings(env).errors?.map(({ message }) => message)).toEqual(messages);
  });

  it('reads the TLS files, and permissions in octal', () => {
    const env = {
      ...tls,
      GRPC_CLIENT_TLS_CACERT: '/ca.pem',
      GRPC_CLIENT_TLS_SAN: 'proxy',
      GRPC_UDS_MODE: '666',
    };
    expect(parseLimiterSettings(env).settings).toMatchObject({
      grpcServerUseTls: true,
      grpcServerTlsCert: '/c.pem',
      grpcServerTlsKey: '/k.pem',
      grpcClientTlsCaCert: '/ca.pem',
      grpcClientTlsSan: 'proxy',
      grpcUdsMode: 0o666,
    });
  });

  it.each([
    [{ REDIS_URL: '' }, 'must not be empty with BACKEND_TYPE=redis'],
    [
      { REDIS_URL: 'localhost:6379' },
      'is the path of a socket with REDIS_SOCKET_TYPE=unix (the default); for host:port set REDIS_SOCKET_TYPE=tcp',
    ],
    [{ REDIS_SOCKET_TYPE: 'tcp', REDIS_URL: 'localhost' }, 'Redis URL "localhost" is not host:port'],
    [
      { REDIS_URL: 'redis://u:hunter2@h:1' },
      'Redis URL "redis://*****@h:1" needs the socket type tcp, not unix',
    ],
  ])('rejects %j', (env, problem) => {
    expect(parseLimiterSettings({ ...env, PORT: 'x' }).errors?.map(({ message }) => message)).toContain(
      `REDIS_URL: ${problem}`,
    );
    expect(parseLimiterSettings({ ...env, BACKEND_TYPE: 'memory' }).errors).toBeUndefined();
  });
});

describe('parseLimiterSettings of an xDS server', () => {
  it.each([
    ['cp:18000'],
    ['cp'],
    ['[::1]:18000'],
    ['dns:///cp.weir.svc:18000'],
    ['ipv4:10.0.0.1:18000'],
    ['unix:/run/xds.sock'],
    ['unix:///run/xds.sock'],
    ['passthrough:///cp:18000', 'cp:18000'],
  ])('reads the address %s', (url, target = url) => {
    const env = { REDIS_URL: '/sock', CONFIG_GRPC_XDS_SERVER_URL: url };
    expect(parseLimiterSettings(env).settings?.xdsServerUrl).toBe(target);
  });

  it.each([[''], ['xds:///cp'], ['cp:1 cp:2'], ['cp/x']])('rejects the address "%s"', (url) => {
    const errors = parseLimiterSettings({ CONFIG_GRPC_XDS_SERVER_URL: url }).errors ?? [];
    expect(errors.map(({ variable }) => variable)).toEqual(['CONFIG_GRPC_XDS_SERVER_URL']);
  });

  it('takes a token for the xDS server beside no other authorization, and warns of one without TLS', () => {
    const env = {
      CONFIG_TYPE: 'GRPC_XDS_SOTW',
      CONFIG_GRPC_XDS_TOKEN_FILE: '/token',
      CONFIG_GRPC_XDS_SERVER_URL: 'cp:18000',
    };
    expect(parseLimiterSettings(env).warnings).toEqual([
      'CONFIG_GRPC_XDS_TOKEN_FILE: others on the network can read the token: set CONFIG_GRPC_XDS_SERVER_USE_TLS',
    ]);
    expect(parseLimiterSettings({ ...env, CONFIG_GRPC_XDS_SERVER_USE_TLS: 'true' }).warnings).toEqual([]);
    const onThisMachine = [
      'localhost:1',
      '127.0.0.1:1',
      '[::1]:1',
      'dns:///localhost:1',
      'ipv6:[::1]:1',
      'unix:/s',
    ];
    for (const url of onThisMachine)
      expect(parseLimiterSettings({ ...env, CONFIG_GRPC_XDS_SERVER_URL: url }).warnings).toEqual([]);
    for (const url of ['10.0.0.1:1', 'localhost.example:1', '[2001:db8::1]:1', 'dns://127.0.0.1/cp:1'])
      expect(parseLimiterSettings({ ...env, CONFIG_GRPC_XDS_SERVER_URL: url }).warnings).toHaveLength(1);
    const header = { CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS: 'a:b,Authorization:Bearer x' };
    expect(parseLimiterSettings({ ...env, ...header }).errors).toEqual([
      {
        variable: 'CONFIG_GRPC_XDS_TOKEN_FILE',
        message:
          'CONFIG_GRPC_XDS_TOKEN_FILE: is set together with an authorization in CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS: keep one of them',
      },
    ]);
  });

  it.each([
    ['CERT', 'KEY'],
    ['KEY', 'CERT'],
  ])('rejects a client’s %s without its %s, if TLS is enabled', (set, missing) => {
    const variable = `CONFIG_GRPC_XDS_CLIENT_TLS_${set}`;
    const env = { CONFIG_TYPE: 'grpc_xds_sotw', [variable]: '/file.pem' };
    expect(parseLimiterSettings(env).errors).toBeUndefined();
    expect(parseLimiterSettings({ ...env, CONFIG_GRPC_XDS_SERVER_USE_TLS: 'true' }).errors).toEqual([
      { variable, message: `${variable}: needs CONFIG_GRPC_XDS_CLIENT_TLS_${missing} as well` },
    ]);
  });

  it.each([
    [{ BACKEND_TYPE: 'memory' }, 'without BACKEND_TYPE=redis: the limiter counts each hit at once'],
    [{ BACKEND_TYPE: 'memcache' }, 'without BACKEND_TYPE=redis: the limiter counts each hit at once'],
    [{ REDIS_SCRIPTS: 'never' }, 'without REDIS_SCRIPTS=auto: a script counts leases'],
    [
      { STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT: 'true' },
      'with STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT=true: it needs counts that only Redis has',
    ],
  ])('leases nothing, and says why, with %o', (other, why) => {
    const servers = { MEMCACHE_HOST_PORT: 'm:11211' };
    const { settings, warnings } = parseLimiterSettings({ ...servers, ...other, LEASES: 'on' });
    expect(warnings).toContain(`LEASES has no effect ${why}`);
    expect(defaultLease(settings!)).toBeUndefined();
    expect(parseLimiterSettings({ ...servers, ...other, LEASES: 'off' }).warnings?.join()).not.toContain(
      'LEASES',
    );
  });

  it('leases a share of limits if LEASES is on', () => {
    const lease = (env: Record<string, string>) => defaultLease(parseLimiterSettings(env).settings!);
    expect(lease({ LEASES: 'on' })).toBe(5_000);
    // YAML reads the word as a number like this.
    expect(lease({ LEASES: 'true', LEASE_SHARE: '2%' })).toBe(20_000);
    expect(lease({ LEASES: 'On', LEASE_SHARE: '0' })).toBe(0);
    expect(lease({ LEASE_SHARE: '2%' })).toBeUndefined();
    expect(parseLimiterSettings({ LEASE_SHARE: '2%' }).warnings).toEqual([
      'LEASE_SHARE has no effect without LEASES',
    ]);
  });

  it('does not mention NODE_NAME, which pods have beside POD_NAME', () => {
    expect(parseLimiterSettings({ NODE_NAME: 'n', POD_NAME: 'p' }).warnings).toEqual([]);
  });
});

describe('the table of settings', () => {
  it('has every variable once, and no variable that is an alias', () => {
    const names = all.map(({ name }) => name);
    expect(new Set(names).size).toBe(names.length);
    expect(names.filter((name) => canonicalName(limiterAliases, name) !== undefined)).toEqual([]);
  });

  it('has defaults that its own kinds accept', () => {
    for (const setting of all) {
      const { name, kind } = setting;
      const value = defaultOf(setting);
      // A setting that is not set has no text.
      if (value === undefined) continue;
      expect([name, kind.schema.parse(kind.format(value))]).toEqual([name, value]);
    }
  });

  it('has one sentence for each', () => {
    for (const { name, summary } of all) expect([name, /^[^\n]+\.$/.test(summary)]).toEqual([name, true]);
  });

  it('keeps what may hold credentials secret', () => {
    expect(all.filter(({ secret }) => secret === true).map(({ name }) => name)).toEqual([
      'CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS',
      'REDIS_URL',
      'REDIS_AUTH',
      'REDIS_SENTINEL_AUTH',
      'REDIS_PERSECOND_URL',
      'REDIS_PERSECOND_AUTH',
      'REDIS_PERSECOND_SENTINEL_AUTH',
    ]);
  });

  it('knows the specification’s names', () => {
    expect(aliasesOf(limiterAliases, 'REDIS_TIMEOUT')).toEqual(['KVS_TIMEOUT']);
    expect(aliasesOf(limiterAliases, 'USE_STATSD')).toEqual(['USE_PUSHSTATS']);
    expect(aliasesOf(limiterAliases, 'LOCAL_CACHE_SIZE_IN_BYTES')).toEqual(['LocalCacheSizeInBytes']);
  });
});

describe('what is allowed and hardly intended', () => {
  it.each([
    [
      { LIMIT_RESPONSE_HEADERS_ENABLED: 'true', LIMIT_RESET_HEADER: 'ratelimit-limit' },
      [
        'LIMIT_RESET_HEADER names the same header as LIMIT_LIMIT_HEADER, ratelimit-limit: the proxy would get both values under one name',
      ],
    ],
    [
      { LIMIT_REQUEST_HEADERS_ENABLED: 'true', LIMIT_REQUEST_RESET_HEADER: 'RateLimit-Remaining' },
      [
        'LIMIT_REQUEST_RESET_HEADER names the same header as LIMIT_REQUEST_REMAINING_HEADER, RateLimit-Remaining: the proxy would get both values under one name',
      ],
    ],
    [
      {
        LIMIT_RESPONSE_HEADERS_ENABLED: 'true',
        RESPONSE_RULE_IDENTITY: 'header',
        RULE_IDENTITY_HEADER: 'ratelimit-limit',
      },
      [
        'RULE_IDENTITY_HEADER names the same header as LIMIT_LIMIT_HEADER, ratelimit-limit: the proxy would get both values under one name',
      ],
    ],
    [
      {
        LIMIT_RESPONSE_HEADERS_ENABLED: 'true',
        LIMIT_RESPONSE_HEADERS_STYLE: 'ietf',
        LIMIT_RESET_HEADER: 'x-reset',
      },
      ['LIMIT_RESET_HEADER has no effect without LIMIT_RESPONSE_HEADERS_STYLE=legacy'],
    ],
    [
      {
        LIMIT_WARNING_HEADER: 'x-rule',
        RESPONSE_RULE_IDENTITY: 'header',
        RULE_IDENTITY_HEADER: 'X-Rule',
      },
      [
        'LIMIT_WARNING_HEADER names the same header as RULE_IDENTITY_HEADER, x-rule: the proxy would get both values under one name',
      ],
    ],
    [{ LIMIT_WARNING_HEADER: '' }, []],
    [{ LIMIT_RESPONSE_HEADERS_ENABLED: 'true', LIMIT_REQUEST_HEADERS_ENABLED: 'true' }, []],
    [{ EXTRA_TAGS: 'a:1,b:2,a:3,a:4' }, ['EXTRA_TAGS has the tag a more than once: keep one of them']],
    [{ EXTRA_TAGS: 'a:1,b:1' }, []],
    [
      { LOCAL_CACHE_SIZE_IN_BYTES: '191' },
      ['LOCAL_CACHE_SIZE_IN_BYTES=191 is too small to remember anything: an entry takes 192 bytes or more'],
    ],
    [
      { LOCAL_CACHE_SIZE_IN_BYTES: '192', CACHE_KEY_PREFIX: 'p' },
      ['LOCAL_CACHE_SIZE_IN_BYTES=192 is too small to remember anything: an entry takes 193 bytes or more'],
    ],
    [{ LOCAL_CACHE_SIZE_IN_BYTES: '192' }, []],
  ] as [Record<string, string>, string[]][])('is warned about: %j', (env, warnings) => {
    expect(parseLimiterSettings({ BACKEND_TYPE: 'memory', ...env }).warnings).toEqual(warnings);
  });
});
