/** Leases in a real Redis: what the script does to counter and ledger, and limiters that race, die and lose their Redis. */
import { readFileSync } from 'node:fs';
import fc from 'fast-check';
import { Redis } from 'ioredis';
import { afterAll, beforeAll, expect, it, onTestFinished } from 'vitest';
import { LeaseStore } from '../../limiter/leases/lease-store.ts';
import { FoldedRun } from '../../limiter/stores/folded-run.ts';
import { newLeaseTerms, type Operation } from '../../limiter/stores/operation.ts';
import { systemClock, systemTimers } from '../../process/time/clock.ts';
import { counterOp, type GivenOperation, submit } from '../support/counter-ops.ts';
import { describeWithEachRedis } from '../support/describe-with-each-redis.ts';
import { LedgerModel } from '../support/lease-ledger.ts';
import { ManualTimers } from '../support/manual-timers.ts';
import { caseCount } from '../support/property-cases.ts';
import { type RedisServer, startRedis } from '../support/redis-server.ts';
import { openRedisStore } from '../support/redis-stores.ts';

const storePage = new URL('../../docs/store.md', import.meta.url);

describeWithEachRedis('leases in Redis', (path) => {
  let server: RedisServer;
  let client: Redis;

  beforeAll(async () => {
    server = await startRedis({ path });
    client = new Redis(server.port, '127.0.0.1', { protocol: 2 });
  });
  afterAll(async () => {
    client.disconnect();
    await server.stop();
  });

  /** A limiter whose time stands still until it is reported. */
  async function newLimiter(limiter: string): Promise<{ leases: LeaseStore; timers: ManualTimers }> {
    const timers = new ManualTimers();
    const store = await openRedisStore({ url: `127.0.0.1:${server.port}` });
    const clock = { monotonicMs: () => timers.nowMs };
    const leases = new LeaseStore({ store, clock, timers, limiter, maxCounters: 100 });
    onTestFinished(() => leases.close());
    return { leases, timers };
  }

  async function count(leases: LeaseStore, given: GivenOperation): Promise<Operation> {
    const [op] = await submit(leases, [counterOp({ limit: 100, maxLease: 10, mayReturn: true, ...given })]);
    if (op!.error !== undefined) throw op!.error;
    return op!;
  }

  it('leases what was used in the last second, and gives it back after an idle one', async () => {
    const { leases, timers } = await newLimiter('common');
    expect(await count(leases, { key: 'common' })).toMatchObject({ after: 1, leased: 0, fromLease: false });
    expect(await count(leases, { key: 'common' })).toMatchObject({ after: 2, leased: 2, fromLease: false });
    expect(await client.get('common')).toBe('4');
    expect(await client.hgetall('weir:lease:{common}')).toEqual({ t: '2', n: '1', common: '1 2 0' });
    const op = counterOp({ key: 'common', limit: 100, maxLease: 10 });
    let isAnswered = false;
    leases.submit([op], { stopWhenOver: false }, () => {
      isAnswered = true;
    });
    expect(isAnswered).toBe(true);
    expect(op).toMatchObject({ after: 3, leased: 1, fromLease: true, error: undefined });
    timers.advance(1250);
    expect(await count(leases, { key: 'common', hits: 0 })).toMatchObject({ after: 3 });
    expect(await client.exists('weir:lease:{common}')).toBe(0);
    expect(leases.book).toMatchObject({ granted: 2, spent: 1, returned: 1, lostAtMost: 0, outstanding: 0 });
  });

  it('leases what is left divided by those that lease, and nothing if that is less than each may have', async () => {
    const { leases: one } = await newLimiter('one');
    const { leases: two } = await newLimiter('two');
    expect(await count(one, { key: 'near', hits: 60 })).toMatchObject({ after: 60, leased: 10 });
    expect(await count(two, { key: 'near' })).toMatchObject({ after: 71, leased: 0, mayReturn: true });
    const over = await count(two, { key: 'near', hits: 20, limit: 90 });
    expect(over).toMatchObject({ after: 91, leased: 0, mayReturn: true });
    expect(await count(one, { key: 'near', hits: 10 })).toMatchObject({ after: 70, fromLease: true });
    expect(await count(one, { key: 'near' })).toMatchObject({ after: 92, leased: 0, mayReturn: false });
  });

  it('takes hits back down to what is leased, whichever limiter takes them back', async () => {
    const { leases: one } = await newLimiter('one');
    const { leases: two } = await newLimiter('two');
    await count(one, { key: 'refunded', hits: 2 });
    expect(await count(one, { key: 'refunded', hits: 3 })).toMatchObject({ after: 5, leased: 5 });
    expect(await count(two, { key: 'refunded', hits: 4, negative: true })).toMatchObject({ after: 6 });
    expect(await count(two, { key: 'refunded', hits: 4, negative: true, maxLease: 0 })).toMatchObject({
      after: 5,
    });
    expect(await count(one, { key: 'refunded', hits: 3 })).toMatchObject({ after: 8, fromLease: true });
    // It reports what it spent, so that can be taken back.
    expect(await count(one, { key: 'refunded', hits: 9, negative: true })).toMatchObject({
      after: 0,
      leased: 8,
    });
  });

  it('ends leases with their rules, and answers the limits of others as ever', async () => {
    const { leases } = await newLimiter('ends');
    await count(leases, { key: 'ends', hits: 5 });
    expect(await count(leases, { key: 'ends', limit: 12 })).toMatchObject({ after: 11, fromLease: false });
    expect(await count(leases, { key: 'ends' })).toMatchObject({ after: 6, fromLease: true });
    leases.endAll();
    expect(await count(leases, { key: 'ends' })).toMatchObject({ after: 8, fromLease: false });
  });

  it('counts on beside a ledger that somebody spoilt', async () => {
    const { leases } = await newLimiter('common');
    const ledger = 'weir:lease:{spoilt}';
    const spoil = [
      () => client.hdel(ledger, 'n'),
      () => client.hset(ledger, 't', 'x'),
      () => client.hset(ledger, 'common', 'x'),
      () => client.set(ledger, 'x'),
      () => client.del(ledger),
    ];
    let hits = 0;
    for (const one of spoil) {
      for (let i = 0; i < 9; i += 1) {
        hits += 1;
        expect((await count(leases, { key: 'spoilt', limit: 1000 })).after).toBeGreaterThanOrEqual(hits);
      }
      await one();
    }
    await count(leases, { key: 'spoilt', limit: 1000 });
  });

  it.each([
    ['counts every hit as it comes where the user may not touch ledgers', ['~count*'], 0],
    ['leases with a user who may do what docs/store.md says', ['~*'], 2],
  ])('%s', async (_, keys, granted) => {
    const commands = /ACL SETUSER weir on >\S+ ~\* (.*)/
      .exec(readFileSync(storePage, 'utf8'))![1]!
      .split(' ');
    await client.call('ACL', 'SETUSER', 'weir', 'reset', 'on', '>secret', ...keys, ...commands);
    const refusals: string[] = [];
    const store = await openRedisStore(
      { url: `127.0.0.1:${server.port}`, auth: 'weir:secret' },
      { onLeasesRejected: (reason) => refusals.push(reason) },
    );
    const leases = new LeaseStore({
      store,
      clock: systemClock,
      timers: systemTimers,
      limiter: 'weir',
      maxCounters: 9,
    });
    onTestFinished(() => leases.close());
    const key = `counted-${granted}`;
    expect(await count(leases, { key, hits: 2 })).toMatchObject({ after: 2, leased: granted });
    expect(await count(leases, { key, hits: 2 })).toMatchObject({ after: 4, leased: 0 });
    expect(leases.book).toMatchObject({ granted, spent: granted });
    expect(await count(leases, { key: `${key}-too`, hits: 2 })).toMatchObject({ after: 2, leased: granted });
    expect(refusals.length).toBe(granted === 0 ? 1 : 0);
  });

  it('changes counter and ledger as intended', async () => {
    const message = fc.record({
      limiter: fc.constantFrom('one', 'two', 'three'),
      /** Behind or before the last one that was sent. */
      late: fc.nat(9).map((n) => (n === 0 ? 2 : 0)),
      isUnanswered: fc.nat(5).map((n) => n === 0),
      newlySpent: fc.nat(6),
      want: fc.nat(6),
      limit: fc.constantFrom(20, 60),
      forgets: fc.boolean(),
      isFloor: fc.nat(6).map((n) => n === 0),
      ops: fc.array(fc.record({ hits: fc.nat(6), negative: fc.nat(4).map((n) => n === 0) }), {
        minLength: 1,
        maxLength: 3,
      }),
      loses: fc.constantFrom(...Array<''>(14).fill(''), 'counter', 'ledger'),
    });
    let cases = 0;
    const store = await openRedisStore({ url: `127.0.0.1:${server.port}` });
    onTestFinished(() => store.close());
    await fc.assert(
      fc.asyncProperty(fc.array(message, { minLength: 1, maxLength: 25 }), async (all) => {
        cases += 1;
        const key = `random-${cases}`;
        const ledgerKey = `weir:lease:{${key}}`;
        const model = new LedgerModel();
        const spent = new Map<string, number>();
        let sequence = 10;
        for (const { limiter, late, isUnanswered, isFloor, ops, loses, newlySpent, ...reported } of all) {
          sequence += 1;
          const asks = [0, 1].map(() =>
            newLeaseTerms({
              ...{ ...reported, ledgerKey, limiter, max: 6 },
              spent: (spent.get(limiter) ?? 0) + newlySpent,
              sequence: isFloor ? 0 : sequence - late,
            }),
          );
          const [script, plain] = asks.map((lease) => {
            const both = ops.map((op) => counterOp({ key, ...op, lease }));
            const run = new FoldedRun(both[0]!);
            for (const op of both.slice(1)) run.add(op);
            return { run, ops: both };
          });
          await submit(store, script!.ops);
          model.apply(plain!.run);
          expect(script!.ops).toEqual(plain!.ops);
          if (!isUnanswered && late === 0 && !isFloor)
            spent.set(limiter, (spent.get(limiter) ?? 0) + newlySpent);
          expect(await client.get(key)).toBe(model.value === undefined ? null : String(model.value));
          const { t = '0', n = '0', ...own } = await client.hgetall(ledgerKey);
          const told0 = [...model.grants].filter(([, { granted }]) => granted > 0);
          expect(Number(t)).toBe(model.outstanding);
          expect(Number(n)).toBe(told0.length);
          for (const [name, { granted }] of told0)
            expect(own[name]).toMatch(new RegExp(`^\\d+ ${granted} \\d+$`));
          if (t !== '0') expect(await client.pttl(ledgerKey)).toBeGreaterThan(0);
          if (loses === 'counter') {
            await client.del(key);
            model.value = undefined;
          } else if (loses === 'ledger') {
            await client.del(ledgerKey);
            model.grants.clear();
          }
        }
      }),
      { numRuns: caseCount(60) },
    );
  });
});
