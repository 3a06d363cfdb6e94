import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
import { eventually } from '../eventually.ts';

const script = `
  import { spawn } from 'node:child_process';
  import { endWithUs } from '${import.meta.dirname}/end-with-us.ts';
  const child = spawn('sleep', ['600']);
  endWithUs(child, process.argv.slice(1));
  console.log(child.pid);
  process.stdin.resume();
`;

it.each(['SIGKILL', 'SIGTERM', 'SIGINT'] as const)(
  'a child and its folder go with a process that %s ends',
  async (signal) => {
    const folder = mkdtempSync(join(tmpdir(), 'weir-end-'));
    const parent = spawn(process.execPath, ['--input-type=module', '-e', script, '--', folder], {
      stdio: ['pipe', 'pipe', 'inherit'],
    });
    onTestFinished(() => void parent.kill('SIGKILL'));
    const [printed] = await once(parent.stdout, 'data');
    const child = Number(String(printed));
    expect([runs(child), existsSync(folder)]).toEqual([true, true]);
    parent.kill(signal);
    await eventually(() => expect([runs(child), existsSync(folder)]).toEqual([false, false]));
  },
);

/** A zombie does not. */
function runs(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}
