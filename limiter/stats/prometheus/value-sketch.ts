/**
 * Quantiles of what was observed, in bounded memory: values stand in bins 1 % wide, each with its sum. A quantile is
 * the mean of its bin, so it is exact where the values of a bin are equal, as those of whole milliseconds mostly are, and
 * off by less than 1 % otherwise.
 */
const logWidth = Math.log(1.01);
/** What is smaller counts as 0. */
const smallest = 1e-9;
const largest = 1e12;
const zeroBin = Number.NEGATIVE_INFINITY;

interface Bin {
  count: number;
  sum: number;
}

export class ValueSketch {
  readonly #bins = new Map<number, Bin>();

  add(value: number): void {
    const bin = value < smallest ? zeroBin : Math.ceil(Math.log(Math.min(value, largest)) / logWidth);
    const known = this.#bins.get(bin);
    if (known === undefined) this.#bins.set(bin, { count: 1, sum: value });
    else {
      known.count += 1;
      known.sum += value;
    }
  }

  clear(): void {
    this.#bins.clear();
  }

  /** In the order of `quantiles`, which ascends; NaN where nothing was observed. */
  static quantiles(sketches: readonly ValueSketch[], quantiles: readonly number[]): number[] {
    const merged = new Map<number, Bin>();
    let total = 0;
    for (const sketch of sketches) {
      for (const [index, { count, sum }] of sketch.#bins) {
        const bin = merged.get(index);
        merged.set(
          index,
          bin === undefined ? { count, sum } : { count: bin.count + count, sum: bin.sum + sum },
        );
        total += count;
      }
    }
    const bins = [...merged].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, bin]) => bin);
    let at = 0;
    let seen = 0;
    return quantiles.map((quantile) => {
      const rank = Math.max(1, Math.ceil(quantile * total));
      while (at < bins.length && seen + (bins[at] as Bin).count < rank) seen += (bins[at++] as Bin).count;
      const bin = bins[at];
      return bin === undefined ? Number.NaN : bin.sum / bin.count;
    });
  }
}
