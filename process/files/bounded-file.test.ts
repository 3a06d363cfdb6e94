import { execFileSync, spawn } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { temporaryFolder } from '../../test/support/temporary-folder.ts';
import { openNamedPipe, readBoundedFile } from './bounded-file.ts';

function namedPipe(): string {
  const path = join(temporaryFolder(), 'pipe');
  execFileSync('mkfifo', [path]);
  return path;
}

describe('readBoundedFile', () => {
  it('reads a file up to the bound', () => {
    const path = join(temporaryFolder(), 'file');
    writeFileSync(path, 'abcd');
    expect(readBoundedFile(path, { maxBytes: 4 }).toString()).toBe('abcd');
    expect(() => readBoundedFile(path, { maxBytes: 3 })).toThrow('holds more than 3 bytes');
  });

  it('reads the empty device, and no other', () => {
    expect(readBoundedFile('/dev/null')).toHaveLength(0);
    expect(() => readBoundedFile('/dev/zero')).toThrow('is a device, which is not read');
  });

  it('waits for the writer of a pipe, and not for ever', () => {
    const path = namedPipe();
    expect(() => readBoundedFile(path, { waitMs: 20 })).toThrow('no program has written to for 20 ms');
    spawn('sh', ['-c', 'printf abc > "$0"; ', path], { stdio: 'ignore' });
    expect(readBoundedFile(path, { waitMs: 10_000 }).toString()).toBe('abc');
  });
});

it('openNamedPipe gives what comes, and ends without a writer', async () => {
  const path = namedPipe();
  spawn('sh', ['-c', 'printf abc > "$0"', path], { stdio: 'ignore' });
  expect(await Array.fromAsync(openNamedPipe(path)!, String)).toEqual(['abc']);
  await expect(Array.fromAsync(openNamedPipe(path, { waitMs: 20 })!)).rejects.toThrow('no program');
  expect(openNamedPipe(import.meta.filename)).toBeUndefined();
});
