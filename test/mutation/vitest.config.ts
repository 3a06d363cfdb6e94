/**
 * For Stryker: the tests beside the sources of the changed part. If the stores are changed, also the tests of the stores. If the control
 * plane is changed, also its simulation, and the tests of whole control planes that need no API server, which would take minutes a mutant.
 */
import { globSync, readFileSync } from 'node:fs';
import { defineConfig } from 'vitest/config';
import { BaseSequencer, type TestSpecification } from 'vitest/node';

const folder = process.env['MUTANTS_FOLDER'] ?? '';
const [part = ''] = folder.split('/');
const stores = folder.startsWith('limiter/stores') ? ['test/stores/*.test.ts'] : [];
/** The Lua of algorithms. */
const formulas = folder === 'limiter/algorithms' ? ['test/stores/algorithms-in-redis.test.ts'] : [];
/**
 * Tests of stores that wait for 5 s and more, for servers that are silent, full or taken over. A survivor would wait for all of them, so
 * they run only for the survivors of an earlier run.
 */
const waiting = [
  ...['abandoned-ops', 'lease-race', 'own-standstill', 'redis-bounds', 'redis-cluster*', 'redis-eviction'],
  ...['redis-not-counted', 'redis-scripts-rejected', 'redis-sentinel', 'redis-troubles', 'store-silence'],
].map((name) => `test/stores/${name}.test.ts`);
const controlPlanes = (): string[] => [
  ...globSync('test/control-plane/*.test.ts').filter((file) => !needsServer(readFileSync(file, 'utf8'))),
  'test/simulation/found-defects.test.ts',
  'test/mutation/simulated-cluster.ts',
];
const needsServer = (text: string): boolean => /describeWith(?:\w*ApiServer|Programs)\b/.test(text);

/**
 * The tests beside the changed files come first, and tests of whole programs last. Among equals, short files come first, because the first
 * failure ends a mutant.
 */
class NearestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const longestFirst = await super.sort(files);
    const nearness = ({ moduleId }: TestSpecification): number => {
      if (formulas.some((file) => moduleId.endsWith(file))) return 2;
      if (moduleId.includes('/test/')) return 0;
      return moduleId.includes(`/${folder}/`) ? 2 : 1;
    };
    return longestFirst.reverse().sort((a, b) => nearness(b) - nearness(a));
  }
}

export default defineConfig({
  test: {
    include: [
      `${part}/**/*.test.ts`,
      ...stores,
      ...formulas,
      ...(part === 'control-plane' ? controlPlanes() : []),
    ],
    exclude: [
      '**/*.timing.test.ts',
      ...(process.env['MUTANTS_WAIT'] === 'true' ? [] : waiting),
      'node_modules/**',
      '.cache/**',
    ],
    setupFiles: ['./test/mutation/after-stryker-setup.ts', './test/support/property-cases.ts'],
    // As in the gate: the sources are read once for all files, which is most of what a mutant costs otherwise.
    isolate: false,
    testTimeout: 180_000,
    sequence: { sequencer: NearestFirst },
  },
});
