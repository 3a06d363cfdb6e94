import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { ExactCounts, expectTrue, hit } from '../../test/support/heavy-keys.ts';
import { joinedSummaries, SpaceSaving, summaryOf } from './space-saving.ts';

describe('joined summaries', () => {
  it('say nothing wrong about the sum of what their sketches saw', () => {
    const streams = fc.array(fc.array(hit, { maxLength: 120 }), { minLength: 1, maxLength: 5 });
    const property = fc.property(fc.integer({ min: 1, max: 10 }), streams, (capacity, parts) => {
      const exact = new ExactCounts();
      const summaries = parts.map((hits, index) => {
        const sketch = new SpaceSaving(capacity);
        for (const { key, weight } of hits) {
          sketch.add(key, weight, 'rule', false);
          exact.add(key, weight);
        }
        return summaryOf(sketch, 100 - index);
      });
      const joined = joinedSummaries(summaries);
      expectTrue(joined, exact);
      expect(joined.sinceMs).toBe(101 - parts.length);
      expect(joined.missed).toBeLessThanOrEqual(exact.total / capacity);
      const counts = joined.keys.map(({ count }) => count);
      expect(counts).toEqual([...counts].sort((a, b) => b - a));
    });
    fc.assert(property);
  });

  it('name the rule and the mode of the newest one', () => {
    const [older, newer] = [new SpaceSaving(4), new SpaceSaving(4)];
    older.add('a', 2, 'd.old', false);
    newer.add('a', 1, 'd.new', true);
    expect(joinedSummaries([summaryOf(older, 1), summaryOf(newer, 2)])).toEqual({
      sinceMs: 1,
      total: 3,
      missed: 0,
      keys: [{ key: 'a', count: 3, error: 0, rule: 'd.new', shadowMode: true }],
    });
  });
});
