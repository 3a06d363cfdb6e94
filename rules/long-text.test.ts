import { hash } from 'node:crypto';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { caseCount } from '../test/support/property-cases.ts';
import {
  boundedText,
  countedEntries,
  countedText,
  longestText,
  longTextsIn,
  shownKey,
  shownText,
} from './long-text.ts';

const max = 16;

describe('countedText', () => {
  it('is the text within the bound, its beginning and its hash beyond it', () => {
    expect(countedText('a'.repeat(16), max)).toBe('a'.repeat(16));
    const long = 'a'.repeat(17);
    expect(countedText(long, max)).toBe(`${'a'.repeat(16)}~sha256:${hash('sha256', long)}`);
    // A character is not cut, and a half of a pair is U+FFFD.
    const cut = `${'a'.repeat(15)}é`;
    expect(countedText(cut, max)).toBe(`${'a'.repeat(15)}~sha256:${hash('sha256', Buffer.from(cut))}`);
    const half = `${'a'.repeat(14)}\ud83d`;
    expect(countedText(half, max)).toBe(
      `${'a'.repeat(14)}~sha256:${hash('sha256', `${'a'.repeat(14)}\ufffd`)}`,
    );
  });

  it('is different for different texts, and longer than any text that stands for itself', () => {
    const text = fc.string({ unit: fc.constantFrom('a', 'b', 'é', '漢', '𝄞', '_'), maxLength: 24 });
    fc.assert(
      fc.property(text, text, (one, other) => {
        const [a, b] = [countedText(one, max), countedText(other, max)];
        expect(a === b).toBe(one === other);
        if (a === one) return;
        expect(Buffer.byteLength(a)).toBeGreaterThan(max);
        expect(Buffer.byteLength(a)).toBeLessThanOrEqual(max + 72);
        expect(one.startsWith(a.slice(0, a.indexOf('~')))).toBe(true);
        // Which is itself too long to be found by its text.
        expect(countedText(a, max)).not.toBe(a);
      }),
      { numRuns: caseCount(2000) },
    );
  });

  it('leaves entries as they are where none is long', () => {
    const entries = [{ key: 'k', value: 'v' }];
    expect(countedEntries(entries, max)).toBe(entries);
    expect(countedEntries([...entries, { key: 'k', value: 'v'.repeat(17) }], max)).toEqual([
      ...entries,
      { key: 'k', value: countedText('v'.repeat(17), max) },
    ]);
  });
});

describe('what is shown', () => {
  it('has 64 bytes and 8 digits', () => {
    const long = `${'v'.repeat(62)}é${'w'.repeat(100)}`;
    const digits = hash('sha256', long).slice(0, 8);
    expect(shownText(long, 100)).toBe(`${'v'.repeat(62)}é~${digits}`);
    expect(shownText(long, 1000)).toBe(long);
    const key = (text: string) => `d_k_${text}_other_v_1700000000`;
    expect(shownKey(key(countedText(long, 100)))).toBe(`d_k_${'v'.repeat(60)}~${digits}_other_v_1700000000`);
    expect(shownKey(key('v'.repeat(500)))).toBe(key('v'.repeat(500)));
  });
});

describe('longTextsIn', () => {
  it('finds each long text in a key, and none that a caller made up', () => {
    const text = fc.string({ unit: fc.constantFrom('a', 'é', '𝄞', '_', '~'), minLength: 1, maxLength: 40 });
    fc.assert(
      fc.property(text, text, (one, other) => {
        const long = [one, other].map((each) => each.padEnd(60, 'x'));
        const key = `d_path_${long.map((each) => countedText(each, max)).join('_path_')}_17`;
        const found = longTextsIn(key, max);
        expect(found.map(({ sha256 }) => sha256)).toEqual(long.map((each) => hash('sha256', each)));
        for (const [n, { head, start, end }] of found.entries()) {
          expect(long[n]!.startsWith(head)).toBe(true);
          expect(key.slice(start, end)).toBe(countedText(long[n]!, max));
        }
      }),
      { numRuns: caseCount(500) },
    );
    expect(longTextsIn(`d_k_v~sha256:${'0'.repeat(64)}_17`, max)).toEqual([]);
  });
});

describe('boundedText', () => {
  it('leaves a text as it is up to the bound', () => {
    const text = 'x'.repeat(longestText);
    expect(boundedText(text)).toBe(text);
  });

  it('keeps of a longer one the beginning, and distinguishes it from others with the same beginning', () => {
    const texts = ['a', 'b'].map((end) => boundedText(`${'x'.repeat(longestText)}${end}`));
    expect(texts[0]).toMatch(/^x{448}\.\.\.\(513 characters, [0-9a-f]{16}\)$/);
    expect(new Set(texts).size).toBe(2);
    const long = boundedText('ü'.repeat(1_000_000));
    expect(long.length).toBeLessThanOrEqual(longestText);
  });
});
