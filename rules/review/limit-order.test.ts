import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { AlgorithmBound, CounterState } from '../../limiter/algorithms/algorithm-bound.ts';
import { FixedWindow } from '../../limiter/algorithms/fixed-window.ts';
import { SlidingWindow } from '../../limiter/algorithms/sliding-window.ts';
import { TokenBucket } from '../../limiter/algorithms/token-bucket.ts';
import { caseCount } from '../../test/support/property-cases.ts';
import { type LimitParts, limit } from '../../test/support/rule-builder.ts';
import { Algorithm } from '../algorithms/registry.ts';
import { limitWords } from '../describe.ts';
import type { Limit } from '../model.ts';
import { secondsOfLimit } from '../window.ts';
import { covers, maxAtOnce } from './limit-order.ts';

const { FIXED_WINDOW, SLIDING_WINDOW, TOKEN_BUCKET } = Algorithm;
const of = (requestsPerUnit: number, unit: string, more: LimitParts = {}): Limit =>
  limit({ requestsPerUnit, unit, ...more });
const sliding = { algorithm: SLIDING_WINDOW };
const zurich = (startsOn: number): LimitParts => ({
  calendar: { unit: 'month', timezone: 'Europe/Zurich', startsOn },
});
const bucket = (burst: number): LimitParts => ({ algorithm: TOKEN_BUCKET, burst });

describe('a limit covers another', () => {
  it.each([
    [of(100, 'minute'), of(6000, 'hour'), true],
    [of(100, 'minute'), of(5999, 'hour'), false],
    [of(100, 'minute', { unitMultiplier: 7 }), of(1000, 'hour'), true],
    [of(100, 'minute', { unitMultiplier: 7 }), of(999, 'hour'), false],
    [of(100, 'hour'), of(100, 'minute'), true],
    [of(10, 'day'), of(310, 'month'), true],
    [of(10, 'day'), of(309, 'month'), false],
    [of(10, 'week'), of(60, 'month'), true],
    [of(10, 'week'), of(59, 'month'), false],
    [of(0, 'day'), of(1, 'second'), true],
    [of(10, 'second', bucket(50)), of(650, 'minute', sliding), true],
    [of(10, 'second', bucket(50)), of(649, 'minute', sliding), false],
    [of(10, 'second', bucket(50)), of(650, 'minute'), false],
    [of(10, 'second', bucket(50)), of(1850, 'minute'), true],
    [of(10, 'second', bucket(50)), of(600, 'minute', bucket(50)), true],
    [of(10, 'second', bucket(50)), of(600, 'minute', bucket(49)), false],
    [of(100, 'hour', sliding), of(100, 'minute', sliding), true],
    [of(1_000_000, 'day', sliding), of(1_000_000, 'day', sliding), true],
    [of(999_999, 'day', sliding), of(1_000_000, 'day', sliding), true],
    [of(999_999_999, 'year', sliding), of(1_000_000_000, 'year', sliding), false],
    [of(5, 'month'), of(5, 'month'), true],
    [of(5, 'month', zurich(1)), of(5, 'month', zurich(1)), true],
    [of(5, 'month', zurich(1)), of(5, 'month', zurich(15)), false],
    [of(5, 'month', zurich(1)), of(5, 'month'), false],
    [of(5, 'month', zurich(1)), of(5, 'day'), false],
    [of(5, 'month', zurich(1)), of(10, 'day'), true],
    [of(10, 'day'), of(329, 'month', zurich(1)), false],
    [of(10, 'day'), of(330, 'month', zurich(1)), true],
    [of(100, 'hour', sliding), of(199, 'minute', bucket(199)), false],
    [of(100, 'hour', sliding), of(200, 'minute', bucket(200)), true],
    [of(100, 'hour'), of(200, 'minute', bucket(203)), false],
    [of(100, 'hour'), of(200, 'minute', bucket(204)), true],
  ])('%o, %o: %s', (one, other, expected) => {
    expect(covers(one, other)).toBe(expected);
  });

  it('by one clock if a sliding window takes the place of a fixed one', () => {
    expect(covers(of(100, 'minute', sliding), of(100, 'minute'), true)).toBe(true);
    expect(covers(of(100, 'minute', sliding), of(100, 'minute'))).toBe(false);
    expect(covers(of(100, 'minute'), of(100, 'minute', sliding), true)).toBe(false);
  });
});

/** A counter of the stores, on a limiter's or the store's clock. */
class Counter {
  readonly #limit: Limit;
  readonly #bound: AlgorithmBound;
  readonly #held = new Map<number, CounterState>();

  constructor(one: Limit) {
    const requests = one.requestsPerUnit;
    const windowMicros = secondsOfLimit(one) * 1e6;
    this.#limit = one;
    if (one.algorithm === FIXED_WINDOW) this.#bound = new FixedWindow(requests);
    else if (one.algorithm === SLIDING_WINDOW) this.#bound = new SlidingWindow({ requests, windowMicros });
    else this.#bound = new TokenBucket({ requests, burst: maxAtOnce(one), windowMicros });
  }

  room(storeMicros: number, limiterMicros: number): number {
    return this.#bound.room(this.#stateAt(storeMicros, limiterMicros), storeMicros);
  }

  add(hits: number, storeMicros: number, limiterMicros: number): void {
    const held = this.#stateAt(storeMicros, limiterMicros);
    const next = hits < 0 ? this.#bound.giveBack(held, -hits, storeMicros) : this.#bound.take(held, hits);
    this.#held.set(this.#windowAt(limiterMicros), next);
  }

  #stateAt(storeMicros: number, limiterMicros: number): CounterState {
    return this.#bound.stateAt(this.#held.get(this.#windowAt(limiterMicros)), storeMicros);
  }

  #windowAt(micros: number): number {
    return this.#limit.algorithm === FIXED_WINDOW
      ? Math.floor(micros / secondsOfLimit(this.#limit) / 1e6)
      : 0;
  }
}

const anyLimit = (unit: string) =>
  fc
    .record({
      unitMultiplier: fc.integer({ min: 1, max: 6 }),
      requestsPerUnit: fc.oneof(fc.nat(4), fc.nat(40)),
      algorithm: fc.constantFrom(FIXED_WINDOW, SLIDING_WINDOW, TOKEN_BUCKET),
      burst: fc.option(fc.oneof(fc.nat(4), fc.nat(40)), { nil: undefined }),
    })
    .map(({ burst, ...traits }) =>
      limit({ ...traits, unit, burst: traits.algorithm === TOKEN_BUCKET ? burst : undefined }),
    );

const step = fc.record({
  /** Of the larger unit: many hits at one moment, and pauses around an edge. */
  pass: fc.oneof({ weight: 2, arbitrary: fc.constant(0) }, fc.double({ min: 0, max: 3, noNaN: true })),
  hits: fc.oneof(fc.nat(3), fc.integer({ min: -4, max: 40 })),
  limiter: fc.nat(2),
});

describe.each([
  { unit: 'second', isOneClock: true, apart: 0 },
  { unit: 'minute', isOneClock: false, apart: 119 },
])('what a limit covers, in $unit s and with clocks $apart s apart', ({ unit, isOneClock, apart }) => {
  it('never limits what it lets pass', () => {
    let [covered, passed] = [0, 0];
    const cases = fc.record({
      limits: fc.tuple(anyLimit(unit), anyLimit(unit)),
      steps: fc.array(step, { minLength: 40, maxLength: 80 }),
    });
    fc.assert(
      fc.property(cases, ({ limits, steps }) => {
        const [one, other] = limits;
        if (!covers(one, other, isOneClock)) return;
        covered++;
        const [tight, loose] = [new Counter(one), new Counter(other)];
        let now = 1e15;
        for (const { pass, hits, limiter } of steps) {
          now += Math.round(pass * secondsOfLimit(limit({ unit })) * 1e6);
          const at = [now, now + (limiter * apart * 1e6) / 2] as const;
          // A limiter of another clock could give back in another window than the hits were counted in.
          if (hits < 0 ? apart > 0 : hits > tight.room(...at)) continue;
          if (hits > 0) passed++;
          if (hits > 0 && hits > loose.room(...at))
            throw new Error(`${limitWords(other)} refuses ${hits} beside ${limitWords(one)}`);
          for (const counter of [tight, loose]) counter.add(hits, ...at);
        }
      }),
      { numRuns: caseCount(4_000) },
    );
    expect(covered).toBeGreaterThan(caseCount(500));
    expect(passed).toBeGreaterThan(caseCount(1_000));
  });
});
