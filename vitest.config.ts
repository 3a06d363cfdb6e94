import { defineConfig } from 'vitest/config';

const exclude = ['node_modules/**', 'dist/**', '.cache/**'];

export default defineConfig({
  test: {
    reporters: ['default', './test/support/summary-reporter.ts'],
    pool: 'forks',
    maxWorkers: 2,
    testTimeout: 30_000,
    hookTimeout: 60_000,
    // The gate's machines are shared and pause: what fails there is tried once more, and named at the end of the run.
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
