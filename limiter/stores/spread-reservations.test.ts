import { describe, expect, it } from 'vitest';
import { ManualClock } from '../../test/support/manual-clock.ts';
import { openMemoryStore } from '../../test/support/open-memory-store.ts';
import { countersOf, operationsOf, settleCall, submitCall } from '../../test/support/reservation-calls.ts';
import { failAll, type Operation } from './operation.ts';
import { submitSpread } from './spread-reservations.ts';
import { countAll, type Store } from './store.ts';
import { StoreError } from './store-error.ts';

const stems = ['1{a}', '1{b}'];

/** A store of two places, one for each stem. The second fails if it is told so. */
function open({ fails }: { fails: boolean }) {
  const clock = new ManualClock(Date.UTC(2026, 5));
  const reservations = { maxReservations: 10, recordMs: 600_000 };
  const places = new Map(stems.map((stem) => [stem, openMemoryStore({ clock, reservations })]));
  const placeOf = ({ counter }: Operation): string => counter.counterStem;
  const submit = (ops: Operation[], done: () => void): void => {
    const place = placeOf(ops[0]!);
    if (fails && place === stems[1]) {
      failAll(ops, new StoreError('away', { transient: true }));
      done();
    } else places.get(place)!.submit(ops, countAll, done);
  };
  const used = async (stem: string): Promise<number> => {
    const counters = countersOf([stem], { amount: undefined });
    const look = { ...settleCall({ id: 'look', counters }), verb: 'look' as const };
    return (await submitCall(places.get(stem) as Store, look)).counters[0]!.used;
  };
  return { submit, placeOf, used };
}

/** Commits a reservation that no place knows, whose amount is to be charged then. Returns the errors of its operations. */
async function commitUnknown({ submit, placeOf }: ReturnType<typeof open>) {
  const counters = countersOf(stems, { amount: 4 });
  const ops = operationsOf(settleCall({ id: 'r', unknown: 'charge', counters }));
  await new Promise<void>((resolve) => submitSpread(ops, { submit, placeOf }, resolve));
  return ops.map(({ error }) => error?.message);
}

describe('submitSpread', () => {
  it('charges an unknown reservation in all places', async () => {
    const places = open({ fails: false });
    expect(await commitUnknown(places)).toEqual([undefined, undefined]);
    expect(await Promise.all(stems.map(places.used))).toEqual([4, 4]);
  });

  it('fails all operations, and charges nothing, if one place does not answer', async () => {
    const places = open({ fails: true });
    expect(await commitUnknown(places)).toEqual(['away', 'away']);
    expect(await places.used(stems[0]!)).toBe(0);
  });
});
