import { describe, expect, it } from 'vitest';
import { ByteShares } from './byte-shares.ts';

function fill(shares: ByteShares, domain: string, caller?: string): number {
  let filled = 0;
  for (; shares.hasRoom({ domain, caller }, 10); filled += 10) shares.occupy({ domain, caller }, 10);
  return filled;
}

describe('ByteShares', () => {
  it('leaves something to others, however many fill their shares', () => {
    const shares = new ByteShares(100_000);
    expect(fill(shares, 'a')).toBe(75_000);
    expect(fill(shares, 'b')).toBe(18_750);
    expect(fill(shares, 'c')).toBeGreaterThan(4_000);
    expect(shares.hasRoom({ domain: 'd', caller: undefined }, 100)).toBe(true);
    shares.occupy({ domain: 'a', caller: undefined }, -75_000);
    expect(fill(shares, 'd')).toBeGreaterThan(50_000);
  });

  it('bounds a caller over all its domains', () => {
    const shares = new ByteShares(100_000);
    for (let n = 0; n < 100; n += 1) fill(shares, `of-one-${n}`, 'one');
    expect(shares.bytes).toBeLessThanOrEqual(75_000);
    expect(fill(shares, 'of-two', 'two')).toBeGreaterThan(10_000);
  });
});
