/** The files of a release, made twice: for all processors, and byte for byte. release.test.ts has what is quick. */
import { execFileSync, spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  appendFileSync,
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
import { releasesOn } from '../chart/releases.ts';
import { describeWithBareApiServer } from '../support/describe-with-api-server.ts';
import { describeWithServer } from '../support/describe-with-server.ts';
import { commandsToRun } from '../support/documents.ts';
import { helmProgram } from '../support/find-server.ts';
import { objectsIn, podOf, runHelm } from '../support/helm-chart.ts';
import { runWeir } from '../support/weir-command.ts';

const root = join(import.meta.dirname, '../..');
const { version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { version: string };
const nameOf = (processor: string): string => `weir-${version}-linux-${processor}`;
const made = [
  `weir-${version}.cdx.json`,
  `weir-${version}.tgz`,
  `weir-chart-${version}.tgz`,
  `weir-limits-limiter-${version}.tgz`,
  ...['arm64', 'x64'].map((processor) => `${nameOf(processor)}.tar.gz`),
].sort();
const patience = 600_000;

describeWithServer('npm run release', helmProgram, (helm) => {
  let folder: string;
  let clone: string;
  const run = (cwd: string, out: string, env: NodeJS.ProcessEnv = {}) => {
    const flags = ['--dry-run', '--repository', 'Acme/Weir', '--out', join(folder, out)];
    return spawnSync(process.execPath, [join(cwd, 'scripts/release.ts'), ...flags], {
      cwd,
      env: { ...process.env, WEIR_HELM: helm, ...env },
      encoding: 'utf8',
    });
  };

  let first: ReturnType<typeof run>;
  const listed = (tarball: string): string[] =>
    execFileSync('tar', ['-tzf', join(folder, 'first', tarball)], { encoding: 'utf8' })
      .trim()
      .split('\n');
  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), 'weir-release-test-'));
    clone = join(folder, 'clone');
    execFileSync('git', ['clone', '--quiet', '--no-tags', '--depth', '1', `file://${root}`, clone]);
    symlinkSync(join(root, 'node_modules'), join(clone, 'node_modules'));
    appendFileSync(join(clone, '.git/info/exclude'), 'node_modules\n');
    first = run(root, 'first');
  }, patience);
  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  it('makes tarball, chart, command line, bill of materials and their sums in a dry run', () => {
    expect(first.stderr).not.toContain('release:');
    expect(first.status).toBe(0);
    expect(readdirSync(join(folder, 'first')).sort()).toEqual(['SHA256SUMS', 'notes.md', ...made].sort());
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

  /** A project with what npm installs of a tarball. */
  const installed = (tarball: string): string => {
    const project = mkdtempSync(join(folder, 'project-'));
    writeFileSync(join(project, 'package.json'), '{ "private": true, "type": "module" }\n');
    const path = join(folder, 'first', tarball);
    const flags = ['--silent', '--no-audit', '--no-fund', '--omit=dev'];
    execFileSync('npm', ['install', ...flags, path], { cwd: project });
    return project;
  };

  it(
    'makes a tarball whose command checks the examples in it',
    () => {
      const project = installed(`weir-${version}.tgz`);
      const weir = (...args: string[]) =>
        execFileSync('node_modules/.bin/weir', args, { cwd: project, encoding: 'utf8' });
      expect(weir('--version')).toMatch(new RegExp(`^weir ${RegExp.escape(version)} `));
      expect(weir('check', 'node_modules/weir/examples/rules')).toMatch(/^ok: [1-9]\d* files, /m);
    },
    patience,
  );

  it(
    'makes a tarball of the library that decides',
    () => {
      const project = installed(`weir-limits-limiter-${version}.tgz`);
      const program = `
        import { createLimiter } from '@weir-limits/limiter';
        const rule = { key: 'user', rate_limit: { unit: 'year', requests_per_unit: 1 } };
        const limiter = await createLimiter({ rules: { domain: 'shop', descriptors: [rule] } });
        for (const user of ['ann', 'ann', 'bob']) console.log((await limiter.check('shop', { user })).allowed);
        await limiter.close();`;
      const args = ['--input-type=module', '--eval', program];
      expect(execFileSync(process.execPath, args, { cwd: project, encoding: 'utf8' })).toBe(
        'true\nfalse\ntrue\n',
      );
    },
    patience,
  );

  describeWithBareApiServer('the chart on a real API server', (api) => {
    it(
      'installs with its image, and uninstalls',
      () => {
        api().createNamespace('shop');
        const { helm, uninstall } = releasesOn(api);
        const chart = join(folder, 'first', `weir-chart-${version}.tgz`);
        helm(['install', 'weir', chart], { redis: { url: 'redis:6379' }, controlPlane: { enabled: true } });
        const image = 'jsonpath={.spec.template.spec.containers[0].image}';
        for (const name of ['weir-limiter', 'weir-control-plane']) {
          const get = ['get', 'deployment', name, '-n', 'shop', '-o', image];
          expect(api().mustKubectl(get)).toBe(`ghcr.io/acme/weir:${version}`);
        }
        uninstall();
        expect(api().mustKubectl(['get', 'deployments', '-n', 'shop', '-o', 'name'])).toBe('');
      },
      patience,
    );
  });

  it('makes the command line for both processors', () => {
    const machine = (processor: string) => {
      const name = nameOf(processor);
      execFileSync('tar', ['-xzf', join(folder, 'first', `${name}.tar.gz`), '-C', folder]);
      return readFileSync(join(folder, name, 'weir')).readUInt16LE(18);
    };
    // ELF's e_machine: x86-64, and AArch64.
    expect([machine('x64'), machine('arm64')]).toEqual([62, 183]);
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
      execFileSync('tar', ['-xzf', join(folder, 'first', `${nameOf('x64')}.tar.gz`), '-C', folder]);
      program = join(folder, nameOf('x64'), 'weir');
    });

    linux.each([
      { args: ['--version'] },
      { args: ['--help'] },
      { args: ['check', 'examples/rules'] },
      { args: ['check', '--output', 'json', 'docs'] },
      {
        args: ['explain', 'examples/rules', 'shop', 'remote_address=192.0.2.1'],
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

  it(
    'makes the same bytes of the same commit elsewhere, whatever else lies there, and would push by what is there',
    () => {
      const bin = join(folder, 'with-podman');
      mkdirSync(bin);
      for (const [name, status] of Object.entries({ docker: 1, podman: 0, gh: 0 }))
        writeFileSync(join(bin, name), `#!/bin/sh\nexit ${status}\n`, { mode: 0o755 });
      writeFileSync(join(clone, 'left-over.txt'), '');
      const { status, stdout } = run(clone, 'second', { PATH: `${bin}${delimiter}${process.env['PATH']}` });
      expect([status, stdout]).toEqual([0, expect.stringContaining('would stop: 1 uncommitted changes')]);
      const sums = (out: string) =>
        readFileSync(join(folder, out, 'SHA256SUMS'), 'utf8')
          .trim()
          .split('\n');
      expect(sums('second')).toEqual(sums('first'));
      expect(sums('second')).toHaveLength(6);
      const image = `ghcr.io/acme/weir:${version}`;
      const [build, push] = stdout.match(/(?<=^would run: ).*/gm) ?? [];
      expect(build).toMatch(
        new RegExp(
          `^podman build --platform linux/amd64,linux/arm64 --manifest ${RegExp.escape(image)} --label .* --timestamp \\d+ \\.$`,
        ),
      );
      expect(push).toMatch(/^podman manifest push --all --digestfile \S+image\.digest /);
      expect(push).toContain(` ${image} docker://${image}`);
      expect(stdout).not.toContain('is on this machine');
    },
    patience,
  );
});

it('docs/install.md makes one program that needs no Node', () => {
  const own = mkdtempSync(join(tmpdir(), 'weir-program-'));
  try {
    const [command = ''] = commandsToRun('docs/install.md').filter((text) => text.includes('executable'));
    const here = command.replaceAll('../', `${own}/`);
    const printed = execFileSync('sh', ['-e', '-c', here], { cwd: root, encoding: 'utf8' });
    expect(printed).toMatch(/^ok: 2 files, 2 domains, 8 rules$/m);
    const { status } = spawnSync(join(own, 'weir-program'), ['--version'], { env: {} });
    expect(status).toBe(0);
  } finally {
    rmSync(own, { recursive: true, force: true });
  }
}, 120_000);

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
