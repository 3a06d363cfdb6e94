/** What a symbolic link in rules can make a command print: nothing from outside of the folder that was named. */
import { spawnSync } from 'node:child_process';
import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { suiteFolder } from '../support/suite-folder.ts';
import { type CommandOutcome, runWeir, spawnWeir } from '../support/weir-command.ts';
import { weirProgram } from '../support/weir-program.ts';

const secret = 'hunter2-of-the-runner';
const rules = (domain: string, requests = 5) =>
  `domain: ${domain}\ndescriptors:\n  - { key: ip, rate_limit: { unit: minute, requests_per_unit: ${requests} } }\n`;

const workspace = join(suiteFolder(), 'workspace');
const at = (path: string) => join(workspace, path);
const outside = join(workspace, '..', 'outside');

function put(path: string, text: string): void {
  mkdirSync(join(at(path), '..'), { recursive: true });
  writeFileSync(at(path), text);
}
function link(path: string, to: string): void {
  mkdirSync(join(at(path), '..'), { recursive: true });
  symlinkSync(to, at(path));
}

beforeAll(() => {
  mkdirSync(outside, { recursive: true });
  writeFileSync(join(outside, 'secret.txt'), `token: ${secret}\n`);
  writeFileSync(join(outside, 'rules.yaml'), rules(secret));
  put('.git/config', `[http]\n  extraheader = ${secret}\n`);
  put('shared/base.yaml', rules('base'));
  // As a pull request brings them.
  put('hostile/good.yaml', rules('good'));
  link('hostile/environment.yaml', '/proc/self/environ');
  link('hostile/git.yaml', '../.git/config');
  link('hostile/rules.json', join(outside, 'rules.yaml'));
  link('hostile/notes.txt', join(outside, 'rules.yaml'));
  link('hostile/twice.yaml', 'environment.yaml');
  link('linked-folder', outside);
  link('linked.yaml', join(outside, 'rules.yaml'));
  link('git.yaml', '.git/config');
  // As kubelet mounts a ConfigMap.
  put('mount/..2026_01_01/limits.yaml', rules('mounted'));
  link('mount/..data', '..2026_01_01');
  link('mount/limits.yaml', '..data/limits.yaml');
});

const env = { ...process.env, RUNNER_TOKEN: secret };
const outputOf = ({ stdout, stderr }: CommandOutcome) => stdout + stderr;
const commands: [name: string, args: (path: string) => string[]][] = [
  ['check', (path) => ['check', path]],
  ['check --config-dir', (path) => ['check', '-config_dir', path]],
  ['diff, old', (path) => ['diff', path, '/dev/null']],
  ['diff, new', (path) => ['diff', '/dev/null', path]],
  ['explain', (path) => ['explain', path, 'good', 'ip=1']],
  ['replay', (path) => ['replay', path, '--from', '/dev/null']],
  ['convert', (path) => ['convert', path, '--to', 'manifest']],
  ['envoy', (path) => ['envoy', path]],
];

describe.each(commands)('weir %s', (_, args) => {
  it('reads nothing that a link in a folder leads out to, and says so of each', () => {
    const outcome = spawnWeir(args(at('hostile')), { env });
    expect(outcome.status).not.toBe(0);
    expect(outputOf(outcome)).not.toContain(secret);
    for (const file of ['environment.yaml', 'git.yaml', 'rules.json', 'twice.yaml'])
      expect(outputOf(outcome)).toMatch(new RegExp(`${file}.*is a symbolic link that leads out of`));
  });

  it('reads nothing that a file leads out to', () => {
    for (const file of ['linked.yaml', 'git.yaml', 'hostile/environment.yaml']) {
      const outcome = runWeir(args(at(file)), { env });
      expect([file, outcome.status]).toEqual([file, 2]);
      expect(outputOf(outcome)).not.toContain(secret);
      expect(outputOf(outcome)).toContain('by a symbolic link');
    }
  });

  it('reads nothing outside of --root, not by a linked folder either', () => {
    for (const path of [
      at('linked-folder'),
      at('linked.yaml'),
      at('git.yaml'),
      join(outside, 'rules.yaml'),
    ]) {
      const outcome = runWeir([...args(path), '--root', workspace], { env });
      expect([path, outcome.status]).toEqual([path, 2]);
      expect(outputOf(outcome)).not.toContain(secret);
    }
  });
});

describe('links that stay inside', () => {
  it('are read in the mount of a ConfigMap, by its folder and by a file of it', () => {
    for (const path of [at('mount'), at('mount/limits.yaml')])
      expect(runWeir(['check', path])).toMatchObject({ status: 0, stderr: '' });
  });

  it('are read of a file in a --root that holds both', () => {
    link('teams/shop.yaml', '../shared/base.yaml');
    expect(runWeir(['check', at('teams/shop.yaml')]).status).toBe(2);
    expect(runWeir(['check', at('teams/shop.yaml'), '--root', workspace]).status).toBe(0);
    const roots = ['--root', workspace, '--root', outside];
    const both = ['diff', join(outside, 'rules.yaml'), at('teams/shop.yaml')];
    expect(runWeir([...both, ...roots]).status).toBe(1);
    expect(runWeir([...both, '--root', workspace]).status).toBe(2);
  });

  it('are followed if a folder itself is named by a link', () => {
    expect(runWeir(['check', at('linked-folder')]).status).toBe(0);
  });
});

describe('other files of a command', () => {
  it('of --envoy stay inside as well', () => {
    for (const more of [[], ['--root', workspace]]) {
      const outcome = runWeir(['check', at('mount'), '--envoy', at('git.yaml'), ...more], { env });
      expect(outcome.status).toBe(2);
      expect(outcome.stderr).toContain('--envoy');
      expect(outputOf(outcome)).not.toContain(secret);
    }
  });

  it.each([
    ['callers', `callers:\n  - { name: ${secret}, domains: [5] }\n`],
    ['profiles', `profiles:\n  ${secret}: { domain: 5 }\n`],
  ])('of %s stay inside as well', (name, text) => {
    writeFileSync(join(outside, `${name}.yaml`), text);
    link(`askers-${name}/${name}.yaml`, join(outside, `${name}.yaml`));
    for (const path of [`askers-${name}`, `askers-${name}/${name}.yaml`]) {
      const outcome = runWeir(['check', at(path)]);
      expect(outcome.status).not.toBe(0);
      expect(outputOf(outcome)).not.toContain(secret);
    }
  });

  it('that hold a recording stay inside, or lie in the folder that they are named in', () => {
    const line = '{"time":"2026-11-20T09:00:00Z","domain":"mounted","descriptors":[[["ip","1"]]]}\n';
    writeFileSync(join(outside, 'requests.ndjson'), line + secret);
    link('requests.ndjson', join(outside, 'requests.ndjson'));
    const replay = (from: string) => runWeir(['replay', at('mount'), '--from', from, '--root', workspace]);
    expect(replay(join(outside, 'requests.ndjson')).status).toBe(0);
    const outcome = replay(at('requests.ndjson'));
    expect(outcome.status).toBe(2);
    expect(outcome.stderr).toContain('by a symbolic link');
    expect(runWeir(['diff', at('mount'), at('mount'), '--replay', at('requests.ndjson')]).status).toBe(2);
  });
});

describe('--root', () => {
  it('is a folder', () => {
    expect(runWeir(['check', at('mount'), '--root', at('nothing')]).stderr).toContain('--root');
    expect(runWeir(['check', at('mount'), '--root', at('linked.yaml')]).stderr).toContain('is not a folder');
  });

  it('leaves streams of the shell alone', () => {
    const input = rules('piped');
    expect(runWeir(['check', '-', '--root', workspace], { input })).toMatchObject({ status: 0 });
    const script = '"$0" "$1" check <(cat "$2") /dev/stdin --root "$3" < "$2"';
    const args = ['-c', script, process.execPath, weirProgram, at('shared/base.yaml'), workspace];
    expect(spawnSync('bash', args, { encoding: 'utf8' })).toMatchObject({ status: 0, stderr: '' });
    expect(runWeir(['diff', '/dev/null', at('mount'), '--root', workspace]).status).toBe(1);
  });

  it('is in the help of each command', () => {
    for (const command of ['check', 'diff', 'explain', 'replay', 'convert', 'envoy'])
      expect(runWeir([command, '--help']).stdout).toContain('--root <folder>');
  });
});
