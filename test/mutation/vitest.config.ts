/** For Stryker: the tests beside the sources and, if the store is changed, those of the stores. */
import { defineConfig } from 'vitest/config';

const stores = process.env['MUTANTS_OF_STORES'] === 'true' ? ['test/stores/*.test.ts'] : [];

export default defineConfig({
  test: {
    include: ['{cli,control-plane,limiter,process,replay,rules}/**/*.test.ts', ...stores],
    exclude: ['**/*.timing.test.ts', 'node_modules/**', '.cache/**'],
    setupFiles: ['./test/support/property-cases.ts'],
    pool: 'forks',
    testTimeout: 180_000,
  },
});
