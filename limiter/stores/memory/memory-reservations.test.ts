import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { totalOf } from '../../../test/support/counter-ops.ts';
import { ManualClock } from '../../../test/support/manual-clock.ts';
import { openMemoryStore } from '../../../test/support/open-memory-store.ts';
import { caseCount } from '../../../test/support/property-cases.ts';
import {
  countersOf,
  lookCall,
  noteOf,
  reserveCall,
  reservedCounter,
  settleCall,
  submitCall,
} from '../../../test/support/reservation-calls.ts';
import type { AlgorithmBound } from '../../algorithms/algorithm-bound.ts';
import { FixedWindow } from '../../algorithms/fixed-window.ts';
import { SlidingWindow } from '../../algorithms/sliding-window.ts';
import { TokenBucket } from '../../algorithms/token-bucket.ts';
import type { ReservationOwner } from '../operation.ts';
import type { MemoryStoreOptions } from './memory-store.ts';

const stem = '1{llm;team=a}';
const wide = new FixedWindow(1_000_000);
const minuteMs = 60_000;

function open(options: Partial<MemoryStoreOptions> = {}, maxReservations = 1000) {
  const clock = new ManualClock(Date.UTC(2026, 5));
  const reservations = { maxReservations, recordMs: 10 * minuteMs };
  const memory = openMemoryStore({ clock, reservations, ...options });
  const store = memory;
  const reserve = (id: string, given: Parameters<typeof countersOf>[1] = {}, isMarker = false) =>
    submitCall(
      store,
      reserveCall({ id, isMarker, counters: countersOf([stem], { ttlMs: minuteMs, amount: 5, ...given }) }),
    );
  const settle = (id: string, amount: number | undefined, isMarker = false) =>
    submitCall(store, settleCall({ id, isMarker, counters: countersOf([stem], { amount }) }));
  return { clock, memory, store, reserve, settle };
}

describe('MemoryReservations', () => {
  it('remembers what was committed until ten minutes after its TTL', async () => {
    const { clock, store, reserve, settle } = open();
    await reserve('a');
    await settle('a', 3);
    clock.ms += 11 * minuteMs - 1;
    expect((await settle('a', 3)).outcome).toBe('repeated');
    clock.ms += 1;
    expect((await settle('a', 3)).outcome).toBe('unknown');
    expect(await store.notes!.recall('a')).toBeUndefined();
  });

  it.each([
    [0, 2, 'settled'],
    [2, 0, 'settled'],
    [1, 2, 'partial'],
  ])('takes a commit of %i descriptors of a reservation of %i: %s', async (named, reserved, outcome) => {
    const { store } = open();
    const counters = () => countersOf([stem], { ttlMs: minuteMs, amount: 5 });
    await submitCall(store, reserveCall({ id: 'a', descriptors: reserved, counters: counters() }));
    const commit = settleCall({ id: 'a', descriptors: named, counters: counters() });
    expect((await submitCall(store, commit)).outcome).toBe(outcome);
  });

  it('remembers a new note of an ID whose old note has ended but is still stored', async () => {
    const { clock, store } = open();
    const ids = Array.from({ length: 20 }, (_, i) => `n${i}`);
    const note = (id: string, text: string) => store.notes!.note(noteOf(id, text, minuteMs));
    for (const id of ids) await note(id, 'old');
    clock.ms += 11 * minuteMs;
    // Each call removes some of the old notes.
    for (const id of ids.toReversed()) await note(id, 'new');
    expect(await Promise.all(ids.map((id) => store.notes!.recall(id)))).toEqual(ids.map(() => 'new'));
  });

  it('remembers what was committed late equally long', async () => {
    const { clock, reserve, settle } = open();
    await reserve('a');
    clock.ms += 11 * minuteMs - 1;
    expect((await settle('a', 3)).outcome).toBe('late');
    clock.ms += 10 * minuteMs - 1;
    expect((await settle('a', 3)).outcome).toBe('repeated');
  });

  it('has room on a counter that was reset, although reservations on its former state are not committed', async () => {
    const { memory, store, reserve, settle } = open({}, 2);
    for (const id of ['a', 'b']) await reserve(id, { bound: wide });
    expect((await reserve('c', { bound: wide })).outcome).toBe('full');
    expect(memory.remove([reservedCounter({ stem }).key])).toBe(1);
    const look = async () => {
      const { used, reserved, open } = (await submitCall(store, lookCall(countersOf([stem])))).counters[0]!;
      return [used, reserved, open];
    };
    expect(await look()).toEqual([0, 0, 0]);
    for (const id of ['c', 'd']) expect((await reserve(id, { bound: wide })).outcome).toBe('reserved');
    expect(await look()).toEqual([10, 10, 2]);
    const committed = { outcome: 'settled', charged: 3, counters: [{ lost: 5, changed: 3 }] };
    expect(await settle('a', 3)).toMatchObject(committed);
    expect(await look()).toEqual([13, 10, 2]);
    await settle('c', 1);
    expect(await look()).toEqual([9, 5, 1]);
    expect((await reserve('e', { bound: wide })).outcome).toBe('reserved');
    expect((await reserve('f', { bound: wide })).outcome).toBe('full');
  });

  it('reports once what expired', async () => {
    const { clock, store, reserve } = open();
    const givenBack = async () => {
      const [counter] = (await submitCall(store, lookCall(countersOf([stem])))).counters;
      return counter!.givenBack;
    };
    await reserve('long', { ttlMs: 60 * minuteMs, amount: 1 });
    for (const id of ['a', 'b']) {
      await reserve(id);
      clock.ms += minuteMs;
      expect([await givenBack(), await givenBack()]).toEqual([5, 0]);
    }
  });

  it('is empty again once no request can refer to anything', async () => {
    const { clock, memory, store, reserve, settle } = open();
    for (let i = 0; i < 100; i += 1) {
      await reserve(`settled ${i}`, { bound: wide });
      await reserve(`expired ${i}`, { bound: wide, onExpiry: i % 2 === 0 ? 'release' : 'charge' });
      await reserve(`refused ${i}`, { amount: 2_000_000 }, true);
      await reserve(`marker ${i}`, { bound: wide }, true);
      await settle(`settled ${i}`, 1);
      await settle(`marker ${i}`, 1, true);
    }
    expect(store.reservedBytes).toBeGreaterThan(100_000);
    clock.ms += 24 * 60 * minuteMs;
    expect([memory.size, store.reservedBytes, memory.bytes]).toEqual([0, 0, 0]);
  });

  it('forgets many little by little, and answers for none of them', async () => {
    const { clock, memory, store, reserve, settle } = open();
    for (let i = 0; i < 1000; i += 1) {
      await reserve(`r${i}`, { bound: wide });
      await settle(`r${i}`, 1);
    }
    const before = store.reservedBytes;
    clock.ms += 11 * minuteMs;
    for (const i of [0, 500, 999]) expect((await settle(`r${i}`, 1)).outcome).toBe('unknown');
    expect(store.reservedBytes).toBeGreaterThan(0.9 * before);
    // The counter outlives the reservation.
    expect([memory.size, store.reservedBytes]).toEqual([1, 0]);
  });

  it('holds nothing for marked requests that were committed', async () => {
    const { store, reserve, settle } = open();
    await reserve('first', { bound: wide });
    const before = store.reservedBytes;
    for (let i = 0; i < 10_000; i += 1) {
      await reserve(`marker ${i}`, { bound: wide }, true);
      await settle(`marker ${i}`, 1, true);
    }
    expect(store.reservedBytes).toBe(before);
  });

  it('remembers no more marked requests over limit than may be open', async () => {
    const { store, reserve } = open({}, 20);
    for (let i = 0; i < 20; i += 1) await reserve(`marker ${i}`, { amount: 11 }, true);
    const before = store.reservedBytes;
    for (let i = 20; i < 100; i += 1) await reserve(`marker ${i}`, { amount: 11 }, true);
    expect(store.reservedBytes).toBe(before);
  });

  it('takes at most half of the memory, and rejects more', async () => {
    const { clock, memory, store, reserve, settle } = open({ maxBytes: 100_000 }, 10_000);
    let made = 0;
    while ((await reserve(`r${made}`, { bound: wide })).outcome === 'reserved') made += 1;
    expect(made).toBeGreaterThan(10);
    expect(store.reservedBytes).toBeLessThanOrEqual(50_000);
    // Counters get the rest, and leave room for reservations.
    for (let i = 0; i < 1000; i += 1) await totalOf(memory, { key: `key ${i}`, ttlSeconds: 10_000 });
    expect(memory.bytes).toBeLessThanOrEqual(100_000);
    // The charge stays, although the store cannot remember it.
    expect(await settle('unknown', undefined)).toMatchObject({ outcome: 'unknown' });
    const charging = settleCall({
      id: 'unknown',
      unknown: 'charge',
      counters: countersOf([stem], { amount: 1 }),
    });
    expect((await submitCall(store, charging)).counters[0]!.changed).toBe(1);
    expect(store.reservedBytes).toBeLessThanOrEqual(50_000);
    clock.ms += 11 * minuteMs;
    expect((await reserve('later', { bound: wide })).outcome).toBe('reserved');
  });

  it('fills that half of the memory', async () => {
    const sized = open();
    const sizes: number[] = [];
    for (const id of ['a', 'b']) {
      await sized.reserve(id, { bound: wide });
      sizes.push(sized.store.reservedBytes);
    }
    const [first, second] = sizes;
    const { store, reserve } = open({ maxBytes: 2 * (first! + 4 * (second! - first!)) });
    for (const id of ['a', 'b', 'c', 'd', 'e'])
      expect((await reserve(id, { bound: wide })).outcome).toBe('reserved');
    expect([(await reserve('f', { bound: wide })).outcome, store.reservedBytes]).toEqual([
      'full',
      first! + 4 * (second! - first!),
    ]);
  });

  it('reports a commit as done if one of its counters was committed just now, another before', async () => {
    const { store } = open();
    const counters = (stems: string[]) => countersOf(stems, { ttlMs: minuteMs, amount: 5 });
    const [one, other] = [stem, '1{llm;team=b}'];
    await submitCall(store, reserveCall({ id: 'a', counters: counters([one, other]) }));
    const outcomes: string[] = [];
    for (const stems of [[one], [other, one], [other, one]])
      outcomes.push((await submitCall(store, settleCall({ id: 'a', counters: counters(stems) }))).outcome);
    expect(outcomes).toEqual(['settled', 'settled', 'repeated']);
  });

  it('says of a quota with room for exactly the amount that it left out when nothing of the quota is used', async () => {
    const { clock, memory, store } = open();
    const bucket = new TokenBucket({ requests: 10, burst: 10, windowMicros: 60_000_000 });
    const quota = { stem: '1{llm;team=b}', bound: bucket, isQuota: true, group: 1, amount: 5 };
    await totalOf(memory, { key: reservedCounter(quota).key, hits: 6, bound: bucket, limit: 10 });
    const reserve = () => {
      const counters = [reservedCounter({ stem, amount: 5 }), reservedCounter(quota)];
      return submitCall(store, reserveCall({ id: 'a', otherQuotaPasses: true, counters }));
    };
    expect((await reserve()).counters[1]).toMatchObject({ outcome: 'left-out', waitMicros: 6_000_000 });
    clock.ms += 6_000;
    expect((await reserve()).counters[1]).toMatchObject({ outcome: 'left-out', waitMicros: 30_000_000 });
  });

  it('keeps notes of what holds nothing until then, too, in the same memory', async () => {
    const { clock, memory, store, reserve } = open({ maxBytes: 100_000 });
    let kept = 0;
    while ((await store.notes!.note(noteOf(`n${kept}`, 'nothing', minuteMs))) === undefined) kept += 1;
    expect(await store.notes!.note(noteOf('more', 'nothing', minuteMs))).toMatchObject({ of: 'memory' });
    expect(kept).toBeGreaterThan(10);
    expect([store.reservedBytes <= 50_000, (await reserve('a')).outcome]).toEqual([true, 'full']);
    clock.ms += 11 * minuteMs - 1;
    expect(await store.notes!.recall('n0')).toBe('nothing');
    clock.ms += 1;
    expect(await store.notes!.recall('n0')).toBeUndefined();
    expect(await store.notes!.note(noteOf('n0', 'another', minuteMs))).toBeUndefined();
    expect(await store.notes!.recall('n0')).toBe('another');
    clock.ms += 24 * 60 * minuteMs;
    expect([memory.size, store.reservedBytes, memory.bytes]).toEqual([0, 0, 0]);
  });

  it('leaves room to other domains, whatever one of them reserves', async () => {
    const { clock, store } = open({ maxBytes: 400_000 });
    const flood = { domain: 'flood', caller: undefined };
    let made = 0;
    const counters = (n: number) => countersOf([`1{flood;value=${n}}`], { ttlMs: minuteMs, amount: 5 });
    const ask = (owner: ReservationOwner) => {
      made += 1;
      return submitCall(
        store,
        reserveCall({ id: `r${made}`, owner, note: 'x'.repeat(1_000), counters: counters(made) }),
      );
    };
    while ((await ask(flood)).outcome === 'reserved');
    expect(made).toBeGreaterThan(20);
    expect((await ask(flood)).full).toMatchObject({ of: 'memory' });
    while ((await store.notes!.note(noteOf(`n${made}`, 'nothing', minuteMs, flood))) === undefined) made += 1;
    const other = { domain: 'other', caller: undefined };
    for (let n = 0; n < 5; n += 1) expect((await ask(other)).outcome).toBe('reserved');
    expect(await store.notes!.note(noteOf('other', 'nothing', minuteMs, other))).toBeUndefined();
    clock.ms += 24 * 60 * minuteMs;
    expect([store.size, store.reservedBytes]).toEqual([0, 0]);
    expect((await ask(flood)).outcome).toBe('reserved');
  });

  it('says when the first of those is due that leave no room on a counter', async () => {
    const { clock, reserve } = open({}, 2);
    await reserve('a', { bound: wide, ttlMs: 3 * minuteMs });
    await reserve('b', { bound: wide, ttlMs: 2 * minuteMs });
    const { outcome, full } = await reserve('c', { bound: wide });
    expect([outcome, full]).toEqual(['full', { of: 'counter', roomAtMs: clock.ms + 2 * minuteMs }]);
    clock.ms += 2 * minuteMs;
    expect((await reserve('c', { bound: wide })).outcome).toBe('reserved');
  });

  it('makes room for reservations by counters that end soonest', async () => {
    const { memory, reserve } = open({ maxBytes: 20_000 });
    for (let i = 0; i < 1000; i += 1) await totalOf(memory, { key: `key ${i}`, ttlSeconds: 60 });
    const full = memory.evicted;
    for (let i = 0; i < 5; i += 1) expect((await reserve(`r${i}`, { bound: wide })).outcome).toBe('reserved');
    expect(memory.evicted).toBeGreaterThan(full);
    expect(memory.bytes).toBeLessThanOrEqual(20_000);
  });

  it('gives nothing back to a counter that was reset', async () => {
    const { memory, store, reserve, settle } = open();
    await reserve('a', { amount: 8 });
    const { key } = reservedCounter({ stem });
    expect(memory.remove([key])).toBe(1);
    expect(await totalOf(memory, { key, hits: 4 })).toBe(4);
    const [counter] = (await submitCall(store, lookCall(countersOf([stem])))).counters;
    expect(counter).toMatchObject({ used: 4, reserved: 0 });
    await reserve('b', { amount: 5 });
    expect((await settle('a', 0)).counters[0]).toMatchObject({ lost: 8, changed: 0 });
    expect(await totalOf(memory, { key, hits: 0 })).toBe(9);
    await settle('b', 0);
    expect(await totalOf(memory, { key, hits: 0 })).toBe(4);
  });

  it.each<[string, AlgorithmBound | undefined]>([
    ['a fixed window', undefined],
    ['a bucket', new TokenBucket({ requests: 70, burst: 100, windowMicros: 60_000_000 })],
    ['a sliding window', new SlidingWindow({ requests: 100, windowMicros: 60_000_000 })],
  ])('charges what was used of a reservation whose counter, %s, was reset', async (_, bound) => {
    const { memory, store, reserve } = open();
    const terms = bound === undefined ? {} : { bound };
    const { key } = reservedCounter({ stem, ...terms });
    const used = async () => (await submitCall(store, lookCall(countersOf([stem], terms)))).counters[0]!.used;
    for (const actual of [0, 3, 5, 7]) {
      await reserve(`of ${actual}`, { ...terms, amount: 5 });
      memory.remove([key]);
      const commit = settleCall({
        id: `of ${actual}`,
        counters: countersOf([stem], { ...terms, amount: actual }),
      });
      const [counter] = (await submitCall(store, commit)).counters;
      expect(counter).toMatchObject({ lost: 5, changed: actual });
      expect(await used()).toBe(actual);
      memory.remove([key]);
    }
  });

  it('frees a name once its time has passed', async () => {
    const { clock, store } = open();
    expect(await store.claims!.claim('mark', 60)).toBe(true);
    clock.ms += minuteMs - 1;
    expect(await store.claims!.claim('mark', 60)).toBe(false);
    clock.ms += 1;
    expect(await store.claims!.claim('mark', 60)).toBe(true);
  });

  it.each<[string, AlgorithmBound]>([
    ['a bucket', new TokenBucket({ requests: 70, burst: 100, windowMicros: 60_000_000 })],
    ['a sliding window', new SlidingWindow({ requests: 100, windowMicros: 60_000_000 })],
  ])('says of %s to the millisecond when the amount will fit', async (_, bound) => {
    const steps = fc.array(fc.record({ laterMs: fc.nat(40_000), hits: fc.nat(100), isHeld: fc.boolean() }), {
      minLength: 1,
      maxLength: 6,
    });
    await fc.assert(
      fc.asyncProperty(steps, fc.integer({ min: 1, max: 100 }), async (before, amount) => {
        const { clock, memory, reserve } = open();
        const { key } = reservedCounter({ stem });
        const terms = { bound, ttlMs: 60 * minuteMs };
        for (const [i, { laterMs, hits, isHeld }] of before.entries()) {
          clock.ms += laterMs;
          if (isHeld) await reserve(`before ${i}`, { ...terms, amount: hits });
          else await totalOf(memory, { key, hits, bound, limit: bound.capacity });
        }
        const asked = await reserve('asked', { ...terms, amount });
        if (asked.outcome === 'reserved') return;
        const waitMs = Math.ceil(asked.counters[0]!.waitMicros / 1000);
        expect(waitMs).toBeGreaterThan(0);
        clock.ms += waitMs - 1;
        expect((await reserve('too early', { ...terms, amount })).outcome).toBe('refused');
        clock.ms += 1;
        expect((await reserve('in time', { ...terms, amount })).outcome).toBe('reserved');
      }),
      { numRuns: caseCount(200) },
    );
  });

  it('says which key is too long, and what a closed store is', async () => {
    const { memory, store } = open({ maxBytes: 1000 });
    const long = lookCall(countersOf([`1{${'x'.repeat(1000)}}`]));
    await expect(submitCall(store, long)).rejects.toThrow('does not fit into the 1000 bytes');
    await memory.close();
    await expect(submitCall(store, lookCall(countersOf([stem])))).rejects.toThrow('memory store is closed');
  });
});
