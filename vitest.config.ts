import { randomInt } from 'node:crypto';
import { defineConfig, type TestProjectConfiguration } from 'vitest/config';
import { faultsProject } from './test/support/second-tries.ts';
import { SlowFirst } from './test/support/slow-first.ts';

// `npm run properties` says how many times the cases of property tests are run, and repeats a seed; else each run has a new
// one. The workers and what reads this file once more for a project find it in the environment.
const propertyTimes = Number(process.env['PROPERTY_TIMES'] ?? 1);
process.env['PROPERTY_SEED'] ??= String(randomInt(2 ** 31));

// `npm run test:unit` and `npm run test:nightly` set it.
const selected = process.env['TESTS'];
const isUnit = selected === 'unit';
const timing = '**/*.timing.test.ts';
const nightly = '**/*.nightly.test.ts';
const isolated = [
  // It measures what is allocated, which depends on what V8 has optimized before.
  'test/limiter/decision-bytes.test.ts',
  // It looks at timers of its whole process, where other files leave some.
  'test/limiter/xds-connections.test.ts',
  // They measure the CPU time of their own thread, which other processes hardly change.
  'control-plane/reconcile/*.timing.test.ts',
  'rules/reader/*.timing.test.ts',
  'rules/table/wildcard-*.timing.test.ts',
  'test/fuzz/*cost.timing.test.ts',
];
const packageTests = 'test/package/*.test.ts';
const faults = [
  ...['attacks', 'budgets', 'faults', 'quota', 'simulation', 'soak', 'stores', 'truth'].map(
    (folder) => `test/${folder}/*.timing.test.ts`,
  ),
  'test/e2e/adopt-operator.timing.test.ts',
];
/** Of two cores: most of their time such tests wait. */
const workersThatWait = 5;
const never = ['node_modules/**', 'dist/**', '.cache/**'];
const exclude = [...never, nightly, ...(isUnit ? ['test/**', timing] : [])];
const globalSetup = ['./test/support/weir-program.ts', './test/support/api-servers/api-server-pool.ts'];

/** In a group one project after the other, by name. What measures time comes last, with nothing of ours beside it. */
const projects: TestProjectConfiguration[] = [
  {
    // Beside the sources. They start no program and change nothing of their process, so that files share it.
    extends: true,
    test: {
      name: 'unit',
      include: ['**/*.test.ts'],
      exclude: [...exclude, 'test/**', timing],
      isolate: false,
      maxWorkers: workersThatWait,
      // Last of the group: they hardly wait, so that no core is idle at its end.
      sequence: { groupOrder: 1 },
    },
  },
  {
    // They start programs and servers: where two wait for theirs, others work. Files share five processes, which read the sources
    // once, so each file puts back what it changes of its process.
    extends: true,
    test: {
      name: 'tests',
      include: ['test/**/*.test.ts'],
      exclude: [...exclude, timing, packageTests, ...isolated],
      globalSetup,
      isolate: false,
      maxWorkers: workersThatWait,
      sequence: { groupOrder: 1 },
    },
  },
  {
    extends: true,
    test: {
      name: 'isolated',
      include: isolated,
      exclude,
      globalSetup,
      maxWorkers: workersThatWait,
      sequence: { groupOrder: 1 },
    },
  },
  {
    // What is released: the package, the pipelines that use it, and the workflows.
    extends: true,
    test: {
      name: 'package',
      include: [packageTests],
      exclude: [...exclude, timing],
      globalSetup,
      maxWorkers: workersThatWait,
      sequence: { groupOrder: 1 },
    },
  },
  {
    // They wait for what a fault takes, and leave most of a core to the tests before. Their bounds allow for a machine that is busy.
    extends: true,
    test: {
      name: faultsProject,
      include: faults,
      exclude,
      globalSetup,
      maxConcurrency: 3,
      maxWorkers: workersThatWait,
      sequence: { groupOrder: 1 },
    },
  },
  {
    extends: true,
    test: {
      name: 'timing',
      include: [timing],
      exclude: [...exclude, ...faults, ...isolated],
      globalSetup,
      maxWorkers: 1,
      sequence: { groupOrder: 2 },
    },
  },
];

/** Too long for the gate. */
const nightlyProject: TestProjectConfiguration = {
  extends: true,
  test: { name: 'nightly', include: [nightly], exclude: never, globalSetup, maxWorkers: 1 },
};

export default defineConfig({
  test: {
    reporters: ['default', './test/support/summary-reporter.ts'],
    pool: 'forks',
    maxWorkers: 2,
    setupFiles: [
      './test/support/bundled-threads.ts',
      './test/support/file-cost.ts',
      './test/support/left-behind.ts',
      './test/support/property-cases.ts',
    ],
    // For what hangs: waits have shorter bounds of their own, which grow with the load of the machine.
    testTimeout: 180_000 * Math.max(1, propertyTimes),
    hookTimeout: 180_000,
    // What second-tries.ts allows, and named at the end of the run.
    retry: process.env['CI'] === 'true' ? 1 : 0,
    projects: selected === 'nightly' ? [nightlyProject] : projects,
    sequence: { sequencer: SlowFirst },
  },
});
