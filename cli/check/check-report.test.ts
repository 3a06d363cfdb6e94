import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { LineIndex } from '../../rules/yaml/places.ts';
import { allowedKinds, excerptAt, excerptLines, warningKinds } from './check-report.ts';

function shown(text: string, line: number, column: number): string[] {
  const excerpt = excerptAt(new LineIndex(text), line, column);
  return excerpt === undefined ? [] : excerptLines(excerpt);
}

describe('an excerpt', () => {
  it.each([
    ['the first line', 'ab\ncd', 1, 2, ['  1 | ab', '    |  ^']],
    ['a line between other kinds of breaks', 'a\r\nb\rcd\ne', 3, 2, ['  3 | cd', '    |  ^']],
    ['tabs, which stay tabs', 'x\n\t\tk: v', 2, 6, ['  2 | \t\tk: v', '    | \t\t   ^']],
    ['the end of a line', 'ab', 1, 9, ['  1 | ab', '    |   ^']],
    ['an empty last line', 'ab\n', 2, 1, ['  2 | ', '    | ^']],
    ['control characters', 'a\u001b[2J', 1, 1, ['  1 | a\ufffd[2J', '    | ^']],
  ])('shows %s', (_, text, line, column, expected) => {
    expect(shown(text, line, column)).toEqual(expected);
  });

  it('is none for a line that is not there', () => {
    expect(excerptAt(new LineIndex('ab'), 2, 1)).toBeUndefined();
  });

  it('cuts a long line around its place, and points at the same character', () => {
    const text = `${'a'.repeat(300)}X${'b'.repeat(300)}`;
    for (const column of [1, 40, 301, 560, 601]) {
      const excerpt = excerptAt(new LineIndex(text), 1, column)!;
      expect(excerpt.text.length).toBeLessThanOrEqual(106);
      expect(excerpt.text[excerpt.caret]).toBe(text[column - 1]);
    }
    expect(excerptAt(new LineIndex(text), 1, 301)!.text).toMatch(/^\.\.\.a{50}Xb{49}\.\.\.$/);
  });
});

describe('kinds of what limiters accept', () => {
  it('are waived by name', () => {
    expect([...allowedKinds(['no-rules, dotted-metric', 'no-effect'])]).toEqual([
      'no-rules',
      'dotted-metric',
      'no-effect',
    ]);
  });

  it.each(['', 'dotted', 'no-rules,'])('are not waived by "%s"', (value) => {
    expect(() => allowedKinds([value])).toThrow(/^--allow: there is no kind "(?:dotted)?"; there are never-/);
  });

  it('all stand in the document, and no others', () => {
    const document = readFileSync(new URL('../../docs/gitops.md', import.meta.url), 'utf8');
    const [table = ''] = /\| warning \| what it says \|[\s\S]*?\n\n/.exec(document) ?? [];
    const cells = [...table.matchAll(/^\| (`[^|]*) \|/gm)].flatMap(
      ([, cell]) => cell!.match(/[a-z-]+/g) ?? [],
    );
    expect(cells.sort()).toEqual([...warningKinds].sort());
  });
});
