/** The whole of a release, twice: for all processors, and byte for byte. release.test.ts has what is quick. */
import { execFileSync, spawnSync } from 'node:child_process';
import {
  appendFileSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { describeWithServer } from '../support/describe-with-server.ts';
import { helmProgram } from '../support/find-server.ts';

const root = join(import.meta.dirname, '../..');
const { version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { version: string };
const nameOf = (processor: string): string => `weir-${version}-linux-${processor}`;
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

  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), 'weir-release-test-'));
    clone = join(folder, 'clone');
    execFileSync('git', ['clone', '--quiet', '--no-tags', '--depth', '1', `file://${root}`, clone]);
    symlinkSync(join(root, 'node_modules'), join(clone, 'node_modules'));
    appendFileSync(join(clone, '.git/info/exclude'), 'node_modules\n');
    const first = run(root, 'first');
    expect([first.status, first.stderr]).toEqual([0, expect.not.stringContaining('release:')]);
  }, patience);
  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  it('makes the command line for both processors', () => {
    const machine = (processor: string) => {
      const name = nameOf(processor);
      execFileSync('tar', ['-xzf', join(folder, 'first', `${name}.tar.gz`), '-C', folder]);
      return readFileSync(join(folder, name, 'weir')).readUInt16LE(18);
    };
    // ELF's e_machine: x86-64, and AArch64.
    expect([machine('x64'), machine('arm64')]).toEqual([62, 183]);
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
      expect([status, stdout]).toEqual([0, expect.stringContaining('would refuse: not committed')]);
      const sums = (out: string) =>
        readFileSync(join(folder, out, 'SHA256SUMS'), 'utf8')
          .trim()
          .split('\n');
      expect(sums('second')).toEqual(sums('first'));
      expect(sums('second')).toHaveLength(5);
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
