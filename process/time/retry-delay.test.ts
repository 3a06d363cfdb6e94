import { describe, expect, it } from 'vitest';
import { retryDelayMs } from './pacing.ts';

const options = { firstMs: 100, maxMs: 5_000, random: () => 0.5 };

describe('retryDelayMs', () => {
  it.each([
    { what: 'begins with the first', failures: 1, delayMs: 75 },
    { what: 'doubles', failures: 3, delayMs: 300 },
    { what: 'is bounded', failures: 500, delayMs: 3_750 },
    { what: 'is at least what the server asked for', failures: 1, retryAfterMs: 9_000, delayMs: 9_000 },
    { what: 'is half at least', failures: 1, random: () => 0, delayMs: 50 },
    { what: 'is all but the spread at least', failures: 1, spread: 0.25, random: () => 0, delayMs: 75 },
    { what: 'is all of it at most', failures: 1, random: () => 0.999_999, delayMs: 100 },
  ])('$what', ({ delayMs, what: _, ...given }) => {
    expect(retryDelayMs({ ...options, ...given })).toBe(delayMs);
  });
});
