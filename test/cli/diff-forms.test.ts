/** What `weir diff` says to other programs and to who reviews: read by GitHub's own reader of Markdown, among others. */
import { spawnSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { beforeEach, describe, expect, it } from 'vitest';
import { diffCommand } from '../../cli/diff/diff-command.ts';
import { explainCommand } from '../../cli/explain/explain-command.ts';
import { describeWithServer } from '../support/describe-with-server.ts';
import { cmarkProgram } from '../support/find-server.ts';
import { caseCount } from '../support/property-cases.ts';
import { runCommand } from '../support/run-command.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

let folder: string;

beforeEach(() => {
  folder = temporaryFolder();
});

function rules(name: string, list: readonly object[], domain = 'shop'): string {
  const path = join(folder, name);
  writeFileSync(path, JSON.stringify({ domain, descriptors: list }, undefined, 1));
  return path;
}

const limited = (key: string, requests: number, more: object = {}): object => ({
  key,
  rate_limit: { unit: 'minute', requests_per_unit: requests },
  ...more,
});

function both(): [string, string] {
  const old = rules('old.yaml', [limited('a', 5), limited('b', 5), limited('gone', 5)]);
  const now = rules('new.yaml', [limited('a', 3), limited('b', 9), limited('new', 5)]);
  return [old, now];
}

/** Of `remote_address`: three in a second. */
function recording(): string {
  const path = join(folder, 'requests.ndjson');
  const lines = [1, 2, 3, 4].map((seconds) =>
    JSON.stringify({ time: 1_000_000 + seconds, domain: 'shop', descriptors: [[['a', 'x|y@team']]] }),
  );
  writeFileSync(path, lines.join('\n'));
  return path;
}

const diff = (...args: string[]) => runCommand(diffCommand, args);

describe('weir diff', () => {
  it('spells out in text what would act on a terminal or a runner, as explain does', async () => {
    const hostile = rules('hostile.yaml', [limited('a\u001b[2J\n::error::b ##[add-mask]c', 5)]);
    const spelled = 'a\\u001b[2J\\n::error::b #\\u0023[add-mask]c';
    const compared = await diff('--fail-on', 'new', '/dev/null', hostile);
    expect(compared.stdout).toContain(`+ shop: ${spelled}\n`);
    expect(compared.stderr).toContain(`shop: ${spelled} (new)`);
    const reported = await runCommand(explainCommand, [hostile, 'shop', 'b=c']);
    expect(reported.stdout).toContain(`not: ${spelled} (5 per minute`);
  });

  it('annotates the changed rule, as an error if --fail-on names it', async () => {
    const [old, now] = both();
    const { stdout, status } = await diff('-o', 'github', '--fail-on', 'gone', old, now);
    expect(status).toBe(1);
    expect(stdout.split('\n').map((line) => line.replace(`file=${now}`, 'file=new.yaml'))).toEqual([
      '::error file=new.yaml,title=weir%3A gone::shop: gone: unit: minute, requests_per_unit: 5; gone: these requests no longer have a limit',
      '::notice file=new.yaml,line=5,col=11,title=weir%3A stricter::shop: a: requests_per_unit: 5 -> 3; stricter: 3 per minute instead of 5 per minute',
      '::notice file=new.yaml,line=12,col=11,title=weir%3A looser::shop: b: requests_per_unit: 5 -> 9; looser: 9 per minute instead of 5 per minute',
      '::notice file=new.yaml,line=19,col=11,title=weir%3A new::shop: new: unit: minute, requests_per_unit: 5; new: these requests had no limit, and are limited now',
      '',
    ]);
    expect((await diff('-q', '-o', 'github', '--fail-on', 'gone', old, now)).stdout.split('\n')).toHaveLength(
      2,
    );
    expect(await diff('-q', old, now)).toEqual({ status: 1, stdout: '', stderr: '' });
    expect(await diff('-q', '-o', 'github', now, now)).toEqual({ status: 0, stdout: '', stderr: '' });
  });

  it('says in a table what becomes stricter, looser, new and gone, and what a recording says', async () => {
    const [old, now] = both();
    const { stdout } = await diff('-o', 'markdown', '--replay', recording(), '--fail-on', 'gone', old, now);
    expect(stdout).toBe(`<!-- weir diff -->
### Rate limits: 1 new, 1 stricter, 1 looser, 1 gone

| effect | rule | change | effect on requests |
| --- | --- | --- | --- |
| **new** | \`shop: new\` | \`unit: minute\`<br>\`requests_per_unit: 5\` | these requests had no limit, and are limited now |
| **stricter** | \`shop: a\` | \`requests_per_unit: 5 -> 3\` | 3 per minute instead of 5 per minute |
| **looser** | \`shop: b\` | \`requests_per_unit: 5 -> 9\` | 9 per minute instead of 5 per minute |
| **gone** | \`shop: gone\` | \`unit: minute\`<br>\`requests_per_unit: 5\` | these requests no longer have a limit |

failed: 1 change that --fail-on names: shop: gone (gone)

#### Recorded requests

4 recorded requests, 1970-01-12T13:46:41.000Z to 1970-01-12T13:46:44.000Z<br>newly limited: 1 request (25.00%), 1970-01-12T13:46:44.000Z to 1970-01-12T13:46:44.000Z<br>no longer limited: 0 requests (0.00%)

Newly limited, by rule:

| rule | requests |
| --- | --- |
| \`shop.a\` | 1 |

Newly limited, by counter:

| counter | requests | when |
| --- | --- | --- |
| <code>shop&#95;a&#95;x&#124;y&#64;&#8203;team&#95;</code> | 1 | 1970-01-12T13:46:44.000Z to 1970-01-12T13:46:44.000Z |
`);
  });

  it('says with --replay which callers would newly be limited, in every form', async () => {
    const [old, now] = both();
    const diffIn = async (form: string, ...more: string[]) =>
      diff('-o', form, '--replay', recording(), ...more, old, now);
    expect((await diffIn('text')).stdout).toMatch(
      /\n\n4 recorded requests, .*\n\nNewly limited: 1 request \(25.00%\)/,
    );
    expect(JSON.parse((await diffIn('json')).stdout)).toMatchObject({
      replay: { difference: { newlyLimited: { limited: { requests: 1 } } } },
    });
    expect((await diffIn('github')).stdout).toContain('::newly limited: 1 request (25.00%25), ');
    expect((await diffIn('sarif')).stdout).toContain('"ruleId": "newly-limited"');
    expect((await diffIn('text', '--setting', 'SHADOW_MODE=true')).stdout).toContain(
      'Newly limited: 0 requests',
    );
    const unread = await diff('-o', 'github', '--replay', join(folder, 'none'), old, now);
    expect([
      unread.status,
      unread.stdout.match(/^::error .*unreadable::cannot be replayed$/m)?.length,
    ]).toEqual([2, 1]);
    expect((await diff('--setting', 'SHADOW_MODE=true', old, now)).status).toBe(2);
    expect((await diff('--replay', '-', '-', now)).status).toBe(2);
  });

  it.each(['json', 'yaml', 'sarif', 'junit', 'markdown', 'github'])(
    'says in %s what it cannot read',
    async (form) => {
      const good = rules('good.yaml', [limited('a', 1)]);
      const bad = rules('bad.yaml', [{ key: '' }]);
      const empty = {
        json: '"changes": []',
        yaml: 'changes: []',
        sarif: '"results": []',
        junit: 'failures="0"',
      };
      const same = await diff('-o', form, good, good);
      expect([same.status, same.stderr]).toEqual([0, '']);
      expect(same.stdout).toContain({ ...empty, markdown: 'no changes', github: '' }[form]);
      const broken = await diff('-o', form, good, bad);
      expect([broken.status, broken.stderr]).toEqual([
        2,
        `weir: ${bad}:5:11: the key is empty\n"weir check ${bad}" shows the lines and how to correct them\n`,
      ]);
      expect(broken.stdout).toContain('the key is empty');
      const away = await diff('-o', form, 'http://user:secret@localhost:1/rlconfig', good);
      expect(away.status).toBe(2);
      expect(away.stdout).toContain('localhost:1');
      expect(away.stdout + away.stderr).not.toContain('secret');
      const twice = join(folder, 'twice');
      expect((await diff('-o', form, twice, good)).stdout).toContain('no such file or directory');
    },
  );

  it('compares one fleet alone if it is asked to', async () => {
    const text = (name: string, requests: number): string =>
      JSON.stringify({
        apiVersion: 'ratelimit.weir.dev/v1alpha1',
        kind: 'RateLimitConfig',
        metadata: { name },
        spec: {
          domain: 'shop',
          fleet: name,
          descriptors: [{ key: 'a', rateLimit: { unit: 'minute', requestsPerUnit: requests } }],
        },
      });
    const [old, now] = [1, 2].map((requests) => {
      const path = join(folder, `${requests}.yaml`);
      writeFileSync(path, [text('east', requests), text('west', requests)].join('\n---\n'));
      return path;
    }) as [string, string];
    expect((await diff(old, now)).stdout).toContain('2 changes: 2 looser');
    expect((await diff('--fleet', 'east', old, now)).stdout).toMatch(
      /^~ shop \(fleet east\): a\n[^~]*1 change: /,
    );
    expect((await diff('--replay', recording(), old, now)).stderr).toContain('choose one by --fleet');
    expect((await diff('--fleet', 'east', '--replay', recording(), old, now)).status).toBe(1);
  });
});

describeWithServer('the comment of weir diff', cmarkProgram, (cmark) => {
  const html = (markdown: string): string => {
    const flags = ['table', 'autolink', 'strikethrough'].flatMap((name) => ['-e', name]);
    return spawnSync(cmark, ['--unsafe', ...flags], { input: markdown, encoding: 'utf8' }).stdout;
  };
  const pieces = [
    '|',
    '\\',
    '\\|',
    '`',
    '<script>',
    '</td>',
    '@team',
    'a@b.example',
    '#12',
    '](https://x.example)',
  ];
  const words = [
    ...pieces,
    '\n',
    '\u0007',
    '*',
    '_',
    '~~',
    'www.x.example',
    '-->',
    '::error::',
    '&lt;',
    ' ',
    'x',
  ];
  const name = fc
    .array(fc.constantFrom(...words), { minLength: 1, maxLength: 6 })
    .map((some) => `k${some.join('')}`);

  it('does nothing that a key, a value or the name of a limit says', async () => {
    const change = fc.record({
      key: name,
      value: name,
      old: fc.integer({ max: 9, min: 1 }),
      now: fc.integer({ max: 9, min: 1 }),
    });
    await fc.assert(
      fc.asyncProperty(
        fc.uniqueArray(change, { selector: ({ key }) => key, maxLength: 10 }),
        async (list) => {
          const side = (file: string, pick: 'old' | 'now') =>
            rules(
              file,
              list.map(({ key, value, ...limit }) => limited(key, limit[pick], { value })),
              'shop|`',
            );
          const [old, now] = [side('a.yaml', 'old'), side('b.yaml', 'now')];
          const { changes } = JSON.parse((await diff('-o', 'json', old, now)).stdout) as {
            changes: object[];
          };
          const page = html((await diff('-o', 'markdown', old, now)).stdout);
          const tags = new Set(
            [...page.matchAll(/<(?!!-- weir diff -->)\/?([^\s>/]*)/g)].map(([, tag]) => tag!),
          );
          const known = ['h3', 'table', 'thead', 'tbody', 'tr', 'th', 'td', 'code', 'br', 'strong', 'p'];
          expect([...tags].filter((tag) => !known.includes(tag))).toEqual([]);
          expect(page.replace(/<code>.*?<\/code>/gs, '').match(/@\w|#\d/g)).toBeNull();
          const rows = [...page.matchAll(/<tr>\n(.*?)<\/tr>/gs)]
            .slice(1)
            .map(([, row = '']) => row.match(/<td>/g)?.length);
          expect(rows).toEqual(changes.map(() => 4));
        },
      ),
      { numRuns: caseCount(15) },
    );
  });

  it('fits a comment, however much changes, and keeps what the recording says', async () => {
    const many = Array.from({ length: 3000 }, (_, index) => limited(`key${index}${'|'.repeat(40)}`, 5));
    const now = rules('many.yaml', [limited('a', 1), ...many]);
    const old = rules('few.yaml', [limited('a', 9)]);
    const { stdout } = await diff('-o', 'markdown', '--replay', recording(), old, now);
    expect(Buffer.byteLength(stdout)).toBeLessThan(65_536);
    expect(Buffer.byteLength(stdout)).toBeGreaterThan(55_000);
    expect(stdout).toMatch(
      /\n\.\.\. and \d+ more changes, which do not fit here\.\n\n#### Recorded requests/,
    );
    expect(stdout).toContain('| `shop.a` | 3 |');
  });
});
