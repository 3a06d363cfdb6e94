import { describe, expect, it } from 'vitest';
import { readRecordedTime } from './recorded-request.ts';

describe('readRecordedTime', () => {
  it.each([
    ['2026-11-20T09:00:00Z', Date.UTC(2026, 10, 20, 9)],
    ['2026-11-20T09:00:00.250Z', Date.UTC(2026, 10, 20, 9, 0, 0, 250)],
    ['2026-11-20T10:00:00.2509999+01:00', Date.UTC(2026, 10, 20, 9, 0, 0, 250)],
    [1_795_165_200, 1_795_165_200_000],
    [1_795_165_200.007, 1_795_165_200_007],
    ['1795165200.999', 1_795_165_200_999],
    ['1795165200.999999', 1_795_165_200_999],
    [1_795_165_200_123, 1_795_165_200_123],
    ['1795165200123', 1_795_165_200_123],
    [0, 0],
    ['2028-02-29T09:00:00Z', Date.UTC(2028, 1, 29, 9)],
    ['2199-12-31T23:59:59Z', Date.UTC(2199, 11, 31, 23, 59, 59)],
    [7_258_118_399, 7_258_118_399_000],
    [7_258_118_399_999, 7_258_118_399_999],
    [100_000_000_000, 100_000_000_000],
  ])('reads %j', (written, ms) => {
    expect(readRecordedTime(written)).toBe(ms);
  });

  it.each([
    [undefined, 'time is missing'],
    [null, 'time is neither text nor number'],
    ['yesterday', 'time "yesterday" is neither RFC 3339 nor seconds or milliseconds since 1970'],
    [
      '2026-11-20 09:00',
      'time "2026-11-20 09:00" is neither RFC 3339 nor seconds or milliseconds since 1970',
    ],
    [
      '2026-13-20T09:00:00Z',
      'time "2026-13-20T09:00:00Z" is neither RFC 3339 nor seconds or milliseconds since 1970',
    ],
    ['1969-12-31T23:59:59Z', 'time "1969-12-31T23:59:59Z" is before 1970'],
    [7_258_118_400, 'time 7258118400 is after the year 2199'],
    [-1, 'time -1 is neither RFC 3339 nor seconds or milliseconds since 1970'],
    ['2026-02-30T09:00:00Z', 'time "2026-02-30T09:00:00Z" has a day that its month does not have'],
    ['2026-11-31T23:59:59+02:00', 'time "2026-11-31T23:59:59+02:00" has a day that its month does not have'],
    ['2027-02-29T09:00:00Z', 'time "2027-02-29T09:00:00Z" has a day that its month does not have'],
    ['2200-01-01T00:00:00Z', 'time "2200-01-01T00:00:00Z" is after the year 2199'],
    [
      1_795_165_200_123_456,
      'time 1795165200123456 is after the year 2199: numbers are seconds or milliseconds since 1970, not microseconds or nanoseconds',
    ],
    [
      '1795165200123456789',
      'time "1795165200123456789" is after the year 2199: numbers are seconds or milliseconds since 1970, not microseconds or nanoseconds',
    ],
    [7_258_118_400_000, 'time 7258118400000 is after the year 2199: numbers are seconds'],
    [1e300, 'time 1e+300 is after the year 2199: numbers are seconds'],
  ])('rejects %j', (written, message) => {
    expect(() => readRecordedTime(written)).toThrow(message);
  });
});
