import { describe, expect, it } from 'vitest';
import { runCommand } from '../../test/support/run-command.ts';
import { main, programs } from '../main.ts';
import type { Command } from './flags.ts';
import { fittedHelp, helpColumns } from './help.ts';
import { io } from './io.ts';

describe('fittedHelp', () => {
  const words = Array(30).fill('word').join(' ');

  it('wraps prose and descriptions that are too wide, and nothing else', () => {
    const help = `Usage: weir it <a>\n\nShort.\nAlso short.\n\n${words}\n${words}\n\n  --flag <x>   ${words}\n               more\n  --other      short\n\n  weir ${words}\n`;
    const lines = fittedHelp(help).split('\n');
    expect(lines.slice(0, 5)).toEqual(['Usage: weir it <a>', '', 'Short.', 'Also short.', '']);
    expect(lines.filter((line) => line.length > helpColumns)).toEqual([`  weir ${words}`]);
    expect(lines.filter((line) => /^ {15}\S/.test(line)).at(-1)).toMatch(/word more$/);
    expect(lines.join(' ').split(/\s+/)).toEqual(help.split(/\s+/));
  });
});

describe('the help of every command', () => {
  it.each(Object.keys(programs) as (keyof typeof programs)[])('of %s has 100 columns', async (program) => {
    let count = 0;
    const look = async (path: readonly string[], command?: Command): Promise<void> => {
      const help = await runCommand((args) => main(args, io(), program), [...path, '--help']);
      expect(help).toMatchObject({ status: 0, stdout: expect.stringContaining('Usage: ') });
      expect(help.stdout).toMatch(new RegExp(`^Usage: ${[program, ...path.slice(0, 1)].join(' ')}\\b`));
      expect(help.stdout.split('\n').filter(({ length }) => length > 100)).toEqual([]);
      count += 1;
      for (const [verb, one] of Object.entries(command?.verbs ?? {})) await look([...path, verb], one);
    };
    await look([]);
    for (const [name, { load }] of Object.entries(programs[program])) await look([name], await load());
    expect(count).toBeGreaterThan(10);
  });
});
