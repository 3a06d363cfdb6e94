import { execFileSync, spawnSync } from 'node:child_process';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { spawnControlPlane, startControlPlane } from '../support/control-plane-process.ts';
import { commandsToRun } from '../support/documents.ts';
import { eventually } from '../support/eventually.ts';
import { type LimiterProcess, startLimiter } from '../support/limiter-process.ts';

const root = fileURLToPath(new URL('../..', import.meta.url));

const rules = (limit: number): string => `
domain: packed
descriptors:
  - key: k
    rate_limit: { unit: year, requests_per_unit: ${limit} }
`;

const [check = '', pack = '', install = '', executable = '', ...others] = commandsToRun('docs/install.md');

/** Node as package managers find it for a program: the one that runs this test. */
const env = { ...process.env, npm_config_update_notifier: 'false' };

/** Whether dist/ is of these sources, as in the gate; npm builds it before it packs, which takes 10 s of a processor. */
function isBuilt(): boolean {
  const built = join(root, 'dist/cli/main.js');
  if (!existsSync(built)) return false;
  const builtMs = statSync(built).mtimeMs;
  const folders = ['cli', 'control-plane', 'gen', 'limiter', 'process', 'replay', 'rules'];
  const sources = folders.flatMap((name) =>
    readdirSync(join(root, name), { recursive: true, encoding: 'utf8' }).map((path) =>
      join(root, name, path),
    ),
  );
  return [...sources, join(root, 'tsconfig.build.json')].every((path) => statSync(path).mtimeMs < builtMs);
}

describe('the packed package, alone in an empty folder with production dependencies', () => {
  let home: string;
  /** A project beside the clone. */
  let folder: string;
  let rulesFolder: string;
  let limiter: LimiterProcess;

  const ask = async (value: string): Promise<number> => {
    const body = JSON.stringify({ domain: 'packed', descriptors: [{ entries: [{ key: 'k', value }] }] });
    const response = await fetch(`http://127.0.0.1:${limiter.ports.http}/json`, { method: 'POST', body });
    return response.status;
  };

  beforeAll(async () => {
    home = mkdtempSync(join(tmpdir(), 'weir-package-'));
    folder = join(home, 'limits');
    for (const name of ['weir', 'limits']) mkdirSync(join(home, name));
    const packed = {
      npm_config_pack_destination: join(home, 'weir'),
      npm_config_ignore_scripts: String(isBuilt()),
    };
    execFileSync('sh', ['-c', pack], { cwd: root, env: { ...env, ...packed }, stdio: 'pipe' });
    writeFileSync(join(folder, 'package.json'), '{ "name": "limits", "private": true }\n');
    const quiet = { npm_config_audit: 'false', npm_config_fund: 'false' };
    const installed = execFileSync('sh', ['-e', '-c', install], { cwd: folder, env: { ...env, ...quiet } });
    const { version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { version: string };
    expect(String(installed).split('\n')).toContainEqual(
      expect.stringMatching(`^weir ${RegExp.escape(version)} \\(node 26\\.`),
    );
    rulesFolder = join(folder, 'rules');
    mkdirSync(rulesFolder);
    writeFileSync(join(rulesFolder, 'packed.yaml'), rules(1));
    limiter = await startLimiter({
      entry: join(folder, 'node_modules', '.bin', 'weir'),
      env: { BACKEND_TYPE: 'memory', RUNTIME_ROOT: folder, RUNTIME_APPDIRECTORY: 'rules' },
    });
  }, 180_000);

  afterAll(async () => {
    await limiter?.stop();
    rmSync(home, { recursive: true, force: true });
  });

  it('holds no sources, no tests and no development dependencies', () => {
    const own = readdirSync(join(folder, 'node_modules', 'weir'), { recursive: true, encoding: 'utf8' });
    expect(own.filter((name) => /(?<!\.d)\.ts$|\.test\.[jt]s/.test(name))).toEqual([]);
    const installed = readdirSync(join(folder, 'node_modules'));
    expect(installed).not.toContain('vitest');
    expect(installed).not.toContain('typescript');
  });

  it('is a plugin of kubectl, too', () => {
    const plugin = join(folder, 'node_modules', '.bin', 'kubectl-weir');
    const env = { PATH: `${join(process.execPath, '..')}:${process.env['PATH']}`, KUBECONFIG: '/nowhere' };
    const { status, stderr } = spawnSync(plugin, ['status'], { encoding: 'utf8', env });
    expect([status, stderr]).toEqual([
      2,
      'kubectl weir: KUBECONFIG=/nowhere: no such file; or name limiters by --limiter or WEIR_LIMITERS\n',
    ]);
  });

  it('starts and decides', async () => {
    expect(await ask('a')).toBe(200);
    expect(await ask('a')).toBe(429);
  });

  it('has its console', async () => {
    for (const path of ['', '/files/limiter.js', '/node_modules/uplot/dist/uPlot.esm.js']) {
      const answer = await fetch(`http://127.0.0.1:${limiter.ports.debug}/console${path}`);
      expect([path, answer.status]).toEqual([path, 200]);
    }
  });

  it('answers by worker threads', async () => {
    // Memcache fails open, so that it takes no server.
    const workers = await startLimiter({
      entry: join(folder, 'node_modules', '.bin', 'weir'),
      env: {
        BACKEND_TYPE: 'memcache',
        MEMCACHE_HOST_PORT: '127.0.0.1:1',
        LIMITER_WORKERS: '2',
        RUNTIME_ROOT: folder,
        RUNTIME_APPDIRECTORY: 'rules',
      },
    });
    try {
      expect((await fetch(`http://127.0.0.1:${workers.ports.http}/healthcheck`)).status).toBe(200);
      const stats = await fetch(`http://127.0.0.1:${workers.ports.debug}/stats`);
      expect(await stats.text()).toContain('\nratelimit.workers.ready: 2\n');
    } finally {
      expect(await workers.program.stop()).toEqual({ code: 0, signal: null });
    }
  });

  it('runs a control plane, with the library for Kubernetes', async () => {
    const entry = join(folder, 'node_modules', '.bin', 'weir');
    const manifests = join(folder, 'node_modules', 'weir', 'examples', 'manifests');
    const env = { SOURCE: 'DIRECTORY', MANIFESTS_DIRECTORY: manifests };
    const controlPlane = await startControlPlane({ entry, env });
    try {
      await eventually(async () => {
        const response = await fetch(`http://127.0.0.1:${controlPlane.ports.http}/snapshot`);
        expect(await response.text()).toContain('resource default/shop');
      });
    } finally {
      await controlPlane.stop();
    }
    const inCluster = spawnControlPlane({ entry, env: { HOME: folder } });
    await inCluster.printed(/cannot find the Kubernetes API/);
    expect((await inCluster.ended).code).toBe(1);
  });

  it('takes over changed rules', async () => {
    writeFileSync(join(rulesFolder, 'packed.yaml'), rules(1_000));
    await eventually(async () => expect(await ask('a')).toBe(200));
  });

  it('stops with status 0', async () => {
    expect(await limiter.program.stop()).toEqual({ code: 0, signal: null });
  });
});

it('docs/install.md has no command that no test runs', () => {
  expect(others).toEqual([]);
  // test/e2e/adopt-first-pages.test.ts runs the first, and test/package/release.nightly.test.ts the last.
  expect(commandsToRun('docs/start.md')).toContain(check);
  expect(executable).toMatch(/^npm run executable /);
});
