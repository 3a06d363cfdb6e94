/** What stops a release, and what it would push. Each night release.nightly.test.ts makes the files. */
import { execFileSync, spawnSync } from 'node:child_process';
import {
  appendFileSync,
  chmodSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, dirname, join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { describeWithServer } from '../support/describe-with-server.ts';
import { helmProgram } from '../support/find-server.ts';

const root = join(import.meta.dirname, '../..');
const { version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { version: string };
/** Of the clone. */
const next = '99.0.0-rc.1';
/** A release tries what it needs: each run takes seconds, on a busy machine minutes. */
const patience = 600_000;

describeWithServer('npm run release', helmProgram, (helm) => {
  let folder: string;
  /** A clone, to tag and to spoil. */
  let clone: string;

  const run = (cwd: string, given: readonly string[], more: NodeJS.ProcessEnv = {}) => {
    const env = { ...process.env, WEIR_HELM: helm, ...more };
    const args = [join(cwd, 'scripts/release.ts'), ...given];
    return spawnSync(process.execPath, args, { cwd, env, encoding: 'utf8' });
  };
  const git = (...args: string[]): string =>
    execFileSync('git', ['-c', 'user.name=Weir', '-c', 'user.email=weir@weir.example', ...args], {
      cwd: clone,
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'ignore'],
    });

  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), 'weir-release-test-'));
    clone = join(folder, 'clone');
    execFileSync('git', ['clone', '--quiet', '--no-tags', '--depth', '1', `file://${root}`, clone]);
    symlinkSync(join(root, 'node_modules'), join(clone, 'node_modules'));
    appendFileSync(join(clone, '.git/info/exclude'), 'node_modules\n');
  }, patience);

  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  it('rejects a wrong command line with status 2', () => {
    const cases = [
      { given: [], message: 'set the repository in package.json or --repository to yours' },
      {
        given: ['--dry-run', '--image', 'Weir:1'],
        message: '--image must be <registry>/<name> in lowercase',
      },
      { given: ['--dry-run', '--processors', 'x86'], message: '--processors takes x64,arm64, not "x86"' },
      { given: ['--repository', 'weir'], message: '--repository must be <owner>/<name>, not "weir"' },
      { given: ['--dry-run', '--out', clone], message: '--out must be an empty or new folder' },
      { given: ['--push'], message: "Unknown option '--push'" },
    ];
    for (const { given, message } of cases) {
      const { status, stderr } = run(root, given);
      expect([status, stderr]).toEqual([2, expect.stringContaining(message)]);
    }
  });

  it('stops before it makes a file, and reports everything that is missing', () => {
    const own = join(clone, 'package.json');
    writeFileSync(own, readFileSync(own, 'utf8').replace(`"version": "${version}"`, `"version": "${next}"`));
    git('commit', '--quiet', '--all', '--message', 'Version');
    writeFileSync(join(clone, 'left-over.txt'), '');
    // Nothing but what looks at the commit.
    const bin = join(folder, 'bin');
    mkdirSync(bin);
    for (const name of ['git', 'tar']) symlinkSync(programPath(name), join(bin, name));
    const { status, stderr } = run(clone, ['--repository', 'acme/weir'], { PATH: bin });
    rmSync(join(clone, 'left-over.txt'));
    expect([status, stderr.trim().split(/\n\s*/)]).toEqual([
      1,
      [
        'release: stopped before it created anything',
        '1 uncommitted changes (left-over.txt): commit or remove them',
        `the commit has no tag v${next} (the version in package.json): run git tag v${next}`,
        `CHANGELOG.md has no section "## ${next}": add one`,
        'there is no docker with buildx, podman or buildah: install one of them',
        'gh is missing: install it',
      ],
    ]);
    expect(existsSync(join(clone, 'dist-release'))).toBe(false);
  });

  it(
    'pushes image, chart and release in this order, and stops if one fails',
    () => {
      const section = `## ${next} (2026-01-01)\n\nRead [this](docs/upgrades.md#in-which-order) and [that](#all).\n`;
      const changes = readFileSync(join(clone, 'CHANGELOG.md'), 'utf8');
      writeFileSync(
        join(clone, 'CHANGELOG.md'),
        changes.replace('# Changelog\n', `# Changelog\n\n${section}`),
      );
      // What later versions are compared with is part of a release.
      copyFileSync(join(clone, 'test/released/0.1.0.json'), join(clone, `test/released/${next}.json`));
      git('add', 'test/released');
      git('commit', '--quiet', '--all', '--message', 'Release');
      git('tag', `v${next}`);
      // Stand for the programs that push: each writes down what it was asked for. Helm packs for itself.
      const bin = join(folder, 'pushing');
      const asked = join(folder, 'asked');
      mkdirSync(bin);
      const script = (name: string, body: string): string => {
        writeFileSync(join(bin, name), `#!/bin/sh\n${body}\n`);
        chmodSync(join(bin, name), 0o755);
        return join(bin, name);
      };
      const note = `echo "$(basename "$0") $1 $2 $3" >> '${asked}'`;
      script('npm', `test "$1" = pack || exec '${programPath('npm')}' "$@"\n: > "$4/weir-${next}.tgz"`);
      script('docker', `test "$2" = version || ${note}`);
      script('gh', `test "$1" = --version || { ${note}; cat "\${10}" >> '${asked}'; exit 3; }`);
      const env = {
        PATH: `${bin}${delimiter}${process.env['PATH']}`,
        WEIR_HELM: script('helm', `test "$1" = push || exec '${helm}' "$@"\n${note}`),
      };
      const { status, stderr } = run(clone, ['--repository', 'acme/weir', '--processors', 'none'], env);
      const base = `https://github.com/acme/weir/blob/v${next}`;
      expect(readFileSync(asked, 'utf8').split('\n')).toEqual([
        'docker buildx build --platform',
        `helm push weir-chart-${next}.tgz oci://ghcr.io/acme/weir/charts`,
        `gh release create v${next}`,
        `Read [this](${base}/docs/upgrades.md#in-which-order) and [that](${base}/CHANGELOG.md#all).`,
        '',
      ]);
      const failed = `release: release failed (3): gh release create v${next} --repo acme/weir --verify-tag`;
      expect([status, stderr]).toEqual([1, expect.stringContaining(failed)]);
      expect(stderr).toContain(' --prerelease ');
    },
    patience,
  );
});

function programPath(name: string): string {
  const folders = (process.env['PATH'] ?? '').split(delimiter).filter((path) => existsSync(join(path, name)));
  return join(folders[0] ?? dirname(process.execPath), name);
}
