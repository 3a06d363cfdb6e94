import { describe, expect, it } from 'vitest';
import { Unit, unitFromText } from './model.ts';

describe('unitFromText', () => {
  it.each([
    ['second', Unit.SECOND],
    ['MINUTE', Unit.MINUTE],
    ['Hour', Unit.HOUR],
    ['day', Unit.DAY],
    ['week', Unit.WEEK],
    ['mOnTh', Unit.MONTH],
    ['year', Unit.YEAR],
    ['', undefined],
    ['unknown', undefined],
    ['UNKNOWN', undefined],
    ['seconds', undefined],
    [' day', undefined],
    ['constructor', undefined],
  ])('takes %j for %s', (text, unit) => {
    expect(unitFromText(text)).toBe(unit);
  });
});
