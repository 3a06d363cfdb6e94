import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { describe, expect, it } from 'vitest';

import { soakFlags } from './soak-options.ts';

const main = fileURLToPath(new URL('./main.ts', import.meta.url));
const run = (...args: string[]): Promise<{ code: number; stdout: string; stderr: string }> =>
  promisify(execFile)(process.execPath, [main, ...args]).then(
    ({ stdout, stderr }) => ({ code: 0, stdout, stderr }),
    ({ code, stdout, stderr }: { code: number; stdout: string; stderr: string }) => ({
      code,
      stdout,
      stderr,
    }),
  );

describe('npm run soak', () => {
  it('takes ten minutes, or as many as the flag says', () => {
    expect(soakFlags.parse([])).toEqual({ minutes: 10, seed: 7 });
    expect(soakFlags.parse(['--minutes', '1.5', '--seed', '9'])).toEqual({ minutes: 1.5, seed: 9 });
    expect(soakFlags.parse(['--help', '--minutes', '0'])).toBeUndefined();
  });

  it.each([
    [
      ['--minutes', '0.5'],
      '--minutes is a number from 1 to 1440, not "0.5": in less, caches still fill, and memory says nothing',
    ],
    [['--minutes', 'ten'], '--minutes is a number from 1 to 1440, not "ten"'],
    [['--minutes', '1441'], '--minutes is a number from 1 to 1440, not "1441"'],
    [['--seed', '0'], '--seed is a whole number from 1 to 2147483647, not "0"'],
    [['--hours', '1'], "Unknown option '--hours'"],
  ])('rejects %j before it starts anything', async (args, message) => {
    const stderr = `${message}\n"npm run soak -- --help" describes its arguments.\n`;
    expect(await run(...args)).toEqual({ code: 2, stdout: '', stderr });
  });

  it('explains itself', async () => {
    expect(await run('--help')).toEqual({ code: 0, stdout: soakFlags.help, stderr: '' });
  });
});
