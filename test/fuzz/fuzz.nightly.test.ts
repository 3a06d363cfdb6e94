import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it, onTestFinished } from 'vitest';
import { ChildProgram } from '../support/child-program.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { findPlanted } from './find-planted.ts';
import { fuzzFlags } from './fuzz-options.ts';

const path = (name: string): string => fileURLToPath(new URL(name, import.meta.url));

describe('a planted defect is found', () => {
  it('as a hang, with the input that hangs', async () => {
    const { finding } = await findPlanted('hanging');
    expect(finding).toMatchObject({
      kind: 'hang',
      message: 'an input took more than 1500 ms of processor time',
    });
    expect(finding!.input[0]).toBe(0x20);
  });

  it('as growth over many inputs', async () => {
    const { finding } = await findPlanted('growing');
    expect(finding?.kind).toBe('growth');
    expect(finding?.message).toMatch(/^the heap grew by \d+ bytes, more than 8000000, in \d+ inputs$/);
  });

  it('as growth by one input', async () => {
    const { finding } = await findPlanted('out-of-memory', {
      hangMs: 25_000,
      maxProcessGrowthBytes: 256_000_000,
    });
    expect(finding?.kind).toBe('growth');
    expect(finding!.input[0]).toBe(0x20);
  });
});

describe('npm run fuzz', () => {
  async function run(...args: string[]): Promise<{ code: number | null; output: string }> {
    const program = new ChildProgram({ command: process.execPath, args: [path('./main.ts'), ...args] });
    const { code } = await program.ended;
    return { code, output: program.output };
  }

  it('keeps an input that finds something, and says how to replay it', async () => {
    const corpus = temporaryFolder();
    const planted = ['--targets', path('./planted-targets.ts'), '--corpus', corpus];
    const first = await run('crashing', '--seed', '5', '--seconds', '120', '--rounds', '1', ...planted);
    expect(first.code).toBe(1);
    expect(first.output).toMatch(/^crashing: crash after \d+ inputs, seed 5: Error: planted\n/);
    const [name] = readdirSync(join(corpus, 'crashing'));
    const kept = join(corpus, 'crashing', name as string);
    expect(readFileSync(kept).toString('hex')).toMatch(/^80ff/);
    expect(first.output).toContain(`crashing/${name}\n`);

    const again = await run('--replay', kept, ...planted);
    expect(again.code).toBe(1);
    expect(again.output).toMatch(/^crashing: crash: Error: planted\n/);
    writeFileSync(kept, 'sound');
    const sound = await run('--replay', kept, ...planted);
    expect(sound).toEqual({ code: 0, output: 'crashing: nothing found\n' });
  });

  it('goes through the targets with a seed a round', async () => {
    const planted = ['--targets', path('./planted-targets.ts'), '--corpus', temporaryFolder()];
    const { code, output } = await run(
      'sound',
      '--seed',
      '7',
      '--seconds',
      '0.2',
      '--rounds',
      '2',
      ...planted,
    );
    expect(code).toBe(0);
    expect(output.match(/seed \d/g)).toEqual(['seed 7', 'seed 8']);
  });

  it('names the targets when asked for another', async () => {
    const planted = ['--targets', path('./planted-targets.ts')];
    expect(await run('hpak', ...planted)).toEqual({
      code: 2,
      output:
        'there is no target hpak; there are sound, crashing, hanging, growing, out-of-memory\n"npm run fuzz -- --help" describes its arguments.\n',
    });
    const gone = await run('--replay', '/nowhere/hpack/crash.bin', ...planted);
    expect(gone.output).toMatch(/^--replay: there is no file \/nowhere\/hpack\/crash\.bin\n/);
    expect(gone.code).toBe(2);
  });

  it('explains itself, and rejects what it does not take', async () => {
    expect(await run('--help')).toEqual({ code: 0, output: fuzzFlags.help });
    expect(await run('--seconds', '0')).toEqual({
      code: 2,
      output:
        '--seconds is a number from 0.1 to 86400, not "0"\n"npm run fuzz -- --help" describes its arguments.\n',
    });
  });

  it('ends at Ctrl-C with a summary', async () => {
    const planted = ['--targets', path('./planted-targets.ts'), '--corpus', temporaryFolder()];
    const args = [
      path('./main.ts'),
      'sound',
      '--seed',
      '7',
      '--seconds',
      '600',
      '--progress',
      '0.5',
      ...planted,
    ];
    const program = new ChildProgram({ command: process.execPath, args });
    onTestFinished(async () => void (await program.stop('SIGKILL')));
    await program.printed(/^sound: \d+ inputs, \d+ outcomes, \d+ blocks, so far$/m, 60_000);
    expect(await program.stop('SIGINT')).toEqual({ code: 0, signal: null });
    expect(program.output).toMatch(
      /\nsound: \d+ inputs, \d+ outcomes, \d+ blocks, seed 7: nothing found\nfuzz: \d+ s, nothing found\n {2}sound: \d+ inputs, \d+ outcomes, \d+ blocks, in 1 turn\n$/,
    );
  }, 90_000);
});
