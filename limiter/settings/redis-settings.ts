/** Settings of Redis: a part of the table in settings.ts. */
import { bool, choice, duration, integer, text } from '../../process/settings/settings-kinds.ts';
import { needing, type SettingNeed } from '../../process/settings/settings-needs.ts';
import {
  type Check,
  pairCheck,
  problems,
  type SettingsError,
  type SettingsOf,
  type SettingsTable,
} from '../../process/settings/settings-reader.ts';
import {
  type ClusterAddress,
  parseClusterAddress,
  parseRedisAddress,
  parseSentinelAddress,
  type RedisAddress,
  type SentinelAddress,
} from '../stores/redis/wire/redis-address.ts';

const dayMs = 24 * 3_600_000;

const inRedis: readonly SettingNeed[] = [{ name: 'BACKEND_TYPE', is: ['redis'] }];
const overTls: readonly SettingNeed[] = [
  {
    name: 'REDIS_TLS',
    is: [true],
    or: { name: 'REDIS_PERSECOND_TLS', is: [true] },
    otherwise: 'the limiter connects to Redis in plain text',
  },
];

/** The address of Redis. */
const addressRows = {
  redisSocketType: {
    name: 'REDIS_SOCKET_TYPE',
    kind: choice({ values: ['unix', 'tcp'] }),
    default: 'unix',
    summary: 'How to reach `REDIS_URL`. Sentinels, their masters and clusters always use TCP.',
  },
  redisType: {
    name: 'REDIS_TYPE',
    kind: choice({ values: ['SINGLE', 'SENTINEL', 'CLUSTER'] }),
    default: 'SINGLE',
    summary: 'Kind of Redis or Valkey deployment.',
  },
  redisUrl: {
    name: 'REDIS_URL',
    kind: text(),
    default: '/var/run/nutcracker/ratelimit.sock',
    secret: true,
    summary:
      'Path of a socket, `host:port`, or (socket type tcp) `redis://[user:password@]host:port[/db]`. With `SENTINEL`: the name of the master and the sentinels, `name,host:port,...`. With `CLUSTER`: nodes, `host:port,...`.',
  },
  redisAuth: {
    name: 'REDIS_AUTH',
    kind: text(),
    secret: true,
    summary:
      'Credentials of Redis, `password` or `user:password`. They take precedence over credentials in `REDIS_URL`. Empty: none.',
  },
  redisSentinelAuth: {
    name: 'REDIS_SENTINEL_AUTH',
    needs: [{ name: 'REDIS_TYPE', is: ['SENTINEL'] }],
    kind: text(),
    secret: true,
    summary:
      'Credentials of the sentinels, `password` or `user:password`. They take precedence over credentials of the first sentinel in `REDIS_URL`.',
  },
  redisTimeoutMs: {
    name: 'REDIS_TIMEOUT',
    kind: duration({ min: 1, max: dayMs }),
    default: 10_000,
    summary: 'Maximum time to connect, and for every command.',
  },
  redisTls: {
    name: 'REDIS_TLS',
    kind: bool(),
    summary: 'Use TLS for Redis and its sentinels.',
  },
} as const satisfies SettingsTable;

/** The batching of counts for Redis. */
const batchRows = {
  redisPipelineWindowMs: {
    name: 'REDIS_PIPELINE_WINDOW',
    kind: duration({ min: 0, max: 60_000 }),
    default: 0,
    summary:
      'Under load, at most one call to Redis in this time, in whole milliseconds. 0: requests of one turn of the event loop share a call.',
  },
  redisClusterPipelineParallelism: {
    name: 'REDIS_CLUSTER_PIPELINE_PARALLELISM',
    needs: [{ name: 'REDIS_TYPE', is: ['CLUSTER'] }],
    kind: integer({ min: -2_147_483_648, max: 2_147_483_647 }),
    default: 1,
    summary: 'Nodes that a batch asks at a time, at most `REDIS_POOL_SIZE`; 0: `REDIS_POOL_SIZE`.',
  },
  redisPoolSize: {
    name: 'REDIS_POOL_SIZE',
    kind: integer({ min: 0, max: 2_147_483_647 }),
    default: 10,
    summary:
      'Open calls at a time; 0 means 4. One connection to each server carries all calls, and each call carries the requests that arrived together.',
  },
  redisPoolOnEmptyBehavior: {
    name: 'REDIS_POOL_ON_EMPTY_BEHAVIOR',
    kind: choice({ values: ['CREATE', 'ERROR', 'WAIT'] }),
    default: 'CREATE',
    summary:
      'What happens to a call when `REDIS_POOL_SIZE` others are open. After the wait, `CREATE` sends it anyway, and `ERROR` fails it. `WAIT` fails it only after `REDIS_TIMEOUT`.',
  },
  redisPoolOnEmptyWaitMs: {
    name: 'REDIS_POOL_ON_EMPTY_WAIT_DURATION',
    needs: [{ name: 'REDIS_POOL_ON_EMPTY_BEHAVIOR', is: ['CREATE', 'ERROR'] }],
    kind: duration({ min: 0, max: 3_600_000 }),
    default: 1_000,
    summary: 'The wait of `REDIS_POOL_ON_EMPTY_BEHAVIOR`.',
  },
  redisPipelineLimit: {
    name: 'REDIS_PIPELINE_LIMIT',
    kind: integer({ min: -2_147_483_648, max: 2_147_483_647 }),
    default: 0,
    summary: 'Deprecated in the Go service: no effect. Above 0, the log has a warning.',
  },
} as const satisfies SettingsTable;

const storeRows = { ...addressRows, ...batchRows };

/** Settings for every TLS connection, including those of the per-second store. */
const tlsSettings = needing(overTls, {
  redisTlsClientCert: {
    name: 'REDIS_TLS_CLIENT_CERT',
    kind: text(),
    summary: "PEM file with the limiter's certificate; empty: none.",
  },
  redisTlsClientKey: {
    name: 'REDIS_TLS_CLIENT_KEY',
    kind: text(),
    summary: "PEM file with the key of the limiter's certificate.",
  },
  redisTlsCaCert: {
    name: 'REDIS_TLS_CACERT',
    kind: text(),
    summary: 'PEM file with authorities to trust in addition to the default ones.',
  },
  redisTlsSkipHostnameVerification: {
    name: 'REDIS_TLS_SKIP_HOSTNAME_VERIFICATION',
    kind: bool(),
    summary: "Accept a server's certificate with any name. The limiter still verifies its signature.",
  },
} as const satisfies SettingsTable);

/** Settings for both stores. */
const connectionSettings = {
  redisScripts: {
    name: 'REDIS_SCRIPTS',
    kind: choice({ values: ['auto', 'never'] }),
    default: 'auto',
    summary:
      '`never`: no Lua, for sharding proxies, and only fixed windows. `auto`: plain commands after Redis rejects a script. See [Redis without scripts](#redis-without-scripts). Not in the Go service.',
  },
  redisHealthCheckActiveConnection: {
    name: 'REDIS_HEALTH_CHECK_ACTIVE_CONNECTION',
    kind: bool(),
    summary:
      'The limiter is unhealthy whenever it has no connection to Redis, not only before the first one.',
  },
  redisCloseConnectionOnReadOnlyError: {
    name: 'REDIS_CLOSE_CONNECTION_ON_READONLY_ERROR',
    kind: bool(),
    summary:
      'After a `READONLY` answer, close the connection and open a new one, for both stores. The caller gets the error in any case.',
  },
  redisStartupInitialIntervalMs: {
    name: 'REDIS_STARTUP_INITIAL_INTERVAL',
    kind: duration({ min: 1, max: dayMs }),
    default: 1_000,
    summary: 'Wait after the first failed attempt to connect at the start. It doubles with each attempt.',
  },
  redisStartupMaxIntervalMs: {
    name: 'REDIS_STARTUP_MAX_INTERVAL',
    kind: duration({ min: 1, max: dayMs }),
    default: 30_000,
    summary: 'Longest wait between two attempts at the start.',
  },
  redisStartupMaxElapsedTimeMs: {
    name: 'REDIS_STARTUP_MAX_ELAPSED_TIME',
    kind: duration({ min: 0, max: dayMs }),
    default: 0,
    summary: 'If an attempt fails after this time, the limiter does not start; 0: it continues to try.',
  },
} as const satisfies SettingsTable;

type StoreRows = typeof storeRows;
type PerSecondKey<Key> = Key extends `redis${infer Rest}` ? `redisPerSecond${Rest}` : never;
type PerSecondRows = { readonly [Key in keyof StoreRows as PerSecondKey<Key>]: StoreRows[Key] };

const remarks: Partial<Record<keyof StoreRows, string>> = {
  redisSocketType: ', for the Redis of limits per second',
  redisAuth: ', which does not apply here',
  redisSentinelAuth: ', which does not apply here',
  redisTls: ', with the files of `REDIS_TLS_*`',
};

/** REDIS_PERSECOND_*: each row of the main Redis again, for the Redis of limits per second. */
function perSecondRows(): PerSecondRows {
  const perSecondName = (name: string): string => name.replace('REDIS_', 'REDIS_PERSECOND_');
  const rows = Object.entries<SettingsTable[string]>(storeRows).map(([key, row]) => [
    perSecondKey(key),
    {
      ...row,
      name: perSecondName(row.name),
      needs: row.needs?.map((need) => ({ ...need, name: perSecondName(need.name) })) ?? [
        { name: 'REDIS_PERSECOND', is: [true] },
      ],
      ...(key === 'redisUrl' ? { default: '/var/run/nutcracker/ratelimitpersecond.sock' } : {}),
      summary: `Same as \`${row.name}\`${remarks[key as keyof StoreRows] ?? ''}.`,
    },
  ]);
  return Object.fromEntries(rows) as PerSecondRows;
}

function perSecondKey(key: string): string {
  return key.replace('redis', 'redisPerSecond');
}

export const redisSettings = needing(inRedis, {
  ...addressRows,
  ...tlsSettings,
  ...connectionSettings,
  ...batchRows,
  redisPerSecond: {
    name: 'REDIS_PERSECOND',
    kind: bool(),
    summary:
      'Count limits per second, and all others with windows shorter than a minute, in a separate Redis.',
  },
  ...perSecondRows(),
} as const satisfies SettingsTable);

type RedisSettings = SettingsOf<typeof redisSettings>;

/** The settings of one of the two stores, by the names of the main store's settings. */
export type RedisStoreSettings = SettingsOf<StoreRows>;

export function perSecondRedis(settings: RedisSettings): RedisStoreSettings {
  const all: Readonly<Record<string, unknown>> = settings;
  const own = Object.keys(storeRows).map((key) => [key, all[perSecondKey(key)]]);
  return Object.fromEntries(own) as RedisStoreSettings;
}

/** @throws Error with the URL masked */
export function redisAddress(
  settings: Omit<SettingsOf<typeof addressRows>, 'redisTimeoutMs' | 'redisTls'>,
): RedisAddress | SentinelAddress | ClusterAddress {
  const { redisType, redisSocketType: socketType, redisUrl: url, redisAuth: auth } = settings;
  if (redisType === 'CLUSTER') return parseClusterAddress({ url, auth });
  if (redisType === 'SINGLE') return parseRedisAddress({ socketType, url, auth });
  return parseSentinelAddress({ url, auth, sentinelAuth: settings.redisSentinelAuth });
}

/** Returns how many calls may be in flight at a time. */
export function callsAtATime(poolSize: number): number {
  // This is the default of the Go service's client.
  return poolSize === 0 ? 4 : poolSize;
}

/** Returns how many nodes of a cluster may be asked at a time. */
export function nodesAtATime(
  settings: Pick<RedisStoreSettings, 'redisClusterPipelineParallelism' | 'redisPoolSize'>,
): number {
  const { redisClusterPipelineParallelism: wanted, redisPoolSize } = settings;
  const max = callsAtATime(redisPoolSize);
  return wanted === 0 ? max : Math.min(wanted, max);
}

/** Returns the errors of values that do not fit together with `BACKEND_TYPE=redis`. Values that are invalid by themselves are missing. */
export function redisProblems(settings: Partial<RedisSettings>): SettingsError[] {
  const { redisTls = false, redisPerSecond = false, redisPerSecondTls = false } = settings;
  const { redisTlsClientCert: cert = '', redisTlsClientKey: key = '' } = settings;
  const perSecond = redisPerSecond
    ? storeChecks(perSecondRedis(settings as RedisSettings), 'REDIS_PERSECOND_')
    : [];
  const speaksTls = redisTls || (redisPerSecond && redisPerSecondTls);
  return problems([
    ...storeChecks(settings, 'REDIS_'),
    ...perSecond,
    pairCheck(speaksTls, ['REDIS_TLS_CLIENT_CERT', cert], ['REDIS_TLS_CLIENT_KEY', key]),
  ]);
}

function storeChecks(given: Partial<RedisStoreSettings>, prefix: string): Check[] {
  const { redisType, redisClusterPipelineParallelism: parallelism = 0 } = given;
  const problem = urlProblem(given, prefix);
  return [
    [problem !== undefined, `${prefix}URL`, problem ?? ''],
    [
      redisType === 'CLUSTER' && parallelism < 0,
      `${prefix}CLUSTER_PIPELINE_PARALLELISM`,
      'redis cluster pipeline parallelism must be >= 0',
    ],
  ];
}

function urlProblem(given: Partial<RedisStoreSettings>, prefix: string): string | undefined {
  const { redisType, redisSocketType, redisUrl } = given;
  if (redisType === undefined || redisSocketType === undefined || redisUrl === undefined) return undefined;
  if (redisUrl === '') return 'must not be empty with BACKEND_TYPE=redis';
  if (
    redisType === 'SINGLE' &&
    redisSocketType === 'unix' &&
    !redisUrl.includes('/') &&
    /:\d+$/.test(redisUrl)
  ) {
    return `is the path of a socket with ${prefix}SOCKET_TYPE=unix (the default); for host:port set ${prefix}SOCKET_TYPE=tcp`;
  }
  try {
    const { redisAuth = '', redisSentinelAuth = '' } = given;
    redisAddress({ redisType, redisSocketType, redisUrl, redisAuth, redisSentinelAuth });
    return undefined;
  } catch (error) {
    return (error as Error).message;
  }
}

/** The Redis of a program that is configured by code. */
export interface RedisPlace {
  /** The same form as `REDIS_URL`, or with `rediss://` for TLS. */
  readonly url: string;
  readonly type: 'single' | 'sentinel' | 'cluster';
  readonly timeoutMs: number;
}

const types = { single: 'SINGLE', sentinel: 'SENTINEL', cluster: 'CLUSTER' } as const;

export function redisAt({ url, type, timeoutMs }: RedisPlace): Partial<RedisSettings> {
  return {
    redisType: types[type],
    redisSocketType: url.startsWith('/') ? 'unix' : 'tcp',
    redisUrl: url.replace(/rediss:\/\//gi, 'redis://'),
    redisTls: /^rediss:/i.test(url),
    redisTimeoutMs: Math.ceil(timeoutMs),
    redisStartupInitialIntervalMs: 125,
    // Chosen: a program that limits its own requests should count soon after its Redis is available.
    redisStartupMaxIntervalMs: 1_000,
  };
}
