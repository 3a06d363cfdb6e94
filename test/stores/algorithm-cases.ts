/** What the formulas of the algorithms are asked: states of counters and charges as stores hold them, also by other limits. */
import fc from 'fast-check';
import {
  type AlgorithmBound,
  type Charge,
  type CounterState,
  largestExactNumber,
} from '../../limiter/algorithms/algorithm-bound.ts';
import { FixedWindow } from '../../limiter/algorithms/fixed-window.ts';
import { SlidingWindow } from '../../limiter/algorithms/sliding-window.ts';
import { TokenBucket } from '../../limiter/algorithms/token-bucket.ts';
import type { LimitNumbers } from '../../rules/algorithms/algorithm.ts';
import { isExactBucket } from '../../rules/algorithms/token-bucket.ts';

/** 2026-11-22T12:00:00Z and a bit. */
const start = 1_795_348_800_123_456;

export interface AlgorithmCase {
  bound: AlgorithmBound;
  held: CounterState | undefined;
  nowMicros: number;
  hits: number;
  charge: Charge;
  returned: CounterState;
}

export interface BucketCase extends AlgorithmCase {
  numbers: LimitNumbers;
}

const count = fc.oneof(fc.nat(4), fc.nat(30), fc.nat(1_000_000));
const seconds = fc.oneof(fc.constantFrom(1, 30, 60, 3600), fc.integer({ min: 1, max: 100_000 }));

export const fixedCases: fc.Arbitrary<AlgorithmCase> = fc
  .record({ requests: count, total: fc.option(count, { nil: undefined }), hits: count })
  .map(({ requests, total, hits }) => ({
    ...{ bound: new FixedWindow(requests), hits, nowMicros: start, returned: [0, 0, 1] },
    held: total === undefined ? undefined : [total, 0, 0],
    charge: { held: [0, 0, 0], taken: hits, others: 0, returned: [0, 0, 1] },
  }));

export const slidingCases: fc.Arbitrary<AlgorithmCase> = fc
  .record({
    requests: fc.oneof(count, fc.constant(largestExactNumber)),
    length: seconds,
    /** Of the counter and of the charge, in windows after the current one. */
    at: fc.integer({ min: -3, max: 3 }),
    chargedAt: fc.integer({ min: -3, max: 2 }),
    counts: fc.option(fc.tuple(count, fc.oneof(count, fc.constant(largestExactNumber))), { nil: undefined }),
    laterMicros: fc.nat(1e9),
    hits: count,
  })
  .map(({ requests, length, at, chargedAt, counts, laterMicros, hits }) => {
    const windowMicros = length * 1_000_000;
    const nowMicros = start + laterMicros;
    const window = Math.floor(nowMicros / windowMicros);
    return {
      ...{ bound: new SlidingWindow({ requests, windowMicros }), hits, nowMicros, returned: [0, 0, 1] },
      held: counts && [window + at, ...counts],
      charge: { held: [window + chargedAt, 0, 0], taken: hits, others: 0, returned: [0, 0, 1] },
    };
  });

interface BucketTime {
  /** Of the time that fills the bucket. */
  share: number;
  /** Of a microsecond. */
  rest: number;
  /** Parts of a microsecond that another limit had more. */
  others: number;
  /** Rounds to the moment at which a token is back, and so many parts of a microsecond later. Ignores `rest` and `others`. */
  edge: number | undefined;
}

const time: fc.Arbitrary<BucketTime> = fc.record({
  share: fc.oneof(fc.double({ min: 0, max: 1.3, noNaN: true }), fc.constantFrom(0, 1)),
  rest: fc.double({ min: 0, max: 0.999, noNaN: true }),
  others: fc.constantFrom(0, 0, 0, 1, 5),
  edge: fc.option(fc.constantFrom(-1, 0, 1), { nil: undefined }),
});

const size = fc.oneof(
  fc.nat(20),
  fc.integer({ min: 1, max: 10_000 }),
  fc.integer({ min: 1, max: 10_000_000 }),
);
const bucketNumbers = fc
  .record({
    requests: size,
    burst: size,
    length: seconds,
  })
  .map(({ requests, burst, length }) => ({ requests, burst, windowMicros: length * 1_000_000 }))
  .filter(isExactBucket);

export const bucketCases: fc.Arbitrary<BucketCase> = fc
  .record({
    numbers: bucketNumbers,
    held: fc.option(time, { nil: undefined }),
    charged: time,
    returnedBefore: time,
    returnedSince: time,
    others: fc.nat(20),
    hits: fc.oneof(fc.nat(20), fc.nat(10_000)),
    isEarlier: fc.boolean(),
  })
  .map(({ numbers, held, charged, returnedBefore, returnedSince, others, hits, isEarlier }) => {
    const parts = Math.max(1, numbers.requests);
    const bound = new TokenBucket(numbers);
    const full = bound.untilUnusedMicros(bound.take([0, 0, parts], bound.capacity), 0);
    const timeOf = ({ share, rest, others: more, edge }: BucketTime): CounterState => {
      if (edge === undefined)
        return [Math.floor(full * share), Math.floor(rest * (parts + more)), parts + more];
      const tokens = Math.floor(share * bound.capacity);
      const time = BigInt(tokens) * BigInt(numbers.windowMicros) + BigInt(tokens > 0 ? edge : 0);
      return [Number(time / BigInt(parts)), Number(time % BigInt(parts)), parts];
    };
    const at = ([whole, rest, ofParts]: CounterState): CounterState => [start + whole, rest, ofParts];
    const before = timeOf(returnedBefore);
    const since = timeOf(returnedSince);
    return {
      ...{ numbers, bound, hits, nowMicros: start },
      held: held && (isEarlier ? [start - 5, 0, numbers.requests] : at(timeOf(held))),
      charge: { held: at(timeOf(charged)), taken: hits, others, returned: before },
      // What was returned never becomes less.
      returned: [before[0] + since[0], since[2] === before[2] ? Math.max(before[1], since[1]) : 0, before[2]],
    };
  });
