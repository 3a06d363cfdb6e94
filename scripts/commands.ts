import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';

export const projectRoot: string = fileURLToPath(new URL('..', import.meta.url));

export interface RunOptions {
  env?: NodeJS.ProcessEnv;
  cwd?: string;
}

/** Runs a command in this terminal. Returns its exit status, or 1 if it could not be started. */
export function run(command: string, args: readonly string[], options: RunOptions = {}): number {
  const result = spawnSync(command, args, {
    cwd: options.cwd ?? projectRoot,
    stdio: 'inherit',
    env: options.env ?? process.env,
  });
  if (result.error) console.error(`${command}: ${result.error.message}`);
  return result.status ?? 1;
}

/** Runs a command that must succeed. Otherwise, ends this process with its status. */
export function mustRun(command: string, args: readonly string[], options: RunOptions = {}): void {
  const status = run(command, args, options);
  if (status !== 0) {
    console.error(`failed (${status}): ${command} ${args.join(' ')}`);
    process.exit(status);
  }
}

/** Runs a command and returns its output. Its errors are dropped. */
export function capture(command: string, args: readonly string[]): { status: number; stdout: string } {
  const result = spawnSync(command, args, {
    cwd: projectRoot,
    stdio: ['ignore', 'pipe', 'ignore'],
    encoding: 'utf8',
    maxBuffer: 1 << 26,
  });
  return { status: result.status ?? 1, stdout: result.stdout ?? '' };
}
