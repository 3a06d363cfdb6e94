import { describe } from 'vitest';
import { type Clock, systemClock } from '../../process/time/clock.ts';
import { ManualClock } from '../support/manual-clock.ts';
import { openMemoryStore } from '../support/open-memory-store.ts';
import { type BudgetStore, reservationStoreSuite, suiteBounds } from './reservation-store.suite.ts';

describe('memory', () => {
  const open = async (clock: Clock): Promise<BudgetStore> => {
    const counters = openMemoryStore({ clock });
    return { counters, reservations: counters.openReservations(suiteBounds) };
  };
  reservationStoreSuite(() => open(systemClock));

  describe('by a clock that the test sets', () => {
    const clock = new ManualClock(Date.UTC(2026, 5));
    reservationStoreSuite(() => open(clock), { clock });
  });
});
