import { describe, expect, it } from 'vitest';
import { ReplicaLiveness } from './lease-api.ts';

const sign = (resourceVersion: string) => ({ name: 'a', resourceVersion, durationMs: 5_000 });

function seenAt(ms: number): ReplicaLiveness {
  const signs = new ReplicaLiveness();
  signs.see(sign('1'), ms);
  return signs;
}

describe('signs of life', () => {
  it('keep a replica alive for the duration of its Lease', () => {
    const signs = seenAt(1_000);
    expect(signs.isAlive('a', 5_999)).toBe(true);
    expect(signs.nextDeathMs(5_999)).toBe(6_000);
    expect(signs.isAlive('a', 6_000)).toBe(false);
    expect(signs.nextDeathMs(6_000)).toBe(Number.POSITIVE_INFINITY);
  });

  it('say who came to life', () => {
    const signs = new ReplicaLiveness();
    expect(signs.see(sign('1'), 0)).toBe(true);
    expect(signs.see(sign('2'), 1_000)).toBe(false);
    expect(signs.see({ ...sign('1'), name: 'b' }, 1_000)).toBe(true);
    expect(signs.see(sign('3'), 9_000)).toBe(true);
  });

  it('are changes of the Lease, not the same state again', () => {
    const signs = seenAt(0);
    expect(signs.see(sign('1'), 4_000)).toBe(false);
    expect(signs.isAlive('a', 5_000)).toBe(false);
    signs.see(sign('1'), 6_000);
    expect(signs.isAlive('a', 6_000)).toBe(false);
  });

  it('end with the Lease', () => {
    const signs = seenAt(0);
    expect(signs.remove('a', 1_000)).toBe(true);
    expect(signs.isAlive('a', 1_000)).toBe(false);
    expect(signs.remove('a', 1_000)).toBe(false);
  });

  it('let no replica die while no messages arrive', () => {
    const signs = seenAt(0);
    signs.becomeDeaf(4_000);
    signs.becomeDeaf(8_000);
    expect(signs.isAlive('a', 60_000)).toBe(true);
    expect(signs.nextDeathMs(60_000)).toBe(Number.POSITIVE_INFINITY);
  });

  it('give everybody a whole duration after a time in which nothing was heard', () => {
    const signs = seenAt(0);
    signs.becomeDeaf(4_000);
    signs.hearAgain(60_000);
    expect(signs.isAlive('a', 64_999)).toBe(true);
    expect(signs.isAlive('a', 65_000)).toBe(false);
  });

  it('do not bring back a replica that was dead before', () => {
    const signs = seenAt(0);
    signs.becomeDeaf(5_000);
    signs.hearAgain(60_000);
    expect(signs.isAlive('a', 60_000)).toBe(false);
  });
});
