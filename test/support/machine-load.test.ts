import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { projectRoot } from '../../scripts/commands.ts';
import { LoadedDeadline, machineLoad } from './machine-load.ts';

const folders = ['bench', 'cli', 'control-plane', 'limiter', 'process', 'replay', 'rules', 'test'];
/** Waits of vitest end after a second, and the machine's best speed says nothing about its load. */
const unscaled = [
  /\b(?:expect\.poll|vi\.waitFor|vi\.waitUntil)\(/,
  /[tT]imeout\w*[:( ].*machineSlowness\(\)/,
  // A number of looks, or an end that was computed before: `untilTrue` looks at the load, too.
  /\bfor \(let [^\n]*(?:&& |; )!\(?[^\n]*\) (?:\{\n(?:(?!\n {0,6}\}).)*?)?await sleep\(\d/s,
  /\bwhile \([^\n]*(?:Ms\(\)|now\(\)) <=? \w+\) (?:\{\n\s*)?await sleep\(/,
  /\bdeadline: Date\.now\(\) \+ [\d_]+ *[,}]/,
  /\.setTimeout\([\d_]+, \(\) =>.*(?:destroy|reject|Error)/,
];

function hasUnscaledWait(text: string): boolean {
  return unscaled.some((pattern) => pattern.test(text));
}

/** Which show such a wait. */
const shown = [
  'test/support/machine-load.test.ts',
  'test/support/summary-reporter.nightly.test.ts',
  // The recorder runs alone.
  'test/conformance/go-service/record.ts',
];

it.each([
  'for (let attempt = 0; !(await accepts()); attempt += 1) {\n  if (attempt > 500) throw new Error(text);\n  await sleep(20);\n}',
  'for (let tries = 0; tries < 100 && !isThere(); tries++) await sleep(100);',
  'while (found.length === 0 && this.#nowMs() < endMs) await sleep(100);',
  'while (performance.now() < endMs) {\n  await sleep(100);',
  'const options = { deadline: Date.now() + 20_000 };',
  "asked.setTimeout(30_000, () => asked.destroy(new Error('no answer in 30 s')));",
  'await expect.poll(() => isThere).toBe(true);',
])('a wait for a time that does not follow the load is recognized: %s', (text) => {
  expect(hasUnscaledWait(text)).toBe(true);
});

it('no test waits for a time that does not follow the load of the machine', () => {
  const files = folders.flatMap((folder) =>
    readdirSync(join(projectRoot, folder), { recursive: true, encoding: 'utf8' }).map((path) =>
      join(folder, path),
    ),
  );
  const tests = files.filter((path) => path.endsWith('.ts') && !shown.includes(path));
  expect(tests.length).toBeGreaterThan(500);
  const waiting = tests.filter((path) => hasUnscaledWait(readFileSync(join(projectRoot, path), 'utf8')));
  expect(waiting).toEqual([]);
});

it('a deadline does not pass before its time', () => {
  expect(machineLoad()).toBeGreaterThanOrEqual(1);
  expect(new LoadedDeadline(60_000).isOver).toBe(false);
  expect(new LoadedDeadline(-1).isOver).toBe(true);
});
