import { hash } from 'node:crypto';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { stemOfValues } from '../limiter/decide/counter-key.ts';
import { windowSuffix } from '../limiter/decide/windows.ts';
import { parseCounterKey } from '../limiter/operate/counter-key-reader.ts';
import { anyCounter, identityOf, type NamedCounter, unambiguousKey } from '../test/support/any-counter.ts';
import { caseCount } from '../test/support/property-cases.ts';
import { Algorithm } from './algorithms/registry.ts';
import { countedEntry, EntryMark, unambiguousStem } from './counter-keys.ts';
import { defaultTextBytes } from './long-text.ts';

function stem(domain: string, ...entries: [key: string, value: string][]): string {
  return stemOfValues(
    'unambiguous',
    domain,
    entries.map(([key, value]) => ({ key, value })),
    defaultTextBytes,
  );
}

describe('an unambiguous key', () => {
  it('says domain, entries, length and start of the window', () => {
    const key = `p:${stem('bank', ['ip', 'x_7'], ['path', '/a?b=c d'])}${windowSuffix('unambiguous', 60, 1_700_000_000)}`;
    expect(key).toBe('p:1{bank;ip=x_7;path=/a?b%3Dc%20d}60:1700000000');
    expect(parseCounterKey(key)).toEqual({
      prefix: 'p:',
      domain: { text: 'bank', sha256: undefined },
      entries: [
        { key: { text: 'ip', sha256: undefined }, mark: '=', text: { text: 'x_7', sha256: undefined } },
        {
          key: { text: 'path', sha256: undefined },
          mark: '=',
          text: { text: '/a?b=c d', sha256: undefined },
        },
      ],
      algorithm: Algorithm.FIXED_WINDOW,
      windowSeconds: 60,
      windowStartSeconds: 1_700_000_000,
    });
  });

  it.each([
    ['joined by _ they were one', stem('bank', ['ip', 'x_7']), stem('bank_ip', ['x', '7'])],
    ['an empty entry is one', stem('d'), stem('d', ['', ''])],
    ['empty values are distinguished from keys', stem('d', ['a', '']), stem('d', ['', 'a'])],
    ['a value may look like two entries', stem('d', ['a', 'x;b=y']), stem('d', ['a', 'x'], ['b', 'y'])],
    [
      'a pattern is not its text',
      stem('d', ['a', 'x*']),
      unambiguousStem('d', countedEntry('a', EntryMark.pattern, 'x*')),
    ],
    [
      'a pattern of key and value is not one of values',
      unambiguousStem('d', countedEntry('a', EntryMark.pattern, 'a*')),
      unambiguousStem('d', countedEntry('a', EntryMark.wholePattern, 'a*')),
    ],
    ['halves of pairs are distinguished', stem('d', ['a', '\ud83d']), stem('d', ['a', '\ud83e'])],
    [
      'a month of 30 days and one of the calendar',
      windowSuffix('unambiguous', 2_592_000, 0),
      windowSuffix('unambiguous', 'month', 0),
    ],
    [
      'a month of UTC and one of a zone',
      windowSuffix('unambiguous', 'month', 0),
      windowSuffix('unambiguous', 'month@UTC@1', 0),
    ],
    ['minutes and hours', windowSuffix('unambiguous', 60, 0), windowSuffix('unambiguous', 3600, 0)],
  ])('differs: %s', (_, one, other) => {
    expect(one).not.toBe(other);
  });

  it('keeps of a long part its first 32 bytes and a hash, and says so', () => {
    const value = `${'é'.repeat(100)}`;
    const written = stem('d', ['k', value]);
    expect(written).toBe(`1{d;k=${'é'.repeat(16)}~${hash('sha256', value)}}`);
    expect(stem('d', ['k', 'v'.repeat(128)])).toBe(`1{d;k=${'v'.repeat(128)}}`);
    expect(parseCounterKey(`${written}1:7`)?.entries).toEqual([
      {
        key: { text: 'k', sha256: undefined },
        mark: '=',
        text: { text: 'é'.repeat(16), sha256: hash('sha256', value) },
      },
    ]);
    expect(stem('d', ['k', `${'v'.repeat(128)}~`])).toMatch(/^1\{d;k=v{32}~[0-9a-f]{64}\}$/);
  });

  it('cuts neither characters nor escapes in two', () => {
    expect(stem('d', ['k', `${'v'.repeat(31)}${'é'.repeat(60)}`])).toMatch(/=v{31}~[0-9a-f]{64}\}$/);
    expect(stem('d', ['k', `${'v'.repeat(31)}${' '.repeat(120)}`])).toMatch(/=v{31}~[0-9a-f]{64}\}$/);
  });

  it('has a bound, however many entries there are', () => {
    const entries = Array.from({ length: 64 }, (_, i): [string, string] => [`key_${i}`, 'v'.repeat(100)]);
    const written = stem('d'.repeat(500), ...entries);
    expect(written).toMatch(/^1\{d{32}~[0-9a-f]{64};key_0=v{26}~~[0-9a-f]{64}\}$/);
    expect(parseCounterKey(`${written}1:7`)?.entries).toEqual({
      text: `key_0=${'v'.repeat(26)}`,
      sha256: expect.any(String),
    });
    const changed = entries.with(63, ['key_63', 'w'.repeat(100)]);
    expect(stem('d'.repeat(500), ...changed)).not.toBe(written);
  });

  it('is unlike any compatible one', () => {
    for (const key of ['d_k_v_1700000000', '1{d;k=v}60:_5', '1{d;k=v}60:7_1', '1{d}60', 'x', '']) {
      expect(parseCounterKey(key)).toBeUndefined();
    }
  });
});

describe('keys of any counters', () => {
  const isShort = (text: string): boolean => Buffer.byteLength(text) <= 128;

  function reported({ domain, entries }: NamedCounter) {
    const whole = (text: string) => ({ text, sha256: undefined });
    return {
      domain: whole(domain),
      entries: entries.map(({ key, mark, text }) => ({ key: whole(key), mark, text: whole(text) })),
    };
  }

  it('are reported back, except for parts that are too long', () => {
    let asked = 0;
    fc.assert(
      fc.property(anyCounter, (counter) => {
        const key = unambiguousKey(counter, 'p~:');
        const parsed = parseCounterKey(key);
        expect(parsed?.prefix).toBe('p~:');
        const texts = [counter.domain, ...counter.entries.flatMap((entry) => [entry.key, entry.text])];
        if (!texts.every(isShort) || !Array.isArray(parsed?.entries)) return;
        asked++;
        expect(parsed).toMatchObject(reported(counter));
      }),
      { numRuns: caseCount(2_000) },
    );
    expect(asked).toBeGreaterThan(caseCount(500));
  });

  it('are equal for equal counters alone', () => {
    fc.assert(
      fc.property(fc.array(anyCounter, { minLength: 2, maxLength: 40 }), (counters) => {
        const byKey = new Map<string, string>();
        for (const counter of counters) {
          const key = unambiguousKey(counter);
          const identity = identityOf(counter);
          expect(byKey.get(key) ?? identity).toBe(identity);
          byKey.set(key, identity);
        }
        expect(byKey.size).toBe(new Set(byKey.values()).size);
      }),
      { numRuns: caseCount(500) },
    );
  });

  it('have domain and entries as the hash tag that Redis reads, whole and alone', () => {
    fc.assert(
      fc.property(anyCounter, (counter) => {
        const key = unambiguousKey(counter, 'prefix:');
        const tag = key.slice(key.indexOf('{') + 1, key.indexOf('}'));
        expect(key.startsWith(`prefix:1{${tag}}`)).toBe(true);
        expect(tag).not.toBe('');
        expect(key.indexOf('}')).toBe(key.lastIndexOf('}'));
      }),
    );
  });

  it('are well-formed text without blanks and control characters', () => {
    fc.assert(
      fc.property(anyCounter, (counter) => {
        const key = unambiguousKey(counter);
        expect(key.isWellFormed()).toBe(true);
        // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what a key must not have
        expect(key).not.toMatch(/[\x00-\x20\x7f-\x9f]/);
        expect(Buffer.byteLength(key)).toBeLessThan(1_600);
      }),
    );
  });
});
