/** Runs what the action, the template of GitLab and the hooks of pre-commit run, in a repository with rules of its own. */
import { execFile, spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  chmodSync,
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { delimiter, dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { beforeEach, describe, expect, it, onTestFinished } from 'vitest';
import { parse } from 'yaml';
import { runVariables } from '../support/child-program.ts';
import { describeWithServer } from '../support/describe-with-server.ts';
import { fencedBlocks } from '../support/fenced-blocks.ts';
import { actionlintProgram, preCommitProgram, xmllintProgram } from '../support/find-server.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { weirProgram } from '../support/weir-program.ts';

const root = join(import.meta.dirname, '../..');
const read = (path: string): string => readFileSync(join(root, path), 'utf8');

let folder: string;
let runner: string;

/** A repository with rules, a limit of which changed since `main`. */
beforeEach(() => {
  [folder, runner] = [temporaryFolder(), temporaryFolder()];
  mkdirSync(join(folder, 'rules'));
  shop(5);
  shell('git init -q -b main && git add . && git commit -q -m rules');
  shop(3);
  mkdirSync(join(runner, 'path'));
  program('weir', `exec '${process.execPath}' '${weirProgram}' "$@"`);
});

function shop(requests: number): void {
  const rule = `- key: remote_address\n  rate_limit: { unit: minute, requests_per_unit: ${requests} }\n`;
  writeFileSync(join(folder, 'rules/shop.yaml'), `domain: shop\ndescriptors:\n${rule}`);
}

/** One that is found before those of the machine. */
function program(name: string, script: string): void {
  const path = join(runner, 'path', name);
  writeFileSync(path, `#!/bin/sh\n${script}\n`);
  chmodSync(path, 0o755);
}

function environmentOf(more: Record<string, string>): NodeJS.ProcessEnv {
  const who = { name: 'test', email: 'test@localhost' };
  return {
    ...runVariables(),
    PATH: [join(runner, 'path'), join(process.execPath, '..'), process.env['PATH'] ?? ''].join(delimiter),
    HOME: runner,
    GIT_AUTHOR_NAME: who.name,
    GIT_AUTHOR_EMAIL: who.email,
    GIT_COMMITTER_NAME: who.name,
    GIT_COMMITTER_EMAIL: who.email,
    ...more,
  };
}

/** What a pull request could bring to read what is the runner's. */
function hostileLinks(): string {
  const secret = 'hunter2-of-the-runner';
  mkdirSync(join(runner, 'elsewhere'));
  writeFileSync(join(runner, 'elsewhere/hosts.yaml'), `domain: ${secret}\ndescriptors: []\n`);
  shell(`git config http.extraheader ${secret}`);
  symlinkSync('/proc/self/environ', join(folder, 'rules/env.yaml'));
  symlinkSync('../.git/config', join(folder, 'rules/git.yaml'));
  symlinkSync(join(runner, 'elsewhere'), join(folder, 'linked'));
  symlinkSync('.git/config', join(folder, 'linked.yaml'));
  return secret;
}

/** Rules with a mistake each, by names that a shell or a runner could take for commands. */
function hostileNames(): void {
  const names = ['$(>pwned)', '`>pwned`', '";>pwned;"', "'>pwned'", '--strict', 'a%0A::error::x'];
  names.push('b\n::set-output name=pwned::x', 'c\n::add-mask::x', 'd e\tf');
  for (const name of names) writeFileSync(join(folder, 'rules', `${name}.yaml`), 'domain: ""\n');
}

interface Outcome {
  status: number | null;
  stdout: string;
  stderr: string;
}

/** As a runner of GitHub runs `shell: bash`. */
function shell(script: string, environment: Record<string, string> = {}): Outcome {
  const { status, stdout, stderr } = spawnSync(
    'bash',
    ['--noprofile', '--norc', '-eo', 'pipefail', '-c', script],
    {
      cwd: folder,
      encoding: 'utf8',
      env: environmentOf(environment),
    },
  );
  return { status, stdout, stderr };
}

interface Action {
  inputs: Record<string, { description: string; default: string }>;
  runs: { steps: { name?: string; uses?: string; run?: string; env?: Record<string, string> }[] };
}

const action = parse(read('action.yml')) as Action;
const steps = action.runs.steps.filter(({ run }) => run !== undefined);

/** Runs a step of the action with the inputs that its environment names, and what a runner sets. */
function step(
  name: string,
  given: Record<string, string> = {},
): Outcome & { written: (file: string) => string } {
  const { run = '', env = {} } = steps.find((one) => one.name === name)!;
  const values = Object.entries(env).map(([variable, expression]) => {
    const input = /^\$\{\{ inputs\.([\w-]+) \}\}$/.exec(expression)?.[1];
    return [variable, input === undefined ? '' : action.inputs[input]!.default];
  });
  const files = ['GITHUB_OUTPUT', 'GITHUB_PATH', 'GITHUB_STEP_SUMMARY'].map((file) => [
    file,
    join(runner, file),
  ]);
  const environment = Object.fromEntries([...values, ...files]) as Record<string, string>;
  const outcome = shell(run, { ...environment, RUNNER_TEMP: runner, GITHUB_REPOSITORY: 'us/shop', ...given });
  const written = (file: string): string =>
    existsSync(join(runner, file)) ? readFileSync(join(runner, file), 'utf8') : '';
  return { ...outcome, written };
}

const comment = `<!-- weir diff -->
### Rate limits: 1 stricter

| effect | rule | change | effect on requests |
| --- | --- | --- | --- |
| **stricter** | \`shop: remote_address\` | \`requests_per_unit: 5 -> 3\` | 3 per minute instead of 5 per minute |
`;

describe('the action', () => {
  it('has scripts that take inputs as variables alone', () => {
    expect(steps.map(({ name }) => name)).toEqual(['install', 'check', 'test', 'compare', 'comment']);
    for (const { run } of steps) expect(run).not.toContain('${{');
    for (const { description } of Object.values(action.inputs))
      expect(description.length).toBeGreaterThan(20);
  });

  it('uses actions of one commit each', () => {
    const uses = read('action.yml').match(/(?<=uses: ).*/g) ?? [];
    const inWorkflows = read('.github/workflows/release.yml');
    expect(uses.filter((one) => !inWorkflows.includes(`uses: ${one}\n`))).toEqual([]);
  });

  it('prints nothing that a link in a pull request leads to', () => {
    const secret = hostileLinks();
    for (const name of ['check', 'compare']) {
      const outcome = step(name, { BASE: 'main', PATHS: 'rules linked linked.yaml', RUNNER_TOKEN: secret });
      const all = outcome.stdout + outcome.stderr + outcome.written('GITHUB_STEP_SUMMARY');
      expect([name, outcome.status]).toEqual([name, 2]);
      expect(all).not.toContain(secret);
      for (const file of ['rules/env.yaml', 'linked', 'linked.yaml']) expect(all).toContain(file);
    }
  });

  it('lets no name of a file and no text of a rule act as a command of the runner', () => {
    const bad = 'domain: d\ndescriptors:\n- key: k\n  "\\e[2J\\n::error::text": 1\n';
    writeFileSync(join(folder, 'rules/a\n::stop-commands::x\u001b[2J.yaml'), bad);
    writeFileSync(join(folder, 'rules/b ##[add-mask]x.yaml'), bad);
    symlinkSync('/proc/self/environ', join(folder, 'rules/c\n::error::link.yaml'));
    for (const [name, given] of [
      ['check', { OUTPUT: 'text' }],
      ['compare', { BASE: 'main' }],
    ] as const) {
      const { stdout, stderr } = step(name, given);
      expect(stdout + stderr).toContain('::stop-commands::x');
      expect(stdout + stderr).not.toContain('\u001b');
      expect(stdout + stderr).not.toMatch(/^::|##\[/m);
    }
  });

  it('takes names of files for names', () => {
    hostileNames();
    for (const outcome of [step('check'), step('compare', { BASE: 'main' })]) {
      expect([outcome.status, outcome.stdout + outcome.stderr]).toEqual([
        outcome.status,
        expect.not.stringMatching(/^::(?!(?:error|notice) file=)|^--strict|##\[/m),
      ]);
      expect(outcome.status).toBeGreaterThan(0);
      expect(outcome.written('GITHUB_OUTPUT')).not.toContain('pwned');
    }
    expect(step('check').stdout).toContain('%250A');
    expect(existsSync(join(folder, 'pwned'))).toBe(false);
  });

  it('runs the commit that it is of', () => {
    program('npm', 'echo "$@"');
    const { status, stdout, written } = step('install', { ACTION_PATH: root });
    expect([status, stdout]).toEqual([
      0,
      expect.stringMatching(/^ci --prefix \S+ --omit=dev --ignore-scripts /),
    ]);
    const weir = join(written('GITHUB_PATH').trim(), 'weir');
    expect(shell(`${weir} --version`).stdout).toMatch(/^weir \d/);
  });

  it('runs a release, whose checksum it looks at', () => {
    const name = 'weir-1.2.0-linux-x64';
    mkdirSync(join(runner, name));
    writeFileSync(join(runner, name, 'weir'), '#!/bin/sh\necho a release\n');
    chmodSync(join(runner, name, 'weir'), 0o755);
    shell(`tar -czf '${runner}/${name}.tar.gz' -C '${runner}' ${name}`);
    const sum = createHash('sha256')
      .update(readFileSync(join(runner, `${name}.tar.gz`)))
      .digest('hex');
    program('uname', 'echo x86_64');
    program('gh', `echo "$@" > ${runner}/asked; cp ${runner}/${name}.tar.gz ${runner}/SHA256SUMS .`);
    const given = { VERSION: '1.2.0', ACTION_REPOSITORY: 'them/weir' };
    writeFileSync(join(runner, 'SHA256SUMS'), `${'0'.repeat(64)}  ${name}.tar.gz\n`);
    expect(step('install', given).status).toBe(1);
    writeFileSync(join(runner, 'SHA256SUMS'), `${'1'.repeat(64)}  other\n${sum}  ${name}.tar.gz\n`);
    const { status, written } = step('install', given);
    expect([status, written('asked')]).toEqual([
      0,
      expect.stringContaining('release download v1.2.0 --repo them/weir '),
    ]);
    expect(shell(`${written('GITHUB_PATH').trim()}/weir`).stdout).toBe('a release\n');
    expect(step('install', { ...given, VERSION: '../x' })).toMatchObject({ status: 2 });
  });

  it('annotates mistakes, and does not mention good rules', () => {
    expect(step('check')).toMatchObject({ status: 0, stdout: '', stderr: '' });
    writeFileSync(join(folder, 'rules/b.yaml'), 'domain: b\ndescriptors:\n- key: ""\n');
    const { status, stdout } = step('check');
    expect([status, stdout]).toEqual([
      1,
      expect.stringMatching(
        /^::error file=rules\/b\.yaml,line=3,col=\d+,.*title=weir%3A empty-key::.*\n::notice file=rules\/b\.yaml,.*not-reviewed::.*\n$/,
      ),
    ]);
    const sarif = step('check', { OUTPUT: 'sarif' });
    expect([sarif.status, sarif.stdout]).toEqual([1, '']);
    const report = /^report=(.*)$/m.exec(sarif.written('GITHUB_OUTPUT'))![1]!;
    expect(JSON.parse(readFileSync(report, 'utf8'))).toMatchObject({ version: '2.1.0' });
  });

  it('runs tests of rules, and annotates one that fails', () => {
    const test = 'rules/shop.test.yaml';
    writeFileSync(join(folder, test), 'steps: [remote_address=a -> OK x3]');
    expect(step('test', { TESTS: 'rules' }).status).toBe(0);
    writeFileSync(join(folder, test), 'steps: [remote_address=a -> OK x4]');
    const { status, stdout } = step('test', { TESTS: 'rules' });
    expect([status, stdout]).toEqual([
      1,
      expect.stringMatching(/^::error file=rules\/shop\.test\.yaml,line=1,/),
    ]);
  });

  it('takes inputs for words, never for commands', () => {
    const hostile = '$(>pwned)`>pwned`;>pwned --help';
    expect(step('check', { PATHS: hostile }).status).toBe(2);
    expect(step('check', { ARGS: hostile }).stderr).not.toContain('syntax');
    expect(step('compare', { BASE: '--output=pwned' }).status).toBe(2);
    expect(step('compare', { BASE: 'main', PATHS: hostile, FAIL_ON: '$(>pwned)' }).status).toBe(2);
    expect(existsSync(join(folder, 'pwned'))).toBe(false);
  });

  it('says what changes against a base, and fails for what it is sent to', () => {
    const { status, written } = step('compare', { BASE: 'main' });
    expect([status, written('GITHUB_STEP_SUMMARY')]).toEqual([0, comment]);
    expect(written('GITHUB_OUTPUT')).toContain(`comparison=${runner}/weir-comparison.md\n`);
    expect(step('compare', { BASE: 'main', FAIL_ON: 'stricter' }).status).toBe(1);
    expect(step('compare', { BASE: 'main', PATHS: 'rules/shop.yaml' }).written('weir-comparison.md')).toBe(
      comment,
    );
    shell('git rm -rq --cached rules && git commit -qm none && mkdir more && cp rules/* more');
    const anew = step('compare', { BASE: 'main', PATHS: 'rules more gone' }).written('weir-comparison.md');
    expect(anew.match(/### .*/g)).toEqual([
      '### Rate limits: 1 new',
      '### Rate limits: 1 new',
      '### Rate limits: no changes',
    ]);
    const shallow = step('compare', { BASE: 'origin/main' });
    expect([shallow.status, shallow.stdout]).toEqual([2, expect.stringContaining('fetch-depth 0')]);
  });

  it('writes the comparison as a comment, over that of an earlier run', () => {
    writeFileSync(join(runner, 'comparison.md'), comment);
    const given = { COMPARISON: join(runner, 'comparison.md'), NUMBER: '7' };
    const asks = `echo "$@" >> ${runner}/asked`;
    const first = () => step('comment', given);
    program('gh', asks.replace('echo', 'case $* in *--paginate*) exit 0 ;; esac; echo'));
    expect(first()).toMatchObject({ status: 0, stdout: '' });
    program('gh', asks.replace('echo', 'case $* in *--paginate*) echo 42; echo 43; exit 0 ;; esac; echo'));
    expect(first().written('asked').trim().split('\n')).toEqual([
      `api --silent --method POST repos/us/shop/issues/7/comments --field body=@${runner}/comparison.md`,
      `api --silent --method PATCH repos/us/shop/issues/comments/42 --field body=@${runner}/comparison.md`,
    ]);
    program('gh', 'exit 1');
    expect(first()).toMatchObject({
      status: 0,
      stdout: expect.stringMatching(/^::warning::The action cannot write the comment/),
    });
    program('gh', `touch ${folder}/asked`);
    expect(step('comment', { ...given, NUMBER: '' }).status).toBe(0);
    expect(existsSync(join(folder, 'asked'))).toBe(false);
  });
});

describeWithServer('a workflow that uses the action', actionlintProgram, (actionlint) => {
  it('is as in docs/pull-requests.md', () => {
    const blocks = fencedBlocks(read('docs/pull-requests.md')).filter(({ language }) => language === 'yaml');
    const workflow = blocks.find(({ text }) => text.includes('runs-on:'))!.text;
    const { stdout } = spawnSync(actionlint, ['-no-color', '-shellcheck=', '-pyflakes=', '-'], {
      input: workflow,
      encoding: 'utf8',
    });
    expect(stdout).toBe('');
    const { jobs } = parse(workflow) as { jobs: { limits: { steps: { uses: string; with: object }[] } } };
    const given = jobs.limits.steps.find(({ uses }) => uses.startsWith('example/weir@'))!.with;
    expect(Object.keys(given).filter((name) => !(name in action.inputs))).toEqual([]);
    const hooks = blocks.find(({ text }) => text.includes('hooks:'))!.text;
    const [ours] = parse(read('.pre-commit-hooks.yaml')) as { id: string }[];
    expect(hooks).toContain(`- id: ${ours!.id}\n`);
  });

  it('has the inputs that there are', () => {
    cpSync(join(root, 'action.yml'), join(folder, 'action.yml'));
    mkdirSync(join(folder, '.github/workflows'), { recursive: true });
    const lint = (inputs: Record<string, string>): string => {
      const job = { 'runs-on': 'ubuntu-24.04', steps: [{ uses: './', with: inputs }] };
      const text = JSON.stringify({ on: { pull_request: null }, jobs: { limits: job } });
      writeFileSync(join(folder, '.github/workflows/limits.yml'), text);
      return spawnSync(actionlint, ['-no-color', '-shellcheck=', '-pyflakes='], {
        cwd: folder,
        encoding: 'utf8',
      }).stdout;
    };
    const all = Object.fromEntries(Object.keys(action.inputs).map((name) => [name, 'x']));
    expect(lint(all)).toBe('');
    expect(lint({ path: 'rules' })).toContain('input "path" is not defined');
  });
});

interface Job {
  script?: string[];
  before_script?: string[];
}

describe("GitLab's template", () => {
  const template = parse(read('examples/pipelines/gitlab/weir.gitlab-ci.yml')) as Record<string, Job> & {
    variables: Record<string, string>;
  };
  /** As a runner runs a job: all lines by one shell. */
  const job = async (name: string, more: Record<string, string> = {}) => {
    const script = [...template['.weir']!.before_script!, ...template[name]!.script!].join('\n');
    const env = environmentOf({ ...template.variables, CI_PROJECT_DIR: folder, TMPDIR: runner, ...more });
    const options = { cwd: folder, env };
    return promisify(execFile)('bash', ['-eo', 'pipefail', '-c', script], options).then(
      ({ stdout }) => ({ status: 0, stdout }),
      (error: { code: number; stdout: string }) => ({ status: error.code, stdout: error.stdout }),
    );
  };
  const base = () => shell('git rev-parse main').stdout.trim();
  /** Commits a package that npm can install, whose program says this. */
  const packed = (script: string) => {
    const source = join(runner, 'package');
    mkdirSync(source, { recursive: true });
    writeFileSync(join(source, 'package.json'), '{"name":"weir","version":"0.1.0","bin":"weir.sh"}');
    writeFileSync(join(source, 'weir.sh'), `#!/bin/sh\n${script}\n`);
    shell(`mkdir -p tools && tar -czf tools/weir-0.1.0.tgz -C ${runner} package`);
    shell('git add tools && git commit -qm tools');
  };

  beforeEach(() => program('npm', 'exit 0'));

  it('has scripts that take values as variables alone', () => {
    expect(read('examples/pipelines/gitlab/weir.gitlab-ci.yml')).not.toContain('$[[');
  });

  it('prints nothing that a link in a merge request leads to', async () => {
    const secret = hostileLinks();
    const hostile = { WEIR_PATHS: 'rules linked linked.yaml', RUNNER_TOKEN: secret };
    const diff = { ...hostile, CI_MERGE_REQUEST_DIFF_BASE_SHA: base() };
    for (const [name, given, file] of [
      ['weir-check', hostile, 'weir-check.xml'],
      ['weir-diff', diff, 'weir-diff.md'],
    ] as const) {
      const outcome = await job(name, given);
      expect(outcome.status).toBe(2);
      expect(outcome.stdout).not.toContain(secret);
      expect(readFileSync(join(folder, file), 'utf8')).not.toContain(secret);
    }
  });

  it('neither reads nor writes through links that a merge request commits by the names of its files', async () => {
    const victim = join(runner, 'victim');
    writeFileSync(victim, 'before');
    mkdirSync(join(runner, 'victims'));
    const secret = { RUNNER_TOKEN: 'hunter2-of-the-runner', CI_MERGE_REQUEST_DIFF_BASE_SHA: base() };
    for (const target of ['/proc/self/environ', victim]) {
      for (const file of ['weir-check.xml', 'weir-diff.md', 'weir-diff.status']) {
        rmSync(join(folder, file), { force: true });
        symlinkSync(target, join(folder, file));
      }
      rmSync(join(folder, '.weir'), { force: true });
      symlinkSync(join(runner, 'victims'), join(folder, '.weir'));
      expect(await job('weir-check', secret)).toEqual({ status: 0, stdout: '' });
      symlinkSync(target, join(folder, 'weir-diff.md'));
      expect(await job('weir-diff', secret)).toEqual({ status: 0, stdout: comment });
      expect(readFileSync(join(folder, 'weir-diff.md'), 'utf8')).toBe(comment);
    }
    expect([readFileSync(victim, 'utf8'), readdirSync(join(runner, 'victims'))]).toEqual(['before', []]);
  });

  it('removes such a link before a step can fail, so that it is no artifact', async () => {
    for (const file of ['weir-check.xml', 'weir-diff.md'])
      symlinkSync('/proc/self/environ', join(folder, file));
    program('npm', 'exit 1');
    expect((await job('weir-check')).status).toBe(1);
    expect(readdirSync(folder).filter((file) => file.startsWith('weir-'))).toEqual([]);
  });

  it("installs the target branch's package for a merge request, and the checkout's without one", async () => {
    rmSync(join(runner, 'path/npm'));
    program('weir', 'echo not installed');
    packed('echo trusted');
    const given = { CI_MERGE_REQUEST_DIFF_BASE_SHA: base() };
    packed('echo hostile');
    expect(await job('weir-diff', given)).toEqual({ status: 0, stdout: 'trusted\n' });
    for (const path of ['tools/weir-0.1.0.tgz', join(folder, 'tools/weir-0.1.0.tgz')])
      expect((await job('weir-check', { ...given, WEIR_PACKAGE: path })).stdout).toBe('trusted\n');
    expect((await job('weir-check')).stdout).toBe('hostile\n');
  });

  it('takes names of files for names', async () => {
    hostileNames();
    const { status, stdout } = await job('weir-check');
    expect([status, stdout]).toEqual([1, expect.not.stringMatching(/^::|^--strict|section_start/m)]);
    expect(readFileSync(join(folder, 'weir-check.xml'), 'utf8')).toContain('::set-output name=pwned');
    expect(existsSync(join(folder, 'pwned'))).toBe(false);
  });

  describeWithServer('its check', xmllintProgram, (xmllint) => {
    it('fails for mistakes, which its report has', async () => {
      expect((await job('weir-check')).status).toBe(0);
      writeFileSync(join(folder, 'rules/b.yaml'), 'domain: b\ndescriptors:\n- key: ""\n');
      expect((await job('weir-check')).status).toBe(1);
      const path = join(folder, 'weir-check.xml');
      const { stdout } = spawnSync(xmllint, ['--xpath', 'string(//failure/@message)', path], {
        encoding: 'utf8',
      });
      expect(stdout.trim()).toMatch(/^the key is empty/);
    });
  });

  it('runs tests of rules, of which it has a report', async () => {
    writeFileSync(join(folder, 'rules/shop.test.yaml'), 'steps: [remote_address=a -> OK x4]');
    expect((await job('weir-test', { WEIR_TESTS: 'rules' })).status).toBe(1);
    expect(readFileSync(join(folder, 'weir-test.xml'), 'utf8')).toContain('failures="1"');
  });

  it('compares a merge request with what it is merged into, and writes one note', async () => {
    const asked: string[] = [];
    const bodies: string[] = [];
    const note = (id: number, author: number, body: string) => ({ id, author: { id: author }, body });
    const before = [note(2, 8, '<!-- weir diff -->'), note(3, 7, 'a'), note(4, 7, '<!-- weir diff -->')];
    const user = '{"id":7}';
    const answers = [user, JSON.stringify(before.slice(0, 1)), '{}', user, JSON.stringify(before), '{}'];
    const server: Server = createServer((request, response) => {
      asked.push(`${request.method} ${request.url} ${String(request.headers['private-token'])}`);
      let body = '';
      request.on('data', (chunk) => {
        body += String(chunk);
      });
      request.on('end', () => {
        if (body !== '') bodies.push(new URLSearchParams(body).get('body') ?? '');
        response.end(answers.shift());
      });
    });
    await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening));
    onTestFinished(() => void server.close());
    const api = `http://127.0.0.1:${(server.address() as AddressInfo).port}/api/v4`;
    const given = {
      CI_MERGE_REQUEST_DIFF_BASE_SHA: base(),
      CI_API_V4_URL: api,
      CI_PROJECT_ID: '1',
      CI_MERGE_REQUEST_IID: '2',
    };
    expect(await job('weir-diff', given)).toEqual({ status: 0, stdout: comment });
    expect(asked).toEqual([]);
    const noted = { ...given, WEIR_GITLAB_TOKEN: 'secret' };
    expect((await job('weir-diff', { ...noted, WEIR_FAIL_ON: 'stricter' })).status).toBe(1);
    expect((await job('weir-diff', noted)).status).toBe(0);
    const notes = '/api/v4/projects/1/merge_requests/2/notes';
    expect(asked).toEqual([
      'GET /api/v4/user secret',
      `GET ${notes}?per_page=100 secret`,
      `POST ${notes} secret`,
      'GET /api/v4/user secret',
      `GET ${notes}?per_page=100 secret`,
      `PUT ${notes}/4 secret`,
    ]);
    expect(bodies).toEqual([expect.stringMatching(/^<!-- weir diff -->[\s\S]*failed: 1 change/), comment]);
  });

  it('says what it lacks', async () => {
    const { status, stdout } = await job('weir-diff', { CI_MERGE_REQUEST_DIFF_BASE_SHA: '--output=pwned' });
    expect([status, stdout]).toEqual([2, expect.stringContaining('GIT_DEPTH has to be 0')]);
  });
});

describeWithServer('pre-commit', preCommitProgram, (preCommit) => {
  /** A repository of Weir that has all but its history, with the bundle of this run in place of the sources. */
  function clone(): string {
    const repository = temporaryFolder();
    for (const path of ['.pre-commit-hooks.yaml', 'bin', 'package.json'])
      cpSync(join(root, path), join(repository, path), { recursive: true });
    symlinkSync(join(dirname(weirProgram), '../dist'), join(repository, 'dist'));
    shell(`cd '${repository}' && git init -q && git add . && git commit -q -m weir`);
    return repository;
  }

  const run = (hook: string, repository: string) => {
    const rev = shell(`git -C '${repository}' rev-parse HEAD`).stdout.trim();
    const config = { repos: [{ repo: repository, rev, hooks: [{ id: hook }] }] };
    writeFileSync(join(folder, '.pre-commit-config.yaml'), JSON.stringify(config));
    return shell(`git add . && '${preCommit}' run --color never`, { PRE_COMMIT_HOME: join(runner, 'cache') });
  };

  it.each(['weir-check', 'weir-check-installed'])('runs %s where rules change', (hook) => {
    const repository = clone();
    // The packages of a clone are those of the project.
    program('npm', `ln -s '${root}/node_modules' "$3/node_modules"`);
    const good = run(hook, repository);
    expect([good.status, good.stdout]).toEqual([0, expect.stringMatching(/check rate limits\.+Passed\n$/)]);
    writeFileSync(join(folder, 'rules/b.yaml'), 'domain: b\ndescriptors:\n- key: ""\n');
    const bad = run(hook, repository);
    expect([bad.status, bad.stdout]).toEqual([1, expect.stringContaining('rules/b.yaml:3:')]);
    shell('git rm -qrf rules && git commit -qm none && echo a > other');
    expect(run(hook, repository).stdout).toMatch(/no files to check\)Skipped\n$/);
  });
});
