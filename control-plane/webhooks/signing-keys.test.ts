import { beforeEach, describe, expect, it } from 'vitest';
import { ManualClock } from '../../test/support/manual-clock.ts';
import { SigningKeys } from './signing-keys.ts';

let clock: ManualClock;
let keys: SigningKeys;

beforeEach(() => {
  clock = new ManualClock();
  keys = new SigningKeys({ secrets: ['a'], overlapMs: 1_000, clock });
});

describe('SigningKeys', () => {
  it('signs with the old one for as long as the overlap lasts', () => {
    expect(keys.replace(['b'])).toBe(true);
    expect([keys.current, keys.all()]).toEqual(['b', ['b', 'a']]);
    clock.ms = 999;
    expect(keys.all()).toEqual(['b', 'a']);
    clock.ms = 1_000;
    expect(keys.all()).toEqual(['b']);
  });

  it('does not take the same secret for a new one', () => {
    expect(keys.replace(['a'])).toBe(false);
    expect(keys.all()).toEqual(['a']);
  });

  it('signs once with a secret that comes back', () => {
    keys.replace(['b']);
    keys.replace(['a']);
    expect(keys.all()).toEqual(['a', 'b']);
  });

  it('signs with further ones as long as they are listed', () => {
    keys.replace(['b', 'a']);
    clock.ms = 5_000;
    expect(keys.all()).toEqual(['b', 'a']);
    keys.replace(['b']);
    expect(keys.all()).toEqual(['b', 'a']);
    clock.ms = 6_000;
    expect(keys.all()).toEqual(['b']);
  });

  it('bounds how many sign after many changes', () => {
    for (const secret of 'bcdefgh') keys.replace([secret]);
    expect(keys.all()).toEqual(['h', 'g', 'f', 'e', 'd']);
  });
});
