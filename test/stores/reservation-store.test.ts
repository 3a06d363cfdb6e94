import { describe } from 'vitest';
import { systemClock } from '../../process/time/clock.ts';
import { openMemoryStore } from '../support/open-memory-store.ts';
import { type BudgetStore, reservationStoreSuite, suiteBounds } from './reservation-store.suite.ts';

describe('memory', () => {
  const open = async (): Promise<BudgetStore> => {
    const counters = openMemoryStore({ clock: systemClock });
    return { counters, reservations: counters.openReservations(suiteBounds) };
  };
  reservationStoreSuite(open);
});
