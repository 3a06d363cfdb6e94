import { execFile } from 'node:child_process';
import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { describe, expect, it } from 'vitest';
import { projectRoot } from '../../scripts/commands.ts';
import { defineFlags, FlagError } from './script-flags.ts';

const flags = defineFlags({
  help: 'Usage: npm run it -- [flags]\n',
  rows: {
    count: { type: 'number', min: 1, max: 9, whole: true, default: 3 },
    share: { type: 'number', min: 0, max: 1 },
    name: { type: 'string' },
    only: { type: 'strings' },
    write: { type: 'boolean' },
  },
});

describe('flags of a script', () => {
  it('have their defaults, or what is given', () => {
    const none = { count: 3, share: undefined, name: undefined, only: [], write: false };
    expect(flags.parse([])).toEqual(none);
    expect(flags.parse(['--count', '9', '--share=0.5', '--only', 'a', '--only', 'b', '--write'])).toEqual({
      ...none,
      ...{ count: 9, share: 0.5, only: ['a', 'b'], write: true },
    });
    expect(flags.parse(['--count', '0', '-h'])).toBeUndefined();
  });

  it.each([
    [['--count', '2.5'], '--count is a whole number from 1 to 9, not "2.5"'],
    [['--count', '10'], '--count is a whole number from 1 to 9, not "10"'],
    [['--share', 'x'], '--share is a number from 0 to 1, not "x"'],
  ])('reject %j', (args, message) => {
    expect(() => flags.parse(args)).toThrow(new FlagError(message));
  });

  it('end the script with an explanation if they are unknown', async () => {
    const script = join(projectRoot, 'test/mutants/main.ts');
    const failure = await promisify(execFile)(process.execPath, [script, '--lst']).catch((error) => error);
    expect(failure).toMatchObject({
      ...{ code: 2, stdout: '' },
      stderr: `Unknown option '--lst'\n"npx node test/mutants/main.ts --help" describes its arguments.\n`,
    });
  });

  it('are read by this module alone', () => {
    const found = globSync('{scripts,bench,test}/**/*.ts', { cwd: projectRoot }).filter((path) =>
      /import .*\bparseArgs\b.* from 'node:util'/.test(readFileSync(join(projectRoot, path), 'utf8')),
    );
    expect(found).toEqual(['test/support/script-flags.ts']);
  });
});
