/** What every store does with reservations, whatever holds the counters. */
import { randomUUID } from 'node:crypto';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { FixedWindow } from '../../limiter/algorithms/fixed-window.ts';
import { SlidingWindow } from '../../limiter/algorithms/sliding-window.ts';
import { TokenBucket } from '../../limiter/algorithms/token-bucket.ts';
import type { ReservationBounds, Store } from '../../limiter/stores/store.ts';
import { kindOf } from '../support/bound-kind.ts';
import { counterOp, submit } from '../support/counter-ops.ts';
import type { ManualClock } from '../support/manual-clock.ts';
import { caseCount } from '../support/property-cases.ts';
import {
  countersOf,
  lookCall,
  noteOf,
  type ReservedCounter,
  reserveCall,
  reservedCounter,
  settleCall,
  submitCall,
  type TestCall,
} from '../support/reservation-calls.ts';
import { type ModelledScope, ReservationModel } from './reservation-model.ts';

/** What a store under this suite is opened with. */
export const suiteBounds: ReservationBounds = { maxReservations: 40, recordMs: 600_000 };

export interface ReservationStoreSuiteOptions {
  /** What the store reads the time from, where the test sets it. */
  clock?: ManualClock;
  /** Whether all stems of a call are in one place, so that a call is all or nothing for who looks meanwhile, too. Defaults to true. */
  onePlace?: boolean;
  /** Expects that what is stored about reservations agrees with itself. `pattern` names the keys that a property used. */
  expectSoundBooks?: (pattern?: string) => Promise<void>;
}

const year = 31_536_000_000_000;
/** So long that hardly any time goes by within them. */
export const slowBounds = [
  ['a fixed window', new FixedWindow(10)],
  ['a sliding window', new SlidingWindow({ requests: 10, windowMicros: year })],
  ['a bucket', new TokenBucket({ requests: 10, burst: 10, windowMicros: year })],
] as const;

export function reservationStoreSuite(
  open: () => Promise<Store>,
  { onePlace = true, clock, expectSoundBooks }: ReservationStoreSuiteOptions = {},
): void {
  let store: Store;
  let runs = 0;
  const suite = randomUUID();
  /** A stem that no other test uses, nor another suite on the same server. */
  const fresh = (name = 'key') => {
    runs += 1;
    return `1{${suite};${name}=${runs}}`;
  };
  const freshId = () => `id-${suite}-${++runs}`;

  beforeAll(async () => {
    store = await open();
  });
  afterAll(() => store?.close());

  const reserve = (id: string, counters: ReservedCounter[], given: Partial<TestCall> = {}) =>
    submitCall(store, reserveCall({ id, counters, ...given }));
  const settle = (id: string, counters: ReservedCounter[], given: Partial<TestCall> = {}) =>
    submitCall(store, settleCall({ id, counters, ...given }));
  const look = async (counters: ReservedCounter[]) =>
    (await submitCall(store, lookCall(counters))).counters.map(({ used, reserved, open }) => [
      used,
      reserved,
      open,
    ]);
  const usedAfterHits = async (counter: ReservedCounter, hits: number, onlyIfTheyFit = false) => {
    const bound = kindOf(counter.bound) === 'fixed' && !onlyIfTheyFit ? undefined : counter.bound;
    const { key, ttlSeconds } = counter;
    const [op] = await submit(store, [
      counterOp({ key, hits, bound, limit: counter.bound.capacity, ttlSeconds }),
    ]);
    if (op!.error !== undefined) throw op!.error;
    return op!.after;
  };

  describe.each(slowBounds)('on %s', (_, bound) => {
    const counter = (stem: string, given: Partial<ReservedCounter> = {}) =>
      reservedCounter({ stem, bound, key: `${stem}31536000:${kindOf(bound)}`, ...given });

    it('charges at once, also for a caller that only counts hits', async () => {
      const stem = fresh();
      const call = await reserve(freshId(), [counter(stem, { amount: 6 })]);
      expect(call.outcome).toBe('reserved');
      expect(call.counters[0]).toMatchObject({
        outcome: 'charged',
        used: 6,
        reserved: 6,
        open: 1,
        changed: 6,
      });
      expect(await usedAfterHits(counter(stem), 2)).toBe(8);
      expect(await look([counter(stem)])).toEqual([[8, 6, 1]]);
    });

    it('reports what does not fit, and leaves no trace of it', async () => {
      const stem = fresh();
      const id = freshId();
      await usedAfterHits(counter(stem), 5);
      const refused = await reserve(id, [counter(stem, { amount: 6 })]);
      expect(refused.outcome).toBe('refused');
      expect(refused.counters[0]).toMatchObject({ outcome: 'refused', used: 5, reserved: 0, changed: 0 });
      expect((await reserve(id, [counter(stem, { amount: 5 })])).outcome).toBe('reserved');
    });

    it('releases what was not needed', async () => {
      const stem = fresh();
      const id = freshId();
      await reserve(id, [counter(stem, { amount: 8 })]);
      const call = await settle(id, [counter(stem, { amount: 3 })]);
      expect(call).toMatchObject({ outcome: 'settled', charged: 3, amount: 8 });
      expect(call.counters[0]).toMatchObject({
        outcome: 'charged',
        used: 3,
        reserved: 0,
        open: 0,
        changed: -5,
      });
      expect(await usedAfterHits(counter(stem), 0)).toBe(3);
    });

    it('charges what was needed beyond', async () => {
      const stem = fresh();
      const id = freshId();
      await reserve(id, [counter(stem, { amount: 2 })]);
      const call = await settle(id, [counter(stem, { amount: 7 })]);
      expect(call).toMatchObject({ outcome: 'settled', charged: 7, amount: 2 });
      expect(call.counters[0]).toMatchObject({ used: 7, changed: 5 });
    });

    it('gives all of them back in any order', async () => {
      const stem = fresh();
      const ids = [freshId(), freshId(), freshId()];
      for (const id of ids) await reserve(id, [counter(stem, { amount: 3 })]);
      for (const id of [ids[1]!, ids[0]!, ids[2]!]) await settle(id, [counter(stem, { amount: 0 })]);
      expect(await usedAfterHits(counter(stem), 0)).toBe(0);
    });

    it('releases what was not committed once its TTL is over', async () => {
      const stem = fresh();
      const id = freshId();
      await reserve(id, [counter(stem, { amount: 8, ttlMs: 0 })]);
      const call = await reserve(freshId(), [counter(stem, { amount: 9 })]);
      expect(call.outcome).toBe('reserved');
      expect(call.counters[0]).toMatchObject({ used: 9, reserved: 9, open: 1, givenBack: 8, changed: 9 });
      expect((await settle(id, [counter(stem, { amount: 1 })])).outcome).toBe('late');
      expect(await look([counter(stem)])).toEqual([[10, 9, 1]]);
    });

    it('leaves an estimate charged that is to stay so, and replaces it later', async () => {
      const stem = fresh();
      const id = freshId();
      await reserve(id, [counter(stem, { amount: 8, ttlMs: 0, onExpiry: 'charge' })]);
      expect(await look([counter(stem)])).toEqual([[8, 0, 0]]);
      const call = await settle(id, [counter(stem, { amount: 5 })]);
      expect(call).toMatchObject({ outcome: 'late', charged: 5, amount: 8 });
      expect(await look([counter(stem)])).toEqual([[5, 0, 0]]);
    });

    it('charges what is in shadow mode whatever is left', async () => {
      const stem = fresh();
      const id = freshId();
      await usedAfterHits(counter(stem), 8);
      const call = await reserve(id, [counter(stem, { amount: 5, isShadow: true })]);
      expect(call.outcome).toBe('reserved');
      await settle(id, [counter(stem, { amount: 0, isShadow: true })]);
      expect(await usedAfterHits(counter(stem), 0)).toBe(8);
    });
  });

  it('holds another amount on each counter, all or none, and commits each by its own', async () => {
    const [tokens, money] = [fresh(), fresh()];
    const counters = (...amounts: (number | undefined)[]) =>
      [tokens, money].flatMap((stem, index) => countersOf([stem], { amount: amounts[index] }));
    const id = freshId();
    expect((await reserve(id, counters(2, 7))).outcome).toBe('reserved');
    expect((await reserve(id, counters(7, 2))).outcome).toBe('conflict');
    const held = [
      [2, 2, 1],
      [7, 7, 1],
    ];
    expect(await look(counters())).toEqual(held);
    expect((await reserve(freshId(), counters(1, 4))).outcome).toBe('refused');
    expect(await look(counters())).toEqual(held);
    expect(await settle(id, counters(1, undefined))).toMatchObject({ charged: 1, amount: 2 });
    expect(await look(counters())).toEqual([
      [1, 0, 0],
      [7, 0, 0],
    ]);
  });

  it('answers the same again with the same, and counts nothing', async () => {
    const counters = () => countersOf([stem], { amount: 4 });
    const stem = fresh();
    const id = freshId();
    const first = await reserve(id, counters());
    const again = await reserve(id, counters());
    expect(again).toMatchObject({ outcome: 'repeated', expiresAtMs: first.expiresAtMs });
    expect(again.counters[0]).toMatchObject({
      outcome: 'charged',
      used: 4,
      reserved: 4,
      open: 1,
      changed: 0,
    });
    await settle(id, countersOf([stem], { amount: 3 }));
    const second = await settle(id, countersOf([stem], { amount: 9 }));
    expect(second).toMatchObject({ outcome: 'repeated', charged: 3, amount: 4 });
    expect(second.counters[0]).toMatchObject({ used: 3, changed: 0 });
    expect((await reserve(id, counters())).outcome).toBe('repeated');
    expect(await look(countersOf([stem]))).toEqual([[3, 0, 0]]);
  });

  it.each([
    ['amount', { amount: 5 }],
    ['TTL', { amount: 4, ttlMs: 1000 }],
    ['end', { amount: 4, onExpiry: 'charge' }],
  ] as const)('refuses the id of another %s', async (_, other) => {
    const stem = fresh();
    const id = freshId();
    await reserve(id, countersOf([stem], { amount: 4 }));
    expect((await reserve(id, countersOf([stem], other))).outcome).toBe('conflict');
    expect(await look(countersOf([stem]))).toEqual([[4, 4, 1]]);
  });

  it('rejects the ID of other counters', async () => {
    const stem = fresh();
    const id = freshId();
    await reserve(id, countersOf([stem], { amount: 4 }));
    expect((await reserve(id, countersOf([stem, fresh()], { amount: 4 }))).outcome).toBe('conflict');
  });

  it('commits the estimate if nothing else is said', async () => {
    const stem = fresh();
    const id = freshId();
    await reserve(id, countersOf([stem], { amount: 4 }));
    expect(await settle(id, countersOf([stem]))).toMatchObject({ outcome: 'settled', charged: 4, amount: 4 });
    expect(await look(countersOf([stem]))).toEqual([[4, 0, 0]]);
  });

  it('charges an unknown id once, if so asked', async () => {
    const stem = fresh();
    const id = freshId();
    const counters = () => countersOf([stem], { amount: 4 });
    expect(await settle(id, counters())).toMatchObject({ outcome: 'unknown', charged: 0, amount: 0 });
    expect(await settle(id, countersOf([stem]), { unknown: 'charge' })).toMatchObject({ outcome: 'unknown' });
    expect(await look(countersOf([stem]))).toEqual([[0, 0, 0]]);
    const charged = await settle(id, counters(), { unknown: 'charge' });
    expect(charged).toMatchObject({ outcome: 'unknown', charged: 4, amount: 0 });
    expect(charged.counters[0]).toMatchObject({ outcome: 'charged', used: 4, changed: 4 });
    const again = await settle(id, counters(), { unknown: 'charge' });
    expect(again).toMatchObject({ outcome: 'repeated', charged: 4 });
    expect((await reserve(id, counters())).outcome).toBe('conflict');
    expect(await look(countersOf([stem]))).toEqual([[4, 0, 0]]);
  });

  it('holds nothing for an amount of 0, and remembers it', async () => {
    const stem = fresh();
    const id = freshId();
    expect((await reserve(id, countersOf([stem], { amount: 0 }))).outcome).toBe('reserved');
    expect(await look(countersOf([stem]))).toEqual([[0, 0, 1]]);
    expect(await settle(id, countersOf([stem], { amount: 3 }))).toMatchObject({
      outcome: 'settled',
      charged: 3,
    });
    expect(await look(countersOf([stem]))).toEqual([[3, 0, 0]]);
  });

  it('reports an amount of 0 over limit if more is used than the limit', async () => {
    const stem = fresh();
    const id = freshId();
    await settle('', countersOf([stem], { amount: 10 }), { unknown: 'charge' });
    expect((await reserve(freshId(), countersOf([stem], { amount: 0 }))).outcome).toBe('reserved');
    await settle('', countersOf([stem], { amount: 1 }), { unknown: 'charge' });
    const refused = await reserve(id, countersOf([stem], { amount: 0 }), { isMarker: true });
    expect(refused.outcome).toBe('refused');
    await settle(id, countersOf([stem], { amount: 3 }), { isMarker: true, unknown: 'charge' });
    expect(await look(countersOf([stem]))).toEqual([[11, 0, 1]]);
  });

  it('reserves on all counters or on none', async () => {
    const [user, team, model] = [fresh('user'), fresh('team'), fresh('model')];
    await usedAfterHits(reservedCounter({ stem: team }), 7);
    const refused = await reserve(freshId(), countersOf([user, team, model], { amount: 4 }));
    expect(refused.outcome).toBe('refused');
    // What comes later may not have been asked any more.
    expect(refused.counters[0]).toMatchObject({ outcome: 'untouched' });
    expect(refused.counters[1]).toMatchObject({ outcome: 'refused', used: 7 });
    if (onePlace) expect(refused.counters.map(({ used }) => used)).toEqual([0, 7, 0]);
    expect(await look(countersOf([user, team, model]))).toEqual([
      [0, 0, 0],
      [7, 0, 0],
      [0, 0, 0],
    ]);
  });

  it.each([
    ['fewer', ['a'], 1],
    ['other and fewer', ['a', 'x', 'y'], 3],
    ['more', ['a', 'b', 'x'], 3],
  ] as const)('changes nothing where a commit names %s descriptors', async (_, names, descriptors) => {
    for (const bound of slowBounds.map(([, one]) => one)) {
      const id = freshId();
      const stems = new Map(['a', 'b', 'x', 'y'].map((name) => [name, fresh(name)]));
      const counters = (of: readonly string[], amount?: number) =>
        of.map((name, group) =>
          reservedCounter({
            stem: stems.get(name)!,
            key: `${stems.get(name)}31536000:${kindOf(bound)}`,
            bound,
            group,
            amount,
          }),
        );
      const both = (amount?: number) => counters(['a', 'b'], amount);
      expect((await reserve(id, both(6), { descriptors: 2 })).outcome).toBe('reserved');
      const settled = await settle(id, counters(names, 2), { descriptors, unknown: 'charge' });
      expect(settled).toMatchObject({ outcome: 'partial', reservedDescriptors: 2, charged: 0, amount: 0 });
      expect(await look(counters(['a', 'b', 'x', 'y']))).toEqual([
        ...[
          [6, 6, 1],
          [6, 6, 1],
        ],
        ...[
          [0, 0, 0],
          [0, 0, 0],
        ],
      ]);
      expect(await settle(id, both(2), { descriptors: 2 })).toMatchObject({ outcome: 'settled', charged: 2 });
      expect((await settle(id, counters(names, 2), { descriptors, unknown: 'charge' })).outcome).toBe(
        'partial',
      );
      expect(await look(both())).toEqual([
        [2, 0, 0],
        [2, 0, 0],
      ]);
    }
  });

  it('commits the counter of one marked descriptor alone', async () => {
    const stems = [fresh('a'), fresh('b')];
    const id = freshId();
    const marker = { isMarker: true, descriptors: 0 };
    await reserve(id, countersOf(stems, { amount: 6 }), marker);
    const [first] = stems;
    expect((await settle(id, countersOf([first!], { amount: 2 }), marker)).outcome).toBe('settled');
    expect(await look(countersOf(stems))).toEqual([
      [2, 0, 0],
      [6, 6, 1],
    ]);
  });

  it('commits all counters of a reservation', async () => {
    const stems = [fresh('user'), fresh('team')];
    const id = freshId();
    await reserve(id, countersOf(stems, { amount: 4 }));
    await settle(id, countersOf(stems, { amount: 6 }));
    expect(await look(countersOf(stems))).toEqual([
      [6, 0, 0],
      [6, 0, 0],
    ]);
  });

  describe('when the window has ended', () => {
    const ofWindow = (stem: string, window: number, given: Partial<ReservedCounter> = {}) =>
      reservedCounter({
        stem,
        key: `${stem}3600:${3600 * window}`,
        ...given,
      });

    it('gives nothing back', async () => {
      const stem = fresh();
      const id = freshId();
      await reserve(id, [ofWindow(stem, 0, { amount: 8 })]);
      const call = await settle(id, [ofWindow(stem, 1, { amount: 3 })]);
      expect(call).toMatchObject({ outcome: 'settled', charged: 3, amount: 8 });
      expect(call.counters[0]).toMatchObject({ used: 0, reserved: 0, changed: 0 });
      expect(await usedAfterHits(ofWindow(stem, 0), 0)).toBe(8);
    });

    it('counts in the present one what was needed beyond', async () => {
      const stem = fresh();
      const id = freshId();
      await reserve(id, [ofWindow(stem, 0, { amount: 2 })]);
      const call = await settle(id, [ofWindow(stem, 1, { amount: 7 })]);
      expect(call.counters[0]).toMatchObject({ used: 5, changed: 5 });
      expect(await usedAfterHits(ofWindow(stem, 0), 0)).toBe(2);
    });

    it('commits once', async () => {
      const stem = fresh();
      const id = freshId();
      await reserve(id, [ofWindow(stem, 0, { amount: 2 })]);
      for (const outcome of ['settled', 'repeated', 'repeated']) {
        const call = await settle(id, [ofWindow(stem, 1, { amount: 7 })], { unknown: 'charge' });
        expect(call).toMatchObject({ outcome, charged: 7, amount: 2 });
        expect(call.counters[0]).toMatchObject({ used: 5, changed: outcome === 'settled' ? 5 : 0 });
      }
    });

    it('counts all of it in the present one after the TTL', async () => {
      const stem = fresh();
      const id = freshId();
      await reserve(id, [ofWindow(stem, 0, { amount: 8, ttlMs: 0 })]);
      expect((await settle(id, [ofWindow(stem, 1, { amount: 3 })])).outcome).toBe('late');
      expect(await look([ofWindow(stem, 1)])).toEqual([[3, 0, 0]]);
    });

    it('knows the same reservation again', async () => {
      const stem = fresh();
      const id = freshId();
      const note = 'the same';
      const first = await reserve(id, [ofWindow(stem, 0, { amount: 8 })], { note });
      const again = await reserve(id, [ofWindow(stem, 1, { amount: 8 })], { note });
      expect(again).toMatchObject({ outcome: 'repeated', expiresAtMs: first.expiresAtMs });
      expect(again.counters[0]).toMatchObject({ outcome: 'charged', used: 0, changed: 0 });
    });
  });

  describe('of a quota', () => {
    const quotas = (stems: readonly string[], amount: number) => countersOf(stems, { amount, isQuota: true });

    it('leaves out a limit that has nothing left, and does not commit it', async () => {
      const [a, b] = [fresh('a'), fresh('b')];
      const id = freshId();
      await usedAfterHits(reservedCounter({ stem: a }), 9);
      const call = await reserve(id, quotas([a, b], 3));
      expect(call.outcome).toBe('reserved');
      expect(call.counters.map(({ outcome, used }) => [outcome, used])).toEqual([
        ['left-out', 9],
        ['charged', 3],
      ]);
      const again = [
        await reserve(id, quotas([a, b], 3)),
        await settle(id, quotas([a, b], 4), { unknown: 'charge' }),
        await settle(id, quotas([a, b], 4), { unknown: 'charge' }),
      ];
      expect(again.map(({ outcome }) => outcome)).toEqual(['repeated', 'settled', 'repeated']);
      for (const { counters } of again)
        expect(counters.map(({ outcome }) => outcome)).toEqual(['left-out', 'charged']);
      expect(await look(quotas([a, b], 0))).toEqual([
        [9, 0, 0],
        [4, 0, 0],
      ]);
    });

    it('is over limit if all of them are', async () => {
      const [a, b, plain] = [fresh('a'), fresh('b'), fresh('plain')];
      for (const stem of [a, b]) await usedAfterHits(reservedCounter({ stem }), 9);
      const all = () => [...quotas([a, b], 3), reservedCounter({ stem: plain, group: 2, amount: 3 })];
      expect((await reserve(freshId(), all())).outcome).toBe('refused');
      expect((await reserve(freshId(), all(), { otherQuotaPasses: true })).outcome).toBe('reserved');
    });

    it('leaves out all limits of a rule if one of them is exceeded', async () => {
      // Where a rule has several limits all of its keys have a tag.
      const [a, b] = [`1{${fresh('a')}}`, fresh('b')];
      const minute = (amount: number | undefined, isQuota = true) =>
        reservedCounter({ stem: a, key: `${a}60:0`, ttlSeconds: 60, amount, isQuota });
      const day = (amount: number | undefined) =>
        reservedCounter({ stem: a, key: `${a}86400:0`, amount, isQuota: true });
      await usedAfterHits(minute(0), 9);
      const other = reservedCounter({ stem: b, group: 1, amount: 3, isQuota: true });
      const call = await reserve(freshId(), [minute(3), day(3), other]);
      expect(call.outcome).toBe('reserved');
      expect(call.counters.map(({ outcome }) => outcome)).toEqual(['left-out', 'left-out', 'charged']);
      expect(await look([minute(undefined), day(undefined)])).toEqual([
        [9, 0, 0],
        [0, 0, 0],
      ]);
    });
  });

  describe('by marker entries', () => {
    const marker = { isMarker: true } as const;
    const charging = { isMarker: true, unknown: 'charge' } as const;

    it('says what expired gave back, also when nothing is left to remember', async () => {
      const stem = fresh();
      await reserve(freshId(), countersOf([stem], { amount: 6, ttlMs: 0 }), { isMarker: true });
      const { counters } = await submitCall(store, lookCall(countersOf([stem])));
      expect(counters[0]).toMatchObject({ used: 0, open: 0, givenBack: 6 });
    });

    it('adds a reservation for each reserve, and closes one with each commit', async () => {
      const stem = fresh();
      const id = freshId();
      for (const amount of [3, 4]) {
        expect((await reserve(id, countersOf([stem], { amount }), marker)).outcome).toBe('reserved');
      }
      expect(await look(countersOf([stem]))).toEqual([[7, 7, 2]]);
      expect(await settle(id, countersOf([stem], { amount: 1 }), charging)).toMatchObject({
        outcome: 'settled',
        amount: 3,
      });
      expect(await look(countersOf([stem]))).toEqual([[5, 4, 1]]);
      await settle(id, countersOf([stem], { amount: 2 }), charging);
      expect(await settle(id, countersOf([stem], { amount: 2 }), charging)).toMatchObject({
        outcome: 'unknown',
        charged: 2,
      });
      expect(await look(countersOf([stem]))).toEqual([[5, 0, 0]]);
    });

    it('keeps ids apart by their counters', async () => {
      const [a, b] = [fresh('a'), fresh('b')];
      const id = freshId();
      await reserve(id, countersOf([a], { amount: 3 }), marker);
      await reserve(id, countersOf([b], { amount: 4 }), marker);
      await settle(id, countersOf([b], { amount: 0 }), charging);
      expect(await look(countersOf([a, b]))).toEqual([
        [3, 3, 1],
        [0, 0, 0],
      ]);
    });

    it('charges nothing for what was only over limit', async () => {
      const stem = fresh();
      const id = freshId();
      expect((await reserve(id, countersOf([stem], { amount: 11 }), marker)).outcome).toBe('refused');
      expect((await settle(id, countersOf([stem], { amount: 3 }), charging)).counters[0]!.changed).toBe(0);
      expect(await settle(id, countersOf([stem], { amount: 3 }), charging)).toMatchObject({
        outcome: 'unknown',
      });
      expect(await look(countersOf([stem]))).toEqual([[3, 0, 0]]);
    });

    it('takes nothing from what its ID has open if another one exceeds a quota', async () => {
      const [quota, plain] = [fresh('quota'), fresh('plain')];
      const id = freshId();
      const both = (amount: number) => [
        reservedCounter({ stem: quota, amount, isQuota: true }),
        reservedCounter({ stem: plain, amount, group: 1 }),
      ];
      expect((await reserve(id, both(3).slice(0, 1), marker)).outcome).toBe('reserved');
      expect((await reserve(id, both(8), marker)).outcome).toBe('refused');
      expect(await look(countersOf([quota, plain]))).toEqual([
        [3, 3, 1],
        [0, 0, 0],
      ]);
      // The first closes what is open, and each of both closes what was rejected.
      const used: number[][] = [];
      for (let time = 0; time < 3; time++) {
        await settle(id, both(1), charging);
        used.push((await look(countersOf([quota, plain]))).map(([total = 0]) => total));
      }
      expect(used).toEqual([
        [1, 0],
        [1, 1],
        [2, 2],
      ]);
    });

    it('charges what is committed after its TTL, in place of an estimate that was charged', async () => {
      const [released, kept] = [fresh('released'), fresh('kept')];
      const id = freshId();
      await reserve(id, countersOf([released], { amount: 8, ttlMs: 0 }), marker);
      await reserve(id, countersOf([kept], { amount: 8, ttlMs: 0, onExpiry: 'charge' }), marker);
      expect(await look(countersOf([released, kept]))).toEqual([
        [0, 0, 0],
        [8, 0, 0],
      ]);
      await settle(id, countersOf([released, kept], { amount: 3 }), charging);
      expect(await look(countersOf([released, kept]))).toEqual([
        [3, 0, 0],
        [3, 0, 0],
      ]);
    });
  });

  it('rejects more reservations than a counter may have', async () => {
    const stem = fresh();
    const { maxReservations } = suiteBounds;
    const counters = (amount?: number) => countersOf([stem], { bound: new FixedWindow(1000), amount });
    const ids = Array.from({ length: maxReservations }, freshId);
    for (const id of ids) await reserve(id, counters(1));
    const full = await reserve(freshId(), counters(1));
    expect(full.outcome).toBe('full');
    expect(full.counters[0]).toMatchObject({ used: maxReservations, open: maxReservations, changed: 0 });
    // Nor is anything charged for a marker that was rejected so.
    const id = freshId();
    expect((await reserve(id, counters(1), { isMarker: true })).outcome).toBe('full');
    const settled = await settle(id, counters(3), { isMarker: true, unknown: 'charge' });
    expect(settled.counters[0]).toMatchObject({ used: maxReservations, changed: 0 });
    await settle(ids[0]!, counters(1));
    expect((await reserve(freshId(), counters(1))).outcome).toBe('reserved');
  });

  it('reports since when the oldest that is open has been', async () => {
    const stem = fresh();
    const id = freshId();
    const first = await reserve(id, countersOf([stem], { amount: 1 }));
    await reserve(freshId(), countersOf([stem], { amount: 1, ttlMs: 60_000 }));
    const oldest = async () => (await submitCall(store, lookCall(countersOf([stem])))).counters[0]!.oldestMs;
    expect(await oldest()).toBe(first.expiresAtMs - 3_600_000);
    await settle(id, countersOf([stem], { amount: 1 }));
    expect(await oldest()).toBeGreaterThanOrEqual(first.expiresAtMs - 3_600_000);
  });

  it('gives the note of a reservation, and only once another one to its id', async () => {
    const stem = fresh();
    const id = freshId();
    const note = '{"domain":"llm","descriptors":[]}';
    await reserve(id, countersOf([stem], { amount: 1 }), { note });
    expect(await store.notes!.recall(id)).toBe(note);
    await settle(id, countersOf([stem], { amount: 1 }));
    expect(await store.notes!.recall(id)).toBe(note);
    expect(await store.notes!.recall(freshId())).toBeUndefined();
    const other = await reserve(id, countersOf([fresh()], { amount: 1 }), { note: 'another' });
    expect(other.outcome).toBe('conflict');
    expect(await store.notes!.recall(id)).toBe(note);
  });

  it('gives the notes of all reservations of a turn', async () => {
    const ids = [freshId(), freshId(), freshId()];
    const asked = ids.map((id) =>
      reserve(id, countersOf([fresh(), fresh()], { amount: 1 }), { note: `of ${id}` }),
    );
    await Promise.all(asked);
    const notes = await Promise.all(ids.map((id) => store.notes!.recall(id)));
    expect(notes).toEqual(ids.map((id) => `of ${id}`));
  });

  it('repeats a reservation with a note for a call without one', async () => {
    const id = freshId();
    const counters = countersOf([fresh()], { amount: 1 });
    await reserve(id, counters, { note: 'of it' });
    expect((await reserve(id, counters)).outcome).toBe('repeated');
    expect(await store.notes!.recall(id)).toBe('of it');
  });

  it('keeps a note of what holds nothing, the first of its id', async () => {
    const { notes } = store;
    const id = freshId();
    expect(await notes!.note(noteOf(id, 'of nothing: ü', 60_000))).toBeUndefined();
    expect(await notes!.note(noteOf(id, 'another', 60_000))).toBe('of nothing: ü');
    expect(await notes!.recall(id)).toBe('of nothing: ü');
    const counters = countersOf([fresh()], { amount: 1 });
    expect((await reserve(id, counters, { note: 'of it' })).outcome).toBe('conflict');
    expect(await look(counters)).toEqual([[0, 0, 0]]);
    const other = freshId();
    await reserve(other, counters, { note: 'of it' });
    expect(await notes!.note(noteOf(other, 'of nothing', 60_000))).toBe('of it');
  });

  it('counts exactly up to 2^53 - 1', async () => {
    const stem = fresh();
    const id = freshId();
    const bound = new FixedWindow(Number.MAX_SAFE_INTEGER);
    const counters = (amount?: number) => countersOf([stem], { bound, amount });
    await reserve(id, counters(Number.MAX_SAFE_INTEGER - 2));
    expect((await reserve(freshId(), counters(3))).outcome).toBe('refused');
    expect((await reserve(freshId(), counters(2))).outcome).toBe('reserved');
    await settle(id, counters(Number.MAX_SAFE_INTEGER));
    expect(await look(counters())).toEqual([[Number.MAX_SAFE_INTEGER, 2, 1]]);
  });

  it.each([
    ['a fixed window', new FixedWindow(10)],
    ['a sliding window', new SlidingWindow({ requests: 10, windowMicros: year })],
  ])('reserves on %s after refunds of more than a counter can hold', async (_, bound) => {
    const max = Number.MAX_SAFE_INTEGER;
    const stem = fresh();
    const key = `${stem}31536000:${kindOf(bound)}`;
    const hold = async (amount: number) => {
      const counters = [reservedCounter({ stem, bound, key, amount, isShadow: true })];
      return (await reserve(freshId(), counters)).outcome;
    };
    const refund = async () => {
      const given = { key, hits: max, limit: 10, bound: kindOf(bound) === 'fixed' ? undefined : bound };
      await submit(store, [counterOp({ ...given, negative: true, ttlSeconds: 7200 })]);
    };
    for (let times = 0; times < 3; times += 1) {
      expect(await hold(max)).toBe('reserved');
      await refund();
    }
    expect(await hold(3)).toBe('reserved');
    expect(await look([reservedCounter({ stem, bound, key })])).toEqual([[3, 3, 4]]);
  });

  it.each([
    ['a fixed window', new FixedWindow(Number.MAX_SAFE_INTEGER)],
    ['a sliding window', new SlidingWindow({ requests: Number.MAX_SAFE_INTEGER, windowMicros: year })],
  ])('leaves plain hits nothing of %s of 2^53 - 1 that is full', async (_, bound) => {
    const stem = fresh();
    const counter = (amount?: number) =>
      reservedCounter({ stem, bound, key: `${stem}31536000:${kindOf(bound)}`, amount });
    const passes = async (hits: number) => {
      const { key } = counter();
      const limit = bound.capacity;
      const given = {
        key,
        hits,
        limit,
        bound: kindOf(bound) === 'fixed' ? undefined : bound,
        ttlSeconds: 7200,
      };
      const [op] = await submit(store, [counterOp(given)]);
      expect(op!.error).toBeUndefined();
      return given.bound === undefined ? op!.after <= limit : !op!.over;
    };
    const id = freshId();
    await reserve(id, [counter(Number.MAX_SAFE_INTEGER - 9)]);
    expect(await passes(3)).toBe(true);
    expect((await reserve(freshId(), [counter(6)])).outcome).toBe('reserved');
    for (const hits of [1, 1, 6, Number.MAX_SAFE_INTEGER]) expect(await passes(hits)).toBe(false);
    await settle(id, [counter(0)]);
    expect(await passes(1)).toBe(true);
    expect(await look([counter()])).toEqual([[10, 6, 1]]);
  });

  it.each([
    ['a sliding window', new SlidingWindow({ requests: 10, windowMicros: year })],
    ['a bucket', new TokenBucket({ requests: 10, burst: 10, windowMicros: year })],
  ])('says of %s when the amount will fit', async (_, bound) => {
    const stem = fresh();
    const counter = (amount: number) =>
      reservedCounter({ stem, bound, key: `${stem}31536000:${kindOf(bound)}`, amount, ttlMs: 86_400_000 });
    await reserve(freshId(), [counter(7)]);
    const nowMicros = (clock?.nowMs() ?? Date.now()) * 1000;
    const held = bound.take(bound.stateAt(undefined, nowMicros), 7);
    for (const amount of [4, 5, 10, 11]) {
      const [refused] = (await reserve(freshId(), [counter(amount)])).counters;
      const wait = bound.untilRoomMicros(held, nowMicros, amount);
      expect(refused!.outcome).toBe('refused');
      // The clock of the store is another one, and has gone on.
      expect(Math.abs(refused!.waitMicros - wait)).toBeLessThan(60_000_000);
    }
  });

  it('gives a name to one caller alone', async () => {
    const name = fresh('claim');
    const claims = await Promise.all([1, 2, 3].map(() => store.claims!.claim(name, 60)));
    expect(claims.filter(Boolean)).toHaveLength(1);
    expect(await store.claims!.claim(name, 60)).toBe(false);
    expect(await store.claims!.claim(fresh('claim'), 60)).toBe(true);
  });

  /** Limits of which one is of each kind and two are fixed windows, whose windows the test turns. */
  const openScopes = () => {
    const windows = [0, 0];
    const scenario = randomUUID();
    const stems = ['user', 'team', 'sliding', 'bucket'].map((name) => fresh(`${scenario};${name}`));
    const bounds = [
      new FixedWindow(12_000),
      new FixedWindow(10_000),
      new SlidingWindow({ requests: 10_000, windowMicros: year }),
      // Never full by whole thousands, so that it does not matter what comes back to it meanwhile.
      new TokenBucket({ requests: 10_500, burst: 10_500, windowMicros: year }),
    ];
    const keyOf = (scope: number, window = windows[scope] ?? 0) =>
      scope < 2
        ? `${stems[scope]}3600:${3600 * window}`
        : `${stems[scope]}31536000:${kindOf(bounds[scope]!)}`;
    return {
      books: `weir:reserve:*${scenario}*`,
      turn: (scope: number) => {
        windows[scope]! += 1;
      },
      counters: (scopes: readonly number[], given: Partial<ReservedCounter> = {}) =>
        scopes.map((scope, group) => {
          return reservedCounter({
            stem: stems[scope]!,
            key: keyOf(scope),
            bound: bounds[scope]!,
            group,
            ...given,
          });
        }),
      modelled: (scopes: readonly number[]): ModelledScope[] =>
        scopes.map((scope) => ({
          stem: stems[scope]!,
          key: keyOf(scope),
          limit: bounds[scope]!.capacity,
          isBucket: kindOf(bounds[scope]!) === 'bucket',
          isSliding: kindOf(bounds[scope]!) === 'sliding',
        })),
    };
  };

  it('neither overspends nor leaks nor counts anything twice, in any order of things', async () => {
    const { recordMs } = suiteBounds;
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.subarray([0, 1, 2, 3], { minLength: 1 }), { minLength: 5, maxLength: 5 }),
        fc.array(anyStep, { minLength: 1, maxLength: 40 }),
        async (scopesById, steps) => {
          const model = new ReservationModel(recordMs);
          const scopes = openScopes();
          const ids = scopesById.map(freshId);
          const startMs = clock?.ms ?? 0;
          const under: Promise<void>[] = [];
          for (const step of steps) {
            // From then on its room and the amounts are equal, give or take what came back to it.
            if (model.wasEmptied) break;
            if (!step.isBeside || step.kind === 'hit' || step.kind === 'pass')
              await Promise.all(under.splice(0));
            const id = ids[step.id]!;
            // The last two are markers.
            const isMarker = step.id > 2;
            const its = scopesById[step.id]!;
            const modelled = scopes.modelled(its);
            if (step.kind === 'reserve') {
              const { amount, isShadow, onExpiry } = step;
              const ttlMs = step.ttlMs === 1000 && clock === undefined ? 0 : step.ttlMs;
              const terms = { ttlMs, onExpiry, isShadow };
              const descriptors = isMarker ? 0 : its.length;
              const call = reserveCall({
                id,
                isMarker,
                descriptors,
                counters: scopes.counters(its, { amount, ...terms }),
              });
              const outcome = model.reserve({
                ...{ id, isMarker, descriptors, scopes: modelled, amount },
                ...terms,
              });
              const stand = standOf(model, modelled);
              const isPartial = !onePlace && outcome === 'refused';
              const check = submitCall(store, call).then(() => {
                expect(call.outcome).toBe(outcome);
                if (!isPartial) expectStand(call.counters, stand);
                for (const [i, { used }] of call.counters.entries())
                  expect(used).toBeLessThanOrEqual(stand.max[i]!);
              });
              under.push(check);
            } else if (step.kind === 'settle') {
              const { actual, unknown } = step;
              const known = isMarker ? 0 : model.descriptorsOf(id);
              const named = known > 0 ? namedOf(its, step.names) : its;
              const descriptors = isMarker ? 0 : named.length;
              const about = { id, isMarker, descriptors, unknown };
              const call = settleCall({ ...about, counters: scopes.counters(named, { amount: actual }) });
              const answer = model.settle({ ...about, scopes: scopes.modelled(named), actual });
              const stand = standOf(model, scopes.modelled(named));
              const check = submitCall(store, call).then(() => {
                expect(call).toMatchObject(answer);
                expectStand(call.counters, stand);
              });
              under.push(check);
            } else if (step.kind === 'hit') {
              await usedAfterHits(scopes.counters(its)[0]!, step.amount, true);
              model.hit(modelled[0]!, step.amount);
            } else if (step.kind === 'turn') {
              scopes.turn(step.id % 2);
            } else if (clock !== undefined) {
              clock.ms += step.passMs;
              model.nowMs = clock.ms - startMs;
            }
            if (!onePlace) await Promise.all(under.splice(0));
          }
          await Promise.all(under);
          await expectSoundBooks?.(scopes.books);
          const all = [0, 1, 2, 3];
          if (clock !== undefined) {
            // Longer than any TTL.
            clock.ms += longTtlMs;
            model.nowMs += longTtlMs;
          }
          model.expire(scopes.modelled(all));
          const stand = standOf(model, scopes.modelled(all));
          const looked = await submitCall(store, lookCall(scopes.counters(all)));
          expectStand(looked.counters, stand);
          await expectSoundBooks?.(scopes.books);
          if (clock !== undefined) {
            for (const [, reserved, open] of stand.reported) expect([reserved, open]).toEqual([0, 0]);
          }
        },
      ),
      { numRuns: caseCount(clock === undefined ? 60 : 300) },
    );
  });
}

const longTtlMs = 3_600_000;

const thousands = (max: number) => fc.nat(max).map((n) => n * 1000);

/** The limits that a commit names: those of the reservation, or too few, or too many. */
function namedOf(scopes: readonly number[], names: 'all' | 'fewer' | 'more'): readonly number[] {
  if (names === 'more') return [0, 1, 2, 3];
  return names === 'fewer' && scopes.length > 1 ? scopes.slice(1) : scopes;
}

const anyStep = fc.record({
  kind: fc.oneof(
    { weight: 4, arbitrary: fc.constant('reserve' as const) },
    { weight: 4, arbitrary: fc.constant('settle' as const) },
    { weight: 1, arbitrary: fc.constantFrom('hit' as const, 'turn' as const, 'pass' as const) },
  ),
  id: fc.nat(4),
  amount: thousands(6),
  isShadow: fc.nat(9).map((n) => n === 0),
  /** The second becomes none where time cannot be set: it has gone by then. */
  ttlMs: fc.constantFrom(0, 1000, longTtlMs),
  onExpiry: fc.constantFrom('release' as const, 'charge' as const),
  actual: fc.option(thousands(8), { nil: undefined }),
  unknown: fc.constantFrom('charge' as const, 'report' as const),
  names: fc.oneof({ weight: 3, arbitrary: fc.constant('all' as const) }, fc.constantFrom('fewer', 'more')),
  passMs: fc.constantFrom(1, 999, 1000, 700_000),
  /** Handed over in the same turn as the one before. */
  isBeside: fc.boolean(),
});

/** What is used, reserved and open of each limit, and what may be used of it at most. */
function standOf(model: ReservationModel, scopes: readonly ModelledScope[]) {
  return {
    reported: scopes.map((scope) => model.reported(scope)),
    max: scopes.map((scope) => model.max(scope)),
  };
}

function expectStand(counters: readonly ReservedCounter[], { reported }: ReturnType<typeof standOf>): void {
  for (const [i, { bound, used, reserved, open }] of counters.entries()) {
    if (kindOf(bound) !== 'bucket') {
      expect([used, reserved, open]).toEqual(reported[i]);
      continue;
    }
    const [modelUsed, modelReserved, modelOpen] = reported[i]!;
    expect(open).toBe(modelOpen);
    expect(Math.abs(used - modelUsed)).toBeLessThan(100);
    expect(Math.abs(reserved - modelReserved)).toBeLessThan(100);
  }
}
