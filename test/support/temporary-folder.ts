import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { onTestFinished } from 'vitest';

/** An empty folder of the test under way, also from `beforeEach`; it goes after the test's `afterEach` hooks. */
export function temporaryFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'weir-test-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}
