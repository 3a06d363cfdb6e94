import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { compileCache } from './child-program.ts';
import { weirProgram } from './weir-program.ts';

const root = fileURLToPath(new URL('../..', import.meta.url));

export interface CommandOutcome {
  status: number | null;
  stdout: string;
  stderr: string;
}

/** Runs `weir` with these arguments in the project's folder, and waits for its end. */
export function runWeir(
  args: readonly string[],
  options: { input?: string; env?: NodeJS.ProcessEnv } = {},
): CommandOutcome {
  const { status, stdout, stderr } = spawnSync(process.execPath, [weirProgram, ...args], {
    cwd: root,
    encoding: 'utf8',
    ...options,
    ...(options.env && { env: { ...compileCache(), ...options.env } }),
  });
  return { status, stdout, stderr };
}
