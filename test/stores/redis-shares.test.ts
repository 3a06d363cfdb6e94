/** Messages about shares to ledgers: a Redis answers them as memory does. */
import fc from 'fast-check';
import { Redis } from 'ioredis';
import { expect, it, onTestFinished } from 'vitest';
import { MemoryStore } from '../../limiter/stores/memory/memory-store.ts';
import { newLeaseTerms, newOperation, type Operation, plainCounter } from '../../limiter/stores/operation.ts';
import { systemClock } from '../../process/time/clock.ts';
import { submit } from '../support/counter-ops.ts';
import { describeWithServer } from '../support/describe-with-server.ts';
import { redisProgram } from '../support/find-server.ts';
import { caseCount } from '../support/property-cases.ts';
import { startRedis } from '../support/redis-server.ts';
import { openRedisStore } from '../support/redis-stores.ts';

describeWithServer('shares in Redis', redisProgram, (path) => {
  it('are charged and granted as in memory', async () => {
    const server = await startRedis({ path });
    onTestFinished(() => server.stop());
    const redis = await openRedisStore({ url: `127.0.0.1:${server.port}` });
    onTestFinished(() => redis.close());
    const client = new Redis(server.port, '127.0.0.1', { protocol: 2 });
    onTestFinished(() => client.disconnect());
    const memory = new MemoryStore({ clock: systemClock, maxCounters: 1e5, maxBytes: 1e8, ledgers: true });
    const message = fc.record({
      limiter: fc.constantFrom('one', 'two', 'three'),
      late: fc.nat(9).map((n) => (n === 0 ? 4 : 0)),
      newlySpent: fc.nat(9),
      keeps: fc.nat(15),
      want: fc.nat(40),
      charged: fc.integer({ min: -20, max: 20 }),
      hungry: fc.nat(3_000),
      direct: fc.nat(3),
    });
    let cases = 0;
    await fc.assert(
      fc.asyncProperty(fc.array(message, { minLength: 1, maxLength: 20 }), async (all) => {
        cases += 1;
        const key = `shared-${cases}`;
        const spent = new Map<string, number>();
        let sequence = 10;
        for (const { limiter, late, newlySpent, direct, ...reported } of all) {
          sequence += 1;
          spent.set(limiter, (spent.get(limiter) ?? 0) + newlySpent);
          const ops = [0, 1].map((): Operation => {
            const op = newOperation(plainCounter(key, { perSecond: false, capacity: 60 }), key, 'add', 0, 60);
            const by = { ledgerKey: `weir:lease:{${key}}`, limiter, sequence: sequence - late };
            op.lease = newLeaseTerms({
              ...reported,
              ...by,
              spent: spent.get(limiter)!,
              limit: 60,
              livesMs: 60_000,
            });
            return op;
          });
          await submit(redis, [ops[0]!]);
          await submit(memory, [ops[1]!]);
          expect(ops[0]!.lease).toEqual(ops[1]!.lease);
          for (const store of [redis, memory])
            await submit(store, [
              newOperation(plainCounter(key, { perSecond: false }), key, 'add', direct, 60),
            ]);
          expect(Number(await client.get(key))).toBe(memory.look(key)?.[0]);
        }
      }),
      { numRuns: caseCount(25) },
    );
  });
});
