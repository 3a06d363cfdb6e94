/** How counters are named, how long they live and what is kept of them here. Rows of the table in `settings.ts`. */
import { z } from 'zod';
import {
  bool,
  choice,
  duration,
  integer,
  onOff,
  type SettingKind,
  text,
} from '../../process/settings/settings-kinds.ts';
import { needing, type SettingNeed } from '../../process/settings/settings-needs.ts';
import {
  problems,
  type SettingsError,
  type SettingsOf,
  type SettingsTable,
} from '../../process/settings/settings-reader.ts';
import { counterKeyForms, unambiguousPrefixProblem } from '../../rules/counter-keys.ts';
import { leaseForm, leaseFromText, leaseText } from '../../rules/lease.ts';
import { RequestBounds, tooLargeAnswers, usualRequestLimits } from '../decide/request-bounds.ts';
import { memcachePrefixProblem } from '../stores/memcache/memcache-key.ts';
import type { ReservationBounds } from '../stores/store.ts';

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
      'Counters that `memory` holds at most; the ones nearest to their end make room. Not in the Go service.',
  },
  memoryStoreMaxBytes: {
    name: 'MEMORY_STORE_MAX_BYTES',
    needs: inMemory,
    kind: integer({ min: 16 * mebibyte, max: 64 * 1024 * mebibyte }),
    default: 256 * mebibyte,
    summary: 'What the counters of `memory` may occupy, keys included; likewise. Not in the Go service.',
  },
  cacheKeyPrefix: {
    name: 'CACHE_KEY_PREFIX',
    kind: text(),
    summary: 'Stands before every counter key.',
  },
  counterKeys: {
    name: 'COUNTER_KEYS',
    kind: choice({ values: counterKeyForms }),
    default: 'compatible',
    summary:
      'How counters are named: `compatible` as in the Go service, so that both can count side by side, or `unambiguous`, by which no two counters ever meet in one key. [A switch](upgrades.md#switching-counter_keys) starts all counters anew. Not in the Go service.',
  },
  expirationJitterMaxSeconds: {
    name: 'EXPIRATION_JITTER_MAX_SECONDS',
    needs: [{ name: 'BACKEND_TYPE', is: ['redis', 'memcache'] }],
    kind: integer({ min: -2_147_483_648, max: 2_147_483_647 }),
    default: 300,
    summary: 'A key in Redis lives up to this much longer than its window, at random; 0 or less: not longer.',
  },
  localCacheSizeInBytes: {
    name: 'LOCAL_CACHE_SIZE_IN_BYTES',
    kind: integer({ min: 0, max: 64 * 1024 * mebibyte }),
    default: 0,
    summary:
      'Memory for keys that are known to be over their limit, for which the store is not asked again; 0: none.',
  },
  stopCacheKeyIncrementWhenOverLimit: {
    name: 'STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT',
    kind: bool(),
    summary:
      'Where a request would be refused by the totals before it, only counters over their limit count it; see [stop when over](#stop-when-over).',
  },
} as const satisfies SettingsTable;

const leasing: readonly SettingNeed[] = [{ name: 'LEASES', is: 'set' }];

/** Hits that a limiter takes ahead. */
export const leaseSettings = {
  leases: {
    name: 'LEASES',
    needs: [
      { name: 'BACKEND_TYPE', is: ['redis'], otherwise: 'every hit is counted as it comes' },
      { name: 'REDIS_SCRIPTS', is: ['auto'], otherwise: 'a script counts leases' },
      {
        name: 'STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT',
        is: [false],
        otherwise: 'what is held back depends on totals that Redis alone knows',
      },
    ],
    kind: onOff(),
    summary:
      'Hits of busy counters are taken ahead from Redis and spent without asking it again, never beyond the limit; see [leases](leases.md). Not in the Go service.',
  },
  leaseShare: {
    name: 'LEASE_SHARE',
    needs: leasing,
    kind: share(),
    default: 5_000,
    summary:
      'The part of a limit that one limiter (with `LIMITER_WORKERS` one thread of it) takes ahead at most, where a rule has no `lease` of its own; `0`: only rules with one are leased. Not in the Go service.',
  },
  leasesMaxCounters: {
    name: 'LEASES_MAX_COUNTERS',
    needs: leasing,
    kind: integer({ min: 1, max: 16_000_000 }),
    default: 65_536,
    summary:
      'Counters whose use is watched, and which are leased once they are busy, at most; of others every hit goes to Redis. With `LIMITER_WORKERS`, of each worker. Not in the Go service.',
  },
} as const satisfies SettingsTable;

function share(): SettingKind<number> {
  return {
    expected: leaseForm,
    brief: 'share, `0.0001%` to `100%`, or `0`',
    schema: z.string().transform((text, context) => {
      const lease = leaseFromText(text);
      if (lease !== undefined) return lease;
      context.addIssue({ code: 'custom', message: leaseForm });
      return z.NEVER;
    }),
    format: leaseText,
  };
}

type LeaseSettings = SettingsOf<
  typeof leaseSettings & Pick<typeof counterSettings, 'stopCacheKeyIncrementWhenOverLimit'>
> & {
  backendType: string;
  redisScripts: string;
};

/** The share of limits that is leased where rules do not say; undefined: nothing is, whatever they say. */
export function usualLease(settings: LeaseSettings): number | undefined {
  const {
    leases,
    leaseShare,
    backendType,
    redisScripts,
    stopCacheKeyIncrementWhenOverLimit: stop,
  } = settings;
  return leases && backendType === 'redis' && redisScripts === 'auto' && !stop ? leaseShare : undefined;
}

/** A prefix that no key can have would turn all limits off, or let counters meet. */
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

const reserving: readonly SettingNeed[] = [
  { name: 'BACKEND_TYPE', is: ['redis', 'memory'], otherwise: 'memcache keeps no reservations' },
];

/** Amounts that are held before a cost is known. */
export const budgetSettings = needing(reserving, {
  budgetMaxReservations: {
    name: 'BUDGET_MAX_RESERVATIONS',
    kind: integer({ min: 1, max: 1_000_000 }),
    default: 10_000,
    summary:
      'Reservations of one counter that may be open at a time; a further one is refused. Not in the Go service.',
  },
  budgetMaxDomainReservations: {
    name: 'BUDGET_MAX_DOMAIN_RESERVATIONS',
    kind: integer({ min: 1, max: 1_000_000_000 }),
    default: 1_000_000,
    summary:
      'Reservations that the store keeps for one domain, open or remembered (BUDGET_RECORD_TTL); a further one is refused and holds nothing. Not in the Go service.',
  },
  budgetMaxCallerReservations: {
    name: 'BUDGET_MAX_CALLER_RESERVATIONS',
    kind: integer({ min: 1, max: 1_000_000_000 }),
    default: 1_000_000,
    summary:
      'The same for one caller of CALLERS_FILE, over all its domains; a further one is refused and holds nothing. Not in the Go service.',
  },
  budgetRecordTtlMs: {
    name: 'BUDGET_RECORD_TTL',
    kind: duration({ min: 1_000, max: 86_400_000 }),
    default: 600_000,
    summary:
      'How long after its TTL a reservation is remembered, so that the same reserve or commit again counts nothing. Not in the Go service.',
  },
  budgetMaxTtlMs: {
    name: 'BUDGET_MAX_TTL',
    kind: duration({ min: 1_000, max: 86_400_000 }),
    default: 86_400_000,
    summary: 'The longest TTL that an API caller may give a reservation. Not in the Go service.',
  },
} as const satisfies SettingsTable);

type BudgetSettings = SettingsOf<typeof budgetSettings>;

/** Of reserving by an API. */
export function longestReservation({
  budgetMaxTtlMs: maxTtlMs,
}: Pick<SettingsOf<typeof budgetSettings>, 'budgetMaxTtlMs'>): { maxTtlMs: number } {
  return { maxTtlMs };
}

export function reservationBounds({
  budgetMaxReservations: maxReservations,
  budgetRecordTtlMs: recordMs,
}: BudgetSettings): ReservationBounds {
  return { maxReservations, recordMs };
}

/** What one request may consist of. */
export const requestSettings = {
  requestMaxDescriptors: {
    name: 'REQUEST_MAX_DESCRIPTORS',
    kind: integer({ min: 1, max: 65_536 }),
    default: usualRequestLimits.maxDescriptors,
    summary:
      'Descriptors that a request may have. One with more gets the answer of `REQUEST_TOO_LARGE`, and nothing of it is counted. Not in the Go service.',
  },
  requestMaxEntries: {
    name: 'REQUEST_MAX_ENTRIES',
    kind: integer({ min: 1, max: 65_536 }),
    default: usualRequestLimits.maxEntries,
    summary:
      'Entries that a descriptor may have. One with more gets the answer of `REQUEST_TOO_LARGE`, unless it has more than any rule of its domain has levels, and no limit of its own: then it matches nothing. Not in the Go service.',
  },
  requestMaxTextBytes: {
    name: 'REQUEST_MAX_TEXT_BYTES',
    kind: integer({ min: 16, max: 4 * mebibyte }),
    default: usualRequestLimits.maxTextBytes,
    summary:
      'Bytes of a domain, key or value that name a counter. A longer one is matched whole, and counted by so many of its first bytes and the SHA-256 of the whole. Not in the Go service.',
  },
  requestMaxBytes: {
    name: 'REQUEST_MAX_BYTES',
    kind: integer({ min: 1024, max: 4 * mebibyte }),
    default: usualRequestLimits.maxBytes,
    summary:
      'Bytes that a whole request may have, as a message of gRPC or as the body of `/json` or `/v1/check`, where `HTTP_MAX_BODY_BYTES` holds as well. A longer one gets the answer of `REQUEST_TOO_LARGE`, and nothing of it is counted. Not in the Go service.',
  },
  requestTooLarge: {
    name: 'REQUEST_TOO_LARGE',
    kind: choice({ values: tooLargeAnswers }),
    default: 'over_limit',
    summary:
      'What a request beyond the bounds is answered: `over_limit` as one over a limit (OVER_LIMIT over gRPC, 429 over HTTP), or `error` (INVALID_ARGUMENT, 400, 413), with which most proxies let it pass. Not in the Go service.',
  },
} as const satisfies SettingsTable;

type RequestSettings = SettingsOf<typeof requestSettings>;

export function requestSettingsProblems(settings: Partial<RequestSettings>): SettingsError[] {
  const { requestMaxTextBytes: part = 0, requestMaxBytes: whole = Number.POSITIVE_INFINITY } = settings;
  if (part <= whole) return [];
  const message = `REQUEST_MAX_TEXT_BYTES must be at most REQUEST_MAX_BYTES (${whole}), not ${part}: no part of a request is longer than the whole`;
  return [{ variable: 'REQUEST_MAX_TEXT_BYTES', message }];
}

export function requestBounds(settings: RequestSettings): RequestBounds {
  return new RequestBounds({
    maxDescriptors: settings.requestMaxDescriptors,
    maxEntries: settings.requestMaxEntries,
    maxTextBytes: settings.requestMaxTextBytes,
    maxBytes: settings.requestMaxBytes,
  });
}

/** What happens when a store of counters fails. */
export const storeFailureSettings = needing([{ name: 'BACKEND_TYPE', is: ['redis'] }], {
  storeFailureMode: {
    name: 'STORE_FAILURE_MODE',
    needs: [{ name: 'BACKEND_TYPE', is: ['redis', 'memcache'] }],
    kind: choice({ values: ['error', 'allow', 'deny', 'local'] }),
    default: 'error',
    summary:
      'What requests get whose counters fail: a gRPC error, OK, OVER_LIMIT, or counts of this process alone, which are added to the store when it is back. With memcache they pass unless this is set. Not in the Go service.',
  },
  storeBreakerSilenceMs: {
    name: 'STORE_BREAKER_SILENCE',
    kind: duration({ min: 100, max: 3_600_000 }),
    default: 700,
    summary:
      'When requests wait for so long, or up to an eighth longer, and the store has answered none, it is not asked until it answers a PING; nor is a single node of a Redis Cluster. Not in the Go service.',
  },
  storeBreakerProbeIntervalMs: {
    name: 'STORE_BREAKER_PROBE_INTERVAL',
    kind: duration({ min: 10, max: 3_600_000 }),
    default: 250,
    summary:
      'How often a store that failed is asked for a PING, less up to a quarter. Not in the Go service.',
  },
  storeBreakerMaxWaiting: {
    name: 'STORE_BREAKER_MAX_WAITING',
    kind: integer({ min: 1, max: 16_000_000 }),
    default: 65_536,
    summary: 'Requests that wait for the store at most; more are not asked for. Not in the Go service.',
  },
  storeBreakerMaxWaitingBytes: {
    name: 'STORE_BREAKER_MAX_WAITING_BYTES',
    kind: integer({ min: 1024, max: 64 * 1024 * mebibyte }),
    default: 64 * mebibyte,
    summary: 'What they may occupy, keys included; likewise. Not in the Go service.',
  },
} as const satisfies SettingsTable);
