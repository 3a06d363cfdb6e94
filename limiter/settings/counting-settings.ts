/** Settings of counters: their names, their lifetime, and the local cache. Rows of the table in `settings.ts`. */
import { bool, choice, duration, integer, text } from '../../process/settings/settings-kinds.ts';
import { needing, type SettingNeed } from '../../process/settings/settings-needs.ts';
import {
  problems,
  type SettingsError,
  type SettingsOf,
  type SettingsTable,
} from '../../process/settings/settings-reader.ts';
import { counterKeyForms } from '../../rules/counter-keys.ts';
import { defaultRequestLimits, type RequestLimits, tooLargeAnswers } from '../decide/request-bounds.ts';
import { memcachePrefixProblem } from '../stores/memcache/memcache-key.ts';

const mebibyte = 1024 * 1024;

const inMemory: readonly SettingNeed[] = [
  { name: 'BACKEND_TYPE', is: ['memory'], or: { name: 'STORE_FAILURE_MODE', is: ['local'] } },
];

export const counterSettings = {
  memoryStoreMaxCounters: {
    name: 'MEMORY_STORE_MAX_COUNTERS',
    needs: inMemory,
    kind: integer({ min: 1, max: 16_000_000 }),
    default: 1_000_000,
    summary:
      'Maximum number of counters in `memory`. Beyond it, the limiter drops the counters whose windows end first. Not in the Go service.',
  },
  memoryStoreMaxBytes: {
    name: 'MEMORY_STORE_MAX_BYTES',
    needs: inMemory,
    kind: integer({ min: 16 * mebibyte, max: 64 * 1024 * mebibyte }),
    default: 256 * mebibyte,
    summary:
      'Maximum memory for the counters in `memory`, with keys. Beyond it, the limiter drops the counters whose windows end first. Not in the Go service.',
  },
  cacheKeyPrefix: {
    name: 'CACHE_KEY_PREFIX',
    kind: text(),
    summary: 'Prefix of every counter key.',
  },
  counterKeys: {
    name: 'COUNTER_KEYS',
    kind: choice({ values: counterKeyForms }),
    default: 'compatible',
    summary:
      'Counter keys: `compatible` with the Go service, so that both can count together, or `unambiguous`, so that no two counters share one. [A switch](upgrades.md#switching-counter_keys) resets all counters.',
  },
  expirationJitterMaxSeconds: {
    name: 'EXPIRATION_JITTER_MAX_SECONDS',
    needs: [{ name: 'BACKEND_TYPE', is: ['redis', 'memcache'] }],
    kind: integer({ min: -2_147_483_648, max: 2_147_483_647 }),
    default: 300,
    summary: 'A key lives longer than its window by a random time up to this; 0 or less: not longer.',
  },
  localCacheSizeInBytes: {
    name: 'LOCAL_CACHE_SIZE_IN_BYTES',
    kind: integer({ min: 0, max: 64 * 1024 * mebibyte }),
    default: 0,
    summary:
      'Memory for keys that are over their limit, for which the limiter does not ask the store again; 0: none.',
  },
  stopCacheKeyIncrementWhenOverLimit: {
    name: 'STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT',
    kind: bool(),
    summary:
      'If a request is over limit by the counts before it, only counters over their limit count it. See [stop when over](#stop-when-over).',
  },
} as const satisfies SettingsTable;

/** Chosen: the maximum length of CACHE_KEY_PREFIX, in bytes. Of the 250 bytes of a memcached key, 160 remain for domain and entries. */
const longestPrefix = 64;

/** Returns the problem of a CACHE_KEY_PREFIX for unambiguous keys, or undefined if it is valid. */
function unambiguousPrefixProblem(prefix: string): string | undefined {
  if (/[{}]/.test(prefix)) {
    return `${JSON.stringify(prefix)} has a brace, and COUNTER_KEYS=unambiguous allows braces only around domain and entries`;
  }
  const bytes = Buffer.byteLength(prefix);
  if (bytes <= longestPrefix) return undefined;
  return `has ${bytes} bytes, and with COUNTER_KEYS=unambiguous it can have ${longestPrefix} at most`;
}

/** Rejects a prefix that no key can have. It would disable all limits, or make counters collide. */
export function prefixProblems(
  settings: Partial<SettingsOf<typeof counterSettings>> & { backendType?: string },
): SettingsError[] {
  const { cacheKeyPrefix: prefix = '', backendType, counterKeys } = settings;
  const found = [
    backendType === 'memcache' ? memcachePrefixProblem(prefix) : undefined,
    counterKeys === 'unambiguous' ? unambiguousPrefixProblem(prefix) : undefined,
  ];
  return problems(
    found.map((problem) => [problem !== undefined, counterSettings.cacheKeyPrefix.name, problem ?? '']),
  );
}

/** Bounds of one request. */
export const requestSettings = {
  requestMaxDescriptors: {
    name: 'REQUEST_MAX_DESCRIPTORS',
    kind: integer({ min: 1, max: 65_536 }),
    default: defaultRequestLimits.maxDescriptors,
    summary:
      'Descriptors that a request may have. A request with more gets the answer of `REQUEST_TOO_LARGE`, and the limiter does not count it. Not in the Go service.',
  },
  requestMaxEntries: {
    name: 'REQUEST_MAX_ENTRIES',
    kind: integer({ min: 1, max: 65_536 }),
    default: defaultRequestLimits.maxEntries,
    summary:
      'Entries that a descriptor may have. A longer one gets the answer of `REQUEST_TOO_LARGE` if a rule of its domain is as deep, or if it has its own limit. Not in the Go service.',
  },
  requestMaxTextBytes: {
    name: 'REQUEST_MAX_TEXT_BYTES',
    kind: integer({ min: 16, max: 4 * mebibyte }),
    default: defaultRequestLimits.maxTextBytes,
    summary:
      'Bytes of a domain, key or value in a counter key. A longer text is matched in full; the key has its first bytes and a SHA-256. Not in the Go service.',
  },
  requestMaxBytes: {
    name: 'REQUEST_MAX_BYTES',
    kind: integer({ min: 1024, max: 4 * mebibyte }),
    default: defaultRequestLimits.maxBytes,
    summary:
      'Bytes of a whole request, as a gRPC message or a body of `/json` or `/v1/check`. A larger one gets the answer of `REQUEST_TOO_LARGE` and counts nothing. Not in the Go service.',
  },
  requestTooLarge: {
    name: 'REQUEST_TOO_LARGE',
    kind: choice({ values: tooLargeAnswers }),
    default: 'over_limit',
    summary:
      'The answer beyond these bounds: `over_limit` (OVER_LIMIT over gRPC, 429 over HTTP), or `error` (INVALID_ARGUMENT, 400, 413), with which most proxies let requests pass. Not in the Go service.',
  },
} as const satisfies SettingsTable;

type RequestSettings = SettingsOf<typeof requestSettings>;

export function requestSettingsProblems(settings: Partial<RequestSettings>): SettingsError[] {
  const { requestMaxTextBytes: part = 0, requestMaxBytes: whole = Number.POSITIVE_INFINITY } = settings;
  if (part <= whole) return [];
  const message = `REQUEST_MAX_TEXT_BYTES must be at most REQUEST_MAX_BYTES (${whole}), not ${part}: a part of a request cannot be longer than the whole`;
  return [{ variable: 'REQUEST_MAX_TEXT_BYTES', message }];
}

export function requestLimits(settings: RequestSettings): RequestLimits {
  return {
    maxDescriptors: settings.requestMaxDescriptors,
    maxEntries: settings.requestMaxEntries,
    maxTextBytes: settings.requestMaxTextBytes,
    maxBytes: settings.requestMaxBytes,
  };
}

/** Settings for failures of a store. */
export const storeFailureSettings = needing([{ name: 'BACKEND_TYPE', is: ['redis'] }], {
  storeFailureMode: {
    name: 'STORE_FAILURE_MODE',
    needs: [{ name: 'BACKEND_TYPE', is: ['redis', 'memcache'] }],
    kind: choice({ values: ['error', 'allow', 'deny', 'local'] }),
    default: 'error',
    summary:
      'Answer if counters fail: a gRPC error, OK, OVER_LIMIT, or by local counts, which the limiter adds to the store later. With memcached, unset, requests pass. Not in the Go service.',
  },
  storeBreakerSilenceMs: {
    name: 'STORE_BREAKER_SILENCE',
    kind: duration({ min: 100, max: 3_600_000 }),
    default: 700,
    summary:
      'If requests wait for this time and the store answers none, the limiter stops asking it until it answers a PING. The same applies to each node of a cluster. Not in the Go service.',
  },
  storeBreakerProbeIntervalMs: {
    name: 'STORE_BREAKER_PROBE_INTERVAL',
    kind: duration({ min: 10, max: 3_600_000 }),
    default: 250,
    summary:
      'How often the limiter sends a PING to a failed store, less up to a quarter. Not in the Go service.',
  },
  storeBreakerMaxWaiting: {
    name: 'STORE_BREAKER_MAX_WAITING',
    kind: integer({ min: 1, max: 16_000_000 }),
    default: 65_536,
    summary:
      'Maximum number of requests that wait for the store. The limiter does not ask the store for further ones. Not in the Go service.',
  },
  storeBreakerMaxWaitingBytes: {
    name: 'STORE_BREAKER_MAX_WAITING_BYTES',
    kind: integer({ min: 1024, max: 64 * 1024 * mebibyte }),
    default: 64 * mebibyte,
    summary:
      'Maximum memory of these requests, with keys. The limiter does not ask the store for further ones. Not in the Go service.',
  },
} as const satisfies SettingsTable);
