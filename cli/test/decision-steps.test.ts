import { describe, expect, it } from 'vitest';
import {
  answersText,
  descriptorsText,
  parseDecisions,
  parseDescriptors,
  parseDuration,
  parseStep,
} from './decision-steps.ts';

const plain = { limit: undefined, hitsAddend: undefined, isNegativeHits: false };

describe('parseDecisions', () => {
  it('reads descriptors, hits, answers and time', () => {
    const line = 'a=1, b=x=y + c=2 hits -3 -> OK (2 left), OVER_LIMIT x2';
    expect(parseDecisions(`# c\n${line}\nafter 60s\n`)).toEqual([
      {
        line,
        step: {
          descriptors: [
            {
              ...plain,
              entries: [
                { key: 'a', value: '1' },
                { key: 'b', value: 'x=y' },
              ],
            },
            { ...plain, entries: [{ key: 'c', value: '2' }], hitsAddend: 3, isNegativeHits: true },
          ],
          answers: [
            { code: 'OK', remaining: 2 },
            { code: 'OVER_LIMIT', remaining: undefined },
            { code: 'OVER_LIMIT', remaining: undefined },
          ],
        },
      },
      { line: 'after 60s', step: { afterMs: 60_000 } },
    ]);
  });
});

describe('parseStep', () => {
  it.each([
    ['a=1', '"a=1" is not of the form key=value -> OK x2, OVER_LIMIT'],
    ['a -> OK', '"a" is not of the form key=value'],
    ['a=1,b -> OK', '"b" is not of the form key=value; put a value with a comma in double quotes'],
    ['a=1 -> PERHAPS', '"PERHAPS": expected one of OK, OVER_LIMIT, no limit, unlimited'],
    ['a=1 -> OKAY', 'also as OK (2 left) or OK x3'],
    ['a=1 -> OVERLIMIT (2 left)', 'did you mean "OVER_LIMIT"?'],
    ['a=1 -> OK x0x', '"OK x0x": expected one of'],
    ['a=1 -> OK x0', '"OK x0" expects nothing'],
    ['a="/b -> OK', 'a double quote is not closed'],
    [String.raw`a="/b\n" -> OK`, '\\n is not known in double quotes'],
    ['a="/b"c -> OK', 'text follows the closing quote of "/b"'],
    ['a=1 hits 1.5 -> OK', 'hits: expected a whole number, not "1.5"'],
    ['a=1 hits -> OK', 'hits: expected a whole number'],
    ['a=1 hits 99999999999999999 -> OK', 'hits: expected a whole number'],
    ['after soon', '"soon" is no length of time'],
  ])('rejects "%s"', (text, message) => {
    expect(() => parseStep(text)).toThrow(message);
  });
});

describe('descriptors', () => {
  it.each([
    String.raw`path="/a, b + c -> d \"e\" \\", user=x`,
    '"k,=1"=v hits 600 + a=',
    'path=/search?q=1&r=2, plan=gold',
    'own=a hits -1',
  ])('are written as they are read: %s', (text) => {
    expect(descriptorsText(parseDescriptors(text))).toBe(text);
  });

  it('may have no blank behind a comma', () => {
    expect(descriptorsText(parseDescriptors('a=1,b=2'))).toBe('a=1, b=2');
  });
});

it.each([
  ['1m', 60_000],
  ['1m30s', 90_000],
  ['0.5s', 500],
  ['250ms', 250],
  ['1w2d', 777_600_000],
])('a time of %s', (text, ms) => expect(parseDuration(text)).toBe(ms));

it('answers are written with what they say of rule and headers', () => {
  const headers = new Map([['retry-after', undefined]]);
  const ok = { code: 'OK', remaining: 1 } as const;
  expect(answersText([ok, ok, { code: 'OVER_LIMIT', rule: 'a.b', headers }])).toBe(
    'OK (1 left) x2, OVER_LIMIT [rule a.b; retry-after: (none)]',
  );
});
