import { duration, integer } from '../../process/settings/settings-kinds.ts';
import { needing, type SettingNeed } from '../../process/settings/settings-needs.ts';
import type { SettingsOf, SettingsTable } from '../../process/settings/settings-reader.ts';
import type { ReservationBounds } from '../stores/store.ts';

const reserving: readonly SettingNeed[] = [
  { name: 'BACKEND_TYPE', is: ['redis', 'memory'], otherwise: 'memcached cannot store reservations' },
];

/** Settings of reservations. */
export const rows = needing(reserving, {
  budgetMaxReservations: {
    name: 'BUDGET_MAX_RESERVATIONS',
    kind: integer({ min: 1, max: 1_000_000 }),
    default: 10_000,
    summary:
      'Maximum number of open reservations of one counter. The limiter rejects further ones.  Not in the Go service.',
  },
  budgetMaxDomainReservations: {
    name: 'BUDGET_MAX_DOMAIN_RESERVATIONS',
    kind: integer({ min: 1, max: 1_000_000_000 }),
    default: 1_000_000,
    summary:
      'Maximum number of reservations of one domain in the store, open or remembered (BUDGET_RECORD_TTL). The limiter rejects further ones.  Not in the Go service.',
  },
  budgetMaxCallerReservations: {
    name: 'BUDGET_MAX_CALLER_RESERVATIONS',
    kind: integer({ min: 1, max: 1_000_000_000 }),
    default: 1_000_000,
    summary:
      'Maximum number of reservations of one caller of CALLERS_FILE in all its domains, open or remembered. The limiter rejects further ones.  Not in the Go service.',
  },
  budgetRecordTtlMs: {
    name: 'BUDGET_RECORD_TTL',
    kind: duration({ min: 1_000, max: 86_400_000 }),
    default: 600_000,
    summary:
      'How long after its TTL the store remembers a reservation, so that the same reserve or commit again counts nothing. Not in the Go service.',
  },
  budgetMaxTtlMs: {
    name: 'BUDGET_MAX_TTL',
    kind: duration({ min: 1_000, max: 86_400_000 }),
    default: 86_400_000,
    summary: 'The longest TTL of a reservation that an API caller may set. Not in the Go service.',
  },
} as const satisfies SettingsTable);

export interface BudgetSettings extends SettingsOf<typeof rows> {
  readonly httpMaxBodyBytes: number;
}

/** The longest TTL of reservations made by an API. */
export function longestReservation({ budgetMaxTtlMs: maxTtlMs }: Pick<BudgetSettings, 'budgetMaxTtlMs'>): {
  maxTtlMs: number;
} {
  return { maxTtlMs };
}

export function reservationBounds({
  budgetMaxReservations: maxReservations,
  budgetRecordTtlMs: recordMs,
}: Pick<BudgetSettings, 'budgetMaxReservations' | 'budgetRecordTtlMs'>): ReservationBounds {
  return { maxReservations, recordMs };
}
