import { describe } from 'vitest';
import type { Store } from '../../limiter/stores/store.ts';
import { type Clock, systemClock } from '../../process/time/clock.ts';
import { ManualClock } from '../support/manual-clock.ts';
import { openMemoryStore } from '../support/open-memory-store.ts';
import { reservationStoreSuite, suiteBounds } from './reservation-store.suite.ts';

describe('memory', () => {
  const open = async (clock: Clock): Promise<Store> => openMemoryStore({ clock, reservations: suiteBounds });
  reservationStoreSuite(() => open(systemClock));

  describe('by a clock that the test sets', () => {
    const clock = new ManualClock(Date.UTC(2026, 5));
    reservationStoreSuite(() => open(clock), { clock });
  });
});
