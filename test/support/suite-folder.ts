import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll } from 'vitest';

/** An empty folder for all tests of a file; it goes after the last. */
export function suiteFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'weir-suite-'));
  afterAll(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}
