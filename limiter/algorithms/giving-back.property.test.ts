import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type BoundModel, BucketModel, SlidingModel } from '../../test/stores/counter-model.ts';
import { counterOp } from '../../test/support/counter-ops.ts';
import { ManualClock } from '../../test/support/manual-clock.ts';
import { openMemoryStore } from '../../test/support/open-memory-store.ts';
import { caseCount } from '../../test/support/property-cases.ts';
import {
  lookCall,
  reserveCall,
  reservedCounter,
  sendCall,
  settleCall,
  type TestCall,
} from '../../test/support/reservation-calls.ts';
import type { AlgorithmBound } from './algorithm-bound.ts';
import { SlidingWindow } from './sliding-window.ts';
import { TokenBucket } from './token-bucket.ts';

const step = fc.record({
  kind: fc.constantFrom(
    'reserve' as const,
    'reserve' as const,
    'settle' as const,
    'settle' as const,
    'hit' as const,
  ),
  amount: fc.nat(9),
  /** The position among the open reservations, in thousandths. `needed` is in thousandths of the amount. */
  which: fc.nat(999),
  needed: fc.constantFrom(0, 0, 300, 1000),
  passMs: fc.constantFrom(0, 0, 300, 1700, 5000),
  ttlMs: fc.constantFrom(3000, 100_000, 100_000),
  onExpiry: fc.constantFrom('release' as const, 'charge' as const),
});

interface Event {
  readonly atMicros: number;
  hits: number;
}

interface Played {
  readonly events: readonly Event[];
  /** The used hits of the counter at the end, and that time. */
  readonly used: number;
  readonly endMicros: number;
}

/** Returns the final amount of every call, at the time when it was made. */
function played(
  bound: AlgorithmBound,
  steps: readonly (typeof step extends fc.Arbitrary<infer T> ? T : never)[],
): Played {
  const clock = new ManualClock(Date.UTC(2026, 5));
  const memory = openMemoryStore({ clock, reservations: { maxReservations: 1000, recordMs: 1_000_000 } });
  const events: Event[] = [];
  const made: {
    dueMs: number;
    onExpiry: 'release' | 'charge';
    event: Event;
    isSettled: boolean;
    id: string;
    amount: number;
  }[] = [];
  const counter = { stem: '1{a;b=c}', key: '1{a;b=c}10:kind', bound };
  const submit = (call: TestCall): TestCall => {
    sendCall(memory, call, () => {});
    return call;
  };
  for (const { kind, amount, which, needed, passMs, ttlMs, onExpiry } of steps) {
    clock.ms += passMs;
    const atMicros = clock.ms * 1000;
    if (kind === 'hit') {
      const { key, stem: counterStem } = counter;
      const op = counterOp({ key, counterStem, bound, hits: amount, limit: bound.capacity });
      memory.submit([op], { stopWhenOver: false }, () => {});
      events.push({ atMicros, hits: op.applied });
    } else if (kind === 'reserve') {
      const id = `r${events.length}`;
      const counters = [reservedCounter({ ...counter, amount, ttlMs, onExpiry })];
      const { outcome } = submit(reserveCall({ id, counters }));
      const isReserved = outcome === 'reserved';
      const event = { atMicros, hits: isReserved ? amount : 0 };
      events.push(event);
      if (isReserved) made.push({ id, amount, dueMs: clock.ms + ttlMs, onExpiry, event, isSettled: false });
    } else {
      // A commit in time, of at most the reserved amount.
      const open = made.filter(({ isSettled, dueMs }) => !isSettled && dueMs > clock.ms);
      const one = open[Math.floor((which * open.length) / 1000)];
      if (one === undefined) continue;
      const actual = Math.floor((one.amount * needed) / 1000);
      const call = settleCall({ id: one.id, counters: [reservedCounter({ ...counter, amount: actual })] });
      expect(submit(call).outcome).toBe('settled');
      one.event.hits = actual;
      one.isSettled = true;
    }
  }
  const look = lookCall([reservedCounter(counter)]);
  sendCall(memory, look, () => {});
  for (const { isSettled, dueMs, onExpiry, event } of made) {
    if (!isSettled && dueMs <= clock.ms && onExpiry === 'release') event.hits = 0;
  }
  return { events, used: look.counters[0]!.used, endMicros: clock.ms * 1000 };
}

function expectAllowed({ events, used, endMicros }: Played, capacity: number, model: BoundModel): void {
  for (const { atMicros, hits } of events) {
    expect(model.room(atMicros)).toBeGreaterThanOrEqual(BigInt(hits));
    model.take(atMicros, hits);
  }
  expect(BigInt(capacity - used)).toBeLessThanOrEqual(model.room(endMicros));
}

describe('what reservations give back', () => {
  it.each([
    [7, 10, 10_000_000],
    [1000, 12, 1_000_000_000],
    [3, 3, 1_000_000],
  ])(
    'to a bucket of %d and burst %d in %d µs allows no more than had been known before',
    (requests, burst, windowMicros) => {
      const bound = new TokenBucket({ requests, burst, windowMicros });
      fc.assert(
        fc.property(fc.array(step, { maxLength: 25 }), (steps) => {
          expectAllowed(played(bound, steps), bound.capacity, new BucketModel(requests, burst, windowMicros));
        }),
        { numRuns: caseCount(500) },
      );
    },
  );

  it('to a sliding window allows no more than had been known before', () => {
    const bound = new SlidingWindow({ requests: 20, windowMicros: 5_000_000 });
    fc.assert(
      fc.property(fc.array(step, { maxLength: 25 }), (steps) => {
        expectAllowed(played(bound, steps), bound.capacity, new SlidingModel(20, 5_000_000));
      }),
      { numRuns: caseCount(500) },
    );
  });
});
