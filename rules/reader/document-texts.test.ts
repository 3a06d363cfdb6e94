import { describe, expect, it } from 'vitest';
import { documentTexts } from './read-manifests.ts';

describe('documentTexts', () => {
  it.each([
    [
      'a: 1\n---\nb: 2\n',
      [
        ['a: 1\n', 1],
        ['---\nb: 2\n', 2],
      ],
    ],
    [
      '---\na: 1\n--- # two\nb: 2',
      [
        ['', 1],
        ['---\na: 1\n', 1],
        ['--- # two\nb: 2', 3],
      ],
    ],
    [
      'a: 1\r\n---\r\nb: 2',
      [
        ['a: 1\r\n', 1],
        ['---\r\nb: 2', 2],
      ],
    ],
    [
      'a: 1\r---\rb: 2',
      [
        ['a: 1\r', 1],
        ['---\rb: 2', 2],
      ],
    ],
    ['a: |\n  ---\n---a: 1\n----\n', [['a: |\n  ---\n---a: 1\n----\n', 1]]],
    [
      '---',
      [
        ['', 1],
        ['---', 1],
      ],
    ],
  ])('splits %j', (text, documents) => {
    expect(documentTexts(text).map(({ text, firstLine }) => [text, firstLine])).toEqual(documents);
  });
});
