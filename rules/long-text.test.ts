import { hash } from 'node:crypto';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { caseCount } from '../test/support/property-cases.ts';
import { countedEntries, countedText, shownKey, shownText } from './long-text.ts';

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

  it('is different for different texts, and longer than any text that represents itself', () => {
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

  it('leaves entries as they are if none is long', () => {
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
