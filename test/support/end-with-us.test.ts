import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
import { eventually } from './eventually.ts';

/** Prints the child that it registers alone, and the two processes of the group that it registers. */
const script = `
  import { spawn } from 'node:child_process';
  import { deleteWithUs, endWithUs } from '${import.meta.dirname}/end-with-us.ts';
  const alone = spawn('sleep', ['600']);
  endWithUs(alone);
  const leader = spawn('sh', ['-c', 'sleep 600 & echo $!; wait'], { detached: true });
  endWithUs(leader, { group: true });
  deleteWithUs(process.argv[1]);
  endWithUs(spawn('true'));
  leader.stdout.on('data', (member) => console.log([alone.pid, leader.pid, Number(member)].join(' ')));
`;

it.each(['SIGKILL', 'SIGTERM', 'SIGINT'] as const)(
  'children, their groups and folders go with a process that %s ends',
  async (signal) => {
    const folder = mkdtempSync(join(tmpdir(), 'weir-end of us-'));
    const parent = spawn(process.execPath, ['--input-type=module', '-e', script, '--', folder], {
      stdio: ['pipe', 'pipe', 'inherit'],
    });
    onTestFinished(() => void parent.kill('SIGKILL'));
    const [printed] = await once(parent.stdout, 'data');
    const children = String(printed).split(' ').map(Number);
    expect([children.map(runs), existsSync(folder)]).toEqual([[true, true, true], true]);
    parent.kill(signal);
    await eventually(() =>
      expect([children.map(runs), existsSync(folder)]).toEqual([[false, false, false], false]),
    );
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
