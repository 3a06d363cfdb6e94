import { isIP } from 'node:net';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { caseCount } from '../../test/support/property-cases.ts';
import { addressText, forwardedAddress, maskedText, parseAddress } from './client-address.ts';

function written(text: string): string | undefined {
  const address = parseAddress(text);
  return address && addressText(address);
}

function chosen(lines: string[], trustedHops = 0): string | undefined {
  const address = forwardedAddress(lines, trustedHops);
  return address && addressText(address);
}

describe('parseAddress', () => {
  const forms: [given: string, written: string | undefined][] = [
    ['192.0.2.1', '192.0.2.1'],
    [' 192.0.2.1\t', '192.0.2.1'],
    ['192.0.2.1:8080', '192.0.2.1'],
    ['2001:DB8:0:0:0:0:0:1', '2001:db8::1'],
    ['[2001:db8::1]', '2001:db8::1'],
    ['[2001:db8::1]:443', '2001:db8::1'],
    ['fe80::1%eth0', 'fe80::1'],
    ['::ffff:192.0.2.1', '192.0.2.1'],
    ['::ffff:c000:201', '192.0.2.1'],
    ['64:ff9b::192.0.2.1', '64:ff9b::c000:201'],
    ['::', '::'],
    ['::1', '::1'],
    ['::1.2.3.4', '::1.2.3.4'],
    ['1::', '1::'],
    ['1:0:0:2:0:0:0:3', '1:0:0:2::3'],
    ['1:0:0:2:3:0:0:4', '1::2:3:0:0:4'],
    ['1:2:3:4:5:6:0:7', '1:2:3:4:5:6:0:7'],
    ['', undefined],
    ['unknown', undefined],
    ['_hidden', undefined],
    ['192.0.2', undefined],
    ['192.0.2.256', undefined],
    ['192.0.02.1', undefined],
    ['192.0.2.1:port', undefined],
    ['1:2:3:4:5:6:7', undefined],
    ['1:2:3:4:5:6:7:8:9', undefined],
    ['1:2:3:4::5:6:7:8', undefined],
    ['1::2::3', undefined],
    [':1:2:3:4:5:6:7', undefined],
    ['12345::', undefined],
    ['1.2.3.4::', undefined],
    ['[::1', undefined],
    ['[192.0.2.1]', undefined],
    ['1'.repeat(5_000), undefined],
  ];
  for (const [given, expected] of forms) {
    it(`reads ${JSON.stringify(given.slice(0, 40))} as ${expected}`, () => {
      expect(written(given)).toBe(expected);
    });
  }

  it('takes for addresses what Node takes for them, and writes them as URLs have them', () => {
    const parts = fc.array(fc.constantFrom('0', '1', 'ff', 'abcd', '', ':', '::', '1.2.3.4'), {
      maxLength: 9,
    });
    fc.assert(
      fc.property(
        fc.oneof(
          parts.map((all) => all.join(':')),
          fc.ipV6(),
          fc.ipV4(),
        ),
        (text) => {
          const address = written(text);
          // Addresses with a port.
          if (/^[\d.]+:\d+$/.test(text)) return;
          expect(address !== undefined).toBe(isIP(text) !== 0);
          // Where URLs and the C library differ.
          if (address === undefined || address.includes('.')) return;
          expect(`[${address}]`).toBe(new URL(`http://[${text}]/`).hostname);
        },
      ),
      { numRuns: caseCount(500) },
    );
  });
});

describe('maskedText', () => {
  it('keeps the leading bits', () => {
    const v4 = parseAddress('192.168.77.5')!;
    expect(maskedText(v4, 24, 64)).toBe('192.168.77.0/24');
    expect(maskedText(v4, 0, 64)).toBe('0.0.0.0/0');
    expect(maskedText(v4, 32, 64)).toBe('192.168.77.5/32');
    const v6 = parseAddress('2001:abcd:ef01:2345:6789:abcd:ef01:234')!;
    expect(maskedText(v6, 24, 64)).toBe('2001:abcd:ef01:2345::/64');
    expect(maskedText(v6, 24, 128)).toBe('2001:abcd:ef01:2345:6789:abcd:ef01:234/128');
    expect(maskedText(v6, 24, 0)).toBe('::/0');
  });

  it('is the same for two addresses exactly if their leading bits are', () => {
    const bitsOf = (address: Uint8Array) =>
      [...address].map((byte) => byte.toString(2).padStart(8, '0')).join('');
    const bytes = fc.uint8Array({ minLength: 16, maxLength: 16 });
    // Neighbours, so that masks distinguish them or not.
    const pair = fc.tuple(bytes, fc.nat(127)).map(([one, bit]) => {
      const other = one.slice();
      other[bit >> 3]! ^= 0x80 >> (bit & 7);
      return [one, other] as const;
    });
    fc.assert(
      fc.property(pair, fc.nat(128), ([one, other], bits) => {
        const isSame = bitsOf(one).slice(0, bits) === bitsOf(other).slice(0, bits);
        expect(maskedText(one, 32, bits) === maskedText(other, 32, bits)).toBe(isSame);
      }),
      { numRuns: caseCount(500) },
    );
  });
});

describe('forwardedAddress', () => {
  it('takes the last address when no hop is trusted, whatever clients wrote before it', () => {
    expect(chosen(['203.0.113.7'])).toBe('203.0.113.7');
    expect(chosen(['10.0.0.1, evil, 203.0.113.7'])).toBe('203.0.113.7');
    expect(chosen(['10.0.0.1', '203.0.113.7'])).toBe('203.0.113.7');
    expect(chosen(['10.0.0.1,,,203.0.113.7'])).toBe('203.0.113.7');
  });

  it('leaves out as many as are trusted', () => {
    const lines = ['1.1.1.1, 2.2.2.2', '3.3.3.3', '4.4.4.4,5.5.5.5'];
    expect([0, 1, 2, 3, 4, 5].map((hops) => chosen(lines, hops))).toEqual([
      '5.5.5.5',
      '4.4.4.4',
      '3.3.3.3',
      '2.2.2.2',
      '1.1.1.1',
      undefined,
    ]);
  });

  it('finds nothing if there is nothing, or no address', () => {
    expect(chosen([])).toBeUndefined();
    expect(chosen([''])).toBeUndefined();
    expect(chosen(['203.0.113.7,'])).toBeUndefined();
    expect(chosen(['203.0.113.7, unknown'])).toBeUndefined();
  });

  it('chooses as one that splits the whole list', () => {
    const part = fc.constantFrom('1.1.1.1', '2001:db8::1', ' 10.0.0.1:80 ', '', 'x');
    const lines = fc.array(
      fc.array(part, { minLength: 1, maxLength: 4 }).map((parts) => parts.join(',')),
      { maxLength: 4 },
    );
    fc.assert(
      fc.property(lines, fc.nat(6), (all, hops) => {
        const list = all.length === 0 ? [] : all.join(',').split(',');
        expect(chosen(all, hops)).toBe(written(list.at(-1 - hops) ?? ''));
      }),
      { numRuns: caseCount(500) },
    );
  });
});
