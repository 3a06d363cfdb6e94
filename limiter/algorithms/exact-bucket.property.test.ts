import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { isExactBucket } from '../../rules/algorithms/token-bucket.ts';
import { type BucketCase, bucketCases } from '../../test/stores/algorithm-cases.ts';
import { caseCount } from '../../test/support/property-cases.ts';
import type { CounterState } from './algorithm-bound.ts';
import { TokenBucket } from './token-bucket.ts';

/** A token bucket in whole numbers without a bound. Times are parts of a microsecond, `requests` of the limit to each. */
class ExactBucket {
  readonly parts: bigint;
  readonly capacity: bigint;
  readonly #token: bigint;
  readonly #now: bigint;

  constructor({ numbers: { requests, burst, windowMicros }, nowMicros }: BucketCase) {
    this.parts = BigInt(Math.max(1, requests));
    this.capacity = requests === 0 ? 0n : BigInt(burst);
    this.#token = BigInt(windowMicros);
    this.#now = BigInt(nowMicros) * this.parts;
  }

  /** The rest that was written by another limit is rounded up. */
  time([whole, rest, parts]: CounterState): bigint {
    if (BigInt(parts) === this.parts) return BigInt(whole) * this.parts + BigInt(rest);
    return BigInt(whole + Math.sign(rest)) * this.parts;
  }

  state(time: bigint): bigint {
    return min(max(time, this.#now), this.#now + this.capacity * this.#token);
  }

  room(time: bigint): bigint {
    return this.capacity - this.#missing(time);
  }

  take(time: bigint, hits: bigint): bigint {
    return time + hits * this.#token;
  }

  giveBack(time: bigint, hits: bigint): bigint {
    return max(this.#now, time - hits * this.#token);
  }

  giveBackOf({ charge, returned, hits }: BucketCase, time: bigint): { time: bigint; given: bigint } {
    const since = this.time(returned) - this.time(charge.returned);
    const ofOthers = min(since, min(this.capacity, BigInt(charge.others)) * this.#token);
    const own = this.state(this.state(this.time(charge.held)) - ofOthers);
    const given = min(BigInt(hits), this.#missing(own));
    return { time: this.state(time - min(given * this.#token, own - this.#now)), given };
  }

  untilRoom(time: bigint, hits: bigint): bigint {
    return up(max(0n, this.take(time, hits) - this.#now - this.capacity * this.#token), this.parts);
  }

  untilUnused(time: bigint): bigint {
    return up(time - this.#now, this.parts);
  }

  /** Tokens, each of which is missing until all of it is back. */
  #missing(time: bigint): bigint {
    return up(time - this.#now, this.#token);
  }
}

const min = (a: bigint, b: bigint): bigint => (a < b ? a : b);
const max = (a: bigint, b: bigint): bigint => (a > b ? a : b);
const up = (amount: bigint, unit: bigint): bigint => (amount + unit - 1n) / unit;

function forEachCase(check: (one: BucketCase, exact: ExactBucket, held: CounterState) => void): void {
  fc.assert(
    fc.property(bucketCases, (one) => {
      check(one, new ExactBucket(one), one.bound.stateAt(one.held, one.nowMicros));
    }),
    { numRuns: caseCount(2000) },
  );
}

describe('a token bucket computes what whole numbers without a bound give', () => {
  it('as its state and its room, also from what another limit left', () => {
    forEachCase(({ bound, held: before, nowMicros }, exact, held) => {
      expect(exact.time(held)).toBe(exact.state(before === undefined ? 0n : exact.time(before)));
      expect(held[1]).toBeLessThan(held[2]);
      expect(BigInt(bound.room(held, nowMicros))).toBe(exact.room(exact.time(held)));
      expect(bound.used(held, bound.room(held, nowMicros))).toBe(
        bound.capacity - bound.room(held, nowMicros),
      );
      expect(bound.maxTaken(held, nowMicros)).toBe(bound.room(held, nowMicros));
    });
  });

  it('when hits are taken or given back', () => {
    forEachCase(({ bound, hits, nowMicros }, exact, held) => {
      const few = Math.min(hits, bound.room(held, nowMicros));
      expect(exact.time(bound.take(held, few))).toBe(exact.take(exact.time(held), BigInt(few)));
      const given = bound.giveBack(held, hits, nowMicros);
      expect(exact.time(given)).toBe(exact.giveBack(exact.time(held), BigInt(hits)));
      for (const [, rest, parts] of [bound.take(held, few), given]) {
        expect(BigInt(parts)).toBe(exact.parts);
        expect(rest).toBeLessThan(parts);
        expect(rest).toBeGreaterThanOrEqual(0);
      }
    });
  });

  it('when a reservation releases what it took, if that has not refilled', () => {
    forEachCase((one, exact, held) => {
      const { bound, charge, hits, returned, nowMicros } = one;
      const back = bound.giveBackOf(charge, { held, hits, returned, nowMicros });
      const expected = exact.giveBackOf(one, exact.time(held));
      expect(BigInt(back.given)).toBe(expected.given);
      expect(exact.time(back.held)).toBe(expected.time);
      const returnedNow = exact.time(back.returned) - exact.time(returned);
      expect(returnedNow).toBe(exact.time(held) - expected.time);
      if (back.given > 0) expect(back.returned[1]).toBeLessThan(back.returned[2]);
    });
  });

  it('as the wait for hits, and for a full bucket', () => {
    forEachCase(({ bound, numbers, hits, nowMicros }, exact, held) => {
      for (const asked of [1, hits, bound.capacity]) {
        const expected =
          asked > bound.capacity
            ? BigInt(numbers.windowMicros)
            : exact.untilRoom(exact.time(held), BigInt(asked));
        expect(BigInt(bound.untilRoomMicros(held, nowMicros, asked))).toBe(expected);
      }
      expect(BigInt(bound.untilUnusedMicros(held, nowMicros))).toBe(exact.untilUnused(exact.time(held)));
    });
  });

  it('as its room around the moment when a token is back, with numbers of any size', () => {
    const sizes = fc.oneof(fc.integer({ min: 1, max: 50 }), fc.integer({ min: 1, max: 10_000_000 }));
    const windows = fc.integer({ min: 1, max: 40_000_000 }).map((seconds) => seconds * 1_000_000);
    const numbers = fc
      .record({ requests: sizes, burst: sizes, windowMicros: windows })
      .filter((one) => isExactBucket(one));
    const share = fc.double({ min: 0, max: 1, noNaN: true });
    fc.assert(
      fc.property(numbers, share, fc.constantFrom(-1n, 0n, 1n), (one, freeShare, laterParts) => {
        const bound = new TokenBucket(one);
        const [parts, token] = [BigInt(one.requests), BigInt(one.windowMicros)];
        const full = BigInt(one.burst) * token;
        const free = BigInt(Math.floor(freeShare * one.burst)) * token;
        const time = max(0n, min(full, full - free + laterParts));
        const held: CounterState = [Number(time / parts), Number(time % parts), one.requests];
        expect(BigInt(bound.room(held, 0))).toBe((full - time) / token);
      }),
      { numRuns: caseCount(2000) },
    );
  });
});
