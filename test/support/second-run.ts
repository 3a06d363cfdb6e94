/**
 * Properties that hang-guard.ts interrupted run again when all else has run, alone. The first run leaves its counts and their
 * names in a file, and the second one adds its own. They share these by the environment.
 */
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

export interface RunCounts {
  passed: number;
  failed: number;
  skipped: number;
}

interface LeftTest {
  file: string;
  /** With those of its suites. */
  name: string;
}

interface Left {
  counts: RunCounts;
  tests: readonly LeftTest[];
  /** Of what chance led in the first run. */
  seed: string | undefined;
}

const leftFile = 'WEIR_TESTS_LEFT';
const before = 'WEIR_TESTS_COUNTED';

/** Whether there is a second run, to which the tests are left; none is left if there are none. */
export function runAgainLater(counts: RunCounts, tests: readonly LeftTest[]): boolean {
  const path = process.env[leftFile];
  if (path === undefined || tests.length === 0) return false;
  const left: Left = { counts, tests, seed: process.env['PROPERTY_SEED'] };
  writeFileSync(path, JSON.stringify(left));
  return true;
}

/** By the first run; undefined where this is not a second one. */
export function countedBefore(): RunCounts | undefined {
  const counts = process.env[before];
  return counts === undefined ? undefined : (JSON.parse(counts) as RunCounts);
}

/** `vitest`: runs it with the arguments of the user or, where given, with others; both return the exit status. */
export function runWithSecondRun(vitest: (args?: readonly string[]) => number): number {
  const folder = mkdtempSync(join(tmpdir(), 'weir-tests-'));
  const path = join(folder, 'left.json');
  process.env[leftFile] = path;
  try {
    const status = vitest();
    if (!existsSync(path)) return status;
    const { counts, tests, seed } = JSON.parse(readFileSync(path, 'utf8')) as Left;
    delete process.env[leftFile];
    Object.assign(process.env, { [before]: JSON.stringify(counts), PROPERTY_SEED: seed });
    return vitest(secondArguments(tests));
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/** One after the other, with nothing beside. Vitest's filter has either of the two ways to join names of suites. */
function secondArguments(tests: readonly LeftTest[]): string[] {
  const files = new Set(tests.map(({ file }) => file));
  const names = tests.map(({ name }) =>
    name.replaceAll(/[.*+?^${}()|[\]\\]/g, String.raw`\$&`).replaceAll(' > ', ' (> )?'),
  );
  return [...files, '--testNamePattern', `^(${names.join('|')})$`, '--maxWorkers', '1'];
}
