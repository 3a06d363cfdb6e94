/**
 * Limiters with leases and one store. It loses messages, replies and limiters, receives some messages late, and its counters are reset.
 */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { counterOp } from '../../test/support/counter-ops.ts';
import { LedgerModel } from '../../test/support/lease-ledger.ts';
import { ManualTimers } from '../../test/support/manual-timers.ts';
import { caseCount } from '../../test/support/property-cases.ts';
import { FoldedRun } from '../stores/folded-run.ts';
import { failOp, type Operation } from '../stores/operation.ts';
import type { Store } from '../stores/store.ts';
import { StoreError } from '../stores/store-error.ts';
import { LeaseBook, returnsPerSweep } from './lease-book.ts';
import { LeaseStore } from './lease-store.ts';

const lost = new StoreError('the reply was lost', { transient: true });
const notSent = new StoreError('not sent', { transient: true, notCounted: true });

/** What happens to a request at the store. */
type Fate = 'answered' | 'reply lost' | 'lost' | 'not sent' | 'late';

interface Request {
  readonly ops: readonly Operation[];
  /** The counters that applied it, while its reply is in flight. */
  appliedTo?: readonly LedgerModel[];
  done(): void;
}

interface Limiter {
  readonly store: LeaseStore;
  readonly link: LossyStore;
  readonly uses: Map<string, [number, number][]>;
  /** The counters that granted its hits, by key, and the resets of which it was not notified. */
  readonly grantedBy: Map<string, LedgerModel>;
  readonly unreported: Set<string>;
}

class LossyStore implements Store {
  readonly waiting: Request[] = [];

  submit(ops: Operation[], _options: unknown, done: () => void): void {
    this.waiting.push({ ops, done });
  }

  async ping(): Promise<void> {}

  async close(): Promise<void> {}
}

interface Hit {
  limiter: number;
  key: number;
  hits: number;
  negative: boolean;
  strict: boolean;
}

/** One store, some limiters, and the answers of all. */
class World {
  readonly timers = new ManualTimers();
  readonly counters = new Map<string, LedgerModel>();
  readonly limiters: Limiter[] = [];
  /** Requests written to connections that were closed. */
  readonly late: Request[] = [];
  wasLate = false;
  /** Hits that passed, by counter and limit, and those of them that leases covered. After a reset, a counter is another one. */
  readonly passed = new Map<LedgerModel, Map<number, number>>();
  readonly spent = new Map<LedgerModel, number>();
  /** Counters that were reset, by key. */
  readonly former = new Map<string, LedgerModel[]>();
  #started = 0;

  constructor(count: number) {
    for (let i = 0; i < count; i += 1) this.start(i);
  }

  start(at: number): void {
    const link = new LossyStore();
    const clock = { monotonicMs: () => this.timers.nowMs };
    const limiter = `limiter-${this.#started++}`;
    const store = new LeaseStore({ store: link, clock, timers: this.timers, limiter, maxCounters: 2 });
    this.limiters[at] = { store, link, uses: new Map(), grantedBy: new Map(), unreported: new Set() };
  }

  counter(key: string): LedgerModel {
    const counter = this.counters.get(key) ?? new LedgerModel();
    this.counters.set(key, counter);
    return counter;
  }

  reset(number: number): void {
    const key = `key-${number}`;
    const counter = this.counters.get(key);
    if (counter !== undefined) this.former.set(key, [...(this.former.get(key) ?? []), counter]);
    this.counters.delete(key);
    for (const { unreported } of this.limiters) unreported.add(key);
  }

  reportResets({ store, unreported }: Limiter): void {
    store.cancel([...unreported]);
    unreported.clear();
  }

  hit({ limiter, key: number, hits, negative, strict }: Hit): void {
    const { store, link, uses, grantedBy, unreported } = this.limiters[limiter]!;
    const key = `key-${number}`;
    const limit = strict ? 30 : 60;
    const op = counterOp({ key, hits, negative, limit, maxLease: strict ? 3 : 6 });
    let request: Request | undefined;
    if (!negative) uses.set(key, [...(uses.get(key) ?? []), [this.timers.nowMs, hits]]);
    store.submit([op], { stopWhenOver: false }, () => {
      if (op.error !== undefined || negative || op.after > limit) return;
      const counter = op.fromLease ? grantedBy.get(key)! : request!.appliedTo![0]!;
      const passed = this.passed.get(counter) ?? new Map<number, number>();
      this.passed.set(counter, passed.set(limit, (passed.get(limit) ?? 0) + hits));
      if (!op.fromLease) return;
      this.spent.set(counter, (this.spent.get(counter) ?? 0) + hits);
      if (!unreported.has(key)) expect(counter).toBe(this.counter(key));
    });
    request = link.waiting.at(-1);
    const want = request?.ops[0] === op ? (op.lease?.want ?? 0) : 0;
    const lastSecond = (uses.get(key) ?? []).filter(([atMs]) => atMs > this.timers.nowMs - 1000);
    expect(want).toBeLessThanOrEqual(lastSecond.reduce((sum, [, one]) => sum + one, 0));
    expect(want).toBeLessThanOrEqual(op.counter.maxLease);
  }

  deliver({ link, grantedBy }: Limiter, fate: Fate): void {
    const request = link.waiting.shift();
    if (request === undefined) return;
    if (fate === 'answered' || fate === 'reply lost') this.apply(request);
    else if (fate === 'late' && request.appliedTo === undefined) {
      this.wasLate = true;
      this.late.push({ ops: request.ops.map((op) => ({ ...op })), done: () => {} });
    }
    if (fate !== 'answered') {
      const isNotSent = fate === 'not sent' && request.appliedTo === undefined;
      for (const op of request.ops) failOp(op, isNotSent ? notSent : lost);
    }
    for (const [index, { key, lease, error }] of request.ops.entries())
      if (lease !== undefined && lease.granted > 0 && error === undefined)
        grantedBy.set(key, request.appliedTo![index]!);
    request.done();
    this.check();
  }

  apply(request: Request): void {
    request.appliedTo ??= request.ops.map((op) => {
      const counter = this.counter(op.key);
      counter.apply(new FoldedRun(op));
      return counter;
    });
    this.check();
  }

  /**
   * Returns the hits that a counter may have too many. A message that arrives after a reset is granted hits of the new counter, which
   * cannot detect that the message is old. Hits that its limiter spent of the counter before count as spent of that grant.
   */
  maxTooMany(key: string): number {
    const former = this.wasLate ? (this.former.get(key) ?? []) : [];
    return former.reduce((sum, counter) => sum + (this.spent.get(counter) ?? 0), 0);
  }

  check(): void {
    for (const [key, counter] of this.counters) {
      const { value = 0, counted, outstanding } = counter;
      const spent = this.spent.get(counter) ?? 0;
      expect(value).toBeGreaterThanOrEqual(counted + spent);
      expect(value).toBeLessThanOrEqual(counted + spent + outstanding + this.maxTooMany(key));
      expect(value).toBeGreaterThanOrEqual(outstanding);
    }
  }
}

const limiter = fc.nat(2);
const fate = fc.constantFrom<Fate>(
  'answered',
  'answered',
  'answered',
  'reply lost',
  'lost',
  'not sent',
  'late',
);
const step = fc.oneof(
  {
    weight: 12,
    arbitrary: fc.record({
      is: fc.constant('hit' as const),
      limiter,
      key: fc.nat(2).map((key) => Math.min(1, key)),
      hits: fc.constantFrom(1, 1, 1, 2, 5),
      negative: fc.nat(9).map((n) => n === 0),
      strict: fc.nat(4).map((n) => n === 0),
    }),
  },
  { weight: 10, arbitrary: fc.record({ is: fc.constant('deliver' as const), limiter, fate }) },
  {
    weight: 3,
    arbitrary: fc.record({ is: fc.constant('later' as const), ms: fc.constantFrom(10, 250, 700, 1500) }),
  },
  { weight: 1, arbitrary: fc.record({ is: fc.constant('late' as const), at: fc.nat(5) }) },
  { weight: 1, arbitrary: fc.record({ is: fc.constant('rules' as const), limiter }) },
  { weight: 3, arbitrary: fc.record({ is: fc.constant('arrive' as const), limiter }) },
  { weight: 1, arbitrary: fc.record({ is: fc.constant('reset' as const), key: fc.nat(1) }) },
  { weight: 2, arbitrary: fc.record({ is: fc.constant('report' as const), limiter }) },
  { weight: 1, arbitrary: fc.record({ is: fc.constant('kill' as const), limiter, isApplied: fc.boolean() }) },
);

describe('LeaseStore', () => {
  it('charges the counter with every hit and every lease, whatever is lost or reset', () => {
    const steps = fc.array(step, { minLength: 1, maxLength: 120, size: 'max' });
    fc.assert(
      fc.property(steps, (all) => {
        const world = new World(3);
        let refunds = false;
        for (const one of all) {
          if (one.is === 'hit') {
            refunds ||= one.negative;
            world.hit(one);
          } else if (one.is === 'deliver') {
            world.deliver(world.limiters[one.limiter]!, one.fate);
          } else if (one.is === 'later') {
            world.timers.advance(one.ms);
          } else if (one.is === 'late') {
            for (const request of world.late.splice(one.at, 1)) world.apply(request);
          } else if (one.is === 'rules') {
            world.limiters[one.limiter]!.store.endAll();
          } else if (one.is === 'arrive') {
            const next = world.limiters[one.limiter]!.link.waiting.find((request) => !request.appliedTo);
            if (next !== undefined) world.apply(next);
          } else if (one.is === 'reset') {
            world.reset(one.key);
          } else if (one.is === 'report') {
            world.reportResets(world.limiters[one.limiter]!);
          } else {
            const killed = world.limiters[one.limiter]!;
            while (killed.link.waiting.length > 0)
              world.deliver(killed, one.isApplied ? 'reply lost' : 'lost');
            world.start(one.limiter);
          }
          world.check();
        }
        if (!refunds) {
          for (const byLimit of world.passed.values())
            for (const [limit, passed] of byLimit) expect(passed).toBeLessThanOrEqual(limit);
        }
        settle(world);
        const killed = all.some(({ is }) => is === 'kill');
        for (const [key, counter] of world.counters) {
          const { value = 0, counted, outstanding } = counter;
          if (killed) continue;
          // A take that arrives after its counter ended, or before it began, finds no ledger that detects that it is old.
          if (!all.some((one) => one.is === 'deliver' && one.fate === 'late')) expect(outstanding).toBe(0);
          const owned = counted + (world.spent.get(counter) ?? 0) + outstanding;
          expect(value).toBeGreaterThanOrEqual(owned);
          expect(value).toBeLessThanOrEqual(owned + world.maxTooMany(key));
        }
        for (const { store } of world.limiters) expect(store.book.outstanding).toBe(0);
      }),
      { numRuns: caseCount(200) },
    );
  });
});

/** The store answers everything from now on, and all leases are given back. */
function settle(world: World): void {
  for (const request of world.late.splice(0)) world.apply(request);
  for (const one of world.limiters) {
    world.reportResets(one);
    one.store.endAll();
  }
  for (let round = 0; round < 12; round += 1) {
    for (const one of world.limiters) while (one.link.waiting.length > 0) world.deliver(one, 'answered');
    world.timers.advance(250);
  }
}

describe('LeaseBook', () => {
  const leased = (count: number, ttlSeconds: number): LeaseBook => {
    const book = new LeaseBook({ limiter: 'one', maxCounters: count });
    for (let i = 0; i < count; i += 1) {
      const op = counterOp({ key: `key-${i}`, hits: 2, limit: 1000, maxLease: 5, ttlSeconds });
      book.spend(op);
      const ask = book.ask(op, 0)!;
      book.answered(op.key, Object.assign(ask, { granted: 2, top: 4 }), undefined);
    }
    return book;
  };

  it('returns no more leases at a time than callers can wait for, and all of them at the end', () => {
    const count = 20 * returnsPerSweep;
    const book = leased(count, 3600);
    let back = 0;
    for (let ms = 1_500; book.outstanding > 0 && ms < 30_000; ms += 250) {
      const returns = book.sweep(ms);
      expect(returns.length).toBeLessThanOrEqual(returnsPerSweep);
      for (const { key, lease } of returns)
        book.answered(key, Object.assign(lease!, { granted: 0 }), undefined);
      back += returns.length;
    }
    expect([back, book.returned]).toEqual([count, 2 * count]);
    expect(leased(count, 3600).sweep(1, true)).toEqual([]);
    const ending = leased(count, 3600);
    ending.endAll();
    // This holds even before the lease was given back.
    expect(ending.spend(counterOp({ key: 'key-1', limit: 1000, maxLease: 5 }))).toBe(false);
    expect(ending.sweep(1, true)).toHaveLength(count);
  });

  it('has given back what is left when its window ends', () => {
    const book = leased(3, 1);
    expect(book.sweep(1_500)).toEqual([]);
    expect(book).toMatchObject({ granted: 6, returned: 6, lostAtMost: 0, outstanding: 0, counters: 0 });
  });
});
