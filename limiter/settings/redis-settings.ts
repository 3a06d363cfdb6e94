/** Settings of Redis: a part of the table in settings.ts. */
import { bool, choice, duration, text } from '../../process/settings/settings-kinds.ts';
import { needing, type SettingNeed } from '../../process/settings/settings-needs.ts';
import type { SettingsError, SettingsOf, SettingsTable } from '../../process/settings/settings-reader.ts';
import {
  type ClusterAddress,
  parseClusterAddress,
  parseRedisAddress,
  parseSentinelAddress,
  type RedisAddress,
  type SentinelAddress,
} from '../stores/redis/redis-address.ts';
import { ofPerSecond, redisBatchSettings } from './redis-batch-settings.ts';

const dayMs = 24 * 3_600_000;

const socketType = choice({ values: ['unix', 'tcp'] });
const type = choice({ values: ['SINGLE', 'SENTINEL', 'CLUSTER'] });

const inRedis: readonly SettingNeed[] = [{ name: 'BACKEND_TYPE', is: ['redis'] }];
const overTls: readonly SettingNeed[] = [
  {
    name: 'REDIS_TLS',
    is: [true],
    or: { name: 'REDIS_PERSECOND_TLS', is: [true] },
    otherwise: 'Redis is spoken to in plain text',
  },
];

const mainSettings = {
  redisSocketType: {
    name: 'REDIS_SOCKET_TYPE',
    kind: socketType,
    default: 'unix',
    summary: 'How `REDIS_URL` is reached; sentinels, their masters and clusters always by TCP.',
  },
  redisType: {
    name: 'REDIS_TYPE',
    kind: type,
    default: 'SINGLE',
    summary: 'Kind of Redis deployment.',
  },
  redisUrl: {
    name: 'REDIS_URL',
    kind: text(),
    default: '/var/run/nutcracker/ratelimit.sock',
    secret: true,
    summary:
      'Path of a socket, `host:port`, or (socket type tcp) `redis://[user:password@]host:port[/db]`; with `SENTINEL` the name of the master and the sentinels, `name,host:port,...`; with `CLUSTER` nodes of the cluster, `host:port,...`.',
  },
  redisAuth: {
    name: 'REDIS_AUTH',
    kind: text(),
    default: '',
    secret: true,
    summary: '`password` or `user:password`; goes before credentials in `REDIS_URL`. Empty: none.',
  },
  redisSentinelAuth: {
    name: 'REDIS_SENTINEL_AUTH',
    needs: [{ name: 'REDIS_TYPE', is: ['SENTINEL'] }],
    kind: text(),
    default: '',
    secret: true,
    summary: 'The same for the sentinels; goes before credentials of the first of them in `REDIS_URL`.',
  },
  redisTimeoutMs: {
    name: 'REDIS_TIMEOUT',
    kind: duration({ min: 1, max: dayMs }),
    default: 10_000,
    summary: 'Bounds connecting and every command.',
  },
  redisTls: {
    name: 'REDIS_TLS',
    kind: bool(),
    default: false,
    summary: 'Speak TLS with Redis and its sentinels.',
  },
} as const satisfies SettingsTable;

/** For every connection that speaks TLS, of the per-second store too. */
const tlsSettings = needing(overTls, {
  redisTlsClientCert: {
    name: 'REDIS_TLS_CLIENT_CERT',
    kind: text(),
    default: '',
    summary: "PEM file with the limiter's certificate; empty: none is shown.",
  },
  redisTlsClientKey: {
    name: 'REDIS_TLS_CLIENT_KEY',
    kind: text(),
    default: '',
    summary: 'PEM file with its key.',
  },
  redisTlsCaCert: {
    name: 'REDIS_TLS_CACERT',
    kind: text(),
    default: '',
    summary: 'PEM file with authorities that are trusted besides the usual ones.',
  },
  redisTlsSkipHostnameVerification: {
    name: 'REDIS_TLS_SKIP_HOSTNAME_VERIFICATION',
    kind: bool(),
    default: false,
    summary: "Take a server's certificate of any name; who signed it is verified all the same.",
  },
} as const satisfies SettingsTable);

const connectionSettings = {
  redisHealthCheckActiveConnection: {
    name: 'REDIS_HEALTH_CHECK_ACTIVE_CONNECTION',
    kind: bool(),
    default: false,
    summary: 'Unhealthy whenever there is no connection, not only before the first one.',
  },
  redisCloseConnectionOnReadOnlyError: {
    name: 'REDIS_CLOSE_CONNECTION_ON_READONLY_ERROR',
    kind: bool(),
    default: false,
    summary:
      'Close a connection on which Redis answered `READONLY`, and connect anew; for both stores. The error goes to the caller in any case.',
  },
  redisStartupInitialIntervalMs: {
    name: 'REDIS_STARTUP_INITIAL_INTERVAL',
    kind: duration({ min: 1, max: dayMs }),
    default: 1_000,
    summary: 'Wait after the first attempt to connect at the start; doubles with each attempt.',
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
    summary: 'When an attempt fails after this time, the limiter does not start; 0: it tries for ever.',
  },
} as const satisfies SettingsTable;

const perSecondSettings = needing(ofPerSecond, {
  redisPerSecond: {
    name: 'REDIS_PERSECOND',
    needs: inRedis,
    kind: bool(),
    default: false,
    summary: 'Limits per second are counted in a Redis of their own.',
  },
  redisPerSecondSocketType: {
    name: 'REDIS_PERSECOND_SOCKET_TYPE',
    kind: socketType,
    default: 'unix',
    summary: 'As `REDIS_SOCKET_TYPE`, for the Redis of limits per second.',
  },
  redisPerSecondType: {
    name: 'REDIS_PERSECOND_TYPE',
    kind: type,
    default: 'SINGLE',
    summary: 'As `REDIS_TYPE`.',
  },
  redisPerSecondUrl: {
    name: 'REDIS_PERSECOND_URL',
    kind: text(),
    default: '/var/run/nutcracker/ratelimitpersecond.sock',
    secret: true,
    summary: 'As `REDIS_URL`.',
  },
  redisPerSecondAuth: {
    name: 'REDIS_PERSECOND_AUTH',
    kind: text(),
    default: '',
    secret: true,
    summary: 'As `REDIS_AUTH`, which is not used for it.',
  },
  redisPerSecondSentinelAuth: {
    name: 'REDIS_PERSECOND_SENTINEL_AUTH',
    needs: [{ name: 'REDIS_PERSECOND_TYPE', is: ['SENTINEL'] }],
    kind: text(),
    default: '',
    secret: true,
    summary: 'As `REDIS_SENTINEL_AUTH`, which is not used for it.',
  },
  redisPerSecondTimeoutMs: {
    name: 'REDIS_PERSECOND_TIMEOUT',
    kind: duration({ min: 1, max: dayMs }),
    default: 10_000,
    summary: 'As `REDIS_TIMEOUT`.',
  },
  redisPerSecondTls: {
    name: 'REDIS_PERSECOND_TLS',
    kind: bool(),
    default: false,
    summary: 'As `REDIS_TLS`, with the files of `REDIS_TLS_*`.',
  },
} as const satisfies SettingsTable);

export const redisSettings = needing(inRedis, {
  ...mainSettings,
  ...tlsSettings,
  ...connectionSettings,
  ...redisBatchSettings,
  ...perSecondSettings,
} as const satisfies SettingsTable);

export type RedisSettings = SettingsOf<typeof redisSettings>;

/** The settings of one of the two stores. */
export interface RedisStoreSettings {
  type: RedisSettings['redisType'];
  socketType: RedisSettings['redisSocketType'];
  url: string;
  auth: string;
  sentinelAuth: string;
  timeoutMs: number;
  tls: boolean;
  pipelineWindowMs: number;
  parallelism: number;
  poolSize: number;
  onEmpty: RedisSettings['redisPoolOnEmptyBehavior'];
  onEmptyWaitMs: number;
  pipelineLimit: number;
}

export function mainRedis(settings: RedisSettings): RedisStoreSettings {
  return {
    type: settings.redisType,
    socketType: settings.redisSocketType,
    url: settings.redisUrl,
    auth: settings.redisAuth,
    sentinelAuth: settings.redisSentinelAuth,
    timeoutMs: settings.redisTimeoutMs,
    tls: settings.redisTls,
    pipelineWindowMs: settings.redisPipelineWindowMs,
    parallelism: settings.redisClusterPipelineParallelism,
    poolSize: settings.redisPoolSize,
    onEmpty: settings.redisPoolOnEmptyBehavior,
    onEmptyWaitMs: settings.redisPoolOnEmptyWaitMs,
    pipelineLimit: settings.redisPipelineLimit,
  };
}

export function perSecondRedis(settings: RedisSettings): RedisStoreSettings {
  return {
    type: settings.redisPerSecondType,
    socketType: settings.redisPerSecondSocketType,
    url: settings.redisPerSecondUrl,
    auth: settings.redisPerSecondAuth,
    sentinelAuth: settings.redisPerSecondSentinelAuth,
    timeoutMs: settings.redisPerSecondTimeoutMs,
    tls: settings.redisPerSecondTls,
    pipelineWindowMs: settings.redisPerSecondPipelineWindowMs,
    parallelism: settings.redisPerSecondClusterPipelineParallelism,
    poolSize: settings.redisPerSecondPoolSize,
    onEmpty: settings.redisPerSecondPoolOnEmptyBehavior,
    onEmptyWaitMs: settings.redisPerSecondPoolOnEmptyWaitMs,
    pipelineLimit: settings.redisPerSecondPipelineLimit,
  };
}

/** Throws an Error that shows the URL masked. */
export function redisAddress(
  settings: Pick<RedisStoreSettings, 'type' | 'socketType' | 'url' | 'auth' | 'sentinelAuth'>,
): RedisAddress | SentinelAddress | ClusterAddress {
  if (settings.type === 'CLUSTER') return parseClusterAddress(settings);
  return settings.type === 'SENTINEL' ? parseSentinelAddress(settings) : parseRedisAddress(settings);
}

/** What is wrong with the values together, with `BACKEND_TYPE=redis`. Values refused by themselves are missing. */
export function redisSettingsProblems(settings: Partial<RedisSettings>): SettingsError[] {
  const { redisTls, redisPerSecond, redisPerSecondTls } = settings;
  const stores = [{ prefix: 'REDIS_', given: mainRedis(settings as RedisSettings) }];
  if (redisPerSecond === true) {
    stores.push({ prefix: 'REDIS_PERSECOND_', given: perSecondRedis(settings as RedisSettings) });
  }
  const problems = stores.flatMap(({ prefix, given }) => {
    const problem = urlProblem(given, prefix);
    return [
      ...(problem === undefined ? [] : [{ variable: `${prefix}URL`, message: `${prefix}URL: ${problem}` }]),
      ...parallelismProblems(given, prefix),
    ];
  });
  const speaksTls = redisTls === true || (redisPerSecond === true && redisPerSecondTls === true);
  return speaksTls ? [...problems, ...pairProblems(settings)] : problems;
}

function urlProblem(given: Partial<RedisStoreSettings>, prefix: string): string | undefined {
  const { type: redisType, socketType: socket, url } = given;
  if (redisType === undefined || socket === undefined || url === undefined) return undefined;
  if (url === '') return 'must not be empty with BACKEND_TYPE=redis';
  if (redisType === 'SINGLE' && socket === 'unix' && !url.includes('/') && /:\d+$/.test(url)) {
    return `is the path of a socket with ${prefix}SOCKET_TYPE=unix (the default); for host:port set ${prefix}SOCKET_TYPE=tcp`;
  }
  try {
    const { auth = '', sentinelAuth = '' } = given;
    redisAddress({ type: redisType, socketType: socket, url, auth, sentinelAuth });
    return undefined;
  } catch (error) {
    return (error as Error).message;
  }
}

function parallelismProblems(given: Partial<RedisStoreSettings>, prefix: string): SettingsError[] {
  if (given.type !== 'CLUSTER' || given.parallelism === undefined || given.parallelism >= 0) return [];
  const variable = `${prefix}CLUSTER_PIPELINE_PARALLELISM`;
  return [{ variable, message: `${variable}: redis cluster pipeline parallelism must be >= 0` }];
}

function pairProblems({
  redisTlsClientCert = '',
  redisTlsClientKey = '',
}: Partial<RedisSettings>): SettingsError[] {
  if ((redisTlsClientCert === '') === (redisTlsClientKey === '')) return [];
  const [set, missing] = redisTlsClientCert === '' ? ['KEY', 'CERT'] : ['CERT', 'KEY'];
  const variable = `REDIS_TLS_CLIENT_${set}`;
  return [{ variable, message: `${variable}: needs REDIS_TLS_CLIENT_${missing} as well` }];
}
