import { describe, expect, it } from 'vitest';
import { counterOp } from '../../../test/support/counter-ops.ts';
import { reservationPlaceOf } from './reservation-keys.ts';

describe('names of what is reserved', () => {
  it.each([
    ['d_k_v_1700000000', 'd_k_v_', '1700000000'],
    ['1{d;k=v}60:60', '1{d;k=v}60:', '60'],
    ['1{d;k=v-0/9', '1{d;k=v-0/', '9'],
    ['1{d;k=v}', '1{d;k=v}', ''],
    ['60', '', '60'],
  ])('of %s end before its window', (key, name, window) => {
    const place = { key, hash: `weir:reserve:${name}`, set: `weir:reserve-due:${name}`, window };
    expect(reservationPlaceOf(counterOp({ key }))).toEqual(place);
  });

  it('are remembered by the counter, for its last key', () => {
    const op = counterOp({ key: 'd_k_v_60' });
    const { counter } = op;
    const place = reservationPlaceOf(op);
    expect(reservationPlaceOf({ key: 'd_k_v_60', counter })).toBe(place);
    expect(reservationPlaceOf({ key: 'd_k_v_120', counter }).window).toBe('120');
    counter.place = { key: 'd_k_v_120' };
    expect(reservationPlaceOf({ key: 'd_k_v_120', counter }).hash).toBe('weir:reserve:d_k_v_');
  });
});
