import { globSync, readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { expect, it } from 'vitest';
import { propertyTimesFile } from './property-times.ts';

const root = resolve(import.meta.dirname, '../..');

it('multiplies every property that says how many cases it has', () => {
  const exclude = [
    'node_modules/**',
    'dist/**',
    '.cache/**',
    'test/support/{property-cases,hang-guard}*',
    'scripts/compare-rules.ts',
  ];
  const bare = globSync('**/*.ts', { cwd: root, exclude }).filter((file) =>
    /numRuns(?!: caseCount\()|configureGlobal/.test(readFileSync(join(root, file), 'utf8')),
  );
  expect(bare).toEqual([]);
});

it('records times for files that have properties', () => {
  const files = Object.keys(JSON.parse(readFileSync(propertyTimesFile, 'utf8')) as object);
  const others = files.filter(
    (file) => !/fast-check|\.suite\.ts/.test(readFileSync(join(root, file), 'utf8')),
  );
  expect(others).toEqual([]);
  expect(files.length).toBeGreaterThan(0);
});
