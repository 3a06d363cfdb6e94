import { execFileSync } from 'node:child_process';
import { closeSync, constants, mkdtempSync, openSync, readFileSync, readSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { eventually } from '../../../test/support/eventually.ts';
import { DescriptorOutput } from './output-sink.ts';

let folder: string;
const opened: number[] = [];

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'weir-output-'));
});

afterEach(() => {
  for (const descriptor of opened.splice(0)) closeSync(descriptor);
  rmSync(folder, { recursive: true, force: true });
});

function open(path: string, flags: number | string): number {
  const descriptor = openSync(path, flags);
  opened.push(descriptor);
  return descriptor;
}

/** Both ends of a pipe. */
function pipe(): { reader: number; writer: number } {
  const path = join(folder, 'pipe');
  execFileSync('mkfifo', [path]);
  const reader = open(path, constants.O_RDONLY | constants.O_NONBLOCK);
  return { reader, writer: open(path, 'w') };
}

function take(reader: number): string {
  const bytes = Buffer.alloc(1024 * 1024);
  try {
    return bytes.toString('utf8', 0, readSync(reader, bytes));
  } catch {
    return '';
  }
}

describe('DescriptorOutput', () => {
  it('writes in order, and says when all is written', async () => {
    const path = join(folder, 'file');
    const output = new DescriptorOutput(open(path, 'w'));
    for (let i = 0; i < 1000; i += 1) output.write(`${i}\n`);
    await output.settled();
    expect(readFileSync(path, 'utf8')).toBe(Array.from({ length: 1000 }, (_, i) => `${i}\n`).join(''));
    await output.settled();
  });

  it('says that it has enough while there is no reader, and drains when there is one', async () => {
    const { reader, writer } = pipe();
    const output = new DescriptorOutput(writer);
    const line = `${'x'.repeat(999)}\n`;
    let written = 0;
    while (output.write(line)) written += 1;
    let drained = false;
    output.once('drain', () => {
      drained = true;
    });
    let read = '';
    await eventually(() => {
      read += take(reader);
      expect(drained).toBe(true);
    });
    await output.settled();
    read += take(reader);
    expect(read).toBe(line.repeat(written + 1));
  });

  it('gives up a descriptor that cannot be written to', async () => {
    const output = new DescriptorOutput(open(join(folder, '..'), 'r'));
    output.write('a');
    await output.settled();
    expect(output.write('b'.repeat(1_000_000))).toBe(true);
  });
});
