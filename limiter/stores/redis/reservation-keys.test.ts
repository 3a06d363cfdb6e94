import { describe, expect, it } from 'vitest';
import { ReservationNames } from './reservation-keys.ts';

describe('names of what is reserved', () => {
  it.each([
    ['d_k_v_1700000000', 'd_k_v_', '1700000000'],
    ['1{d;k=v}60:60', '1{d;k=v}60:', '60'],
    ['1{d;k=v-0/9', '1{d;k=v-0/', '9'],
    ['1{d;k=v}', '1{d;k=v}', ''],
    ['60', '', '60'],
  ])('of %s end before its window', (key, name, window) => {
    const place = { hash: `weir:reserve:${name}`, set: `weir:reserve-due:${name}`, window };
    expect(new ReservationNames('', false).placeOf(key)).toEqual(place);
  });

  it('are kept for keys of usual length, as anybody may send longer ones', () => {
    const names = new ReservationNames('', false);
    const keyOf = (length: number) => `${'v'.repeat(length - 3)}_60`;
    const common = names.placeOf(keyOf(256));
    expect(names.placeOf(keyOf(256))).toBe(common);
    const longer = names.placeOf(keyOf(257));
    expect(names.placeOf(keyOf(257))).not.toBe(longer);
    expect(names.placeOf(keyOf(257))).toEqual(longer);
    expect(longer).toMatchObject({ hash: `weir:reserve:${'v'.repeat(254)}_`, window: '60' });
  });
});
