import { describe, expect, it } from 'vitest';
import { joinedWithin, shortened } from './conditions.ts';

describe('shortened', () => {
  it('marks what it cuts off', () => {
    expect(shortened('abcdef', 6)).toBe('abcdef');
    expect(shortened('abcdefg', 6)).toBe('abc...');
  });

  it('leaves no half of a character', () => {
    expect(shortened('ab😀defg', 6)).toBe('ab\ufffd...');
  });
});

describe('joinedWithin', () => {
  it('joins all that fit', () => {
    expect(joinedWithin({ items: ['a', 'b', 'c'], count: 3 }, 100)).toBe('a; b; c');
  });

  it('counts the others, also those that it was not given', () => {
    const items = ['a'.repeat(30), 'b'.repeat(30), 'c'.repeat(30)];
    const text = joinedWithin({ items, count: 5 }, 95);
    expect(text).toBe(`${'a'.repeat(30)}; ${'b'.repeat(30)}; and 3 more`);
  });

  it('keeps within the bound when the first one is too long', () => {
    const text = joinedWithin({ items: ['a'.repeat(200), 'b'], count: 2 }, 100);
    expect(text).toMatch(/^a+\.\.\.; and 1 more$/);
    expect(text.length).toBeLessThanOrEqual(100);
  });
});
