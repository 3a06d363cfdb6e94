import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { ExactCounts, expectTrue, hit } from '../../test/support/heavy-keys.ts';
import { SpaceSaving } from './space-saving.ts';

describe('SpaceSaving', () => {
  it('keeps its promises for every stream', () => {
    const property = fc.property(
      fc.integer({ min: 1, max: 12 }),
      fc.array(hit, { maxLength: 300 }),
      (capacity, hits) => {
        const sketch = new SpaceSaving(capacity);
        const exact = new ExactCounts();
        for (const { key, weight } of hits) {
          sketch.add(key, weight, 'rule', false);
          exact.add(key, weight);
          expectTrue({ total: sketch.total, missed: sketch.missed, keys: sketch.keys() }, exact);
        }
        const keys = [...sketch.keys()];
        expect(keys.length).toBe(Math.min(capacity, exact.counts.size));
        expect(keys.reduce((sum, { count }) => sum + count, 0)).toBe(exact.total);
        expect(sketch.missed).toBeLessThanOrEqual(exact.total / capacity);
        const heavy = [...exact.counts].filter(([, weight]) => weight > exact.total / capacity);
        expect(keys.map(({ key }) => key)).toEqual(expect.arrayContaining(heavy.map(([key]) => key)));
      },
    );
    fc.assert(property);
  });

  it('counts exactly while there is room', () => {
    const property = fc.property(fc.array(hit, { maxLength: 100 }), (hits) => {
      const sketch = new SpaceSaving(41);
      const exact = new ExactCounts();
      for (const { key, weight } of hits) {
        sketch.add(key, weight, 'rule', false);
        exact.add(key, weight);
      }
      expect(new Map(Array.from(sketch.keys(), ({ key, count }) => [key, count]))).toEqual(exact.counts);
      expect([...sketch.keys()].every(({ error }) => error === 0)).toBe(true);
    });
    fc.assert(property);
  });

  it('says by which rule a key was over last', () => {
    const sketch = new SpaceSaving(1);
    sketch.add('a', 1, 'd.old', false);
    sketch.add('a', 2, 'd.new', true);
    expect([...sketch.keys()]).toMatchObject([
      { key: 'a', count: 3, error: 0, rule: 'd.new', shadowMode: true },
    ]);
    sketch.add('b', 1, 'd.other', false);
    expect([...sketch.keys()]).toMatchObject([
      { key: 'b', count: 4, error: 3, rule: 'd.other', shadowMode: false },
    ]);
  });

  it('knows what it occupies, whatever takes whose place', () => {
    const text = fc.string({ minLength: 1, maxLength: 20 });
    const property = fc.property(fc.array(fc.tuple(text, text), { maxLength: 60 }), (hits) => {
      const sketch = new SpaceSaving(4);
      for (const [key, rule] of hits) sketch.add(key, 1, rule, false);
      const texts = [...sketch.keys()].map(({ key, rule }) => 192 + 2 * (key.length + rule.length));
      expect(sketch.bytes).toBe(texts.reduce((sum, bytes) => sum + bytes, 0));
    });
    fc.assert(property);
  });
});
