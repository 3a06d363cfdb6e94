import { z } from 'zod';
import { integer, onOff, type SettingKind } from '../../process/settings/settings-kinds.ts';
import type { SettingNeed } from '../../process/settings/settings-needs.ts';
import type { SettingsOf, SettingsTable } from '../../process/settings/settings-reader.ts';
import { leaseForm, leaseFromText, leaseText } from '../../rules/lease.ts';

const leasing: readonly SettingNeed[] = [{ name: 'LEASES', is: 'set' }];

/** Settings of leases. */
export const rows = {
  leases: {
    name: 'LEASES',
    needs: [
      { name: 'BACKEND_TYPE', is: ['redis'], otherwise: 'the limiter counts each hit at once' },
      { name: 'REDIS_SCRIPTS', is: ['auto'], otherwise: 'a script counts leases' },
      {
        name: 'STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT',
        is: [false],
        otherwise: 'it needs counts that only Redis has',
      },
    ],
    kind: onOff(),
    summary:
      'Take hits of busy counters from Redis in advance, and spend them without asking it again, never beyond the limit. See [leases](leases.md). Not in the Go service.',
  },
  leaseShare: {
    name: 'LEASE_SHARE',
    needs: leasing,
    kind: share(),
    default: 5_000,
    summary:
      'Largest part of a limit that one limiter or worker takes in advance if a rule has no `lease`. `0`: only rules with a `lease` are leased. Not in the Go service.',
  },
  leasesMaxCounters: {
    name: 'LEASES_MAX_COUNTERS',
    needs: leasing,
    kind: integer({ min: 1, max: 16_000_000 }),
    default: 65_536,
    summary:
      'Maximum number of counters that a limiter or worker watches, and leases when busy. For others, every hit goes to Redis. Not in the Go service.',
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

export interface LeaseSettings extends SettingsOf<typeof rows> {
  readonly backendType: string;
  readonly redisScripts: string;
  readonly stopCacheKeyIncrementWhenOverLimit: boolean;
}

/** Returns the share of limits that is leased if rules do not specify one; undefined: nothing is leased, whatever rules specify. */
export function defaultLease(settings: LeaseSettings): number | undefined {
  const {
    leases,
    leaseShare,
    backendType,
    redisScripts,
    stopCacheKeyIncrementWhenOverLimit: stop,
  } = settings;
  return leases && backendType === 'redis' && redisScripts === 'auto' && !stop ? leaseShare : undefined;
}
