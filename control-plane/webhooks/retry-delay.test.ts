import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { deliveryDelayMs } from './delivery-queue.ts';
import { parseRetryAfterMs } from './webhook-sender.ts';

describe('deliveryDelayMs', () => {
  it.each([
    [1, 1_000],
    [2, 2_000],
    [10, 512_000],
    [11, 600_000],
    [5_000, 600_000],
  ])('waits after %s failures up to %s ms', (failures, longestMs) => {
    expect(deliveryDelayMs(failures, () => 1)).toBe(longestMs);
    expect(deliveryDelayMs(failures, () => 0)).toBe(longestMs / 2);
  });

  it('never waits less after more failures by more than the jitter', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 100 }),
        fc.double({ min: 0, max: 1, noNaN: true }),
        (n, random) => {
          expect(deliveryDelayMs(n + 1, () => random)).toBeGreaterThanOrEqual(
            deliveryDelayMs(n, () => random),
          );
        },
      ),
    );
  });
});

describe('parseRetryAfterMs', () => {
  const nowMs = Date.parse('2026-01-31T12:00:00Z');
  it.each<[string | null, number | undefined]>([
    ['120', 120_000],
    ['0', 0],
    [' 7 ', 7_000],
    ['Sat, 31 Jan 2026 12:00:30 GMT', 30_000],
    ['Sat, 31 Jan 2026 11:00:00 GMT', 0],
    ['999999999', 3_600_000],
    ['Fri, 31 Dec 2999 23:59:59 GMT', 3_600_000],
    [null, undefined],
    ['', undefined],
    ['-5', undefined],
    ['1.5', undefined],
    ['soon', undefined],
  ])('reads %j as %s ms', (header, ms) => {
    expect(parseRetryAfterMs(header, nowMs)).toBe(ms);
  });
});
