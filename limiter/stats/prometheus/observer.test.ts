import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { defaultSummary } from './mapping-rules.ts';
import { createObserver, ValueSketch } from './value-series.ts';

describe('a histogram', () => {
  it('adds up its buckets, whose bounds belong to them', () => {
    const histogram = createObserver({ type: 'histogram', buckets: [1, 2] }, 0);
    for (const value of [0.5, 1, 1.5, 7]) histogram.observe(value, 0);
    expect(histogram.samples(0)).toEqual([
      ['_bucket', 'le="1"', 2],
      ['_bucket', 'le="2"', 3],
      ['_bucket', 'le="+Inf"', 4],
      ['_sum', '', 10],
      ['_count', '', 4],
    ]);
  });
});

describe('a summary', () => {
  const options = { ...defaultSummary, maxAgeMs: 1000, ageBuckets: 5 };

  it('reports quantiles, sum and count', () => {
    const summary = createObserver(options, 0);
    for (let value = 1; value <= 100; value += 1) summary.observe(value, 0);
    const [half, max, nearlyAll, sum, count] = summary.samples(0).map(([, , value]) => value);
    expect([half, max, nearlyAll]).toEqual([50, 90, 99].map((value) => expect.closeTo(value, 0)));
    expect([sum, count]).toEqual([5050, 100]);
  });

  it('forgets values for its quantiles after its age, and keeps them in sum and count', () => {
    const summary = createObserver(options, 0);
    summary.observe(100, 0);
    summary.observe(5, 900);
    const values = (nowMs: number) => summary.samples(nowMs).map(([, , value]) => value);
    expect(values(999)).toEqual([5, 100, 100, 105, 2]);
    expect(values(1000)).toEqual([5, 5, 5, 105, 2]);
    expect(values(60_000)).toEqual([Number.NaN, Number.NaN, Number.NaN, 105, 2]);
  });
});

describe('ValueSketch', () => {
  it('gives the value of the wanted rank within 1 %', () => {
    const values = fc.array(fc.double({ min: 0, max: 1e9, noNaN: true }), { minLength: 1, maxLength: 200 });
    fc.assert(
      fc.property(values, fc.double({ min: 0, max: 1, noNaN: true }), (all, quantile) => {
        const sketches = [new ValueSketch(), new ValueSketch()] as const;
        for (const [index, value] of all.entries()) sketches[index % 2 === 0 ? 0 : 1].add(value);
        const sorted = [...all].sort((a, b) => a - b);
        const exact = sorted[Math.max(1, Math.ceil(quantile * all.length)) - 1] as number;
        const [found] = ValueSketch.quantiles(sketches, [quantile]);
        expect(Math.abs((found as number) - exact)).toBeLessThanOrEqual(exact * 0.0101 + 1e-9);
      }),
    );
  });

  it('is exact if values are equal', () => {
    const sketch = new ValueSketch();
    for (const value of [3, 3, 3, 17]) sketch.add(value);
    expect(ValueSketch.quantiles([sketch], [0.5, 0.9])).toEqual([3, 17]);
  });
});
