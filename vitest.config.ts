import { randomInt } from 'node:crypto';
import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vitest/config';

// `npm run properties` says how many times the cases of property tests are run, and repeats a seed; else each run has a new
// one. The workers and what reads this file once more for a project find it in the environment.
const propertyTimes = Number(process.env['PROPERTY_TIMES'] ?? 1);
process.env['PROPERTY_SEED'] ??= String(randomInt(2 ** 31));

// Tests start our programs from source more than a thousand times: compiled once, a limiter takes 0.4 s of a processor to start
// instead of 1.1. https://nodejs.org/api/module.html#module-compile-cache
process.env['NODE_COMPILE_CACHE'] ??= fileURLToPath(new URL('.cache/compiled', import.meta.url));

// `npm run test:unit` sets it.
const isUnit = process.env['TESTS_BESIDE_SOURCES'] === 'true';
const exclude = [
  'node_modules/**',
  'dist/**',
  '.cache/**',
  ...(isUnit ? ['test/**', '**/*.timing.test.ts'] : []),
];

export default defineConfig({
  test: {
    reporters: ['default', './test/support/summary-reporter.ts'],
    pool: 'forks',
    maxWorkers: 2,
    setupFiles: ['./test/support/property-cases.ts'],
    testTimeout: 30_000 * Math.max(1, propertyTimes),
    hookTimeout: 60_000,
    // What second-tries.ts allows, and named at the end of the run.
    retry: process.env['CI'] === 'true' ? 1 : 0,
    projects: [
      {
        extends: true,
        test: { name: 'tests', include: ['**/*.test.ts'], exclude: [...exclude, '**/*.timing.test.ts'] },
      },
      {
        // What measures time runs after the rest, with nothing of ours beside it.
        extends: true,
        test: {
          name: 'timing',
          include: ['**/*.timing.test.ts'],
          exclude,
          maxWorkers: 1,
          sequence: { groupOrder: 1 },
        },
      },
    ],
  },
});
