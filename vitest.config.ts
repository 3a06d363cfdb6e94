import { defineConfig } from 'vitest/config';

const exclude = ['node_modules/**', 'dist/**', '.cache/**'];

export default defineConfig({
  test: {
    reporters: ['default', './test/support/summary-reporter.ts'],
    pool: 'forks',
    maxWorkers: 2,
    testTimeout: 30_000,
    hookTimeout: 60_000,
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
