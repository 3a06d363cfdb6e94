import { describe, expect, it, vi } from 'vitest';
import { counterOp, submit } from '../../../test/support/counter-ops.ts';
import { eventually } from '../../../test/support/eventually.ts';
import { HandDrivenStore } from '../../../test/support/hand-driven-store.ts';
import { ManualClock } from '../../../test/support/manual-clock.ts';
import { openMemoryStore } from '../../../test/support/open-memory-store.ts';
import {
  countersOf,
  type ReservedCounter,
  reserveCall,
  settleCall,
  submitCall,
} from '../../../test/support/reservation-calls.ts';
import { FixedWindow } from '../../algorithms/fixed-window.ts';
import { SlidingWindow } from '../../algorithms/sliding-window.ts';
import { failAll, isRejected, type Operation } from '../operation.ts';
import { countAll, type Store } from '../store.ts';
import { StoreError } from '../store-error.ts';
import { OwnerBounds } from './owner-bounds.ts';
import { ReservingStore, type ReservingStoreOptions } from './reserving-store.ts';

const stem = '1{llm;team=a}';
const fixed = { key: `${stem}3600:0`, counterStem: stem, limit: 10 };
const sliding = new SlidingWindow({ requests: 10, windowMicros: 3_600_000_000 });

/** A store whose bounds never apply. */
function reserving(
  store: Store,
  { looksFor = () => 'release', ...given }: Partial<ReservingStoreOptions> = {},
): ReservingStore {
  const max = { maxOfDomain: 1e9, maxOfCaller: 1e9, recordMs: 600_000 };
  const bounds = new OwnerBounds({ share: undefined, clock: new ManualClock(), ...max });
  return new ReservingStore({ store, bounds, looksFor, ...given });
}

function open({ maxReservations = 100 } = {}) {
  const clock = new ManualClock(Date.UTC(2026, 5));
  const kept = openMemoryStore({ clock, reservations: { maxReservations, recordMs: 600_000 } });
  const looks: string[][] = [];
  /** Looks that wait to be answered, if it is set. */
  const held: { looks?: (() => void)[] } = {};
  const watched: Store = {
    submit: (ops, options, done) => {
      if (ops[0]!.verb === 'look') looks.push(ops.map(({ key }) => key));
      const go = () => kept.submit(ops, options, done);
      if (ops[0]!.verb === 'look' && held.looks !== undefined) held.looks.push(go);
      else go();
    },
    ping: () => kept.ping(),
    close: () => kept.close(),
  };
  const corrected: string[] = [];
  const onCorrected = (ops: readonly Operation[]) => void corrected.push(...ops.map(({ key }) => key));
  const store = reserving(watched, { onCorrected });
  let ids = 0;
  const reserve = async (given: Partial<ReservedCounter>) => {
    ids += 1;
    const call = reserveCall({ id: `r${ids}`, counters: countersOf([stem], { ttlMs: 30_000, ...given }) });
    expect((await submitCall(kept, call)).outcome).toBe('reserved');
    return call.id;
  };
  return { clock, kept, store, looks, held, corrected, reserve };
}

/** Counts like the service: asks for expired amounts if the store reports that there may be any. */
async function count(store: ReservingStore, ops: Operation[], options = countAll): Promise<Operation[]> {
  await submit(store, ops, options);
  if (ops.some(({ hasExpired }) => hasExpired))
    await new Promise<void>((resolve) => store.giveBack(ops, options, resolve));
  expect(ops.filter(({ hasExpired }) => hasExpired)).toEqual([]);
  return ops;
}

describe('ReservingStore', () => {
  it('closes the store behind it', async () => {
    const inner = new HandDrivenStore();
    const closes = vi.spyOn(inner, 'close');
    await reserving(inner).close();
    expect(closes).toHaveBeenCalledOnce();
  });

  it('reads nothing that lets hits pass', async () => {
    const { store, looks, reserve } = open();
    await reserve({ amount: 4 });
    const [op] = await count(store, [counterOp({ ...fixed, hits: 6 })]);
    expect([op!.after, looks.length]).toEqual([10, 0]);
  });

  it('releases what has expired before it answers that an amount does not fit', async () => {
    const { clock, store, corrected, reserve } = open();
    await reserve({ amount: 8 });
    const ask = async () => (await count(store, [counterOp({ ...fixed, hits: 3 })]))[0]!;
    expect(await ask()).toMatchObject({ after: 11, mayReturn: true });
    expect(corrected).toEqual([]);
    clock.ms += 30_000;
    expect(await ask()).toMatchObject({ after: 6, mayReturn: false });
    expect(corrected).toEqual([fixed.key]);
  });

  it('counts hits once more that the total had no room for', async () => {
    const { clock, store, reserve } = open();
    const max = Number.MAX_SAFE_INTEGER;
    const ask = async (hits: number) =>
      (await count(store, [counterOp({ ...fixed, limit: max, hits })]))[0]!.after;
    const bound = new FixedWindow(max);
    await reserve({ amount: max, bound });
    expect(await ask(1)).toBe(max + 1);
    clock.ms += 30_000;
    expect([await ask(5), await ask(0)]).toEqual([5, 5]);
    await reserve({ amount: max - 5, bound });
    clock.ms += 30_000;
    expect([await ask(max), await ask(0)]).toEqual([max + 1, max]);
  });

  it('gives it to hits in their order', async () => {
    const { clock, store, reserve } = open();
    await reserve({ amount: 8 });
    clock.ms += 30_000;
    const ops = [3, 3, 3, 3].map((hits) => counterOp({ ...fixed, hits }));
    await count(store, ops);
    expect(ops.map(({ after }) => after)).toEqual([3, 6, 9, 12]);
  });

  it.each([
    ['a window that counts all hits', undefined],
    ['a bound', new FixedWindow(10)],
  ])('gives it to all requests that wait for it, with one look at %s', async (_, bound) => {
    const { clock, store, looks, held, reserve } = open();
    await reserve({ amount: 8 });
    clock.ms += 30_000;
    held.looks = [];
    const ops = [3, 3, 3].map((hits) => counterOp({ ...fixed, bound, hits }));
    const all = Promise.all(ops.map((op) => count(store, [op])));
    await eventually(() => expect(held.looks).toHaveLength(1));
    for (const look of held.looks) look();
    await all;
    expect(ops.map((op) => [op.after, isRejected(op)])).toEqual([
      [3, false],
      [6, false],
      [9, false],
    ]);
    expect(looks).toEqual([[fixed.key]]);
    await reserve({ amount: 1 });
    clock.ms += 30_000;
    const later = count(store, [counterOp({ ...fixed, bound, hits: 1 })]);
    await eventually(() => expect(held.looks).toHaveLength(2));
    held.looks[1]!();
    expect((await later)[0]!.after).toBe(10);
  });

  it.each([
    ['a window that counts all hits', undefined],
    ['a bound', new FixedWindow(10)],
  ])('finds what another limiter gave back before, for %s', async (_, bound) => {
    const { clock, kept, store, reserve } = open();
    await reserve({ amount: 8 });
    clock.ms += 30_000;
    const ops = [1, 2].map(() => counterOp({ ...fixed, bound, hits: 3 }));
    for (const op of ops) await submit(store, [op]);
    expect(ops.map(isRejected)).toEqual([true, true]);
    for (const [op, limiter] of [
      [ops[0]!, store],
      [ops[1]!, reserving(kept)],
    ] as const)
      await new Promise<void>((resolve) => limiter.giveBack([op], countAll, resolve));
    expect(ops.map((op) => [op.after, isRejected(op)])).toEqual([
      [3, false],
      [6, false],
    ]);
  });

  it.each([
    ['a window that counts all hits', undefined],
    ['a bound', new FixedWindow(10)],
  ])('makes no room in %s by a refund of the same request', async (_, bound) => {
    const { store, reserve } = open();
    await reserve({ amount: 8 });
    const ops = [
      counterOp({ ...fixed, bound, hits: 3 }),
      counterOp({ ...fixed, bound, hits: 9, negative: true }),
    ];
    await count(store, ops);
    expect(ops.map(isRejected)).toEqual([true, false]);
  });

  it('stays over limit if another limiter gave back less than is needed', async () => {
    const { clock, kept, store, reserve } = open();
    await submit(kept, [counterOp({ ...fixed, hits: 8 })]);
    await reserve({ amount: 1 });
    clock.ms += 30_000;
    const ops = [1, 2].map(() => counterOp({ ...fixed, hits: 2 }));
    for (const op of ops) await submit(store, [op]);
    await new Promise<void>((resolve) => reserving(kept).giveBack([ops[0]!], countAll, resolve));
    await new Promise<void>((resolve) => store.giveBack([ops[1]!], countAll, resolve));
    expect(ops.map((op) => [op.after, isRejected(op)])).toEqual([
      [10, false],
      [12, true],
    ]);
  });

  it('looks again for hits that a look did not precede as a whole', async () => {
    const inner = new HandDrivenStore();
    const store = reserving(inner);
    const rejected = () => counterOp({ ...fixed, after: 11, hasExpired: true });
    const ops = [rejected(), rejected(), rejected()];
    const ask = (op: Operation) => new Promise<void>((resolve) => store.giveBack([op], countAll, resolve));
    const first = ask(ops[0]!);
    const [look] = inner.requests[0]!.ops;
    look!.hold!.reservation.hasMore = true;
    const second = ask(ops[1]!);
    const [another] = inner.requests[1]!.ops;
    look!.hold!.reservation.hasMore = false;
    look!.hold!.givenBack = 9;
    inner.requests[0]!.answer(8);
    await first;
    const third = ask(ops[2]!);
    expect(inner.requests).toHaveLength(2);
    another!.hold!.givenBack = 3;
    inner.requests[1]!.answer(8);
    await Promise.all([second, third]);
    expect(ops.map(({ after }) => after)).toEqual([2, 8, 8]);
  });

  it('counts hits again that a bound rejected', async () => {
    const { clock, store, looks, reserve } = open();
    const key = `${stem}3600:sliding`;
    await reserve({ key, bound: sliding, amount: 8 });
    const group = () => [
      counterOp({ ...fixed, hits: 4, bound: new FixedWindow(10), groupSize: 2 }),
      counterOp({ key, counterStem: stem, hits: 4, bound: sliding, limit: 10, groupSize: 2 }),
    ];
    expect((await count(store, group())).map(({ over }) => over)).toEqual([false, true]);
    clock.ms += 30_000;
    const again = await count(store, group());
    expect(again.map(({ over, applied, after }) => [over, applied, after])).toEqual([
      [false, 4, 4],
      [false, 4, 4],
    ]);
    expect(looks).toEqual([[key], [key]]);
  });

  it('counts what was held back by what is no longer over', async () => {
    const { clock, store, reserve } = open();
    await reserve({ amount: 8 });
    clock.ms += 30_000;
    const ops = [
      counterOp({ ...fixed, hits: 3 }),
      counterOp({ key: '1{llm;user=b}3600:0', limit: 10, hits: 3 }),
    ];
    await count(store, ops, { stopWhenOver: true });
    expect(ops.map(({ applied, after }) => [applied, after])).toEqual([
      [3, 3],
      [3, 3],
    ]);
  });

  it('lets be remembered only what has no reservations', async () => {
    const { kept, store, looks, reserve } = open();
    const id = await reserve({ amount: 8 });
    const ask = async () =>
      (await count(store, [counterOp({ ...fixed, hits: 3, bound: new FixedWindow(10) })]))[0]!;
    expect([(await ask()).mayReturn, looks.length]).toEqual([true, 1]);
    await submitCall(kept, settleCall({ id, counters: countersOf([stem], { amount: 8 }) }));
    expect([(await ask()).mayReturn, looks.length]).toEqual([false, 2]);
  });

  it.each([
    ['while reservations cannot be asked', true],
    ['where nobody can reserve, and may be remembered', false],
  ])('answers as it was %s', async (_, transient) => {
    const { kept, store, reserve } = open();
    await reserve({ amount: 8 });
    const counts = kept.submit.bind(kept);
    kept.submit = (ops, options, done) => {
      if (ops[0]!.verb !== 'look') return counts(ops, options, done);
      failAll(ops, new StoreError('away', { transient }));
      done();
    };
    const [op] = await count(store, [counterOp({ ...fixed, hits: 3 })]);
    expect(op).toMatchObject({ after: 11, mayReturn: transient, error: undefined });
  });

  it('leaves errors and what has no reservations as they are', async () => {
    const inner = new HandDrivenStore();
    const store = reserving(inner, { looksFor: () => undefined });
    const refused = count(store, [counterOp({ ...fixed, hasExpired: true })]);
    inner.answerAll(11);
    expect((await refused)[0]).toMatchObject({ after: 11, mayReturn: false });
    const failed = count(store, [counterOp({ ...fixed })]);
    const error = new StoreError('away', { transient: true });
    inner.requests[0]!.fail(error);
    expect((await failed)[0]!.error).toBe(error);
    expect(store.connected).toBe(true);
    inner.connected = false;
    expect(store.connected).toBe(false);
  });
});
