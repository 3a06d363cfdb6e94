/** Mutants of TypeScript, by StrykerJS and its runner for vitest. */
import { globSync } from 'node:fs';
import { delimiter } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { LogLevel } from '@stryker-mutator/api/core';
import { Stryker } from '@stryker-mutator/core';
import { serversFolder } from '../support/find-server.ts';
import { mutantReport } from './mutant-reporter.ts';
import type { SampleOptions } from './sample-checker.ts';
import type { MutantReport } from './score.ts';

/** Undefined where the folder has no TypeScript. Throws where the tests fail without a mutant. */
export async function runTypeScriptMutants(
  folder: string,
  sample: SampleOptions,
): Promise<MutantReport[] | undefined> {
  const mutate = globSync(`${folder}/**/*.ts`).filter((file) => !/\.(?:test|suite)\.ts$/.test(file));
  if (mutate.length === 0) return undefined;
  const needsServers = /^limiter\/(?:stores|algorithms)\b/.test(folder);
  process.env['MUTANTS_FOLDER'] = folder;
  if (needsServers) {
    // The copy of the project that is changed has no .cache. A suite without its server would skip, and every mutant survive it.
    process.env['PATH'] = [process.env['PATH'] ?? '', serversFolder].join(delimiter);
    process.env['CI'] = 'true';
  }
  const { seed, lines } = sample;
  const alsoWaits = lines !== undefined;
  if (alsoWaits) process.env['MUTANTS_WAIT'] = 'true';
  process.env['PROPERTY_SEED'] = String(seed);
  const results = await new Stryker({
    mutate,
    sample,
    testRunner: 'vitest',
    checkers: ['sample'],
    plugins: [
      '@stryker-mutator/vitest-runner',
      ...['./sample-checker.ts', './mutant-reporter.ts'].map((path) =>
        fileURLToPath(import.meta.resolve(path)),
      ),
    ],
    vitest: { configFile: 'test/mutation/vitest.config.ts', pool: 'forks', related: true },
    coverageAnalysis: 'perTest',
    concurrency: alsoWaits ? 4 : 2,
    reporters: ['mutants'],
    tempDirName: '.cache/mutants',
    ignorePatterns: ['.cache', 'dist'],
    // It reads such files by an API that TypeScript does not have any more.
    tsconfigFile: 'none.json',
    // A busy machine takes longer than it took without mutants, and a timeout counts as killed.
    timeoutMS: 30_000,
    timeoutFactor: 4,
    dryRunTimeoutMinutes: 30,
    warnings: { unknownOptions: false, preprocessorErrors: true, unserializableOptions: true, slow: true },
    logLevel: 'warn' as LogLevel,
  }).runMutationTest();
  return results.map(mutantReport).filter((report) => report !== undefined);
}
