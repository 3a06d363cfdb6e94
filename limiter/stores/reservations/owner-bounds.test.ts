import { describe, expect, it } from 'vitest';
import { ManualClock } from '../../../test/support/manual-clock.ts';
import { openMemoryStore } from '../../../test/support/open-memory-store.ts';
import {
  countersOf,
  noteOf,
  type ReservedCounter,
  reserveCall,
  settleCall,
  submitCall,
} from '../../../test/support/reservation-calls.ts';
import { FixedWindow } from '../../algorithms/fixed-window.ts';
import type { ReservationOwner } from '../operation.ts';
import type { Store, TallyChanges } from '../store.ts';
import { StoreError } from '../store-error.ts';
import { OwnerBounds } from './owner-bounds.ts';
import { ReservingStore } from './reserving-store.ts';

const minuteMs = 60_000;
const recordMs = 10 * minuteMs;
const a: ReservationOwner = { domain: 'a', caller: 'one' };

function limiters(
  count: number,
  { maxOfDomain = 3, maxOfCaller = 1_000, maxBytes = 1e9, fails = (): boolean => false } = {},
) {
  const clock = new ManualClock(Date.UTC(2026, 5));
  const memory = openMemoryStore({ clock, maxBytes, reservations: { maxReservations: 1_000, recordMs } });
  const tallies = new Map<string, Map<number, number>>();
  const share = async (name: string, changes: TallyChanges, nowMs: number): Promise<TallyChanges> => {
    if (fails()) throw new StoreError('connection refused', { transient: true });
    const tally = tallies.get(name) ?? new Map<number, number>();
    tallies.set(name, tally);
    for (const [end, number] of changes) tally.set(end, Math.max(0, (tally.get(end) ?? 0) + number));
    return new Map([...tally].filter(([end, number]) => number > 0 && end * 1000 > nowMs));
  };
  const made = Array.from({ length: count }, () => {
    const shared = count > 1 ? share : undefined;
    const bounds = new OwnerBounds({ share: shared, clock, recordMs, maxOfDomain, maxOfCaller });
    const nothing = { looksFor: () => undefined, chargesExpired: () => false, answersAtOnce: true };
    return new ReservingStore({ store: memory, bounds, ...nothing });
  });
  return { clock, memory, made };
}

let runs = 0;

function reserve(store: Store, owner: ReservationOwner | undefined, given: object = {}) {
  runs += 1;
  const counters = countersOf([`1{${runs}}`], { ttlMs: minuteMs, amount: 5 });
  return submitCall(store, reserveCall({ id: `id-${runs}`, owner, counters, ...given }));
}

/** Waits until shared changes are known. */
const settled = () => new Promise((resolve) => setImmediate(resolve));

describe('OwnerBounds', () => {
  it('leaves a reservation over limit to the limit itself', async () => {
    const { made } = limiters(1);
    const [store] = made as [ReservingStore];
    for (let i = 0; i < 3; i += 1) await reserve(store, a);
    const counters = countersOf(['1{large}'], { ttlMs: minuteMs, amount: Number.MAX_SAFE_INTEGER });
    const refused = await submitCall(store, reserveCall({ id: 'large', owner: a, counters }));
    expect(refused).toMatchObject({ outcome: 'refused', full: undefined });
    expect((await reserve(store, a)).outcome).toBe('full');
  });

  it('rejects what one domain has too much, and says when there is room; others have theirs', async () => {
    const { clock, made } = limiters(1);
    const [store] = made as [ReservingStore];
    const madeMs = clock.ms;
    for (let i = 0; i < 3; i += 1) expect((await reserve(store, a)).outcome).toBe('reserved');
    const full = await reserve(store, a);
    expect(full).toMatchObject({ outcome: 'full', full: { of: 'domain' }, counters: [{ used: 0 }] });
    const { roomAtMs } = full.full!;
    const lifeMs = minuteMs + recordMs;
    expect(roomAtMs).toBeGreaterThanOrEqual(madeMs + lifeMs);
    expect(roomAtMs).toBeLessThanOrEqual(madeMs + lifeMs * 1.125);
    expect((await reserve(store, { domain: 'b', caller: 'one' })).outcome).toBe('reserved');
    clock.ms = roomAtMs - 1;
    expect((await reserve(store, a)).outcome).toBe('full');
    clock.ms = roomAtMs;
    expect((await reserve(store, a)).outcome).toBe('reserved');
  });

  it('bounds nothing without an owner', async () => {
    const { made } = limiters(1, { maxOfDomain: 0, maxOfCaller: 0 });
    const [store] = made as [ReservingStore];
    expect((await reserve(store, undefined)).outcome).toBe('reserved');
    expect(await store.notes!.note(noteOf('note', 'text', minuteMs))).toBeUndefined();
  });

  it('says when a full memory has room: when a reservation of the domain ends, or else one of any domain', async () => {
    const { clock, made } = limiters(1, { maxOfDomain: 1_000, maxBytes: 100_000 });
    const [store] = made as [ReservingStore];
    const roomMs = async (domain: string, note: string) => {
      const owner = { domain, caller: undefined };
      for (;;) {
        const { outcome, full } = await reserve(store, owner, { note });
        if (outcome === 'full') return full!.of === 'memory' ? full!.roomAtMs : undefined;
      }
    };
    const [long, tooLong] = ['x'.repeat(1_000), 'x'.repeat(100_000)];
    expect(await roomMs('a', tooLong)).toBe(clock.ms);
    const ofA = await roomMs('a', long);
    clock.ms += 5 * minuteMs;
    const ofB = await roomMs('b', long);
    expect(ofB! - ofA!).toBeGreaterThan(minuteMs);
    expect([await roomMs('a', tooLong), await roomMs('c', tooLong)]).toEqual([ofA, ofA]);
  });

  it('counts those of a caller over all domains', async () => {
    const { made } = limiters(1, { maxOfCaller: 2 });
    const [store] = made as [ReservingStore];
    for (const domain of ['a', 'b']) await reserve(store, { domain, caller: 'one' });
    const full = await reserve(store, { domain: 'c', caller: 'one' });
    expect(full).toMatchObject({ outcome: 'full', full: { of: 'caller' } });
    expect((await reserve(store, { domain: 'a', caller: 'two' })).outcome).toBe('reserved');
    expect((await reserve(store, { domain: 'a', caller: undefined })).outcome).toBe('reserved');
  });

  it('counts what is remembered: reservations that were committed, charges without one, and notes', async () => {
    const { made } = limiters(1);
    const [store] = made as [ReservingStore];
    const one = await reserve(store, a);
    await submitCall(store, settleCall({ id: one.id, owner: a, counters: one.counters }));
    const counters = countersOf(['1{lost}'], { amount: 1 });
    const lost = settleCall({ id: 'lost', owner: a, unknown: 'charge', counters });
    expect((await submitCall(store, lost)).outcome).toBe('unknown');
    expect(await store.notes!.note(noteOf('note', 'of it', minuteMs, a))).toBeUndefined();
    expect(await store.notes!.note(noteOf('note', 'of it', minuteMs, a))).toBe('of it');
    expect(await store.notes!.recall('note')).toBe('of it');
    expect(await store.notes!.note(noteOf('other', 'of it', minuteMs, a))).toMatchObject({ of: 'domain' });
    expect((await reserve(store, a)).outcome).toBe('full');
  });

  it('counts a long note as several', async () => {
    const { made } = limiters(1);
    const [store] = made as [ReservingStore];
    expect((await reserve(store, a, { note: 'x'.repeat(1_024) })).outcome).toBe('reserved');
    expect((await reserve(store, a, { note: 'x'.repeat(1_025) })).outcome).toBe('reserved');
    expect((await reserve(store, a)).outcome).toBe('full');
  });

  it('answers a repetition, and what exceeds the limit', async () => {
    const { made } = limiters(1);
    const [store] = made as [ReservingStore];
    const counters = () => countersOf(['1{repeated}'], { ttlMs: minuteMs, amount: 5 });
    const ask = (id: string, given: object = {}) =>
      submitCall(store, reserveCall({ id, owner: a, counters: counters(), ...given }));
    for (const id of ['first', 'second']) await ask(id);
    expect((await ask('third')).outcome).toBe('refused');
    await reserve(store, a);
    expect((await ask('first')).outcome).toBe('repeated');
    expect((await ask('third')).outcome).toBe('refused');
    expect((await reserve(store, a)).outcome).toBe('full');
  });

  it('counts marked requests until they are committed, and remembers that one over limit holds nothing', async () => {
    const { made } = limiters(1);
    const [store] = made as [ReservingStore];
    const bound = new FixedWindow(1_000);
    const counters = (amount: number) => countersOf(['1{marked}'], { ttlMs: minuteMs, amount, bound });
    const marker = (id: string) =>
      submitCall(store, reserveCall({ id, owner: a, isMarker: true, counters: counters(1) }));
    const settle = (id: string, others: ReservedCounter[] = []) => {
      const terms = { id, owner: a, isMarker: true, unknown: 'charge' } as const;
      return submitCall(store, settleCall({ ...terms, counters: [...counters(1), ...others] }));
    };
    for (let i = 0; i < 10; i += 1) {
      expect((await marker('one')).outcome).toBe('reserved');
      expect((await settle('one')).outcome).toBe('settled');
    }
    for (const id of ['x', 'y', 'z']) await marker(id);
    expect((await marker('beyond')).outcome).toBe('full');
    // It holds nothing, like any rejected call.
    const { outcome, counters: after } = await settle('beyond');
    expect([outcome, after[0]!.changed]).toEqual(['settled', 0]);
    expect((await marker('beyond')).outcome).toBe('full');
    await settle('x', countersOf(['1{unmarked}']));
    expect((await marker('beyond')).outcome).toBe('reserved');
  });

  it.each([
    ['the records of', ['release', 'charge'], minuteMs + recordMs],
    ['nothing of', ['release', 'release'], minuteMs],
  ] as const)('counts %s markers that have ended with %j', async (_, onExpiry, lifeMs) => {
    const { clock, made } = limiters(1, { maxOfDomain: 1 });
    const [store] = made as [ReservingStore];
    const counters = onExpiry.flatMap((one) =>
      countersOf([`1{${one}}`], { ttlMs: minuteMs, amount: 1, onExpiry: one }),
    );
    await submitCall(store, reserveCall({ id: 'marker', owner: a, isMarker: true, counters }));
    clock.ms += lifeMs - 1;
    expect((await reserve(store, a)).outcome).toBe('full');
    clock.ms += lifeMs / 8 + 1;
    expect((await reserve(store, a)).outcome).toBe('reserved');
  });

  it('takes the commit of a marker that another limiter made', async () => {
    const { made } = limiters(2);
    const [first, second] = made as [ReservingStore, ReservingStore];
    const marker = { id: 'elsewhere', owner: a, isMarker: true };
    const counters = () => countersOf(['1{elsewhere}'], { ttlMs: minuteMs, amount: 1 });
    await submitCall(first, reserveCall({ ...marker, counters: counters() }));
    expect((await submitCall(second, settleCall({ ...marker, counters: counters() }))).outcome).toBe(
      'settled',
    );
    for (let i = 0; i < 3; i += 1) await reserve(second, a);
    expect((await reserve(second, a)).outcome).toBe('full');
  });

  it('knows within a second what other limiters made', async () => {
    const { clock, made } = limiters(2);
    const [first, second] = made as [ReservingStore, ReservingStore];
    await reserve(second, a);
    for (let i = 0; i < 3; i += 1) await reserve(first, a);
    clock.ms += 1_000;
    await reserve(first, a);
    await settled();
    await reserve(second, a);
    await settled();
    expect((await reserve(second, a)).outcome).toBe('full');
    clock.ms += 1_000;
    await reserve(first, a);
    await settled();
    expect((await reserve(first, a)).outcome).toBe('full');
  });

  it('counts on by itself while nothing can be shared, and shares it then', async () => {
    let isAway = true;
    const { clock, made } = limiters(2, { fails: () => isAway });
    const [first, second] = made as [ReservingStore, ReservingStore];
    for (let i = 0; i < 3; i += 1) await reserve(first, a);
    await settled();
    clock.ms += 1_000;
    expect((await reserve(first, a)).outcome).toBe('full');
    await settled();
    isAway = false;
    clock.ms += 1_000;
    await reserve(first, a);
    await settled();
    await reserve(second, a);
    await settled();
    expect((await reserve(second, a)).outcome).toBe('full');
  });
});
