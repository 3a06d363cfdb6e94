import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { beforeAll, describe, expect, it } from 'vitest';
import { projectRoot } from '../../scripts/commands.ts';
import { longTestDefects } from './long-test-defects.ts';
import { type Mutant, mutated } from './mutant-source.ts';
import { mutants } from './mutants.ts';
import type { MutantOutcome } from './run-mutants.ts';

describe('mutants', () => {
  let outcomes: MutantOutcome[];
  let failuresWithout: string[];

  beforeAll(async () => {
    // A process of its own: a run of Vitest cannot hold another one.
    const env = Object.fromEntries(
      Object.entries(process.env).filter(([name]) => !name.startsWith('VITEST')),
    );
    const args = [join(import.meta.dirname, 'main.ts'), '--json'];
    const options = { cwd: projectRoot, env, maxBuffer: 1 << 24, timeout: 170_000 };
    // It ends with 1 when a mutant survives.
    const { stdout } = await promisify(execFile)(process.execPath, args, options).catch(
      (error: { stdout?: string }) => {
        if (error.stdout?.startsWith('{')) return { stdout: error.stdout };
        throw error;
      },
    );
    ({ outcomes, failuresWithout } = JSON.parse(stdout));
  }, 180_000);

  it('are tried by tests that pass without them', () => {
    expect(failuresWithout).toEqual([]);
  });

  it.each(mutants.map((mutant, index) => ({ ...mutant, index })))(
    '$killedBy notices that $defect',
    ({ index, byTimeout }) => {
      const ends = byTimeout ? /^(?:killed|timedOut)$/ : /^killed$/;
      expect(outcomes[index]).toMatchObject({
        is: expect.stringMatching(ends),
        details: [expect.any(String)],
      });
    },
  );

  it('have names of their own', () => {
    expect(new Set(mutants.map(({ defect }) => defect)).size).toBe(mutants.length);
  });
});

describe('the known defects of long tests', () => {
  it.each(Object.values(longTestDefects))('apply: $defect', (defect) => {
    const text = readFileSync(join(projectRoot, defect.file), 'utf8');
    expect(mutated(text, defect)).not.toBe(text);
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
  ])('throws where %s is no longer so: %s', (within, search, replace, message) => {
    expect(() => mutated(source, mutant(within, search, replace))).toThrow(message);
  });
});
