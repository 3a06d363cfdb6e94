/**
 * Requests per second of each caller, in memory that all threads of the process share. A bucket refills at its rate and holds the
 * requests of one second. It has two words: its content in thousandths of a request, and the millisecond of its last refill. So a
 * rate of whole requests per second adds whole thousandths each millisecond.
 */

const wordsPerBucket = 2;
const wholeRequest = 1_000;
/**
 * Chosen: the clocks of two threads never differ by more. A larger difference means that the word of the time has wrapped around after
 * weeks.
 */
const maxSkewMs = 60_000;

/** The largest rate whose full bucket fits into its word. */
export const maxRequestsPerSecond = 1_000_000;

export type RequestRates = Int32Array<SharedArrayBuffer>;

/** Returns buckets that are full at `nowMs`, on a clock that all threads share. */
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

/** The caller keeps its remaining requests, so that frequent writes of the file give no caller more requests. */
export function carryRate(
  from: { rates: RequestRates; index: number },
  to: { rates: RequestRates; index: number },
): void {
  const [source, target] = [from.index * wordsPerBucket, to.index * wordsPerBucket];
  const full = to.rates[target]!;
  to.rates[target] = Math.min(full, Atomics.load(from.rates, source));
  to.rates[target + 1] = Atomics.load(from.rates, source + 1);
}

/** Takes one request from the bucket, if it has one. */
export function takeRequest(rates: RequestRates, index: number, perSecond: number, nowMs: number): boolean {
  const bucket = index * wordsPerBucket;
  const now = milliseconds(nowMs);
  const since = Atomics.load(rates, bucket + 1);
  if (now !== since) refill(rates, bucket, perSecond, since, now);
  if (Atomics.sub(rates, bucket, wholeRequest) >= wholeRequest) return true;
  Atomics.add(rates, bucket, wholeRequest);
  return false;
}

/** Refills a bucket. The thread that sets the time refills it; for the others, nothing is left to do. */
function refill(rates: RequestRates, bucket: number, perSecond: number, since: number, now: number): void {
  const passedMs = (now - since) | 0;
  if (passedMs < 0 && passedMs > -maxSkewMs) return;
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

/** Returns whole milliseconds, which wrap around after 2^32. */
function milliseconds(ms: number): number {
  return Math.trunc(ms) | 0;
}
