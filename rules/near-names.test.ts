import { describe, expect, it } from 'vitest';
import { similarName, unknownDomainWords } from './rule-error.ts';

describe('the intended name', () => {
  it.each([
    ['sohp', 'shop'],
    ['Shop', 'shop'],
    ['api.v1', 'api_v1'],
    ['shopping', undefined],
  ])('of %s is %s', (written, meant) => {
    expect(similarName(written, ['mail', 'shop', 'api_v1'])).toBe(meant);
  });

  it('is named with an unknown domain', () => {
    expect(unknownDomainWords('shpo', ['shop'])).toBe(
      'no rules have the domain "shpo"; did you mean "shop"?',
    );
    expect(unknownDomainWords('x', ['shop'])).toBe('no rules have the domain "x"');
  });
});
