/** For Stryker: the tests beside the sources of the changed part and, if the stores are changed, those of the stores. */

import { defineConfig } from 'vitest/config';
import { BaseSequencer, type TestSpecification } from 'vitest/node';

const folder = process.env['MUTANTS_FOLDER'] ?? '';
const [part = ''] = folder.split('/');
const stores = folder.startsWith('limiter/stores') ? ['test/stores/*.test.ts'] : [];

/** The tests beside the changed files come first, the short files first among them: the first failure ends a mutant. */
class NearestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const longestFirst = await super.sort(files);
    const isNear = ({ moduleId }: TestSpecification): boolean => moduleId.includes(`/${folder}/`);
    return longestFirst.reverse().sort((a, b) => Number(isNear(b)) - Number(isNear(a)));
  }
}

export default defineConfig({
  test: {
    include: [`${part}/**/*.test.ts`, ...stores],
    exclude: ['**/*.timing.test.ts', 'node_modules/**', '.cache/**'],
    setupFiles: ['./test/mutation/after-stryker-setup.ts', './test/support/property-cases.ts'],
    // As in the gate: the sources are read once for all files, which is most of what a mutant costs otherwise.
    isolate: false,
    testTimeout: 180_000,
    sequence: { sequencer: NearestFirst },
  },
});
