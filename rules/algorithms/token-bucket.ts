import { type ChangedNumbers, type LimitNumbers, product, type RuleAlgorithm, sumOf } from './algorithm.ts';

/** Refills tokens evenly, up to `burst`. */
export const tokenBucket: RuleAlgorithm = {
  steady: {
    keyWord: 'bucket',
    words: ({ burst, rate }) => `bucket: ${burst} when full, filled at ${rate}`,
  },
  countsAllHits: false,
  hasBurst: true,
  effect: 'after its burst, a bucket allows hits only as fast as it refills',
  isRate: true,
  maxAtOnce: ({ requests, burst }) => (requests > 0 ? burst : 0),
  isExact: isExactBucket,
  problem(numbers, { rate, hasBurst }) {
    if (isExactBucket(numbers)) return undefined;
    const words = `burst can be at most ${maxExactBurst(numbers)} at ${rate}, to be counted exactly`;
    return hasBurst
      ? `${words}, found ${numbers.burst}`
      : `${words}: the default is requests_per_unit; write a smaller burst`;
  },
  /** The burst grows and shrinks with the requests. */
  withRequests({ requests: former, burst, windowMicros }, requests) {
    const share = former === 0 ? requests : Math.ceil((burst / former) * requests);
    return withExactBurst({ requests, burst: Math.min(Number.MAX_SAFE_INTEGER, share), windowMicros });
  },
  withMore: (numbers, hits) => withExactBurst({ ...numbers, burst: sumOf(numbers.burst, hits) }),
  admitsAll({ algorithm, requests, atOnce, windows: { shortest } }, own, apart) {
    const isSlower = product(requests, own.windows.longest) <= product(own.requests, shortest);
    if (!isSlower) return false;
    if (algorithm.isRate) return atOnce <= own.atOnce;
    // Two neighboring windows meet at their ends. If clocks differ, more windows can meet.
    return product(requests, 2 * shortest + apart) <= product(own.atOnce, shortest);
  },
};

/** The last moment that a limiter has to count at: the year 2100. */
const latestMicros = Date.UTC(2100, 0) * 1000;

/**
 * Returns whether a bucket with these numbers can be counted, in microseconds and `requests`ths of a microsecond, without a
 * number beyond 2^53.
 */
export function isExactBucket({ requests, burst, windowMicros }: LimitNumbers): boolean {
  if (requests === 0) return true;
  const rest = burst * (windowMicros % requests);
  const whole = burst * Math.floor(windowMicros / requests);
  // The sum has two remainders, each less than `requests`.
  return (
    Math.max(2 * requests, rest, whole + Math.floor(rest / requests) + latestMicros) <=
    Number.MAX_SAFE_INTEGER
  );
}

/** Returns the largest exact burst, up to the burst of these numbers. 0 if no burst is exact. */
function maxExactBurst(numbers: LimitNumbers): number {
  let [max, tooMany] = [0, numbers.burst];
  while (tooMany - max > 1) {
    const middle = Math.floor((max + tooMany) / 2);
    if (isExactBucket({ ...numbers, burst: middle })) max = middle;
    else tooMany = middle;
  }
  return max;
}

/** The most requests of a window that a bucket of any burst can count exactly. */
const maxRequests = Math.floor(Number.MAX_SAFE_INTEGER / 2);

/** Returns the numbers with the largest burst that a bucket can count exactly at its rate. */
function withExactBurst(asked: LimitNumbers): ChangedNumbers {
  if (isExactBucket(asked)) return { requests: asked.requests, burst: asked.burst };
  const requests = Math.min(asked.requests, maxRequests);
  return { requests, burst: maxExactBurst({ ...asked, requests }) };
}
