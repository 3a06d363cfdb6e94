import { describe, expect, it } from 'vitest';
import { ReservationNames } from './reservation-keys.ts';

describe('names of what is reserved', () => {
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
