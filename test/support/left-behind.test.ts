import { describe, expect, it } from 'vitest';
import { gate } from './gate-run.ts';

const setup = 'left-behind.ts';
const head = `
  import { spawn } from 'node:child_process';
  import { mkdtempSync, rmSync } from 'node:fs';
  import { tmpdir } from 'node:os';
  import { join } from 'node:path';`;
const startProgram = `const child = spawn('sleep', ['600'], { detached: true, stdio: 'ignore' }); child.unref();`;
const makeFolder = `const folder = mkdtempSync(join(tmpdir(), 'left-'));`;
const left = 'The tests of this file pass, but leave:';

describe('a file whose tests pass', () => {
  it.each([
    ['a program', startProgram, /the program \d+: sleep 600/],
    ['a folder', makeFolder, /left-\w{6} in the temporary folder/],
  ])('fails if it leaves %s', async (_, body, what) => {
    const { code, output, tries } = await gate(body, { setup, head });
    expect({ code, tries }).toEqual({ code: 1, tries: 1 });
    expect(output).toContain(left);
    expect(output).toMatch(what);
    expect(output).toMatch(/\n1 passed, 1 failed\n$/);
  });

  it('passes if it ends its programs and deletes its folders', async () => {
    const body = `${startProgram} child.kill(); ${makeFolder} rmSync(folder, { recursive: true });`;
    const { code, output } = await gate(body, { setup, head });
    expect(output).not.toContain(left);
    expect(code).toBe(0);
  });

  it('may leave what a failed try left', async () => {
    const timeout = 'await eventually(() => expect(isFirst).toBe(false), { timeoutMs: 100 });';
    const { code, tries } = await gate(`if (isFirst) { ${makeFolder} } ${timeout}`, { setup, head });
    expect({ code, tries }).toEqual({ code: 0, tries: 2 });
  });
});
