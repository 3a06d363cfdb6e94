import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { proxyKinds } from '../../rules/finding-kinds.ts';
import { LineIndex } from '../../rules/yaml/places.ts';
import { sarifLog } from '../forms/sarif.ts';
import { allowedKinds, excerptAt, excerptLines, severityOf, warningKinds } from './check-report.ts';

function shown(text: string, line: number, column: number, length: number): string[] {
  const excerpt = excerptAt(new LineIndex(text), line, column, length);
  return excerpt === undefined ? [] : excerptLines(excerpt);
}

describe('an excerpt', () => {
  it.each([
    ['the first line', 'ab\ncd', 1, 2, ['  1 | ab', '    |  ^']],
    ['a line between other kinds of breaks', 'a\r\nb\rcd\ne', 3, 2, ['  3 | cd', '    |  ^']],
    ['tabs, which stay tabs', 'x\n\t\tk: v', 2, 6, ['  2 | \t\tk: v', '    | \t\t   ^']],
    ['the end of a line', 'ab', 1, 9, ['  1 | ab', '    |   ^']],
    ['an empty last line', 'ab\n', 2, 1, ['  2 | ', '    | ^']],
    ['several characters', 'ab cd', 1, 4, ['  1 | ab cd', '    |    ^^'], 2],
    ['wide characters, which take two columns', '漢字: 😀 x', 1, 8, ['  1 | 漢字: 😀 x', '    |          ^']],
    ['a wide word', 'k: 漢字', 1, 4, ['  1 | k: 漢字', '    |    ^^^^'], 2],
    ['accents that join', 'e\u0301: x', 1, 5, ['  1 | e\u0301: x', '    |    ^']],
    ['what turns a line round', 'a\u202eb', 1, 3, ['  1 | a\ufffdb', '    |   ^']],
    ['commands to a runner', 'a ##[add-mask]b', 1, 1, ['  1 | a #\ufffd[add-mask]b', '    | ^']],
    ['control characters', 'a\u001b[2J', 1, 1, ['  1 | a\ufffd[2J', '    | ^']],
  ] as [string, string, number, number, string[], number?][])(
    'shows %s',
    (_, text, line, column, expected, length = 1) => {
      expect(shown(text, line, column, length)).toEqual(expected);
    },
  );

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

  /** The rows of the table of a page that begins so. */
  const rowsOf = (head: string, page = 'check.md'): string[] => {
    const document = readFileSync(new URL(`../../docs/${page}`, import.meta.url), 'utf8');
    const begin = document.indexOf(head);
    expect(begin).toBeGreaterThan(0);
    return document.slice(begin, document.indexOf('\n\n', begin)).split('\n').slice(2);
  };

  it('all stand in the document with what they are, and no others', () => {
    const rows = rowsOf('| kind | is | what it says |').map((row) =>
      /^\| `([a-z-]+)` \| (\w+) \|/.exec(row)?.slice(1),
    );
    expect(rows).toEqual(warningKinds.map((kind) => [kind, severityOf(kind, 'usual')]));
  });

  it('are those of SARIF, with its default level; documents describe what limiters reject, and what is specific to Envoy', () => {
    const report = {
      command: 'check',
      findings: [],
      files: [],
      exitStatus: 0,
      isQuiet: false,
      markdown: () => '',
    } as const;
    const rules = (
      sarifLog(report, '/') as {
        runs: { tool: { driver: { rules: { id: string; defaultConfiguration: { level: string } }[] } } }[];
      }
    ).runs[0]!.tool.driver.rules;
    const accepted: readonly string[] = warningKinds;
    // These are kinds of what limiters reject, too, and errors then.
    const both = ['duplicate-domain', 'misplaced-key', 'unreadable'];
    const ofEnvoy = new Map(
      rowsOf('| finding | severity | description |', 'envoy.md').map((row) => {
        const [, id, level] = /^\| `([a-z-]+)` \| (\w+) \|/.exec(row)!;
        return [id!, level!] as const;
      }),
    );
    expect([...ofEnvoy.keys()].toSorted()).toEqual(proxyKinds.toSorted());
    for (const { id, defaultConfiguration } of rules) {
      if (id === 'not-reviewed') {
        expect(defaultConfiguration.level).toBe('note');
        continue;
      }
      if (ofEnvoy.has(id)) {
        expect([id, defaultConfiguration.level]).toEqual([id, ofEnvoy.get(id)]);
        continue;
      }
      const common = accepted.includes(id) && !both.includes(id) ? severityOf(id, 'usual') : 'error';
      expect([id, defaultConfiguration.level]).toEqual([id, common]);
    }
    const refused = rowsOf('| kind | what it says |').flatMap(
      (row) => row.split('|')[1]!.match(/[a-z-]+/g) ?? [],
    );
    const isRefused = (id: string): boolean =>
      (!accepted.includes(id) || both.includes(id)) && (id === 'syntax' || !ofEnvoy.has(id));
    const ids = rules.map(({ id }) => id).filter((id) => id !== 'not-reviewed' && isRefused(id));
    expect(refused.toSorted()).toEqual(ids.toSorted());
  });

  it.each([
    ['compat', 'warning', 'warning'],
    ['usual', 'error', 'warning'],
    ['strict', 'error', 'error'],
  ] as const)('are with %s: no-effect %s, dotted-metric %s', (strictness, idle, dotted) => {
    expect(severityOf('no-effect', strictness)).toBe(idle);
    expect(severityOf('dotted-metric', strictness)).toBe(dotted);
  });
});
