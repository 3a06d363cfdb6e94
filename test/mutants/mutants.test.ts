import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { projectRoot } from '../../scripts/commands.ts';
import { longTestDefects } from './long-test-defects.ts';
import { type Mutant, mutated } from './mutant-source.ts';
import { mutants } from './mutants.ts';

describe('mutants', () => {
  it.each([...mutants, ...Object.values(longTestDefects)])('apply: $defect', (mutant) => {
    const text = readFileSync(join(projectRoot, mutant.file), 'utf8');
    expect(mutated(text, mutant)).not.toBe(text);
  });

  it.each(mutants)('are tried by tests that exist: $killedBy', ({ killedBy }) => {
    expect(existsSync(join(projectRoot, killedBy))).toBe(true);
  });

  it('have names of their own', () => {
    expect(new Set(mutants.map(({ defect }) => defect)).size).toBe(mutants.length);
  });
});

describe('the command', () => {
  const run = (...words: string[]) =>
    spawnSync(process.execPath, ['test/mutants/main.ts', ...words], { cwd: projectRoot, encoding: 'utf8' });

  it('rejects a text that no mutant contains, and lists those that contain it', () => {
    expect(run('no such text')).toMatchObject({
      status: 2,
      stderr: 'no mutant contains "no such text"; --list names all\n',
    });
    const { status, stdout } = run('--list');
    expect([status, stdout.trimEnd().split('\n').length]).toEqual([0, mutants.length]);
    expect(run('--check')).toMatchObject({ status: 0, stdout: '', stderr: '' });
  });
});

describe('mutated', () => {
  const source = [
    'const limit = 1;',
    'export class Store {',
    '  constructor() { this.size = 1; }',
    '  get size() { return 1; }',
    '  #load(from: string): number { return from.length + 1; }',
    '}',
    'export function load(): number { return 1 + 1; }',
  ].join('\n');
  const mutant = (within: string, search: string, replace: string): Mutant => ({
    defect: 'd',
    file: 'a.ts',
    within,
    search,
    replace,
    killedBy: 'a.test.ts',
  });

  it.each([
    ['limit', 'const limit = 2;'],
    ['Store.constructor', 'this.size = 2;'],
    ['Store.size', 'get size() { return 2; }'],
    ['Store.#load', 'from.length + 2;'],
  ])('changes %s alone', (within, changed) => {
    const text = mutated(source, mutant(within, '1', '2'));
    expect(text).toContain(changed);
    expect(text.split('2')).toHaveLength(2);
  });

  it.each([
    ['load', '3', '4', 'a.ts: load does not contain "3"'],
    ['load', '1', '4', 'a.ts: load contains "1" more than once'],
    ['load', 'return', 'return', 'a.ts: load: the mutant changes nothing'],
    ['Store.#save', '1', '2', 'a.ts has no Store.#save'],
    ['store', '1', '2', 'a.ts has no store'],
  ])('throws if %s is no longer so: %s', (within, search, replace, message) => {
    expect(() => mutated(source, mutant(within, search, replace))).toThrow(message);
  });
});
