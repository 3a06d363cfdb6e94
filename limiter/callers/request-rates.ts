/**
 * Requests a second of each caller, in memory that all threads of the process share: a bucket refills at its rate and
 * holds what one second brings. Two words a bucket: what is in it, in thousandths of a request, and the millisecond
 * up to which it was refilled, so that a rate of whole requests a second brings whole thousandths each millisecond.
 */

const wordsPerBucket = 2;
const wholeRequest = 1_000;
/** Chosen: two threads' clocks never differ so much; beyond it the word of the time has come round after weeks. */
const mostSkewMs = 60_000;

/** So that a full bucket fits into its word. */
export const mostRequestsPerSecond = 1_000_000;

export type RequestRates = Int32Array<SharedArrayBuffer>;

/** All full at `nowMs`, of a clock that all threads share. */
export function newRequestRates(perSecond: readonly (number | undefined)[], nowMs: number): RequestRates {
  const rates = new Int32Array(
    new SharedArrayBuffer(perSecond.length * wordsPerBucket * Int32Array.BYTES_PER_ELEMENT),
  );
  for (const [index, rate = 0] of perSecond.entries()) {
    rates[index * wordsPerBucket] = rate * wholeRequest;
    rates[index * wordsPerBucket + 1] = milliseconds(nowMs);
  }
  return rates;
}

/** The caller goes on with what it had: a file that is written often gives nobody more. */
export function carryRate(
  from: { rates: RequestRates; index: number },
  to: { rates: RequestRates; index: number },
): void {
  const [source, target] = [from.index * wordsPerBucket, to.index * wordsPerBucket];
  const full = to.rates[target]!;
  to.rates[target] = Math.min(full, Atomics.load(from.rates, source));
  to.rates[target + 1] = Atomics.load(from.rates, source + 1);
}

/** Takes one request of the bucket, if it has one. */
export function takeRequest(rates: RequestRates, index: number, perSecond: number, nowMs: number): boolean {
  const bucket = index * wordsPerBucket;
  const now = milliseconds(nowMs);
  const since = Atomics.load(rates, bucket + 1);
  if (now !== since) refill(rates, bucket, perSecond, since, now);
  if (Atomics.sub(rates, bucket, wholeRequest) >= wholeRequest) return true;
  Atomics.add(rates, bucket, wholeRequest);
  return false;
}

/** By whichever thread sets the time; the others find it done. */
function refill(rates: RequestRates, bucket: number, perSecond: number, since: number, now: number): void {
  const passedMs = (now - since) | 0;
  if (passedMs < 0 && passedMs > -mostSkewMs) return;
  if (Atomics.compareExchange(rates, bucket + 1, since, now) !== since) return;
  const full = perSecond * wholeRequest;
  const brought = passedMs < 0 ? full : Math.min(full, passedMs * perSecond);
  let held = Atomics.load(rates, bucket);
  for (;;) {
    const found = Atomics.compareExchange(rates, bucket, held, Math.min(full, held + brought));
    if (found === held) return;
    held = found;
  }
}

/** Whole, and turning over after 2^32. */
function milliseconds(ms: number): number {
  return Math.trunc(ms) | 0;
}
