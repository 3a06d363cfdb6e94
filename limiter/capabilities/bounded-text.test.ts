import { describe, expect, it } from 'vitest';
import { boundedText } from './bounded-text.ts';

const longest = 512;

describe('boundedText', () => {
  it('leaves a text unchanged up to the bound', () => {
    const text = 'x'.repeat(longest);
    expect(boundedText(text)).toBe(text);
  });

  it('keeps of a longer one the beginning, and distinguishes it from others with the same beginning', () => {
    const texts = ['a', 'b'].map((end) => boundedText(`${'x'.repeat(longest)}${end}`));
    expect(texts[0]).toMatch(/^x{448}\.\.\.\(513 characters, [0-9a-f]{16}\)$/);
    expect(new Set(texts).size).toBe(2);
    const long = boundedText('ü'.repeat(1_000_000));
    expect(long.length).toBeLessThanOrEqual(longest);
  });
});
