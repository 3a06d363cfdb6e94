/** How counters are named, how long they live and what is kept of them here. Rows of the table in `settings.ts`. */
import { bool, choice, integer, text } from '../../process/settings/settings-kinds.ts';
import type { SettingNeed } from '../../process/settings/settings-needs.ts';
import type { SettingsError, SettingsOf, SettingsTable } from '../../process/settings/settings-reader.ts';
import { counterKeyForms, unambiguousPrefixProblem } from '../../rules/counter-keys.ts';
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
    default: '',
    summary: 'Stands before every counter key.',
  },
  counterKeys: {
    name: 'COUNTER_KEYS',
    kind: choice({ values: counterKeyForms }),
    default: 'compatible',
    summary:
      'How counters are named: `compatible` as in the Go service, so that both can count side by side, or `unambiguous`, by which no two counters ever meet in one key. Not in the Go service.',
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
    default: false,
    summary:
      'Where a request would be refused by the totals before it, only counters over their limit count it; see [stop when over](#stop-when-over).',
  },
} as const satisfies SettingsTable;

/** A prefix that no key can have would turn all limits off, or let counters meet. */
export function prefixProblems(
  settings: Partial<SettingsOf<typeof counterSettings>> & { backendType?: string },
): SettingsError[] {
  const { cacheKeyPrefix: prefix = '', backendType, counterKeys } = settings;
  const problems = [
    backendType === 'memcache' ? memcachePrefixProblem(prefix) : undefined,
    counterKeys === 'unambiguous' ? unambiguousPrefixProblem(prefix) : undefined,
  ].filter((problem) => problem !== undefined);
  const variable = counterSettings.cacheKeyPrefix.name;
  return problems.map((problem) => ({ variable, message: `${variable}: ${problem}` }));
}
