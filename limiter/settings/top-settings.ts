/** Top offenders: how much is kept of who is over a limit. A part of the table in `settings.ts`. */
import { duration, integer } from '../../process/settings/settings-kinds.ts';
import type { SettingNeed } from '../../process/settings/settings-needs.ts';
import type { SettingsTable } from '../../process/settings/settings-reader.ts';

const mebibyte = 1024 * 1024;

const anyKeys: readonly SettingNeed[] = [{ name: 'STATS_TOP_KEYS', is: 'set' }];

export const topSettings = {
  statsTopKeys: {
    name: 'STATS_TOP_KEYS',
    kind: integer({ min: 0, max: 1_000 }),
    default: 128,
    summary:
      'Keys over their limit that `/top` holds for each domain; every key with more than one part in so many of the domain’s hits over limit is among them. 0: none are kept. See [top offenders](statistics.md#top-offenders). Not in the Go service.',
  },
  statsTopPeriodMs: {
    name: 'STATS_TOP_PERIOD',
    needs: anyKeys,
    kind: duration({ min: 1_000, max: 24 * 3_600_000 }),
    default: 600_000,
    summary: '`/top` tells of the last one to two of these periods. Not in the Go service.',
  },
  statsTopMaxBytes: {
    name: 'STATS_TOP_MAX_BYTES',
    needs: anyKeys,
    kind: integer({ min: 4 * mebibyte, max: 1024 * mebibyte }),
    default: 16 * mebibyte,
    summary:
      'What the keys of all domains may occupy for `/top`, in each thread that answers callers; domains that were over a limit longest ago make room. Not in the Go service.',
  },
} as const satisfies SettingsTable;
