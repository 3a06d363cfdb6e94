/** Latencies in buckets of 2% width, from 1 µs to over a minute. Memory is constant, and quantiles are accurate to 2%. */
const growth = Math.log(1.02);

export class LatencyHistogram {
  readonly #buckets = new Float64Array(1024);
  #count = 0;

  record(ms: number): void {
    const index = Math.ceil(Math.log(Math.max(ms * 1000, 1)) / growth);
    const last = this.#buckets.length - 1;
    const bucket = Math.min(index, last);
    this.#buckets[bucket] = (this.#buckets[bucket] as number) + 1;
    this.#count += 1;
  }

  /** Returns the upper bound of the bucket that contains the quantile, in ms. NaN if nothing was recorded. */
  quantileMs(quantile: number): number {
    if (this.#count === 0) return Number.NaN;
    let left = Math.ceil(this.#count * quantile);
    for (let i = 0; i < this.#buckets.length; i++) {
      left -= this.#buckets[i] as number;
      if (left <= 0) return Math.exp(i * growth) / 1000;
    }
    return Number.POSITIVE_INFINITY;
  }
}
