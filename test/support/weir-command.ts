import { spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { devNull, tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { BlockingWorker } from './blocking-worker.ts';
import { runVariables } from './child-program.ts';
import { weirProgram } from './weir-program.ts';

const root = fileURLToPath(new URL('../..', import.meta.url));

export interface CommandOutcome {
  status: number | null;
  stdout: string;
  stderr: string;
}

interface CommandOptions {
  input?: string | Buffer;
  env?: NodeJS.ProcessEnv;
}

/** The name that the program is started by. */
type ProgramName = 'weir' | 'kubectl weir';

interface CommandQuestion {
  args: readonly string[];
  program: ProgramName;
  env: Record<string, string>;
  /** A file with the standard input. */
  stdinFile: string;
}

/** Runs command after command in one thread: a program of its own for each would take ten times the CPU. */
const commands = new BlockingWorker<CommandQuestion, CommandOutcome>(
  `const { createReadStream } = require('node:fs');
  const { Writable } = require('node:stream');
  answer = async ({ args, program, env, stdinFile }) => {
    const { main } = await import(data);
    const printed = { stdout: '', stderr: '' };
    const stream = (name) => new Writable({
      decodeStrings: false,
      write(chunk, _, done) {
        printed[name] += String(chunk);
        done();
      },
    });
    const io = {
      stdinFile,
      get stdin() { return createReadStream(stdinFile); },
      stdout: stream('stdout'),
      stderr: stream('stderr'),
      env,
      cwd: () => process.cwd(),
      once: () => {},
      exit: () => {},
      started: '',
    };
    const status = await main([...args], io, program);
    return { status, ...printed };
  };`,
  programModule(),
);

function programModule(): string {
  const folder = join(weirProgram, '../..');
  const bundle = join(folder, 'dist/cli/main.js');
  return pathToFileURL(existsSync(bundle) ? bundle : join(folder, 'cli/main.ts')).href;
}

/**
 * Runs `weir` with these arguments in the project's folder, and waits for its end: in this process, but in a thread of its own, so
 * that no server of this thread can answer it.
 */
export function runWeir(
  args: readonly string[],
  { input, env = process.env, program = 'weir' }: CommandOptions & { program?: ProgramName } = {},
): CommandOutcome {
  const folder = input === undefined ? undefined : mkdtempSync(join(tmpdir(), 'weir-input-'));
  const stdinFile = folder === undefined ? devNull : join(folder, 'input');
  try {
    if (input !== undefined) writeFileSync(stdinFile, input);
    return commands.ask({ args, program, stdinFile, env: { ...env } as Record<string, string> });
  } finally {
    if (folder !== undefined) rmSync(folder, { recursive: true });
  }
}

/** As `runWeir`, as a program of its own: for tests of what its process is and does. */
export function spawnWeir(args: readonly string[], options: CommandOptions = {}): CommandOutcome {
  const { status, stdout, stderr } = spawnSync(process.execPath, [weirProgram, ...args], {
    cwd: root,
    encoding: 'utf8',
    ...options,
    ...(options.env && { env: { ...runVariables(), ...options.env } }),
  });
  return { status, stdout, stderr };
}
