/** `weir test`: files of tests beside rules, and the examples of this repository. */
import { readFileSync, renameSync, symlinkSync, writeFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { beforeEach, describe, expect, it } from 'vitest';
import { readTestFile } from '../../cli/test/test-file.ts';
import { ChildProgram } from '../support/child-program.ts';
import { commandsToRun, readDocument } from '../support/documents.ts';
import { eventually } from '../support/eventually.ts';
import { fencedBlocks } from '../support/fenced-blocks.ts';
import { InProcessLimiter } from '../support/in-process-limiter.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { runWeir } from '../support/weir-command.ts';
import { weirProgram } from '../support/weir-program.ts';

const root = join(import.meta.dirname, '../..');
let folder: string;

beforeEach(() => {
  folder = temporaryFolder();
  write(
    'shop.yaml',
    `domain: shop
descriptors:
  - key: path
    value: /a
    rate_limit: { unit: minute, requests_per_unit: 2 }
  - key: user
    descriptors:
      - key: plan
        rate_limit: { unit: day, requests_per_unit: 10, algorithm: token_bucket }
  - key: monitor
    rate_limit: { unlimited: true }
`,
  );
});

function write(name: string, text: string): string {
  writeFileSync(join(folder, name), text);
  return join(folder, name);
}

const test = (...args: string[]) => runWeir(['test', ...args]);
const steps = (...lines: string[]): string => write('shop.test.yaml', ['steps:', ...lines].join('\n  '));

/** What "-o json" says of failures: line, column and message. */
function failures(...args: string[]): unknown[] {
  const { stdout } = test(folder, '-o', 'json', ...args);
  const { tests } = JSON.parse(stdout) as { tests: { failures: { line: number; message: string }[] }[] };
  return tests.flatMap((one) => one.failures.map(({ line, message }) => `${line}: ${message}`));
}

describe('weir test', () => {
  it('passes if everything is decided as expected, and counts the rules that were reached', () => {
    steps(
      '- path=/a -> OK (1 left), OK, OVER_LIMIT',
      '- after: 1m',
      '- { request: path=/a, hits: 2, code: OK, rule: shop.path_/a, remaining: 0 }',
      '- request: path=/a',
      '  expect: OVER_LIMIT',
      '  headers: { Retry-After: 60, RateLimit-Remaining: 0, X-Other: }',
      '- monitor=1 -> unlimited x2',
      '- path=/b -> no limit',
    );
    const { status, stdout } = test(folder);
    expect(stdout).toBe(
      `ok: 1 test, 8 answers, 1 file
coverage: tests reach 2 of 3 rules (66%)
  not reached: shop.user.plan (${join(folder, 'shop.yaml')}:8)
`,
    );
    expect(status).toBe(0);
    expect(test(folder, '--min-coverage', '67')).toMatchObject({ status: 1 });
    expect(test(folder, '--min-coverage', '66%')).toMatchObject({ status: 0 });
  });

  it('counts the rules of manifests, of the class and fleet that are asked for', () => {
    steps('- path=/a -> OK');
    const manifest = (fleet: string): string =>
      JSON.stringify({
        apiVersion: 'ratelimit.weir.dev/v1alpha1',
        kind: 'RateLimitConfig',
        metadata: { name: fleet, namespace: 'shop' },
        spec: {
          fleet,
          domain: 'mail',
          descriptors: [{ key: fleet, rateLimit: { unit: 'day', requestsPerUnit: 1 } }],
        },
      });
    write('manifests.yaml', `${manifest('eu')}\n---\n${manifest('us')}\n`);
    expect(test(folder).stdout).toContain('not reached: mail.us (');
    expect(test(folder, '--fleet', 'eu').stdout).toContain('not reached: mail.eu (');
    expect(test(folder, '--fleet', 'eu').stdout).not.toContain('mail.us');
  });

  it('shows what was decided instead, where, and why', () => {
    const file = steps('- path=/a -> OK x2, OK', '- path=/b -> OK', '- path=/a -> OVER_LIMIT');
    const { status, stdout } = test(file);
    expect(status).toBe(1);
    expect(stdout).toContain(
      `${file}:2:5: error: path=/a: decided OK x2, OVER_LIMIT, expected OK x3, from answer 3 on (at 2026-01-01T00:00:00Z) [unexpected-answer]
  2 |   - path=/a -> OK x2, OK
    |     ^^^^^^^^^^^^^^^^^^^^
  shop: path=/a
  ├─ level 1, path=/a: path=/a (2 per minute, ${join(folder, 'shop.yaml')}:3) has exactly this value
`,
    );
    expect(stdout).toContain('no rule matches (3 rules checked)');
    expect(stdout).toContain('failed: 1 of 1 test failed, 5 answers, 1 file');
  });

  it('reports rule, remaining hits and headers that are others', () => {
    steps(
      '- { request: path=/a, code: OK, rule: shop.path, remaining: 2 }',
      '- { request: path=/a -> OK, headers: { RateLimit-Limit: 3 } }',
    );
    expect(failures()).toEqual([
      '2: path=/a: decided OK (1 left) [rule shop.path_/a], expected OK (2 left) [rule shop.path] (at 2026-01-01T00:00:00Z)',
      '3: path=/a: decided OK [ratelimit-limit: 2], expected OK [ratelimit-limit: 3] (at 2026-01-01T00:00:00Z)',
    ]);
  });

  it('starts each test from scratch, at its own time, and obeys settings', () => {
    write(
      'shop.test.yaml',
      `at: 2026-01-01T00:00:30Z
settings: { LIMIT_RESPONSE_HEADERS_STYLE: ietf }
tests:
  - { name: one, steps: [path=/a -> OK x2, path=/a -> OVER_LIMIT, { after: 30s }, path=/a -> OK] }
  - name: two
    at: 2026-02-01T00:00:59Z
    steps:
      - request: path=/a -> OK
        headers: { RateLimit: '"1m";r=1;t=1' }
`,
    );
    expect(failures()).toEqual([]);
  });

  it.each([
    ['step:', 'a file of tests has no field "step"; did you mean "steps"?'],
    ['steps: [path=/a]', '"path=/a" is not of the form key=value -> OK x2, OVER_LIMIT'],
    ['steps: [{ request: path=/a, code: OK, remainin: 1 }]', 'a step has no field "remainin"'],
    ['steps: [{ request: path=/a }]', 'a request has its answers once'],
    ['steps: [{ after: tomorrow }]', '"tomorrow" is no length of time'],
    ['at: noon\nsteps: [a=1 -> OK]', 'at is a time such as 2026-01-31T12:00:00Z'],
    ['domain: other\nsteps: [a=1 -> OK]', 'there are no rules for the domain other, only for shop'],
    [
      'settings: { PORT: 1 }\nsteps: [a=1 -> OK]',
      ':1:19: error: settings: "PORT" is none of them: tests take',
    ],
    ['settings: { NEAR_LIMIT_RATIO: x }\nsteps: [a=1 -> OK]', ':1:31: error: settings:'],
    ['rules: [shop.yaml, nothing.yaml]\nsteps: [a=1 -> OK]', ':1:20: error: '],
    ['rules: nothing.yaml\nsteps: [a=1 -> OK]', 'nothing.yaml: no such file or directory'],
    ['steps: [', 'did not find expected'],
    ['tests: []', ':1:8: error: tests: expected at least one test'],
    ['steps: []', ':1:8: error: steps: expected at least one request with its answer'],
    ['steps: [after: 1m]', ':1:8: error: steps: expected at least one request with its answer'],
    ['steps: [path=/a -> OK x0]', ':1:9: error: "OK x0" expects nothing'],
    ['steps: [{ request: path=/a, code: "OK x0", rule: nope }]', ':1:9: error: "OK x0" expects nothing'],
    ['steps: [after: 100000000d, path=/a -> OK]', ':1:9: error: after: leads beyond the year 9998'],
  ])('says what is wrong with %j, with status 2', (text, message) => {
    write('shop.test.yaml', text);
    const { status, stdout } = test(folder);
    expect(stdout).toContain(message);
    expect(status).toBe(2);
  });

  it('has status 2 if nothing is tested, and for a wrong command line', () => {
    expect(test(folder)).toMatchObject({ status: 2, stderr: expect.stringContaining('there are no tests') });
    expect(test(join(folder, 'none'))).toMatchObject({ status: 2 });
    expect(test(folder, '--min-coverage', 'all')).toMatchObject({ status: 2 });
  });

  it('reads no rules from outside of the folders that are named', () => {
    symlinkSync('/etc/passwd', join(folder, 'link.test.yaml'));
    write('shop.test.yaml', `rules: ${relative(folder, '/etc/passwd')}\nsteps: [a=1 -> OK]`);
    const { status, stdout } = test(folder);
    expect(status).toBe(2);
    expect(stdout.match(/is not read/g)).toHaveLength(2);
    expect(stdout).not.toContain('nologin');
  });

  it('shows what is wrong with the rules as weir check does, and no coverage', () => {
    const rules = write('shop.yaml', 'domain: shop\ndescriptors:\n  - kay: a\n  - key: b\n    valu: c\n');
    steps('- path=/a -> OK');
    const { status, stdout } = test(folder);
    expect(status).toBe(2);
    const shown = runWeir(['check', rules]).stdout.split('\nfailed:')[0]!;
    expect(shown).toContain('hint: ');
    expect(stdout).toContain(shown);
    expect(stdout).toContain('coverage: unknown');
    expect(JSON.parse(test(folder, '-o', 'json').stdout)).toMatchObject({ coverage: null, exitStatus: 2 });
  });

  it('reports in TAP, JUnit, SARIF, Markdown and annotations', () => {
    write('a.test.yaml', 'rules: shop.yaml\nsteps: [monitor=1 -> unlimited]');
    const file = steps('- path=/a -> OVER_LIMIT', '- path=/a -> OVER_LIMIT');
    const message = 'path=/a: decided OK, expected OVER_LIMIT (at 2026-01-01T00:00:00Z)';
    const tap = test(folder, '-o', 'tap').stdout.split('\n');
    expect(tap.slice(0, 4)).toEqual([
      'TAP version 14',
      '1..2',
      `ok 1 - ${join(folder, 'a.test.yaml')}: a.test.yaml`,
      `not ok 2 - ${file}: shop.test.yaml`,
    ]);
    const [why] = JSON.parse(test(folder, '-o', 'json').stdout).tests[1].failures;
    const lines = why.explanation.trimEnd().split('\n');
    expect(lines[0]).toBe('shop: path=/a');
    expect(tap).toContain(`      message: "${[message, ...lines].join('\\n')}"`);
    const junit = test(folder, '-o', 'junit').stdout;
    expect(junit).toContain('tests="2" failures="1" errors="0"');
    expect(junit).toContain(`<failure type="unexpected-answer" message="${message}">`);
    expect(junit).toContain(lines.join('\n'));
    const github = test(folder, '-o', 'github').stdout;
    expect(github).toContain(`::error file=${file},line=2,col=5`);
    expect(github).toContain(lines.join('%0A'));
    expect(test(folder, '-o', 'markdown').stdout).toMatch(/^<!-- weir test -->\n/);
    expect(JSON.parse(test(folder, '-o', 'sarif').stdout)).toMatchObject({
      runs: [{ results: expect.arrayContaining([expect.objectContaining({ ruleId: 'unexpected-answer' })]) }],
    });
  });

  it('runs again with --watch when rules or tests change, until it is interrupted', async () => {
    steps('- path=/a -> OK');
    const program = new ChildProgram({
      command: process.execPath,
      args: [weirProgram, 'test', folder, '--watch'],
    });
    await program.printed(/^coverage: /m);
    steps('- path=/a -> OVER_LIMIT');
    await program.printed(
      /^\d{4}-.*Z: something changed, tests run again\n[\s\S]*^failed: 1 of 1 test failed/m,
    );
    renameSync(folder, `${folder}-moved`);
    await program.printed(/no such file or directory/);
    renameSync(`${folder}-moved`, folder);
    steps('- path=/a -> OK', '- path=/a -> OK');
    await program.printed(/^ok: 1 test, 2 answers/m);
    steps('- path=/a -> OVER_LIMIT');
    await program.printed(/^failed: [\s\S]*^ok: 1 test, 2 answers[\s\S]*^failed: /m);
    expect(await program.stop('SIGINT')).toEqual({ code: 1, signal: null });
  });

  it('does not run again with --watch for what it prints into the folder itself', async () => {
    const test = steps('- path=/a -> OK');
    const [report, copy] = [join(folder, 'report.yaml'), join(folder, 'copy.json')];
    writeFileSync(report, '');
    const program = new ChildProgram({
      command: 'sh',
      args: [
        '-c',
        `exec "$0" "$@" --watch -o yaml > '${report}'`,
        ...[process.execPath, weirProgram, 'test', test],
      ],
    });
    await eventually(() => expect(readFileSync(report, 'utf8')).toContain('exitStatus: 0'));
    // As `tee` writes it.
    writeFileSync(copy, '{"exitStatus": 0}');
    steps('- path=/a -> OVER_LIMIT');
    await eventually(() => expect(readFileSync(report, 'utf8')).toContain('exitStatus: 1'));
    steps('- path=/a -> OK');
    await eventually(() => expect(readFileSync(report, 'utf8').match(/exitStatus: 0/g)).toHaveLength(2));
    expect(await program.stop('SIGINT')).toMatchObject({ signal: null });
    // A run for a change that was not one would be among them.
    expect(readFileSync(report, 'utf8').match(/exitStatus: /g)).toHaveLength(3);
  });
});

describe('a file of tests', () => {
  it('is no rule file: neither to a limiter nor to weir check', async () => {
    steps('- path=/a -> OK');
    write('other.test.yaml', '{domain: other, descriptors: []}\n');
    write('empty.test.yaml', '');
    write('begun.test.yaml', 'domain: shop\nrules: [shop.yaml]\n# descriptors:\n');
    const limiter = await InProcessLimiter.start({
      env: { RUNTIME_ROOT: folder, RUNTIME_APPDIRECTORY: '.', RUNTIME_WATCH_ROOT: 'false' },
    });
    try {
      expect(await limiter.rlconfig()).toHaveLength(3);
      expect((await limiter.ask('other', [{ a: '1' }])).body.overallCode).toBe('OK');
    } finally {
      await limiter.stop();
    }
    expect(runWeir(['check', folder]).stdout).toContain('2 files');
  });
});

describe('weir test --record', () => {
  const request = (second: number, value: string): string =>
    JSON.stringify({ time: 1_767_225_600 + second, domain: 'shop', descriptors: [[['path', value]]] });

  it('writes tests that expect what the rules decide, and pass', () => {
    const lines = [request(0, '/a'), request(0, '/a'), request(0.4, '/a'), request(61, '/a'), '{', ''];
    const recording = write('requests.ndjson', lines.join('\n'));
    const { status, stdout, stderr } = test(join(folder, 'shop.yaml'), '--record', recording);
    expect(stdout).toBe(`rules: shop.yaml
at: "2026-01-01T00:00:00Z"
tests:
  - name: "requests of shop"
    domain: shop
    steps:
      - "path=/a -> OK x2, OVER_LIMIT"
      - after: "61s"
      - "path=/a -> OK"
`);
    expect(stderr).toContain(
      `${recording}:5: is not JSON: docs/replay.md#the-recording describes the lines; left out, 1 line like it`,
    );
    expect(status).toBe(0);
    write('recorded.test.yaml', stdout);
    expect(test(folder)).toMatchObject({ status: 0 });
  });

  it('leaves out what tests cannot express, and reads the form of /v1/check', () => {
    const body = (descriptors: unknown, more = {}): string =>
      JSON.stringify({ time: 1_767_225_600, domain: 'shop', descriptors, ...more });
    const lines = [body([[['', '/a']]]), body([[{ path: '/a' }]], { hits: 2 }), body([[{ path: '/a' }]])];
    // As a shell does it, before the command begins.
    const recorded = write('recorded.test.yaml', '');
    const { status, stdout, stderr } = test(folder, '--record', write('requests.ndjson', lines.join('\n')));
    expect(stderr).toContain(':1: has a descriptor that tests cannot express, such as one with an empty key');
    expect(stdout).toContain('- "path=/a hits 2 -> OK"\n      - "path=/a -> OVER_LIMIT"');
    expect(status).toBe(0);
    writeFileSync(recorded, stdout);
    expect(test(folder)).toMatchObject({ status: 0 });
  });

  it('says so if it cannot', () => {
    expect(test(join(folder, 'shop.yaml'), '--record', join(folder, 'none'))).toMatchObject({ status: 2 });
    expect(test('--record', join(folder, 'none'))).toMatchObject({ status: 2 });
    expect(test(folder, '--record', join(folder, 'none'), '-o', 'json').stderr).toContain(
      '--output has no effect with --record, which runs no tests',
    );
  });
});

describe('docs/test.md', () => {
  const page = 'docs/test.md';
  const blocks = fencedBlocks(readDocument(page));

  it('has commands that run, and shows what they print', () => {
    const [shown, recorded] = commandsToRun('docs/test.md').map((command) =>
      command.split(' > ')[0]!.split(' '),
    );
    expect(runWeir(shown!.slice(1))).toMatchObject({ status: 0, stdout: `${blocks[1]!.text}\n` });
    expect(runWeir(recorded!.slice(1))).toMatchObject({
      status: 0,
      stdout: expect.stringMatching(/^rules: /),
    });
  });

  it('has files of tests that can be read', () => {
    const files = blocks.filter(({ language }) => language === 'yaml');
    expect(files.map(({ text }) => 'problems' in readTestFile(text, page))).toEqual([false, false]);
  });
});

it('all examples of the repository have tests, which pass and reach every rule', () => {
  const { status, stdout } = test(join(root, 'examples'), '--min-coverage', '100');
  expect(stdout).toMatch(/^ok: /);
  expect(status).toBe(0);
});
