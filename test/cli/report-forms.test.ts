/** What `check` and `diff` say to other programs, read by these: GitHub's Markdown, an XML reader, the schema of SARIF. */

import { spawnSync } from 'node:child_process';
import { relative, resolve } from 'node:path';
import { Ajv } from 'ajv';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { warningKinds } from '../../cli/check/check-report.ts';
import { documentOf } from '../../cli/forms/forms.ts';
import { checkMarkdown } from '../../cli/forms/markdown.ts';
import type { Report, ReportedFinding } from '../../cli/forms/report.ts';
import { escaped } from '../../cli/shared/text.ts';
import { sarifSchema } from '../support/definitions.ts';
import { describeWithServer } from '../support/describe-with-server.ts';
import { cmarkProgram, xmllintProgram } from '../support/find-server.ts';
import { caseCount } from '../support/property-cases.ts';

/** What means something to one of the forms, or to a terminal. */
const pieces = [
  ...[
    '|',
    '||',
    '\\',
    '\\|',
    '`',
    '``',
    '<script>',
    '</td>',
    '<!--',
    '-->',
    ']]>',
    '&',
    '&lt;',
    '&#124;',
    '"',
    "'",
  ],
  ...[
    '@team',
    'a@b.example',
    '#12',
    'GH-1',
    'x/y#3',
    '[a](https://x.example)',
    '![',
    '](',
    '*',
    '**b**',
    '_',
    '~~',
    '$x$',
  ],
  ...[
    'https://x.example',
    'www.x.example',
    '::error::',
    '::error file=a::',
    '##[error]',
    '%',
    '%0A',
    '%3A',
    ':',
    ',',
  ],
  ...[
    '\n',
    '\r',
    '\r\n',
    '\t',
    '\0',
    '\u0007',
    '\u001b[31m',
    '\u0085',
    '\u2028',
    '\u202e',
    '\ufffe',
    '\ud800',
    '\u{1f600}',
  ],
  ...[' ', '  ', 'path=/search*', 'remote_address', 'é'],
];
const hostile = fc.array(fc.constantFrom(...pieces), { maxLength: 8 }).map((some) => some.join(''));
const place = fc.option(fc.integer({ min: 1, max: 9999 }), { nil: undefined });
const findingArbitrary: fc.Arbitrary<ReportedFinding> = fc
  .record({
    severity: fc.constantFrom('error', 'warning', 'note'),
    code: fc.constantFrom('syntax', 'no-effect', 'odd', 'unreadable'),
    file: hostile.map((text) => `rules/${text}`),
    line: place,
    column: place,
    length: place,
    message: hostile,
    hint: fc.option(hostile, { nil: undefined }),
  })
  .map((one) => ({ ...one, column: one.line === undefined ? undefined : one.column }));

function reportOf(findings: readonly ReportedFinding[], files: readonly string[] = []): Report {
  const of = (wanted: string): number => findings.filter(({ severity }) => severity === wanted).length;
  return {
    command: 'check',
    findings,
    files,
    exitStatus: 1,
    isQuiet: false,
    markdown: () => checkMarkdown(findings, { errors: of('error'), warnings: of('warning') }, [...files]),
  };
}

const manyFindings = fc.array(findingArbitrary, { maxLength: 30 });

/** As GitHub's runner reads a line; undefined for one that is no command. */
function commandOf(
  line: string,
): { name: string; properties: Record<string, string>; text: string } | undefined {
  const [, name, list = '', text] = /^::(\w+)(?: (.*?))?::(.*)$/s.exec(line) ?? [];
  if (name === undefined || text === undefined) return undefined;
  const decoded = (one: string, codes: Record<string, string>): string =>
    Object.entries(codes).reduce((all, [code, character]) => all.replaceAll(code, character), one);
  const codes = { '%0D': '\r', '%0A': '\n' };
  const properties = list.split(',').map((one) => {
    const at = one.indexOf('=');
    const value = decoded(one.slice(at + 1), { ...codes, '%3A': ':', '%2C': ',', '%25': '%' });
    return [one.slice(0, at), value];
  });
  return { name, properties: Object.fromEntries(properties), text: decoded(text, { ...codes, '%25': '%' }) };
}

const textOf = ({ message, hint }: ReportedFinding): string =>
  escaped(message) + (hint === undefined ? '' : `\nhint: ${escaped(hint)}`);

describe("GitHub's annotations", () => {
  it('print each finding in one line, errors first, whatever it contains', () => {
    fc.assert(
      fc.property(manyFindings, (findings) => {
        const lines = documentOf(reportOf(findings), 'github', '/work').split(/\r\n|\r|\n/);
        expect(lines.pop()).toBe('');
        const read = lines.map(commandOf);
        const wanted = ['error', 'warning', 'note'].flatMap((severity) =>
          findings
            .filter((one) => one.severity === severity)
            .map((one) => ({
              name: severity === 'note' ? 'notice' : severity,
              file: one.file,
              line: one.line?.toString(),
              text: textOf(one),
            })),
        );
        expect(
          read.map((one) => ({
            name: one?.name,
            file: one?.properties['file'],
            line: one?.properties['line'],
            text: one?.text,
          })),
        ).toEqual(wanted);
      }),
      { numRuns: caseCount(100) },
    );
  });

  it('say nothing about what is good', () => {
    expect(documentOf(reportOf([], ['rules/a.yaml']), 'github', '/work')).toBe('');
  });
});

describeWithServer('JUnit', xmllintProgram, (xmllint) => {
  const counted = (document: string, ...what: string[]): string[] => {
    const query = what.map((one) => `count(${one})`).join(", ' ', ");
    const expression = what.length === 1 ? query : `concat(${query})`;
    const { status, stdout, stderr } = spawnSync(xmllint, ['--xpath', expression, '-'], {
      input: document,
      encoding: 'utf8',
    });
    expect([status, stderr]).toEqual([0, '']);
    return stdout.trim().split(' ');
  };

  it('is well-formed, with a case for each finding and each good file', () => {
    fc.assert(
      fc.property(manyFindings, fc.array(hostile, { maxLength: 3 }), (findings, names) => {
        const files = [...new Set(names.map((name) => `good/${name}`))];
        const document = documentOf(reportOf(findings, files), 'junit', '/work');
        const failed = findings.filter(({ severity }) => severity === 'error');
        const errors = failed.filter(({ code }) => code === 'unreadable').length;
        expect(counted(document, '//testcase', '//failure', '//error', '//testcase[not(*)]')).toEqual(
          [findings.length + files.length, failed.length - errors, errors, files.length].map(String),
        );
      }),
      { numRuns: caseCount(15) },
    );
  });

  it('is a document without anything, too', () => {
    expect(
      counted(documentOf(reportOf([]), 'junit', '/work'), '/testsuites/testsuite', '//testcase'),
    ).toEqual(['1', '0']);
  });
});

describe('SARIF', () => {
  const found = sarifSchema();
  const isWithout = 'missing' in found && process.env['CI'] !== 'true';

  it.skipIf(isWithout)('keeps to its schema, with places of its form, whatever was found', () => {
    if ('missing' in found) throw new Error(found.missing);
    const ajv = new Ajv({ strict: false, logger: false });
    const isValid = ajv.compile(found.schema);
    fc.assert(
      fc.property(manyFindings, (findings) => {
        const log = JSON.parse(documentOf(reportOf(findings), 'sarif', '/work')) as SarifLog;
        expect([isValid(log), isValid.errors ?? []]).toEqual([true, []]);
        const [run] = log.runs;
        const read = run!.results.map(({ ruleId, ruleIndex, level, message, locations }) => {
          const { artifactLocation, region } = locations[0]!.physicalLocation;
          expect(artifactLocation.uri).toMatch(/^[\w\-.~/%]+$/);
          expect(artifactLocation.uriBaseId).toBe('%SRCROOT%');
          expect(run!.tool.driver.rules[ruleIndex]?.id).toBe(ruleId);
          const file = decodeURIComponent(artifactLocation.uri);
          return [
            file,
            region?.startLine,
            region?.startColumn,
            level,
            message.text.replaceAll(']\u200b(', ']('),
          ];
        });
        expect(read).toEqual(
          findings.map((one) => {
            const file = relative('/work', resolve('/work', one.file.toWellFormed()));
            return [file, one.line, one.column, one.severity, textOf(one)];
          }),
        );
      }),
      { numRuns: caseCount(50) },
    );
    expect(isValid({ version: '2.1.0', runs: [{}] })).toBe(false);
  });

  it.each([
    ['rules/a b#?é.yaml', 'rules/a%20b%23%3F%C3%A9.yaml', true],
    ['./rules/../a.yaml', 'a.yaml', true],
    ['/work/rules/a.yaml', 'rules/a.yaml', true],
    ['/works/a.yaml', 'file:///works/a.yaml', false],
    ['../other/a.yaml', 'file:///other/a.yaml', false],
    ['<stdin>', '%3Cstdin%3E', true],
    ['http://localhost:6070/rlconfig', 'http://localhost:6070/rlconfig', false],
  ])('names %s as %s', (file, uri, isBelow) => {
    const finding = {
      severity: 'error',
      code: 'x',
      file,
      line: undefined,
      column: undefined,
      message: 'm',
    } as const;
    const log = JSON.parse(documentOf(reportOf([finding]), 'sarif', '/work')) as SarifLog;
    const { artifactLocation } = log.runs[0]!.results[0]!.locations[0]!.physicalLocation;
    expect(artifactLocation).toEqual(isBelow ? { uri, uriBaseId: '%SRCROOT%' } : { uri });
  });

  it('lists the rules with what they are', () => {
    const log = JSON.parse(documentOf(reportOf([]), 'sarif', '/work')) as SarifLog;
    const { results, tool } = log.runs[0]!;
    expect(results).toEqual([]);
    const ids = tool.driver.rules.map(({ id }) => id);
    expect(warningKinds.filter((kind) => !ids.includes(kind))).toEqual([]);
    expect(tool.driver.rules.filter(({ help }) => help.text.length < 20)).toEqual([]);
  });
});

interface SarifLog {
  runs: {
    tool: { driver: { rules: { id: string; help: { text: string } }[] } };
    results: {
      ruleId: string;
      ruleIndex: number;
      level: string;
      message: { text: string };
      locations: {
        physicalLocation: {
          artifactLocation: { uri: string; uriBaseId?: string };
          region?: { startLine: number; startColumn?: number };
        };
      }[];
    }[];
  }[];
}

describeWithServer('Markdown', cmarkProgram, (cmark) => {
  const html = (markdown: string): string => {
    const flags = ['table', 'autolink', 'strikethrough'].flatMap((name) => ['-e', name]);
    const { status, stdout } = spawnSync(cmark, ['--unsafe', ...flags], {
      input: markdown,
      encoding: 'utf8',
    });
    expect(status).toBe(0);
    return stdout;
  };
  const plain = (text: string): string =>
    text
      .replace(/<br ?\/?>/g, '\n')
      .replace(/<\/?code>/g, '')
      .replaceAll('\u200b', '')
      .replaceAll('&lt;', '<')
      .replaceAll('&gt;', '>')
      .replaceAll('&quot;', '"')
      .replaceAll('&amp;', '&');
  /** Cells of the rows below the head. */
  const rowsOf = (page: string): string[][] =>
    [...page.matchAll(/<tr>\n(.*?)<\/tr>/gs)]
      .slice(1)
      .map(([, row = '']) => [...row.matchAll(/<td>(.*?)<\/td>/gs)].map(([, cell = '']) => cell));
  const squeezed = (text: string): string => text.replace(/[ \u200b]+/g, ' ').trim();

  it('has a row of four cells for each finding, with all of its text and nothing that it does', () => {
    fc.assert(
      fc.property(manyFindings, (findings) => {
        const page = html(documentOf(reportOf(findings, ['a|b @team']), 'markdown', '/work'));
        const tags = new Set(
          [...page.matchAll(/<(?!!-- weir check -->)\/?([^\s>/]*)/g)].map(([, tag]) => tag),
        );
        const known = ['h3', 'table', 'thead', 'tbody', 'tr', 'th', 'td', 'code', 'br', 'p'];
        expect([...tags].filter((tag) => !known.includes(tag!))).toEqual([]);
        const prose = page.replace(/<code>.*?<\/code>/gs, '');
        expect(prose.match(/@\w|#\d|GH-\d/g)).toBeNull();
        const rows = rowsOf(page).map(([severity, where, kind, what]) =>
          [severity, where, kind, what].map((cell) => squeezed(plain(cell!))),
        );
        const wanted = findings
          .toSorted((a, b) => a.severity.localeCompare(b.severity))
          .map(({ severity, code, file, line, column, ...words }) => {
            const shown = line === undefined ? file : `${file}:${line}:${column ?? 1}`;
            const what = [words.message, ...(words.hint === undefined ? [] : [`hint: ${words.hint}`])];
            const spelled = (text: string): string =>
              escaped(text.toWellFormed()).replaceAll('\ufffe', '\ufffd');
            return [severity, spelled(shown), code, what.map(spelled).join('\n')].map(squeezed);
          });
        expect(rows).toEqual(wanted);
      }),
      { numRuns: caseCount(40) },
    );
  });

  it('fits a comment, and says what it leaves out', () => {
    const findings = Array.from({ length: 5000 }, (_, index): ReportedFinding => {
      const message = `${index} ${'|@é😀'.repeat(200)}`;
      return { severity: 'error', code: 'x', file: 'f', line: 1, column: 1, message };
    });
    const text = documentOf(reportOf(findings), 'markdown', '/work');
    expect(Buffer.byteLength(text)).toBeLessThan(65_536);
    const rows = rowsOf(html(text));
    expect(rows.length).toBeGreaterThan(10);
    expect(text).toContain(`\n... and ${5000 - rows.length} more of them, which do not fit here.\n`);
  });

  it('is a comment without anything, too', () => {
    const text = documentOf(reportOf([], ['1 file']), 'markdown', '/work');
    expect(text).toBe('<!-- weir check -->\n### Rate limits: no mistakes\n\n1 file\n');
  });
});
