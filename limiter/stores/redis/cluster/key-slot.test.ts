import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { keySlot } from './cluster-topology.ts';

describe('keySlot', () => {
  it.each([
    // The specification's check value: CRC16("123456789") = 0x31C3.
    ['123456789', 0x31c3 % 16_384],
    ['', 0],
    ['foo', 12_182],
    ['{user1000}.following', 3443],
    ['{user1000}.followers', 3443],
    ['foo{}{bar}', 8363],
    ['foo{{bar}}zap', 4015],
    ['foo{bar}{zap}', 5061],
  ])('gives %j the slot %i', (key, slot) => {
    expect(keySlot(key)).toBe(slot);
  });

  it('takes the bytes of UTF-8', () => {
    const bytes = Buffer.from('schlüssel').toString('latin1');
    expect(keySlot('schlüssel')).not.toBe(keySlot(bytes));
    expect(keySlot('x{schlüssel}')).toBe(keySlot('schlüssel'));
  });

  it('gives keys of one tag one slot, and every key one of 16,384', () => {
    const tag = fc.string({ minLength: 1 }).filter((text) => !/[{}]/.test(text));
    fc.assert(
      fc.property(tag, fc.string(), (inside, after) => {
        expect(keySlot(`{${inside}}${after}`)).toBe(keySlot(inside));
      }),
    );
    fc.assert(
      fc.property(fc.string({ unit: 'grapheme' }), (key) => {
        expect(keySlot(key)).toBeGreaterThanOrEqual(0);
        expect(keySlot(key)).toBeLessThan(16_384);
      }),
    );
  });
});
