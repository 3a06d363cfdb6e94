import { devNull } from 'node:os';
import { Readable, Writable } from 'node:stream';
import { main } from '../../cli/main.ts';
import { CommandError, UsageError } from '../../cli/shared/flags.ts';
import { type CommandIo, withIo } from '../../cli/shared/io.ts';
import type { CommandOutcome } from './weir-command.ts';

/** `weir` in this thread, so that it can ask servers of it. The environment is the one given alone. */
export function runWeirHere(
  args: readonly string[],
  env: NodeJS.ProcessEnv = {},
  program?: 'weir' | 'kubectl weir',
): Promise<CommandOutcome> {
  return keepingOutput(env, (io) => main([...args], io, program));
}

/** As `runWeirHere`, one command of it. */
export function runCommand(
  command: (args: string[]) => Promise<number>,
  args: readonly string[],
): Promise<CommandOutcome> {
  return keepingOutput(process.env, async (io) => {
    try {
      return await withIo(io, () => command([...args]));
    } catch (error) {
      if (!(error instanceof UsageError || error instanceof CommandError)) throw error;
      io.stderr.write(`weir: ${error.message}\n`);
      return error instanceof CommandError ? error.exitStatus : 2;
    }
  });
}

async function keepingOutput(
  env: NodeJS.ProcessEnv,
  run: (io: CommandIo) => Promise<number>,
): Promise<CommandOutcome> {
  const outcome: CommandOutcome = { status: null, stdout: '', stderr: '' };
  const stream = (name: 'stdout' | 'stderr'): Writable =>
    new Writable({
      decodeStrings: false,
      write(chunk, _, done) {
        outcome[name] += String(chunk);
        done();
      },
    });
  const io: CommandIo = {
    stdin: Readable.from([]),
    stdinFile: devNull,
    stdout: stream('stdout'),
    stderr: stream('stderr'),
    env,
    cwd: () => process.cwd(),
    once: () => {},
    exit: () => {},
    started: '',
  };
  outcome.status = await run(io);
  return outcome;
}
