import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { AddressThrottle } from './address-throttle.ts';
import { addressGroup } from './peer.ts';

describe('addressGroup', () => {
  it.each([
    ['192.0.2.7', '192.0.2.7'],
    ['::ffff:192.0.2.7', '192.0.2.7'],
    ['2001:db8:1:2:3:4:5:6', '2001:db8:1:2::/64'],
    ['2001:DB8:1:2::6', '2001:db8:1:2::/64'],
    ['2001:db8::6', '2001:db8:0:0::/64'],
    ['2001:0db8:0001::', '2001:db8:1:0::/64'],
    ['::1', '0:0:0:0::/64'],
    ['fe80::1%eth0', 'fe80:0:0:0::/64'],
    ['64:ff9b::192.0.2.7', '64:ff9b:0:0::/64'],
    ['unknown', 'unknown'],
  ])('takes %s for %s', (address, network) => {
    expect(addressGroup(address)).toBe(network);
  });
});

describe('AddressThrottle', () => {
  it('lets the first few be wrong, and then doubles the wait up to the longest', () => {
    const throttle = new AddressThrottle();
    let nowMs = 0;
    for (let i = 0; i < 5; i++) {
      expect(throttle.waitMs('a', nowMs)).toBe(0);
      throttle.wrong('a', nowMs);
    }
    const waits: number[] = [];
    for (let i = 0; i < 12; i++) {
      waits.push(throttle.waitMs('a', nowMs) / 1000);
      nowMs += throttle.waitMs('a', nowMs);
      throttle.wrong('a', nowMs);
    }
    expect(waits).toEqual([1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 900, 900]);
  });

  it('distinguishes addresses, and joins those of one /64', () => {
    const throttle = new AddressThrottle();
    for (let i = 0; i < 5; i++) throttle.wrong(`2001:db8::${i}`, 0);
    expect(throttle.waitMs('2001:db8::ffff', 0)).toBe(1_000);
    expect(throttle.waitMs('2001:db8:0:1::1', 0)).toBe(0);
    expect(throttle.size).toBe(1);
  });

  it('restarts an hour after the last wrong one', () => {
    const throttle = new AddressThrottle();
    for (let i = 0; i < 9; i++) throttle.wrong('a', 0);
    throttle.wrong('a', 3_599_999);
    expect(throttle.waitMs('a', 3_600_000)).toBe(31_999);
    throttle.wrong('a', 7_200_000);
    expect(throttle.waitMs('a', 7_200_000)).toBe(0);
  });

  it('shares one entry among new addresses while it is full, and forgets no other address for them', () => {
    const throttle = new AddressThrottle(3);
    for (let i = 0; i < 6; i++) throttle.wrong('attacker', 0);
    const waitMs = throttle.waitMs('attacker', 0);
    for (let i = 0; i < 1_000; i++) throttle.wrong(`10.0.${i >> 8}.${i & 255}`, 1);
    expect(throttle.size).toBe(3);
    expect(throttle.waitMs('attacker', 0)).toBe(waitMs);
    expect(throttle.waitMs('192.0.2.1', 1)).toBe(900_000);
    // When the table has room again, an address gets its own entry.
    expect(throttle.waitMs('192.0.2.1', 3_600_001)).toBe(0);
  });

  it('never lets an address be wrong more often than its waits allow, whatever others do', () => {
    const steps = fc.array(
      fc.record({ who: fc.integer({ min: 0, max: 6 }), passMs: fc.integer({ min: 0, max: 20_000 }) }),
      { maxLength: 300 },
    );
    fc.assert(
      fc.property(steps, (all) => {
        const throttle = new AddressThrottle(3);
        let nowMs = 0;
        const wrongAt: number[] = [];
        for (const { who, passMs } of all) {
          nowMs += passMs;
          if (throttle.waitMs(`10.0.0.${who}`, nowMs) > 0) continue;
          throttle.wrong(`10.0.0.${who}`, nowMs);
          if (who === 0) wrongAt.push(nowMs);
        }
        // The nth wrong answer after the free ones follows waits of 1, 2, 4 ... s. Nothing is forgotten within an hour.
        for (const [index, atMs] of wrongAt.entries()) {
          if (index < 5 || atMs >= 3_600_000) continue;
          const waitedMs = 1_000 * (2 ** (index - 4) - 1);
          expect(atMs - (wrongAt[0] as number)).toBeGreaterThanOrEqual(Math.min(waitedMs, 900_000));
        }
      }),
    );
  });
});
