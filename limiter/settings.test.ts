import { describe, expect, it } from 'vitest';
import { aliasesOf, canonicalName } from '../process/settings-aliases.ts';
import { limiterAliases, limiterSettingGroups, parseLimiterSettings } from './settings.ts';

const all = limiterSettingGroups.flatMap(({ settings }) => Object.values(settings));

describe('parseLimiterSettings', () => {
  it('has the defaults of the Go service', () => {
    expect(parseLimiterSettings({})).toEqual({
      settings: {
        grpcHost: '0.0.0.0',
        grpcPort: 8081,
        httpHost: '0.0.0.0',
        httpPort: 8080,
        httpMaxBodyBytes: 4_194_304,
        debugHost: '0.0.0.0',
        debugPort: 6070,
        shutdownDrainDelayMs: 0,
        logLevel: 'warn',
        logFormat: 'text',
        configType: 'FILE',
        runtimeRoot: '/srv/runtime_data/current',
        runtimeSubdirectory: '',
        runtimeAppDirectory: 'config',
        runtimeIgnoreDotFiles: false,
        runtimeWatchRoot: true,
        mergeDomainConfig: false,
        forceStartWithoutInitialConfig: false,
        healthyWithAtLeastOneConfigLoaded: false,
        backendType: 'redis',
        redisSocketType: 'unix',
        redisType: 'SINGLE',
        redisUrl: '/var/run/nutcracker/ratelimit.sock',
        redisAuth: '',
        redisTimeoutMs: 10_000,
        memoryStoreMaxCounters: 1_000_000,
        memoryStoreMaxBytes: 268_435_456,
        cacheKeyPrefix: '',
        expirationJitterMaxSeconds: 300,
        localCacheSizeInBytes: 0,
        stopCacheKeyIncrementWhenOverLimit: false,
        nearLimitRatio: 0.8,
        useCalendarMonthRateLimit: false,
        shadowMode: false,
        quotaMode: false,
        responseDynamicMetadata: false,
        limitResponseHeadersEnabled: false,
        limitLimitHeader: 'RateLimit-Limit',
        limitRemainingHeader: 'RateLimit-Remaining',
        limitResetHeader: 'RateLimit-Reset',
        limitPerUnitHeadersEnabled: false,
        limitRequestHeadersEnabled: false,
        limitRequestLimitHeader: 'RateLimit-Limit',
        limitRequestRemainingHeader: 'RateLimit-Remaining',
        limitRequestResetHeader: 'RateLimit-Reset',
        useStatsd: true,
        statsdHost: 'localhost',
        statsdPort: 8125,
        statsFlushIntervalMs: 10_000,
      },
      warnings: [],
    });
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
      'GRPC_XDS_SOTW',
      'CONFIG_TYPE: "GRPC_XDS_SOTW" is not accepted, expected FILE, in any letter case; this version does not have that one',
    ],
    [
      'BACKEND_TYPE',
      'memcache',
      'BACKEND_TYPE: "memcache" is not accepted, expected redis or memory, in any letter case; this version does not have that one',
    ],
    [
      'REDIS_TYPE',
      'cluster',
      'REDIS_TYPE: "cluster" is not accepted, expected SINGLE, in any letter case; this version does not have that one',
    ],
    ['REDIS_URL', '', 'REDIS_URL: must not be empty with BACKEND_TYPE=redis'],
    [
      'LOG_LEVEL',
      '',
      'LOG_LEVEL: "" is not accepted, expected panic, fatal, error, warn, warning, info, debug or trace, in any letter case',
    ],
    ['GRPC_PORT', '65536', 'GRPC_PORT: "65536" is not accepted, expected a whole number from 0 to 65535'],
    ['NEAR_LIMIT_RATIO', '-0.1', 'NEAR_LIMIT_RATIO: "-0.1" is not accepted, expected a number from 0 to 1'],
  ];
  for (const [variable, value, message] of refused) {
    it(`refuses ${variable}="${value}"`, () => {
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

  it('warns of settings of the Go service that are not read, and not of those of gRPC libraries', () => {
    expect(
      parseLimiterSettings({
        REDIS_POOL_SIZE: '5',
        KVS_PIPELINE_WINDOW: '0',
        USE_PROMETHEUS: 'false',
        USE_DOG_STATSD: 'true',
        GRPC_TRACE: 'all',
      }).warnings,
    ).toEqual([
      'REDIS_POOL_SIZE is a setting that this version does not have: ignored',
      'USE_DOG_STATSD is a setting that this version does not have: ignored',
    ]);
  });

  it('refuses what it would not be safe to ignore', () => {
    const env = {
      KVS_TLS: 'true',
      GRPC_CLIENT_TLS_CACERT: '/ca.pem',
      REDIS_PERSECOND: '1',
      GRPC_SERVER_USE_TLS: 'false',
    };
    expect(parseLimiterSettings(env).errors?.map(({ message }) => message)).toEqual(
      ['GRPC_CLIENT_TLS_CACERT', 'KVS_TLS', 'REDIS_PERSECOND'].map(
        (name) =>
          `${name}: this version does not have it, and it is not safe to go on without; remove it or set it to false`,
      ),
    );
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
  ])('refuses %j', (env, problem) => {
    expect(parseLimiterSettings({ ...env, PORT: 'x' }).errors?.map(({ message }) => message)).toContain(
      `REDIS_URL: ${problem}`,
    );
    expect(parseLimiterSettings({ ...env, BACKEND_TYPE: 'memory' }).errors).toBeUndefined();
  });
});

describe('the table of settings', () => {
  it('has every variable once, and no variable that is an alias', () => {
    const names = all.map(({ name }) => name);
    expect(new Set(names).size).toBe(names.length);
    expect(names.filter((name) => canonicalName(limiterAliases, name) !== undefined)).toEqual([]);
  });

  it('has defaults that its own kinds accept', () => {
    for (const { name, kind, default: value } of all) {
      expect([name, kind.schema.parse(kind.format(value))]).toEqual([name, value]);
    }
  });

  it('has one sentence for each', () => {
    for (const { name, summary } of all) expect([name, /^[^\n]+\.$/.test(summary)]).toEqual([name, true]);
  });

  it('keeps what may hold credentials secret', () => {
    expect(all.filter(({ secret }) => secret === true).map(({ name }) => name)).toEqual([
      'REDIS_URL',
      'REDIS_AUTH',
    ]);
  });

  it('knows the specification’s names', () => {
    expect(aliasesOf(limiterAliases, 'REDIS_TIMEOUT')).toEqual(['KVS_TIMEOUT']);
    expect(aliasesOf(limiterAliases, 'USE_STATSD')).toEqual(['USE_PUSHSTATS']);
    expect(aliasesOf(limiterAliases, 'LOCAL_CACHE_SIZE_IN_BYTES')).toEqual(['LocalCacheSizeInBytes']);
  });
});
