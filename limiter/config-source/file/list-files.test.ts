import { execFileSync } from 'node:child_process';
import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { beforeEach, describe, expect, it } from 'vitest';
import { formatRuleError } from '../../../rules/rule-error.ts';
import { temporaryFolder } from '../../../test/support/temporary-folder.ts';
import { fileLayout, type RuntimePaths } from './change-watch.ts';
import { listRuleFiles } from './list-files.ts';

let root: string;
beforeEach(() => {
  root = temporaryFolder();
});

function write(path: string, text = 'domain: d\n'): void {
  mkdirSync(dirname(join(root, path)), { recursive: true });
  writeFileSync(join(root, path), text);
}

function link(target: string, path: string): void {
  mkdirSync(dirname(join(root, path)), { recursive: true });
  symlinkSync(target, join(root, path));
}

function list(paths: Partial<RuntimePaths> = {}) {
  const listing = listRuleFiles(
    fileLayout({
      root,
      subdirectory: '',
      appDirectory: 'config',
      ignoreDotFiles: false,
      watchRoot: true,
      ...paths,
    }),
  );
  return {
    names: listing.files.map((file) => file.name),
    errors: listing.errors.map(formatRuleError),
    warnings: listing.warnings.map(formatRuleError),
  };
}

const inDirectory = { watchRoot: false };

describe('listRuleFiles', () => {
  it('reads the app directory with its subdirectories and files beside it of its name', () => {
    for (const path of [
      'config/basic.yaml',
      'config/sub/b.yml',
      'config/README.md',
      'config/x.yaml.bak',
      'config.yaml',
      'config.d/x.yaml',
      'configs/no.yaml',
      'other/no.yaml',
      'no.yaml',
    ]) {
      write(path);
    }
    expect(list()).toEqual({
      names: ['config.basic.yaml', 'config.d.x.yaml', 'config.sub.b.yml', 'config.yaml'],
      errors: [],
      warnings: [],
    });
  });

  it('names files relative to the app directory when that is watched', () => {
    write('config/basic.yaml');
    write('config/sub/b.yml');
    write('config.yaml');
    expect(list(inDirectory).names).toEqual(['basic.yaml', 'sub.b.yml']);
  });

  it('reads below the subdirectory', () => {
    write('ratelimit/config/a.yaml');
    write('config/no.yaml');
    expect(list({ subdirectory: 'ratelimit' }).names).toEqual(['config.a.yaml']);
    expect(list({ ...inDirectory, subdirectory: 'ratelimit' }).names).toEqual(['a.yaml']);
  });

  it('sorts by the bytes of the config name', () => {
    const names = ['B.yaml', 'a.b.yaml', 'a.yaml', 'a/a.yaml', 'a_b.yaml', '\u{ff5e}.yaml', '\u{1f600}.yaml'];
    for (const name of names) write(`config/${name}`);
    expect(list(inDirectory).names).toEqual([
      'B.yaml',
      'a.a.yaml',
      'a.b.yaml',
      'a.yaml',
      'a_b.yaml',
      '\u{ff5e}.yaml',
      '\u{1f600}.yaml',
    ]);
  });

  it('reads dot entries unless they are ignored', () => {
    for (const path of ['config/.a.yaml', 'config/.d/b.yaml', 'config/..c.yaml', 'config/d.yaml'])
      write(path);
    expect(list(inDirectory).names).toEqual(['..c.yaml', '.a.yaml', '.d.b.yaml', 'd.yaml']);
    expect(list({ ...inDirectory, ignoreDotFiles: true }).names).toEqual(['d.yaml']);
  });

  it.each([false, true])('reads a ConfigMap mount once with ignoreDotFiles=%s', (ignoreDotFiles) => {
    write('config/..2026_07_01_10_00_00.123/a.yaml');
    write('config/..2026_07_01_10_00_00.123/b.yaml');
    link('..2026_07_01_10_00_00.123', 'config/..data');
    link('..data/a.yaml', 'config/a.yaml');
    link('..data/b.yaml', 'config/b.yaml');
    expect(list({ ...inDirectory, ignoreDotFiles })).toEqual({
      names: ['a.yaml', 'b.yaml'],
      errors: [],
      warnings: [],
    });
  });

  it('follows links to files, warns once of a link to a directory', () => {
    write('elsewhere/x.yaml');
    link('../elsewhere/x.yaml', 'config/linked.yaml');
    link('../elsewhere', 'config/more');
    expect(list(inDirectory)).toEqual({
      names: ['linked.yaml'],
      errors: [],
      warnings: ['more: symbolic link to a directory, skipped'],
    });
  });

  it('skips with a warning what is not a file', () => {
    write('config/a.yaml');
    link('nowhere', 'config/dangling.yaml');
    link('nowhere', 'config/dangling.txt');
    execFileSync('mkfifo', [join(root, 'config/fifo.yaml')]);
    expect(list(inDirectory)).toEqual({
      names: ['a.yaml'],
      errors: [],
      warnings: ['dangling.yaml: dangling symbolic link, skipped', 'fifo.yaml: not a regular file, skipped'],
    });
  });

  it('rejects a link that leads nowhere in a circle', () => {
    link('b.yaml', 'config/a.yaml');
    link('a.yaml', 'config/b.yaml');
    expect(list(inDirectory).errors).toEqual([
      'a.yaml: too many symbolic links encountered',
      'b.yaml: too many symbolic links encountered',
    ]);
  });

  it('finds no rules in a missing directory while the root is watched', () => {
    expect(list({ subdirectory: 'none' })).toEqual({
      names: [],
      errors: [],
      warnings: [`${root}/none: no such file or directory`],
    });
  });

  it('rejects a missing app directory that is watched itself', () => {
    expect(list(inDirectory).errors).toEqual([`${root}/config: no such file or directory`]);
  });

  it('rejects a file in place of the directory', () => {
    write('config');
    expect(list(inDirectory).errors).toEqual([`${root}/config: not a directory`]);
    expect(list({ subdirectory: 'config' }).errors).toEqual([`${root}/config: not a directory`]);
  });
});
