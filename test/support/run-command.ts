import { vi } from 'vitest';
import { CommandError, UsageError } from '../../cli/shared/flags.ts';
import type { CommandOutcome } from './weir-command.ts';

/** A command in this process, so that it can ask servers of it; errors become lines and a status as `weir` has them. */
export async function runCommand(
  command: (args: string[]) => Promise<number>,
  args: readonly string[],
): Promise<CommandOutcome> {
  const outcome: CommandOutcome = { status: null, stdout: '', stderr: '' };
  const keep = (name: 'stdout' | 'stderr') =>
    vi.spyOn(process[name], 'write').mockImplementation((text) => {
      outcome[name] += String(text);
      return true;
    });
  const spies = [keep('stdout'), keep('stderr')];
  try {
    outcome.status = await command([...args]);
  } catch (error) {
    if (!(error instanceof UsageError || error instanceof CommandError)) throw error;
    outcome.status = error instanceof CommandError ? error.exitStatus : 2;
    outcome.stderr += `weir: ${error.message}\n`;
  } finally {
    for (const spy of spies) spy.mockRestore();
  }
  return outcome;
}
