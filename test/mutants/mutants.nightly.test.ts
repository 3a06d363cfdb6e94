import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { beforeAll, describe, expect, it } from 'vitest';
import { projectRoot } from '../../scripts/commands.ts';
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
});
