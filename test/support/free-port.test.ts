import { join } from 'node:path';
import { expect, it } from 'vitest';
import { ChildProgram } from './child-program.ts';

const processes = 4;
/** Of each process. By chance, processes that did not see each other's ports would share more than a hundred. */
const ports = 500;

const script = `
  import { freePort } from '${join(import.meta.dirname, 'free-port.ts')}';
  for (let i = 0; i < ${ports}; i++) console.log(await freePort());
  console.log('all');
  setInterval(() => {}, 1000);
`;

it('gives each port to one process', async () => {
  const started = Array.from(
    { length: processes },
    () => new ChildProgram({ command: process.execPath, args: ['--input-type=module', '-e', script] }),
  );
  try {
    await Promise.all(started.map((program) => program.printed(/all/, 60_000)));
    const given = started.flatMap(({ stdout }) => stdout.match(/\d+/g) ?? []);
    expect(given).toHaveLength(processes * ports);
    expect(new Set(given).size).toBe(processes * ports);
  } finally {
    await Promise.all(started.map((program) => program.stop('SIGKILL')));
  }
});
