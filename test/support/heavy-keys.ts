/** Streams of keys, and what is true of them: for tests of sketches. */
import fc from 'fast-check';
import { expect } from 'vitest';
import type { HeavyKey } from '../../limiter/top-offenders/space-saving.ts';

/** What came, counted exactly. */
export class ExactCounts {
  readonly counts = new Map<string, number>();
  total = 0;

  add(key: string, weight: number): void {
    this.counts.set(key, (this.counts.get(key) ?? 0) + weight);
    this.total += weight;
  }
}

interface Sketch {
  total: number;
  missed: number;
  keys: Iterable<HeavyKey>;
}

/** That what is held says nothing wrong about what came. */
export function expectTrue({ total, missed, keys }: Sketch, exact: ExactCounts): void {
  const held = new Map(Array.from(keys, (entry) => [entry.key, entry]));
  expect(total).toBe(exact.total);
  for (const { key, count, error } of held.values()) {
    const weight = exact.counts.get(key) ?? 0;
    expect(weight).toBeLessThanOrEqual(count);
    expect(weight).toBeGreaterThanOrEqual(count - error);
  }
  for (const [key, weight] of exact.counts) {
    if (!held.has(key)) expect(weight).toBeLessThanOrEqual(missed);
  }
}

/** A few keys come often, many seldom. */
const keyOfAStream = fc.oneof(fc.nat(3), fc.nat(40)).map((n) => `key${n}`);
export const hit = fc.record({
  key: keyOfAStream,
  weight: fc.oneof(fc.constant(1), fc.integer({ min: 1, max: 50 })),
});
