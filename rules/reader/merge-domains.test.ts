import { describe, expect, it } from 'vitest';
import { rule, source } from '../../test/support/rule-builder.ts';
import { mergeDomains } from './merge-domains.ts';

describe('mergeDomains', () => {
  it('joins sources of one domain in their order and leaves them as they are', () => {
    const [a, b, c] = [rule({ key: 'a' }), rule({ key: 'b' }), rule({ key: 'c' })];
    const sources = [source('d', [a]), source('e', [b]), source('d', [c])];
    expect(mergeDomains(sources)).toEqual([
      { domain: 'd', descriptors: [a, c] },
      { domain: 'e', descriptors: [b] },
    ]);
    expect(sources[0]?.descriptors).toEqual([a]);
  });

  it('keeps a domain without rules', () => {
    expect(mergeDomains([source('d', [])])).toEqual([{ domain: 'd', descriptors: [] }]);
  });
});
