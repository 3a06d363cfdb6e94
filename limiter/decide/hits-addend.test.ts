import { describe, expect, it } from 'vitest';
import { checkHitsAddends, hitsOf } from './assess.ts';
import { type Descriptor, ServiceError } from './messages.ts';

const descriptor = (hitsAddend: number | undefined): Descriptor => ({
  entries: [],
  limit: undefined,
  hitsAddend,
  isNegativeHits: false,
});

describe('hitsOf', () => {
  it.each([
    { request: 0, own: undefined, hits: 1 },
    { request: 1, own: undefined, hits: 1 },
    { request: 7, own: undefined, hits: 7 },
    { request: 7, own: 0, hits: 0 },
    { request: 0, own: 0, hits: 0 },
    { request: 7, own: 3, hits: 3 },
  ])('request $request, own $own: $hits', ({ request, own, hits }) => {
    expect(hitsOf({ domain: 'd', descriptors: [], hitsAddend: request }, descriptor(own))).toBe(hits);
  });
});

describe('checkHitsAddends', () => {
  it('refuses what is above 2^63 - 1, naming the descriptor', () => {
    const descriptors = [descriptor(Number.MAX_SAFE_INTEGER), descriptor(Number.POSITIVE_INFINITY)];
    expect(() => checkHitsAddends(descriptors)).toThrow(
      new ServiceError('hits_addend of descriptor 1 must be at most 9223372036854775807'),
    );
  });

  it('takes everything below', () => {
    expect(() =>
      checkHitsAddends([descriptor(undefined), descriptor(0), descriptor(2 ** 53 - 1)]),
    ).not.toThrow();
  });
});
