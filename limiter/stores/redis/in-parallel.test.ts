import { describe, expect, it } from 'vitest';
import { inParallel } from './turn-gathering.ts';

describe('inParallel', () => {
  it.each([
    { limit: 1, most: 1 },
    { limit: 3, most: 3 },
    { limit: 10, most: 5 },
    { limit: Number.POSITIVE_INFINITY, most: 5 },
  ])('does at most $limit at a time, each once and in order', async ({ limit, most }) => {
    let running = 0;
    let seenMost = 0;
    const begun: number[] = [];
    await inParallel([0, 1, 2, 3, 4], limit, async (item) => {
      begun.push(item);
      running += 1;
      seenMost = Math.max(seenMost, running);
      await new Promise((resolve) => setImmediate(resolve));
      running -= 1;
    });
    expect([begun, seenMost, running]).toEqual([[0, 1, 2, 3, 4], most, 0]);
  });

  it('begins the first of them before it returns', () => {
    const begun: number[] = [];
    void inParallel([0, 1, 2], 2, async (item) => void begun.push(item));
    expect(begun.slice(0, 2)).toEqual([0, 1]);
  });
});
