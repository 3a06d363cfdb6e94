import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, symlinkSync, unlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { fileLayout } from '../../limiter/config-source/file/change-watch.ts';
import { loadRules } from '../../limiter/config-source/file/load-rules.ts';
import { RuleTable } from '../../rules/table/rule-table.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

const fileCount = 150;

/** Swaps the root a thousand times a second; one process without children, so that its end is the end of all writing. */
const swapProgram = `
  const { renameSync, symlinkSync } = require('node:fs');
  const pause = new Int32Array(new SharedArrayBuffer(4));
  for (let i = 1; i <= 30000; i++) {
    symlinkSync('v' + (i % 3 + 1), 'tmp');
    renameSync('tmp', 'current');
    Atomics.wait(pause, 0, 0, 1);
  }
`;

let folder: string;
let swapper: ChildProcess | undefined;

beforeEach(() => {
  folder = temporaryFolder();
});
afterEach(async () => {
  const ended = swapper === undefined ? undefined : once(swapper, 'close');
  swapper?.kill('SIGKILL');
  await ended;
  swapper = undefined;
});

/** A version in which every rule has the version's number as its limit. */
function writeVersion(number: number, files = fileCount): void {
  const directory = join(folder, `v${number}`, 'config');
  mkdirSync(directory, { recursive: true });
  for (let i = 0; i < files; i++) {
    const limit = `{ unit: day, requests_per_unit: ${number} }`;
    writeFileSync(
      join(directory, `${i}.yaml`),
      `domain: d${i}\ndescriptors: [{ key: k, rate_limit: ${limit} }]\n`,
    );
  }
}

function load() {
  const root = join(folder, 'current');
  const layout = fileLayout({
    root,
    subdirectory: '',
    appDirectory: 'config',
    ignoreDotFiles: false,
    watchRoot: true,
  });
  return loadRules({ layout, mergeDomains: false, maxBytes: 1 << 26 }).outcome;
}

describe('a load while the root is swapped', () => {
  it('gives one version as a whole, or none', () => {
    for (const number of [1, 2, 3]) writeVersion(number, fileCount - number);
    symlinkSync('v1', join(folder, 'current'));
    swapper = spawn(process.execPath, ['-e', swapProgram], { cwd: folder, stdio: 'ignore' });
    const seen = new Set<string>();
    for (let i = 0; i < 20; i++) {
      const outcome = load();
      if (!outcome.ok) {
        expect(outcome.errors.map(({ text }) => text)).toEqual([
          'changed while it was read, 3 times in a row',
        ]);
        seen.add('none');
        continue;
      }
      const limits = new Set(
        [...new RuleTable(outcome.bytes).rlconfigLines()].map((line) =>
          line.replace(/.*per_unit=(\d+).*/, '$1'),
        ),
      );
      expect(limits.size).toBe(1);
      const [version] = limits;
      expect(outcome.sources).toBe(fileCount - Number(version));
      seen.add(version as string);
    }
    expect(seen.size).toBeGreaterThan(1);
  });

  it('has no rules while the root is missing', () => {
    expect(load()).toMatchObject({ ok: true, sources: 0 });
    writeVersion(1, 1);
    symlinkSync('v1', join(folder, 'current'));
    expect(load()).toMatchObject({ ok: true, sources: 1 });
    unlinkSync(join(folder, 'current'));
    expect(load()).toMatchObject({ ok: true, sources: 0 });
  });
});
