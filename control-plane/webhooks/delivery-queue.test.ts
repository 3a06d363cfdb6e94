import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { DeliveryQueue, type DeliveryQueueOptions } from './delivery-queue.ts';

type Message = { id: string };
const message = (id: string): Message => ({ id });

function queue(options: Partial<DeliveryQueueOptions> = {}): DeliveryQueue<Message> {
  return new DeliveryQueue({ capacity: 10, concurrency: 2, maxAgeMs: 60_000, random: () => 1, ...options });
}

function filled(ids: string, options: Partial<DeliveryQueueOptions> = {}): DeliveryQueue<Message> {
  const one = queue(options);
  for (const id of ids) one.add(message(id), 0);
  return one;
}

const taken = (one: DeliveryQueue<Message>, nowMs: number): string | undefined => {
  const next = one.take(nowMs);
  return next === undefined ? undefined : `${next.message.id}${next.attempt}`;
};

describe('DeliveryQueue', () => {
  it('hands out the oldest first, as many as may be in flight', () => {
    const one = filled('abc');
    expect([taken(one, 0), taken(one, 0), taken(one, 0)]).toEqual(['a1', 'b1', undefined]);
    one.delivered('a', 0);
    expect(taken(one, 0)).toBe('c1');
    expect(one.size).toBe(2);
  });

  it('drops the oldest that waits when it is full', () => {
    const one = filled('abc', { capacity: 2, concurrency: 1 });
    expect(one.size).toBe(2);
    expect(taken(one, 0)).toBe('b1');
    expect(one.add(message('d'), 0)).toEqual([]);
    expect(one.add(message('e'), 0)).toEqual([message('c')]);
  });

  it('drops what failed when younger ones have filled it meanwhile', () => {
    const one = filled('a', { capacity: 1, concurrency: 1 });
    taken(one, 0);
    one.add(message('b'), 0);
    expect(one.failed('a', 0, { side: 'event' }).dropped).toEqual([message('a')]);
    expect(taken(one, 0)).toBe('b1');
  });

  it('holds one event once', () => {
    const one = filled('aa');
    expect(one.size).toBe(1);
    taken(one, 0);
    one.add(message('a'), 0);
    expect(one.size).toBe(1);
  });

  it('tries again later and later', () => {
    const one = filled('a');
    let nowMs = 0;
    const waits = [1, 2, 3, 4].map(() => {
      taken(one, nowMs);
      const { retryInMs } = one.failed('a', nowMs, { side: 'endpoint' });
      expect(one.dueMs).toBe(nowMs + retryInMs);
      expect(taken(one, nowMs + retryInMs - 1)).toBeUndefined();
      nowMs += retryInMs;
      return retryInMs;
    });
    expect(waits).toEqual([1_000, 2_000, 4_000, 8_000]);
    expect(taken(one, nowMs)).toBe('a5');
  });

  it('delivers other events before one that is rejected', () => {
    const one = filled('ab', { concurrency: 1 });
    taken(one, 0);
    one.failed('a', 0, { side: 'event' });
    expect(taken(one, 0)).toBe('b1');
    one.delivered('b', 0);
    expect(one.dueMs).toBe(1_000);
  });

  it('tries one at a time while the endpoint fails', () => {
    const one = filled('abcd', { concurrency: 3 });
    for (const id of 'abc') expect(taken(one, 0)).toBe(`${id}1`);
    for (const id of 'abc') one.failed(id, 0, { side: 'endpoint' });
    expect(taken(one, 0)).toBeUndefined();
    // Three failures at once are one failure of the endpoint.
    expect(one.dueMs).toBe(1_000);
    expect([taken(one, 1_000), taken(one, 1_000)]).toEqual(['a2', undefined]);
    one.delivered('a', 1_100);
    expect([taken(one, 1_100), taken(one, 1_100), taken(one, 1_100)]).toEqual(['b2', 'c2', 'd1']);
  });

  it('does not let what failed for long wait on once the endpoint is well', () => {
    const one = filled('ab', { maxAgeMs: 1e9, concurrency: 1 });
    let nowMs = 0;
    for (let i = 0; i < 20; i++) {
      const { message: tried } = one.take(nowMs) as { message: Message };
      one.failed(tried.id, nowMs, { side: 'endpoint' });
      nowMs = one.dueMs as number;
    }
    const { message: first } = one.take(nowMs) as { message: Message };
    one.delivered(first.id, nowMs);
    expect(one.dueMs).toBeLessThanOrEqual(nowMs + 30_000);
  });

  it('waits as long as the endpoint asks', () => {
    const one = filled('ab', { concurrency: 1 });
    taken(one, 0);
    expect(one.failed('a', 0, { side: 'endpoint', retryAfterMs: 20_000 }).retryInMs).toBe(20_000);
    expect(one.dueMs).toBe(20_000);
    expect(taken(one, 19_999)).toBeUndefined();
    expect(taken(one, 20_000)).toBe('a2');
  });

  it('gives up what is too old, but not what is in flight', () => {
    const one = filled('ab', { concurrency: 1 });
    one.add(message('c'), 30_000);
    taken(one, 60_000);
    expect(one.expire(60_000)).toEqual([]);
    expect(one.expire(60_001)).toEqual([message('b')]);
    expect(one.size).toBe(2);
  });

  it('gives out what waits at the end', () => {
    const one = filled('abc', { concurrency: 1 });
    taken(one, 0);
    expect(one.clear()).toEqual([message('b'), message('c')]);
    one.discard('a');
    expect([one.size, one.inFlight, one.dueMs]).toEqual([0, 0, undefined]);
  });

  it('accounts for every event, whatever happens', () => {
    const step = fc.oneof(
      fc.constant('add'),
      fc.constant('take'),
      fc.constantFrom('delivered', 'endpoint', 'event', 'discard'),
      fc.constant('expire'),
      fc.integer({ min: 1, max: 5_000 }),
    );
    fc.assert(
      fc.property(fc.array(step, { maxLength: 200 }), fc.integer({ min: 1, max: 3 }), (steps, capacity) => {
        const one = queue({ capacity, maxAgeMs: 8_000 });
        let [nowMs, added, gone] = [0, 0, 0];
        const flying: string[] = [];
        for (const what of steps) {
          if (typeof what === 'number') nowMs += what;
          else if (what === 'add') gone += one.add(message(`m${added++}`), nowMs).length;
          else if (what === 'expire') gone += one.expire(nowMs).length;
          else if (what === 'take') {
            const next = one.take(nowMs);
            if (next !== undefined) flying.push(next.message.id);
          } else {
            const id = flying.shift();
            if (id === undefined) continue;
            if (what === 'delivered') one.delivered(id, nowMs);
            else if (what === 'discard') one.discard(id);
            if (what === 'delivered' || what === 'discard') gone += 1;
            else gone += one.failed(id, nowMs, { side: what as 'event' | 'endpoint' }).dropped.length;
          }
          expect(one.inFlight).toBe(flying.length);
          expect(one.size).toBe(added - gone);
          expect(one.size - one.inFlight).toBeLessThanOrEqual(capacity);
          const { dueMs } = one;
          if (dueMs !== undefined && dueMs > nowMs) expect(one.take(nowMs)).toBeUndefined();
        }
      }),
    );
  });
});
