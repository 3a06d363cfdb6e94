/**
 * The table of all environment variables of the limiter. The typed settings, the errors and docs/settings.md come from it. Names are
 * those of the Go service; other names are aliases (`limiterAliases`).
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
  type AllOf,
  type CapabilityTables,
  capabilityPrefixes,
  capabilityWarnings,
  type DerivedSettings,
  derivedSettings,
  type SettingsGroup,
  withCapabilities,
} from './capabilities.ts';
import {
  counterSettings,
  prefixProblems,
  requestSettings,
  requestSettingsProblems,
  storeFailureSettings,
} from './counting-settings.ts';
import { decisionSettings, doubleHeaders, headerSettings } from './decision-settings.ts';
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
import { prometheusGroup, sinkOf, statsSettings, statsSettingsProblems } from './stats-settings.ts';
import { workerProblems, workerSettings } from './worker-settings.ts';
import { xdsProblems, xdsSettings, xdsWarnings } from './xds-settings.ts';

const mebibyte = 1024 * 1024;

const onPort: readonly SettingNeed[] = [
  { name: 'GRPC_UDS', is: 'unset', otherwise: 'the limiter answers gRPC only on that socket' },
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
    summary: 'Port of the gRPC listener; 0 chooses any free port.',
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
    summary: 'Port of the HTTP listener; 0 chooses any free port.',
  },
  httpMaxBodyBytes: {
    name: 'HTTP_MAX_BODY_BYTES',
    kind: integer({ min: 1, max: 256 * mebibyte }),
    default: 4 * mebibyte,
    summary:
      'Largest body of a request to `/json` or `/v1`. A larger one gets the answer of `REQUEST_TOO_LARGE` at `/json` and `/v1/check`, and 413 elsewhere. Not in the Go service.',
  },
  httpMaxConnections: {
    name: 'HTTP_MAX_CONNECTIONS',
    kind: integer({ min: 1, max: 1_000_000 }),
    default: 1_000,
    summary:
      'Connections at a time, for each listener of HTTP, debug and Prometheus, and for each worker. Beyond it, the address with most waiting connections loses its oldest one. Not in the Go service.',
  },
  connectionsMaxBytes: {
    name: 'CONNECTIONS_MAX_BYTES',
    kind: integer({ min: mebibyte, max: 64 * 1024 * mebibyte }),
    default: 64 * mebibyte,
    summary:
      'Memory that all connections may hold for unfinished requests, unread answers and handshakes. Beyond it, the peer that holds most loses its oldest unfinished connection. Not in the Go service.',
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
    summary: 'Port of the debug listener; 0 chooses any free port.',
  },
  shutdownDrainDelayMs: {
    name: 'SHUTDOWN_DRAIN_DELAY',
    kind: duration({ min: 0, max: 3_600_000 }),
    default: 0,
    summary:
      'How long the limiter continues to answer, already unhealthy, after a signal to stop. Not in the Go service.',
  },
} as const satisfies SettingsTable;

const logging = {
  logLevel: {
    name: 'LOG_LEVEL',
    kind: choice({ values: logLevels }),
    default: 'warn',
    summary:
      'The log omits lines below this level; `panic` is the same as `fatal`. The log goes to standard error.',
  },
  logFormat: {
    name: 'LOG_FORMAT',
    kind: choice({ values: logFormats, synonyms: { '': 'text' } }),
    default: 'text',
    summary:
      '`text` writes `time="..." level=... msg="..."`; `json` writes one object per line with `@message`, `@timestamp` and `level`.',
  },
} as const satisfies SettingsTable;

const configuration = {
  configType: {
    name: 'CONFIG_TYPE',
    kind: choice({ values: ['FILE', 'GRPC_XDS_SOTW', 'GRPC_XDS_DELTA'] }),
    default: 'FILE',
    summary:
      'Source of the rules: `FILE`, or a control plane. `GRPC_XDS_DELTA` (only Weir) transfers changes, and `GRPC_XDS_SOTW` everything. Servers without the first get the second.',
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
    summary: 'Directory below `RUNTIME_SUBDIRECTORY`. Its `*.yaml` and `*.yml` files are the rules.',
  },
  runtimeIgnoreDotFiles: {
    name: 'RUNTIME_IGNOREDOTFILES',
    needs: fromFiles,
    kind: bool(),
    summary: 'Ignore files and directories whose name begins with a dot.',
  },
  runtimeWatchRoot: {
    name: 'RUNTIME_WATCH_ROOT',
    needs: fromFiles,
    kind: bool(),
    default: true,
    summary:
      '`true`: load the rules again when the root links to another directory. `false`: load them when files in the directory or its subfolders change.',
  },
  mergeDomainConfig: {
    name: 'MERGE_DOMAIN_CONFIG',
    kind: bool(),
    summary: 'Several files (or resources) may hold rules for one domain.',
  },
  forceStartWithoutInitialConfig: {
    name: 'FORCE_START_WITHOUT_INITIAL_CONFIG',
    kind: bool(),
    summary: 'Open the gRPC and HTTP listeners before the first rules arrive.',
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
      'Store of the counters. `redis` also means Valkey. `memcache` supports only fixed windows, one for each rule. With `memory`, every limiter counts for itself.',
  },
  ...redisSettings,
  ...memcacheSettings,
  ...counterSettings,
} as const satisfies SettingsTable;

/** Groups in the order of the documentation. Groups of capabilities are inserted between them. */
const groups = [
  { title: 'Listeners', settings: listeners },
  { title: 'gRPC connections', settings: grpcSettings },
  { title: 'Requests', settings: requestSettings },
  { title: 'Access', settings: accessSettings },
  { title: 'Threads', settings: workerSettings },
  { title: 'Logs', settings: logging },
  { title: 'Rules', settings: configuration },
  { title: 'Rules from an xDS server', settings: xdsSettings },
  { title: 'Counters', settings: store },
  { title: 'When the store fails', settings: storeFailureSettings },
  { title: 'Decisions', settings: decisionSettings },
  { title: 'Headers', settings: headerSettings },
  { title: 'Statistics', settings: statsSettings },
  prometheusGroup,
  { title: 'Statistics for dogstatsd', settings: dogStatsdSettings },
] as const;

export const limiterSettingGroups: readonly SettingsGroup[] = withCapabilities(groups);

type Table = AllOf<(typeof groups)[number]['settings'] | CapabilityTables>;

const table = Object.assign({}, ...limiterSettingGroups.map(({ settings }) => settings)) as Table;

export type LimiterSettings = SettingsOf<Table> &
  DerivedSettings & {
    /** The mogrifiers of USE_DOG_STATSD_MOGRIFIERS, if dogstatsd is the sink. */
    readonly mogrifiers: readonly MogrifierText[];
    /** Whether STORE_FAILURE_MODE is set, even to its default. If not, requests pass while memcache fails. */
    readonly isStoreFailureModeSet: boolean;
    /** Whether XDS_CLIENT_BACKOFF_RANDOM_FACTOR is set. If so, the whole formula of the Go service applies. */
    readonly isXdsBackoffFactorSet: boolean;
  };

type LimiterSettingsResult =
  | { readonly settings: LimiterSettings; readonly warnings: readonly string[]; readonly errors?: undefined }
  | Extract<SettingsResult<Table>, { readonly settings?: undefined }>;

/** The names of the same settings in the specification. */
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

/** `GRPC_` is not in the list, because gRPC libraries read GRPC_VERBOSITY, GRPC_TRACE and others. */
const ownPrefixes = [
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
  'STORE_BREAKER_',
  'STORE_FAILURE_MODE',
  'USE_DOG_STATSD',
  'USE_PROMETHEUS',
  'USE_STATSD',
  'XDS_CLIENT_',
  ...capabilityPrefixes,
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

/** Reports tags that are set twice, from the text of the variable: the parsed setting has only the last one. */
function doubleTags(env: Environment): string[] {
  const names = (env['EXTRA_TAGS'] ?? '').split(',').map((tag) => tag.split(':', 1)[0] as string);
  const double = new Set(names.filter((name, index) => names.indexOf(name) !== index));
  return [...double].map((name) => `EXTRA_TAGS has the tag ${name} more than once: keep one of them`);
}

/** The bytes of the shortest possible counter key: `d_k_v_` and the start of its window. */
const shortestKeyBytes = 16;

function smallLocalCache(settings: SettingsOf<typeof store>): string[] {
  const { localCacheSizeInBytes: bytes, cacheKeyPrefix } = settings;
  const min = cacheEntryOverheadBytes + keyBytes(cacheKeyPrefix) + shortestKeyBytes;
  if (bytes === 0 || bytes >= min) return [];
  return [
    `LOCAL_CACHE_SIZE_IN_BYTES=${bytes} is too small to remember anything: an entry takes ${min} bytes or more`,
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
      ...derivedSettings(result.settings, env),
    },
    warnings: [
      ...result.warnings,
      ...warnings,
      ...doubleTags(env),
      ...capabilityWarnings(result.settings, env),
    ],
  };
}
