import { spawn } from 'node:child_process';
import { once } from 'node:events';

export interface StartedProgram {
  /** Milliseconds from the spawn to the awaited line. */
  ms: number;
  pid: number;
  output(): string;
  /** Stops the program with SIGTERM. Resolves with its exit status. */
  stop(): Promise<number | null>;
}

export interface StartOptions {
  command: string;
  args: readonly string[];
  /** The whole environment. The program does not inherit any other variables. */
  env: Record<string, string>;
  /** The line that the program prints when it is ready. */
  until: RegExp;
}

/** Chosen: longer than any start on a slow machine. */
const patienceMs = 60_000;

/** Starts a program and waits until it prints the line. Rejects with its output if it does not. */
export async function startProgram({ command, args, env, until }: StartOptions): Promise<StartedProgram> {
  const startMs = performance.now();
  const child = spawn(command, args, { env, stdio: ['ignore', 'pipe', 'pipe'] });
  const ended = once(child, 'close');
  let output = '';
  const { promise: up, resolve, reject } = Promise.withResolvers<number>();
  const keep = (chunk: Buffer): void => {
    output += chunk.toString();
    if (until.test(output)) resolve(performance.now() - startMs);
  };
  child.stdout.on('data', keep);
  child.stderr.on('data', keep);
  const fail = (): void => reject(new Error(`${command} did not come up; it printed:\n${output}`));
  ended.then(fail, reject);
  const timer = setTimeout(fail, patienceMs);
  const stop = async (): Promise<number | null> => {
    child.kill('SIGTERM');
    const killer = setTimeout(() => child.kill('SIGKILL'), 20_000);
    const [code] = await ended;
    clearTimeout(killer);
    return code as number | null;
  };
  try {
    const ms = await up;
    return { ms, pid: child.pid as number, output: () => output, stop };
  } catch (error) {
    child.kill('SIGKILL');
    throw error;
  } finally {
    clearTimeout(timer);
  }
}
