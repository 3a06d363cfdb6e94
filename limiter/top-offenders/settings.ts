import { duration, integer } from '../../process/settings/settings-kinds.ts';
import type { SettingNeed } from '../../process/settings/settings-needs.ts';
import type { SettingsOf } from '../../process/settings/settings-reader.ts';

const dayMs = 24 * 3_600_000;
const mebibyte = 1024 * 1024;
const anyKeys: readonly SettingNeed[] = [{ name: 'STATS_TOP_KEYS', is: 'set' }];

export const topSettings = {
  statsTopKeys: {
    name: 'STATS_TOP_KEYS',
    kind: integer({ min: 0, max: 1_000 }),
    default: 128,
    summary:
      'Number of keys over limit, N, that [`/top`](over-limit.md#top-offenders) stores for each domain. It always has keys with more than one in N of the domain’s hits over limit. 0: none. Not in the Go service.',
  },
  statsTopPeriodMs: {
    name: 'STATS_TOP_PERIOD',
    needs: anyKeys,
    kind: duration({ min: 1_000, max: dayMs }),
    default: 600_000,
    summary: '`/top` covers the last one to two of these periods. Not in the Go service.',
  },
  statsTopMaxBytes: {
    name: 'STATS_TOP_MAX_BYTES',
    needs: anyKeys,
    kind: integer({ min: 4 * mebibyte, max: 1024 * mebibyte }),
    default: 16 * mebibyte,
    summary:
      'Memory for the keys of all domains in `/top`, in each thread that answers callers. When it is full, the limiter drops the domains that were over limit least recently. Not in the Go service.',
  },
} as const;

export interface TopSettings extends SettingsOf<typeof topSettings> {
  /** The prefix of all keys. */
  readonly cacheKeyPrefix: string;
}
