/** What `weir check` and `weir diff` write for a pull request about rules of a stranger, read by GitHub's own reader of Markdown. */

import { spawnSync } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { checkCommand } from '../../cli/check/check-command.ts';
import { diffCommand } from '../../cli/diff/diff-command.ts';
import { escaped } from '../../cli/shared/text.ts';
import { describeWithServer } from '../support/describe-with-server.ts';
import { cmarkProgram } from '../support/find-server.ts';
import { runCommand } from '../support/run-command.ts';
import { suiteFolder } from '../support/suite-folder.ts';

/** By what they would do. Each stands in a domain, a key, a value and the names of limits. */
const hostile: readonly (readonly [what: string, text: string])[] = [
  ['closes a fence', '\n```\nx'],
  ['closes another fence', '\n~~~\nx'],
  ['closes code', '`x``'],
  ['begins a comment', '<!-- x'],
  ['ends a comment', '--> x'],
  ['loads an image', '<img src=x onerror=alert(1)>'],
  ['runs a script', '<script>alert(1)</script>'],
  ['ends the table', '</td></tr></table><h1>x'],
  ['folds what follows', '<details><summary>x'],
  ['adds a cell', '| x |'],
  ['adds a cell behind a backslash', '\\| x'],
  ['links', '[x](https://x.example)'],
  ['links to a script', '[x](javascript:alert(1))'],
  ['shows an image', '![x](https://x.example/x.png)'],
  ['links by an address', 'https://x.example'],
  ['links by a name', 'www.x.example'],
  ['links by a definition', '[x]\n\n[x]: https://x.example'],
  ['mentions', '@octocat'],
  ['mentions a team', '@octo/cats'],
  ['writes a mail', 'x@x.example'],
  ['refers to an issue', '#12'],
  ['refers to an issue by its prefix', 'GH-12'],
  ['refers to an issue elsewhere', 'octo/cat#12'],
  ['refers to a merge request', '!12'],
  ['refers to a milestone', '%12'],
  ['refers to a milestone by its name', '%"x"'],
  ['refers to a label', '~12'],
  ['refers to a snippet', '$12'],
  ['refers to an epic', '&12'],
  ['refers to an alert', '^12'],
  ['is an emoji', ':tada:'],
  ['is mathematics', '$x$'],
  ['is strong', '**x**'],
  ['is struck out', '~~x~~'],
  ['is a heading', '\n# x'],
  ['is a list', '\n- x'],
  ['is a rule', '\n---\n'],
  ['sets an output', '\n::set-output name=x::x'],
  ['is an error of the job', '\r\n::error file=x::x'],
  ['stops commands', '\n::stop-commands::x'],
  ['is a command of the old form', '\n##[error]x'],
  ['opens a section of the log', '\n\u001b[0Ksection_start:1:x\r\u001b[0K'],
  ['is a quick action', '\n/close'],
  ['turns text around', '\u202ex'],
  ['isolates text', '\u2066x\u2069'],
  ['marks text as Arabic', '\u061cx'],
  ['is invisible', '\u2060x'],
  ['is an entity', '&lt;x&gt;'],
];

const folder = suiteFolder();
const [old, now, bad] = [join(folder, 'old'), join(folder, 'now'), join(folder, 'bad')];
const recording = join(folder, 'requests.ndjson');

beforeAll(() => {
  for (const path of [old, now, bad]) mkdirSync(path);
  const requests: string[] = [];
  for (const [n, [, text]] of hostile.entries()) {
    const domain = `d${text}`;
    const rules = (requests_per_unit: number) => {
      const limit = { unit: 'minute', requests_per_unit, name: `n${text}`, replaces: [{ name: `r${text}` }] };
      const inner = { key: `i${text}`, value: `v${text}`, rate_limit: { unit: 'hour', requests_per_unit } };
      return { domain, descriptors: [{ key: `k${text}`, rate_limit: limit, descriptors: [inner] }] };
    };
    write(join(old, `${n}.yaml`), rules(5));
    write(join(now, `${n}.yaml`), rules(1));
    write(join(bad, `${n}.yaml`), { domain, [`x${text}`]: 1 });
    const entries = [[`k${text}`, `w${text}`]];
    for (const seconds of [1, 2, 3])
      requests.push(JSON.stringify({ time: 1_000_000 + seconds, domain, descriptors: [entries] }));
  }
  writeFileSync(recording, requests.join('\n'));
});

function write(path: string, value: object): void {
  writeFileSync(path, JSON.stringify(value));
}

const reports: [what: string, command: typeof checkCommand, args: () => string[], texts: RegExp][] = [
  ['check of rules that load', checkCommand, () => [now], /^[r]/],
  ['check of rules that do not', checkCommand, () => [bad], /^[x]/],
  ['diff', diffCommand, () => ['--replay', recording, '--fail-on', 'stricter', old, now], /^[dk]/],
];

describeWithServer('a comment about hostile rules', cmarkProgram, (cmark) => {
  const html = (markdown: string): string => {
    const flags = ['table', 'autolink', 'strikethrough', 'tasklist'].flatMap((name) => ['-e', name]);
    return spawnSync(cmark, ['--unsafe', ...flags], { input: markdown, encoding: 'utf8' }).stdout;
  };
  const decoded = (text: string): string =>
    text.replaceAll('&lt;', '<').replaceAll('&gt;', '>').replaceAll('&quot;', '"').replaceAll('&amp;', '&');

  describe.each(reports)('of %s', (_, command, args, prefixes) => {
    let markdown: string;
    let page: string;
    beforeAll(async () => {
      const { stdout } = await runCommand(command, ['-o', 'markdown', ...args()]);
      markdown = stdout;
      page = html(markdown).replace(/^<!-- weir (check|diff) -->\n/, '');
    });

    it('has no element that the rules bring, and no attribute', () => {
      const tags = new Set(page.match(/<[^>]*>/g));
      const known = /^<\/?(h3|h4|table|thead|tbody|tr|th|td|code|br|strong|p)(?: \/)?>$/;
      expect([...tags].filter((tag) => !known.test(tag))).toEqual([]);
    });

    it('mentions and refers to nothing', () => {
      const prose = decoded(page.replace(/<code>.*?<\/code>/gs, '').replace(/<[^>]*>/g, ' '));
      expect(prose.match(/[@#]\w|GH-\d|[!%~$&^]["\w]|:[a-z]\w*:|https?:\/|www\.\w/g)).toBeNull();
    });

    it('has no line that a runner, or GitLab, takes for a command', () => {
      const lines = markdown.split(/\r\n|[\n\r\u0085\u2028\u2029]/);
      const begins = /^(<!-- weir \w+ -->$|#{3,4} |\||failed: |\d|Newly |No longer |\.\.\. and |$)/;
      expect(lines.filter((line) => !begins.test(line))).toEqual([]);
      expect(markdown).not.toMatch(/##\[/);
      expect(markdown).not.toMatch(/[^\n\P{C}]/u);
    });

    it('shows what the rules contain', () => {
      const text = decoded(page.replace(/<[^>]*>/g, ''))
        .replaceAll('\u200b', '')
        .replace(/ +/g, ' ');
      const shown = hostile.filter(([, one]) => {
        const words = escaped(one).replace(/ +/g, ' ');
        return ['r', 'x', 'd', 'k'].some(
          (prefix) => prefixes.test(prefix) && text.includes(`${prefix}${words}`.trim()),
        );
      });
      expect(hostile.filter((one) => !shown.includes(one))).toEqual([]);
    });
  });

  it('is the same for a job that prints all', async () => {
    for (const [, command, args] of reports) {
      for (const form of ['text', 'github']) {
        const { stdout, stderr } = await runCommand(command, ['-o', form, ...args()]);
        const all = stdout + stderr;
        expect(all.match(/^::(?!(error|warning|notice) file=)|##\[/m)).toBeNull();
        expect(all).not.toMatch(/[^\n\P{C}]/u);
      }
    }
  });
});
