/** BUDGET_*: amounts are reserved before a cost is known, by `/v1/reserve` and related calls. */
import type { Capability } from '../capabilities/capability.ts';
import { type BudgetSettings, rows } from './settings.ts';

export const reservations = {
  name: 'reservations',
  settings: { title: 'Budgets', before: 'When the store fails', rows, ownPrefixes: ['BUDGET_'] },
  // A store without reservations rejects the calls.
  isWanted: () => true,
  load: () => import('./threads.ts'),
} as const satisfies Capability<BudgetSettings>;
