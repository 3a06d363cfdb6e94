import { describe, expect, it } from 'vitest';
import { addressGroup } from './peer.ts';

describe('addressGroup', () => {
  const groups: [address: string | undefined, group: string][] = [
    ['192.0.2.1', '192.0.2.1'],
    ['::ffff:192.0.2.1', '192.0.2.1'],
    ['2001:db8:1:2:3:4:5:6', '2001:db8:1:2::/64'],
    ['2001:0db8:1:2::9', '2001:db8:1:2::/64'],
    ['2001:db8::1', '2001:db8:0:0::/64'],
    ['2001:db8::1:2:3:4:5', '2001:db8:0:1::/64'],
    ['fe80::1%eth0', 'fe80:0:0:0::/64'],
    ['::1', '0:0:0:0::/64'],
    ['64:ff9b::192.0.2.1', '64:ff9b:0:0::/64'],
    [undefined, ''],
  ];
  for (const [address, group] of groups) {
    it(`takes ${address} for ${group === '' ? 'nobody' : group}`, () => {
      expect(addressGroup(address)).toBe(group);
    });
  }
});
