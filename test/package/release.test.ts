import { execFileSync, spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  appendFileSync,
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, dirname, join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { describeWithServer } from '../support/describe-with-server.ts';
import { helmProgram } from '../support/find-server.ts';
import { objectsIn, podOf, runHelm } from '../support/helm-chart.ts';
import { runWeir } from '../support/weir-command.ts';

const root = join(import.meta.dirname, '../..');
const { version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { version: string };
/** Of the clone, in the end. */
const next = '99.0.0-rc.1';
/** For this processor; release.nightly.test.ts makes those of all. */
const commandLine = `weir-${version}-linux-x64.tar.gz`;
const made = [commandLine, `weir-${version}.cdx.json`, `weir-${version}.tgz`, `weir-chart-${version}.tgz`];

const flags = ['--dry-run', '--repository', 'Acme/Weir'];

/** A release tries what it needs, packs by npm and makes programs: each run takes many seconds, on a busy machine minutes. */
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
  const listed = (tarball: string): string[] =>
    execFileSync('tar', ['-tzf', join(folder, 'first', tarball)], { encoding: 'utf8' })
      .trim()
      .split('\n');
  let first: ReturnType<typeof run>;

  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), 'weir-release-test-'));
    clone = join(folder, 'clone');
    execFileSync('git', ['clone', '--quiet', '--no-tags', '--depth', '1', `file://${root}`, clone]);
    symlinkSync(join(root, 'node_modules'), join(clone, 'node_modules'));
    appendFileSync(join(clone, '.git/info/exclude'), 'node_modules\n');
    first = run(root, [...flags, '--processors', 'x64', '--out', join(folder, 'first')]);
  }, patience);

  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  it('makes tarball, chart, bill of materials and their sums in a dry run', () => {
    expect(first.stderr).not.toContain('release:');
    expect(first.status).toBe(0);
    expect(readdirSync(join(folder, 'first')).sort()).toEqual(['SHA256SUMS', 'notes.md', ...made]);
    const sums = readFileSync(join(folder, 'first/SHA256SUMS'), 'utf8');
    const wanted = made.map((name) => {
      const content = readFileSync(join(folder, 'first', name));
      return `${createHash('sha256').update(content).digest('hex')}  ${name}\n`;
    });
    expect(sums).toBe(wanted.join(''));
  });

  it('packs what is built, for npm', () => {
    const names = listed(`weir-${version}.tgz`);
    for (const name of [
      'bin/weir.js',
      'dist/cli/main.js',
      'LICENSE',
      'CHANGELOG.md',
      'charts/weir/Chart.yaml',
    ])
      expect(names).toContain(`package/${name}`);
    expect(names.filter((name) => /(?<!\.d)\.ts$|\.test\.[jt]s/.test(name))).toEqual([]);
  });

  it('packs a chart that names the image of the release', () => {
    const chart = join(folder, 'first', `weir-chart-${version}.tgz`);
    expect(listed(`weir-chart-${version}.tgz`)).toContain('weir/values.schema.json');
    const rendered = runHelm(['template', 'weir', chart], { redis: { url: 'redis:6379' } });
    expect(rendered.stderr).toBe('');
    const { image } = podOf(objectsIn(rendered.stdout), 'limiter').spec.containers[0];
    expect(image).toBe(`ghcr.io/acme/weir:${version}`);
    expect(runHelm(['show', 'chart', chart]).stdout).toContain('home: https://github.com/Acme/Weir\n');
    const tarball = join(folder, 'first', `weir-${version}.tgz`);
    const install = 'package/examples/kubernetes/install.yaml';
    const { stdout } = spawnSync('tar', ['-xzOf', tarball, install], { encoding: 'utf8' });
    expect(stdout).toContain(`image: ghcr.io/acme/weir:${version}\n`);
    const values = spawnSync('tar', ['-xzOf', chart, 'weir/VALUES.md'], { encoding: 'utf8' });
    expect(values.stdout).toContain('| `image.repository` | `ghcr.io/acme/weir` |');
  });

  describe('the command line without Node', () => {
    const linux = process.platform === 'linux' && process.arch === 'x64' ? it : it.skip;
    let program: string;
    /** Alone in an empty environment: no Node on its path. */
    const weir = (...args: string[]) => {
      const { status, stdout, stderr } = spawnSync(program, args, { cwd: root, env: {}, encoding: 'utf8' });
      return { status, stdout, stderr };
    };
    beforeAll(() => {
      execFileSync('tar', ['-xzf', join(folder, 'first', commandLine), '-C', folder]);
      program = join(folder, `weir-${version}-linux-x64/weir`);
    });

    linux.each([
      { args: ['--version'] },
      { args: ['--help'] },
      { args: ['check', 'examples/rules'] },
      { args: ['check', '--output', 'json', 'docs'] },
      {
        args: ['explain', 'examples/rules', '--domain', 'shop', '--descriptors', 'remote_address=192.0.2.1'],
      },
      { args: ['diff', 'examples/rules', 'examples/replay/stricter'] },
      { args: ['convert', '--to', 'manifest', 'examples/rules/shop.yaml'] },
      { args: ['replay', 'examples/replay/requests.ndjson', '--rules', 'examples/rules'] },
      { args: ['completion', 'bash'] },
      { args: ['chek'] },
    ])('answers $args as the package does', ({ args }) => {
      expect(weir(...args)).toEqual(runWeir(args, { env: {} }));
    });

    linux('is a plugin of kubectl by its other name', () => {
      const plugin = join(dirname(program), 'kubectl-weir');
      expect(execFileSync(plugin, ['--help'], { env: {}, encoding: 'utf8' })).toContain(
        'Usage: kubectl weir ',
      );
    });

    linux('says where limiter and control plane are', () => {
      expect(weir('limiter')).toMatchObject({
        status: 1,
        stderr: expect.stringMatching(/come as image, chart or npm package\n$/),
      });
    });
  });

  it('lists every package of production, and no other', () => {
    const bill = JSON.parse(readFileSync(join(folder, 'first', `weir-${version}.cdx.json`), 'utf8'));
    const components = bill.components as { name: string; version: string }[];
    const named = components.map((component) => `${component.name}@${component.version}`);
    expect(named.sort()).toEqual([...neededAtRunTime()].sort());
    const refs = new Set(bill.components.map((component: Record<string, unknown>) => component['bom-ref']));
    for (const { dependsOn } of bill.dependencies) for (const ref of dependsOn) expect(refs).toContain(ref);
    expect(bill.metadata.component).toMatchObject({ name: 'weir', version, type: 'application' });
    expect(bill.serialNumber).toMatch(
      /^urn:uuid:[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-a[0-9a-f]{3}-[0-9a-f]{12}$/,
    );
  });

  it('prints the commands that push, and runs none in a dry run', () => {
    const commands = first.stdout.match(/(?<=^would run: ).*/gm) ?? [];
    expect(commands).toEqual([
      expect.stringMatching(
        / docker buildx build --platform linux\/amd64,linux\/arm64 --tag ghcr\.io\/acme\/weir:.* --sbom=true --provenance=mode=max .* --push \.$/,
      ),
      expect.stringMatching(/helm push weir-chart-.*\.tgz oci:\/\/ghcr\.io\/acme\/weir\/charts$/),
      expect.stringContaining(`gh release create v${version} --repo Acme/Weir --verify-tag`),
    ]);
    expect(commands.at(-1)).toMatch(new RegExp(`${made.map(RegExp.escape).join(' ')} SHA256SUMS$`));
    expect(first.stdout).toMatch(/dry run: nothing was pushed\n$/);
  });

  it('refuses a wrong command line with status 2', () => {
    const cases = [
      { given: [], message: 'the repository in package.json (or --repository) has to be yours' },
      { given: ['--dry-run', '--image', 'Weir:1'], message: '--image is <registry>/<name> in small letters' },
      { given: ['--dry-run', '--processors', 'x86'], message: '--processors takes x64,arm64, not "x86"' },
      { given: ['--repository', 'weir'], message: '--repository is <owner>/<name>, not "weir"' },
      { given: ['--dry-run', '--out', clone], message: '--out is an empty or a new folder' },
      { given: ['--push'], message: "Unknown option '--push'" },
    ];
    for (const { given, message } of cases) {
      const { status, stderr } = run(root, given);
      expect([status, stderr]).toEqual([2, expect.stringContaining(message)]);
    }
  });

  it('refuses what is not ready, with all that is missing, before it makes a file', () => {
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
        'release: refused',
        'not committed, and so in no file of the release: left-over.txt (1 in all)',
        `the commit has no tag v${next}, the version of package.json`,
        `CHANGELOG.md has no section "## ${next}"`,
        'none of docker with buildx, podman and buildah is on this machine',
        'gh is not on this machine',
      ],
    ]);
    expect(existsSync(join(clone, 'dist-release'))).toBe(false);
  });

  it(
    'pushes image, chart and release in this order, and stops where one fails',
    () => {
      const section = `## ${next} (2026-01-01)\n\nRead [this](docs/upgrades.md#in-which-order) and [that](#all).\n`;
      const changes = readFileSync(join(clone, 'CHANGELOG.md'), 'utf8');
      writeFileSync(
        join(clone, 'CHANGELOG.md'),
        changes.replace('# Changelog\n', `# Changelog\n\n${section}`),
      );
      git('commit', '--quiet', '--all', '--message', 'Release');
      git('tag', `v${next}`);
      // Stand for the programs that push: each writes down what it was asked for. Helm packs for itself; what npm packs is tried above.
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

interface LockedPackage {
  version: string;
  dependencies?: Record<string, string>;
  optionalDependencies?: Record<string, string>;
  peerDependencies?: Record<string, string>;
  peerDependenciesMeta?: Record<string, { optional?: boolean }>;
}

/** Followed from the package's own dependencies through the lock file, as Node finds them: `name@version`. */
function neededAtRunTime(): Set<string> {
  const text = readFileSync(join(root, 'package-lock.json'), 'utf8');
  const { packages } = JSON.parse(text) as { packages: Record<string, LockedPackage> };
  const needed = new Set<string>();
  const paths = new Set(['']);
  // Grows while it is walked.
  for (const path of paths) {
    const {
      dependencies,
      optionalDependencies,
      peerDependencies,
      peerDependenciesMeta = {},
    } = packages[path]!;
    for (const name of Object.keys({ ...dependencies, ...optionalDependencies, ...peerDependencies })) {
      if (peerDependenciesMeta[name]?.optional) continue;
      let folder = path;
      while (folder !== '' && packages[join(folder, 'node_modules', name)] === undefined)
        folder = folder.includes('/node_modules/')
          ? folder.slice(0, folder.lastIndexOf('/node_modules/'))
          : '';
      const found = join(folder, 'node_modules', name);
      needed.add(`${name}@${packages[found]!.version}`);
      paths.add(found);
    }
  }
  return needed;
}
