import { mkdirSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeEach, describe, expect, it } from 'vitest';
import { eventually } from '../../test/support/eventually.ts';
import { ManualTimers } from '../../test/support/manual-timers.ts';
import { temporaryFolder } from '../../test/support/temporary-folder.ts';
import { WatchedFilesError, watchFiles } from './watched-files.ts';

let folder: string;
let timers: ManualTimers;
let reported: string[];

beforeEach(() => {
  folder = temporaryFolder();
  timers = new ManualTimers();
  reported = [];
});

const write = (name: string, text: string): void => writeFileSync(join(folder, name), text);

function watch(...names: string[]): Promise<{ first: string; close(): void }> {
  return watchFiles({
    paths: names.map((name) => join(folder, name)),
    read: (texts) => {
      if (texts.includes('bad')) throw new WatchedFilesError('not good');
      return texts.join('+');
    },
    timers,
    intervalMs: 100,
    changed: (value) => void reported.push(value),
    rejected: (reason) => void reported.push(`refused: ${reason}`),
  });
}

/** Waits until the listener has received all of this, and once more to see that it receives nothing else. */
async function hears(...expected: string[]): Promise<void> {
  await eventually(
    () => {
      timers.advance(100);
      expect(reported).toEqual(expected);
    },
    { intervalMs: 5 },
  );
}

describe('watchFiles', () => {
  it('reports a change and of nothing else', async () => {
    write('a', 'one');
    const { first, close } = await watch('a');
    expect(first).toBe('one');
    write('a', 'two');
    await hears('two');
    write('a', 'three');
    await hears('two', 'three');
    close();
    expect(timers.size).toBe(0);
  });

  it('follows the symbolic links of a mounted Secret', async () => {
    for (const version of ['1', '2']) {
      mkdirSync(join(folder, version));
      write(`${version}/a`, version);
    }
    symlinkSync('1', join(folder, '..data'));
    symlinkSync('..data/a', join(folder, 'a'));
    const { first } = await watch('a');
    expect(first).toBe('1');
    symlinkSync('2', join(folder, '..new'));
    renameSync(join(folder, '..new'), join(folder, '..data'));
    await hears('2');
  });

  it('keeps the last good value and says once what is wrong', async () => {
    write('a', 'one');
    write('b', 'x');
    await watch('a', 'b');
    const [a, b] = [join(folder, 'a'), join(folder, 'b')];
    write('b', 'bad');
    const refused = `refused: ${a} and ${b}: not good`;
    await hears(refused);
    rmSync(b);
    const missing = `refused: ${b}: no such file or directory`;
    await hears(refused, missing);
    write('b', 'y');
    await hears(refused, missing, 'one+y');
  });

  it('takes no notice of a file that somebody is still writing', async () => {
    write('a', 'one');
    await watch('a');
    write('a', 'bad');
    timers.advance(100);
    // The running check ends before the file is complete.
    await new Promise((resolve) => setTimeout(resolve, 50));
    write('a', 'two');
    await hears('two');
  });

  it('rejects when there is nothing good to begin with', async () => {
    await expect(watch('a')).rejects.toThrow(
      new WatchedFilesError(`${join(folder, 'a')}: no such file or directory`),
    );
    write('a', 'bad');
    await expect(watch('a')).rejects.toThrow(new WatchedFilesError(`${join(folder, 'a')}: not good`));
    write('a', 'x'.repeat(262_145));
    await expect(watch('a')).rejects.toThrow(
      new WatchedFilesError(`${join(folder, 'a')}: is larger than 262144 bytes`),
    );
    expect(timers.size).toBe(0);
  });
});
