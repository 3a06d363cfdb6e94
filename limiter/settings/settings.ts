/**
 * Every environment variable of the limiter, once. The typed settings, the errors and docs/settings.md come from
 * this table. Names are the Go service's; other names are aliases (`limiterAliases`).
 */
import { logFormats, logLevels } from '../../process/log/logger.ts';
import {
  bindHost,
  bool,
  choice,
  duration,
  integer,
  port,
  text,
} from '../../process/settings/settings-kinds.ts';
import type { SettingNeed } from '../../process/settings/settings-needs.ts';
import {
  type Environment,
  readSettings,
  type SettingsOf,
  type SettingsResult,
  type SettingsSchema,
  type SettingsTable,
} from '../../process/settings/settings-reader.ts';
import type { AliasTable } from '../../process/settings/settings-unknown.ts';
import type { MogrifierText } from '../stats/sinks/mogrifier.ts';
import { keyBytes } from '../stores/folded-run.ts';
import { cacheEntryOverheadBytes } from '../stores/local-cache.ts';
import { accessSettings, serverTlsProblems } from './access-settings.ts';
import {
  budgetSettings,
  counterSettings,
  leaseSettings,
  prefixProblems,
  requestSettings,
  requestSettingsProblems,
  storeFailureSettings,
} from './counting-settings.ts';
import { decisionSettings, doubleHeaders, headerSettings, overrideSettings } from './decision-settings.ts';
import {
  dogStatsdSettings,
  effectlessMogrifiers,
  mogrifierListAliases,
  readMogrifiers,
  withoutMogrifiers,
} from './dogstatsd-settings.ts';
import { grpcProblems, grpcSettings, mistakenGrpcNames } from './grpc-settings.ts';
import { memcacheProblems, memcacheSettings } from './memcache-settings.ts';
import { redisProblems, redisSettings } from './redis-settings.ts';
import {
  prometheusSettings,
  sinkOf,
  statsSettings,
  statsSettingsProblems,
  topSettings,
} from './stats-settings.ts';
import { tracingSettings, tracingUrl, tracingWarnings } from './tracing-settings.ts';
import { workerProblems, workerSettings } from './worker-settings.ts';
import { xdsProblems, xdsSettings, xdsWarnings } from './xds-settings.ts';

const mebibyte = 1024 * 1024;

const onPort: readonly SettingNeed[] = [
  { name: 'GRPC_UDS', is: 'unset', otherwise: 'gRPC is answered on that socket alone' },
];
const fromFiles: readonly SettingNeed[] = [{ name: 'CONFIG_TYPE', is: ['FILE'] }];

const listeners = {
  grpcHost: {
    name: 'GRPC_HOST',
    needs: onPort,
    kind: bindHost(),
    default: '0.0.0.0',
    summary: 'Address of the gRPC listener.',
  },
  grpcPort: {
    name: 'GRPC_PORT',
    needs: onPort,
    kind: port({ min: 0 }),
    default: 8081,
    summary: 'Port of the gRPC listener; 0 takes any free one.',
  },
  httpHost: {
    name: 'HOST',
    kind: bindHost(),
    default: '0.0.0.0',
    summary: 'Address of the HTTP listener (`/v1/check`, `/json`, `/healthcheck`, `/livez`).',
  },
  httpPort: {
    name: 'PORT',
    kind: port({ min: 0 }),
    default: 8080,
    summary: 'Port of the HTTP listener; 0 takes any free one.',
  },
  httpMaxBodyBytes: {
    name: 'HTTP_MAX_BODY_BYTES',
    kind: integer({ min: 1, max: 256 * mebibyte }),
    default: 4 * mebibyte,
    summary:
      'Longest body that `/json` and `/v1` take. A longer one of `/json` and `/v1/check` gets the answer of `REQUEST_TOO_LARGE`, any other one 413. Not in the Go service.',
  },
  httpMaxConnections: {
    name: 'HTTP_MAX_CONNECTIONS',
    kind: integer({ min: 1, max: 1_000_000 }),
    default: 1_000,
    summary:
      'Connections at a time of the HTTP listener, and of those for debug and Prometheus each; beyond it the address with most connections that wait for their peer, idle or with a request that does not end, loses the one that waits longest. With `LIMITER_WORKERS`, of each worker. Not in the Go service.',
  },
  connectionsMaxBytes: {
    name: 'CONNECTIONS_MAX_BYTES',
    kind: integer({ min: mebibyte, max: 64 * 1024 * mebibyte }),
    default: 64 * mebibyte,
    summary:
      'What all connections of the process, of every listener and worker, may hold for what their callers have not done yet: end requests, read answers, shake hands. Beyond it, whoever holds most loses what is unfinished longest. Not in the Go service.',
  },
  debugHost: {
    name: 'DEBUG_HOST',
    kind: bindHost(),
    default: '0.0.0.0',
    summary: 'Address of the debug listener (`/stats`, `/rlconfig`, `/debug/pprof/`).',
  },
  debugPort: {
    name: 'DEBUG_PORT',
    kind: port({ min: 0 }),
    default: 6070,
    summary: 'Port of the debug listener; 0 takes any free one.',
  },
  shutdownDrainDelayMs: {
    name: 'SHUTDOWN_DRAIN_DELAY',
    kind: duration({ min: 0, max: 3_600_000 }),
    default: 0,
    summary:
      'How long the limiter goes on answering, already unhealthy, after a signal to end. Not in the Go service.',
  },
} as const satisfies SettingsTable;

const logging = {
  logLevel: {
    name: 'LOG_LEVEL',
    kind: choice({ values: logLevels }),
    default: 'warn',
    summary:
      'Lines below this level are not written; `panic` is the same as `fatal`. Logs go to standard error.',
  },
  logFormat: {
    name: 'LOG_FORMAT',
    kind: choice({ values: logFormats, synonyms: { '': 'text' } }),
    default: 'text',
    summary:
      '`text` writes `time="..." level=... msg="..."`, `json` one object a line with `@message`, `@timestamp` and `level`.',
  },
} as const satisfies SettingsTable;

const configuration = {
  configType: {
    name: 'CONFIG_TYPE',
    kind: choice({ values: ['FILE', 'GRPC_XDS_SOTW', 'GRPC_XDS_DELTA'] }),
    default: 'FILE',
    summary:
      'Where rules come from: `FILE`, or a control plane: by `GRPC_XDS_DELTA`, which sends what has changed and is not in the Go service, or by `GRPC_XDS_SOTW`, which sends everything each time. A server that does not know the first is asked by the second.',
  },
  runtimeRoot: {
    name: 'RUNTIME_ROOT',
    needs: fromFiles,
    kind: text(),
    default: '/srv/runtime_data/current',
    summary: 'Root of the rule files, often a symbolic link.',
  },
  runtimeSubdirectory: {
    name: 'RUNTIME_SUBDIRECTORY',
    needs: fromFiles,
    kind: text(),
    summary: 'Directory below the root.',
  },
  runtimeAppDirectory: {
    name: 'RUNTIME_APPDIRECTORY',
    needs: fromFiles,
    kind: text(),
    default: 'config',
    summary: 'Directory below `RUNTIME_SUBDIRECTORY`; its `*.yaml` and `*.yml` files are the rules.',
  },
  runtimeIgnoreDotFiles: {
    name: 'RUNTIME_IGNOREDOTFILES',
    needs: fromFiles,
    kind: bool(),
    summary: 'Leave out files and directories whose name begins with a dot.',
  },
  runtimeWatchRoot: {
    name: 'RUNTIME_WATCH_ROOT',
    needs: fromFiles,
    kind: bool(),
    default: true,
    summary:
      'true: rules are loaded again when the root is linked to another directory; false: when files in the directory or in folders below it change.',
  },
  mergeDomainConfig: {
    name: 'MERGE_DOMAIN_CONFIG',
    kind: bool(),
    summary: 'Several files (or resources) may hold rules for one domain.',
  },
  profilesFile: {
    name: 'PROFILES_FILE',
    kind: text(),
    summary:
      'YAML file of [profiles](forward-auth.md), which say what requests of other proxies than Envoy become, read again when it changes. Empty: `RUNTIME_ROOT/RUNTIME_SUBDIRECTORY/profiles.yaml`, which need not be there. Not in the Go service.',
  },
  forceStartWithoutInitialConfig: {
    name: 'FORCE_START_WITHOUT_INITIAL_CONFIG',
    kind: bool(),
    summary: 'Open the gRPC and HTTP listeners before the first rules arrived.',
  },
  healthyWithAtLeastOneConfigLoaded: {
    name: 'HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED',
    kind: bool(),
    summary: 'Healthy only while rules for at least one domain are loaded.',
  },
} as const satisfies SettingsTable;

const store = {
  backendType: {
    name: 'BACKEND_TYPE',
    kind: choice({ values: ['redis', 'memcache', 'memory'], synonyms: { '': 'redis' } }),
    default: 'redis',
    summary:
      'Where counters live: `redis` (Redis or Valkey), `memcache`, or `memory`, in which every limiter counts for itself. `memcache` counts fixed windows alone, one a rule: others are refused when rules are loaded.',
  },
  ...redisSettings,
  ...memcacheSettings,
  ...counterSettings,
} as const satisfies SettingsTable;

/** The table in the order of the documentation. */
const groups = [
  { title: 'Listeners', settings: listeners },
  { title: 'gRPC connections', settings: grpcSettings },
  { title: 'Requests', settings: requestSettings },
  { title: 'Who is let in', settings: accessSettings },
  { title: 'Threads', settings: workerSettings },
  { title: 'Logs', settings: logging },
  { title: 'Rules', settings: configuration },
  { title: 'Rules from an xDS server', settings: xdsSettings },
  { title: 'Counters', settings: store },
  { title: 'Leases', settings: leaseSettings },
  { title: 'Budgets', settings: budgetSettings },
  { title: 'When the store fails', settings: storeFailureSettings },
  { title: 'Decisions', settings: decisionSettings },
  { title: 'Overrides', settings: overrideSettings },
  { title: 'Headers', settings: headerSettings },
  { title: 'Statistics', settings: statsSettings },
  { title: 'Prometheus', settings: prometheusSettings },
  { title: 'Statistics for dogstatsd', settings: dogStatsdSettings },
  { title: 'Top offenders', settings: topSettings },
  { title: 'Tracing', settings: tracingSettings },
] as const;

export const limiterSettingGroups: readonly { title: string; settings: SettingsTable }[] = groups;

type AllOf<Union> = (Union extends unknown ? (each: Union) => void : never) extends (all: infer All) => void
  ? All
  : never;
type Table = AllOf<(typeof groups)[number]['settings']>;

const table = Object.assign({}, ...groups.map(({ settings }) => settings)) as Table;

export type LimiterSettings = SettingsOf<Table> & {
  /** Those of USE_DOG_STATSD_MOGRIFIERS, where dogstatsd is the sink. */
  readonly mogrifiers: readonly MogrifierText[];
  /** Memcache lets requests pass when it fails unless STORE_FAILURE_MODE says otherwise, be it its default. */
  readonly isStoreFailureModeSet: boolean;
  /** XDS_CLIENT_BACKOFF_RANDOM_FACTOR keeps the Go service's formula as a whole where it is set. */
  readonly isXdsBackoffFactorSet: boolean;
  /** Where OpenTelemetry sends spans, for the log. */
  readonly tracingUrl: string;
};

type LimiterSettingsResult =
  | { readonly settings: LimiterSettings; readonly warnings: readonly string[]; readonly errors?: undefined }
  | Extract<SettingsResult<Table>, { readonly settings?: undefined }>;

/** The names under which the specification knows the same settings. */
export const limiterAliases: AliasTable = {
  prefixes: [
    ['KVS_', 'REDIS_'],
    ['MCS_', 'MEMCACHE_'],
    ['USE_PUSHSTATS', 'USE_STATSD'],
    ['PUSHSTATS_', 'STATSD_'],
    ['USE_TAGGEDSTATS', 'USE_DOG_STATSD'],
    ['TAGGEDSTATS_', 'DOG_STATSD_'],
    ['USE_PULLSTATS', 'USE_PROMETHEUS'],
    ['PULLSTATS_', 'PROMETHEUS_'],
  ],
  names: { LocalCacheSizeInBytes: 'LOCAL_CACHE_SIZE_IN_BYTES', ...mogrifierListAliases },
};

/** `GRPC_` as a whole is left out: gRPC libraries read GRPC_VERBOSITY, GRPC_TRACE and others. */
const ownPrefixes = [
  'BUDGET_',
  'CALLERS_',
  'CONFIG_GRPC_XDS_',
  'COUNTER_KEYS',
  'DEBUG_TOKEN',
  'DISABLE_STATS',
  'DOG_STATSD_',
  'EXTRA_TAGS',
  'GRPC_CLIENT_TLS_',
  'GRPC_KEEPALIVE_',
  'GRPC_MAX_CONNECTION_',
  'GRPC_SERVER_',
  'GRPC_UDS',
  'HTTP_CLIENT_TLS_',
  'HTTP_SERVER_',
  'LEASES',
  'LEASE_SHARE',
  'LIMITER_',
  'LIMIT_',
  'LOCAL_CACHE_',
  'MEMCACHE_',
  'MEMORY_STORE_',
  'PROMETHEUS_',
  'REDIS_',
  'REQUEST_MAX_',
  'RUNTIME_',
  'SANITIZE_DESCRIPTOR_METRIC_',
  'STATSD_',
  'STATS_FLUSH_',
  'STATS_MAX_',
  'STATS_TOP_',
  'STORE_BREAKER_',
  'STORE_FAILURE_MODE',
  'TRACING_',
  'USE_DOG_STATSD',
  'USE_PROMETHEUS',
  'USE_STATSD',
  'XDS_CLIENT_',
];

const schema: SettingsSchema<Table> = {
  table,
  aliases: limiterAliases,
  ownPrefixes,
  check: (settings) => [
    ...requestSettingsProblems(settings),
    ...grpcProblems(settings),
    ...serverTlsProblems(settings, 'http'),
    ...workerProblems(settings),
    ...statsSettingsProblems(settings),
    ...prefixProblems(settings),
    ...(settings.backendType === 'redis' ? redisProblems(settings) : []),
    ...(settings.backendType === 'memcache' ? memcacheProblems(settings) : []),
    ...(settings.configType !== 'FILE' ? xdsProblems(settings) : []),
  ],
  warn: (settings) => [
    ...doubleHeaders(settings),
    ...smallLocalCache(settings),
    ...(settings.configType !== 'FILE' ? xdsWarnings(settings) : []),
  ],
  mistakenNames: {
    ...mistakenGrpcNames,
    REDIS_PASSWORD: 'REDIS_AUTH',
    REDIS_PERSECOND_PASSWORD: 'REDIS_PERSECOND_AUTH',
    REDIS_SENTINEL_PASSWORD: 'REDIS_SENTINEL_AUTH',
  },
};

/** As they are written: of tags with one name the last one is read. */
function doubleTags(env: Environment): string[] {
  const names = (env['EXTRA_TAGS'] ?? '').split(',').map((tag) => tag.split(':', 1)[0] as string);
  const double = new Set(names.filter((name, index) => names.indexOf(name) !== index));
  return [...double].map((name) => `EXTRA_TAGS has the tag ${name} more than once: keep one of them`);
}

/** Of the shortest counter key there can be: `d_k_v_` and the start of its window. */
const shortestKeyBytes = 16;

function smallLocalCache(settings: SettingsOf<typeof store>): string[] {
  const { localCacheSizeInBytes: bytes, cacheKeyPrefix } = settings;
  const least = cacheEntryOverheadBytes + keyBytes(cacheKeyPrefix) + shortestKeyBytes;
  if (bytes === 0 || bytes >= least) return [];
  return [
    `LOCAL_CACHE_SIZE_IN_BYTES=${bytes} is too small to remember anything: an entry takes ${least} bytes or more`,
  ];
}

export function parseLimiterSettings(env: Environment): LimiterSettingsResult {
  let read: ReturnType<typeof readMogrifiers> | undefined;
  const result = readSettings(
    {
      ...schema,
      check: (settings) => {
        if (sinkOf(settings) === 'dogstatsd') {
          read = readMogrifiers(settings.dogStatsdMogrifiers ?? '', env, limiterAliases);
        }
        return [...(schema.check?.(settings) ?? []), ...(read?.errors ?? [])];
      },
    },
    withoutMogrifiers(env, limiterAliases),
  );
  if (result.errors !== undefined) return result;
  const { mogrifiers, warnings } = read ?? {
    mogrifiers: [],
    warnings: effectlessMogrifiers(env, limiterAliases),
  };
  return {
    settings: {
      ...result.settings,
      mogrifiers,
      isStoreFailureModeSet: env[storeFailureSettings.storeFailureMode.name] !== undefined,
      isXdsBackoffFactorSet: env[xdsSettings.xdsBackoffFactor.name] !== undefined,
      tracingUrl: tracingUrl(result.settings, env),
    },
    warnings: [...result.warnings, ...warnings, ...doubleTags(env), ...tracingWarnings(result.settings, env)],
  };
}
