import { symlinkSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { describe, expect, it } from 'vitest';
import { ChildProgram } from './child-program.ts';
import { temporaryFolder } from './temporary-folder.ts';

const root = resolve(import.meta.dirname, '../..');

describe('npm run properties', () => {
  /** In a folder with two properties of 100 and 20 cases, one of which fails above 500. */
  async function run(...args: string[]): Promise<{ code: number | null; output: string }> {
    const folder = temporaryFolder();
    symlinkSync(join(root, 'node_modules'), join(folder, 'node_modules'));
    const setup = join(import.meta.dirname, 'property-cases.ts');
    writeFileSync(
      join(folder, 'vitest.config.ts'),
      `export default { test: { name: 'tests', setupFiles: [${JSON.stringify(setup)}], maxWorkers: 2 } };`,
    );
    writeFileSync(
      join(folder, 'a.test.ts'),
      `import fc from 'fast-check';
      import { it } from 'vitest';
      import { caseCount } from ${JSON.stringify(setup)};
      it("isn't wrong", () => fc.assert(fc.property(fc.nat(), (n) => n >= 0)));
      it('fails (sometimes)', () => {
        fc.assert(fc.property(fc.nat(100_000), (n) => n < 500), { numRuns: caseCount(20) });
      });`,
    );
    writeFileSync(join(folder, 'plain.test.ts'), `import { it } from 'vitest'; it('has none', () => {});`);
    const env = { ...process.env, VITEST: undefined, PROPERTY_TIMES: undefined, NO_COLOR: '1' };
    const script = join(root, 'scripts/properties.ts');
    const program = new ChildProgram({
      command: process.execPath,
      args: [script, ...args],
      cwd: folder,
      env,
    });
    const { code } = await program.ended;
    return { code, output: program.output };
  }

  it('runs many times the cases and counts them', async () => {
    const { code, output } = await run('--times', '30', '--seed', '5', '--name', 'wrong');
    expect(output).toMatch(/^seed 5: 1 files, 30 times their cases\n/);
    expect(output).toMatch(/\nproperties: 1 tests, 3000 cases, seed 5, \d+ s\nnothing failed\n$/);
    expect(code).toBe(0);
  });

  it('says how to repeat what failed, which then fails alike', async () => {
    const first = await run('--times', '3', '--seed', '5');
    expect(first.code).toBe(1);
    expect(first.output).toContain('\nCounterexample: [500]\n');
    const [, path] = /path: "([\d:]+)"/.exec(first.output)!;
    const command = `npm run properties -- a.test.ts --name '^fails \\(sometimes\\)$' --path ${path} --times 3 --seed 5\n`;
    expect(first.output).toContain(`\nrepeat it with: ${command}`);
    expect(first.output).toMatch(/\nfailed: a\.test\.ts > fails \(sometimes\)\n {2}npm run properties -- /);
    const again = await run('a.test.ts', '--name', '^fails \\(sometimes\\)$', '--path', path!, '--seed', '5');
    expect(again.output).toContain('\nCounterexample: [500]\nShrunk 0 time(s)\n');
    expect(again.output).toContain('\nproperties: 1 tests, 1 cases, ');
  });

  it('continues with new seeds until the time is up', async () => {
    const { code, output } = await run('--times', '1', '--minutes', '0.1', '--seed', '5', '--name', 'wrong');
    expect(output).toMatch(/\nseed 6: 1 files, 1 times their cases\n/);
    expect(output).toMatch(/\nproperties: 1 tests, \d+00 cases, seeds 5 to \d+, \d+ s\nnothing failed\n$/);
    expect(code).toBe(0);
  });

  it('rejects what it does not take', async () => {
    const hint = '"npm run properties -- --help" describes its arguments.\n';
    expect(await run('--times', '0')).toEqual({
      code: 2,
      output: `--times is a number from 0.1 to 10000, not "0"\n${hint}`,
    });
    expect(await run('plain')).toEqual({
      code: 2,
      output: `no file with property tests has plain in its path\n${hint}`,
    });
    expect((await run('--path', 'x')).output).toContain('--path is numbers with colons between, not "x"');
    expect(await run('--help')).toMatchObject({ code: 0, output: expect.stringContaining('--minutes') });
    expect(await run('--name', 'nobody')).toMatchObject({
      code: 1,
      output: expect.stringContaining('nothing ran'),
    });
  });
});
