/**
 * Runs the test file of each mutant in one process of Vitest. Every mutant has its own instances of the modules between its
 * test file and the defect, and shares all others. Files on disk stay as they are.
 */
import { readFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { createVitest, type TestModule } from 'vitest/node';
import { projectRoot } from '../../scripts/commands.ts';
import { type Mutant, MutantError, mutated } from './mutant-source.ts';

export interface MutantOutcome {
  defect: string;
  /** `timedOut`: no test failed otherwise, so that the machine may have been too slow for one that passes. */
  is: 'killed' | 'timedOut' | 'survived' | 'unusable';
  /** The tests that failed, or why the mutant cannot be used. */
  details: string[];
}

/** With a defect a test waits for what never comes. Multiplied by the machine's load when the file begins. */
const mutantTimeoutMs = 1_500;

const marker = /\?mutant=(\d+)$/;

/** Ends with what the test files say without a defect, which must be nothing. */
export async function runMutants(
  mutants: readonly Mutant[],
): Promise<{ outcomes: MutantOutcome[]; failuresWithout: string[] }> {
  const texts = mutants.map((mutant) => textOf(mutant));
  const plans = mutants.map((mutant) => new MutantModules(mutant));
  const originals = new Set(mutants.map(({ killedBy }) => join(projectRoot, killedBy)));
  // The seed of property tests is fixed, so that a mutant is killed each time or never.
  process.env['PROPERTY_SEED'] = '1';
  const vitest = await createVitest(
    'test',
    {
      config: false,
      root: projectRoot,
      watch: false,
      reporters: [],
      include: ['**/*.test.ts'],
      setupFiles: ['./test/support/property-cases.ts', './test/mutants/first-failure.ts'],
      pool: 'forks',
      isolate: false,
      // They wait more than they work.
      maxWorkers: 4,
      cache: false,
      // Its keys know neither the mutant nor this plugin.
      fsModuleCache: false,
    },
    {
      plugins: [
        {
          name: 'mutants',
          enforce: 'pre',
          async resolveId(source, importer, options) {
            const number = marker.exec(importer ?? '')?.[1];
            if (number === undefined) return null;
            const from = importer!.replace(marker, '');
            const resolved = await this.resolve(source, from, { ...options, skipSelf: true });
            if (resolved === null || !plans[Number(number)]!.isOwn(resolved.id)) return resolved;
            return { ...resolved, id: `${resolved.id}?mutant=${number}` };
          },
          load(id) {
            const number = Number(marker.exec(id)?.[1] ?? Number.NaN);
            const mutant = mutants[number];
            // With the same patience, so that a machine that is too slow for a test shows where there is no defect.
            if (mutant === undefined) return originals.has(id) ? impatient(readFileSync(id, 'utf8')) : null;
            const path = id.replace(marker, '');
            if (path === join(projectRoot, mutant.file)) return texts[number] as string;
            return path === join(projectRoot, mutant.killedBy) ? impatient(readFileSync(path, 'utf8')) : null;
          },
        },
      ],
    },
  );
  try {
    const project = vitest.getRootProject();
    const usable = mutants.flatMap(({ killedBy }, number) =>
      typeof texts[number] === 'string' ? [`${join(projectRoot, killedBy)}?mutant=${number}`] : [],
    );
    const specifications = [...originals, ...usable].map((id) => project.createSpecification(id));
    const { testModules } = await vitest.runTestSpecifications(specifications);
    const byId = new Map(testModules.map((module) => [module.moduleId, module]));
    const outcomes = mutants.map((mutant, number) => {
      const text = texts[number]!;
      const module = byId.get(`${join(projectRoot, mutant.killedBy)}?mutant=${number}`);
      return typeof text === 'string' ? outcomeOf(mutant, module) : unusable(mutant, text.message);
    });
    const failuresWithout = [...originals].flatMap((id) => problemsOf(byId.get(id)));
    return { outcomes, failuresWithout };
  } finally {
    await vitest.close();
  }
}

function impatient(testFile: string): string {
  const load = JSON.stringify(join(projectRoot, 'test/support/machine-load.ts'));
  return `import { vi as ofMutant } from 'vitest'; import { machineLoad as loadOfMutant } from ${load};
const msOfMutant = ${mutantTimeoutMs} * loadOfMutant();
ofMutant.setConfig({ testTimeout: msOfMutant, hookTimeout: msOfMutant }); ${testFile}`;
}

function textOf(mutant: Mutant): string | MutantError {
  try {
    return mutated(readFileSync(join(projectRoot, mutant.file), 'utf8'), mutant);
  } catch (error) {
    if (error instanceof MutantError || (error as NodeJS.ErrnoException).code === 'ENOENT')
      return error as MutantError;
    throw error;
  }
}

function outcomeOf(mutant: Mutant, module: TestModule | undefined): MutantOutcome {
  const failed = failedTests(module);
  const { defect } = mutant;
  // A file that cannot be loaded notices no defect.
  if (module === undefined || module.errors().length > 0) return unusable(mutant, ...problemsOf(module));
  if (failed.length === 0) return { defect, is: 'survived', details: [] };
  return { defect, is: isTimeout(module) ? 'timedOut' : 'killed', details: failed };
}

function unusable({ defect }: Mutant, ...details: string[]): MutantOutcome {
  return { defect, is: 'unusable', details };
}

function failedTests(module: TestModule | undefined): string[] {
  return [...(module?.children.allTests('failed') ?? [])].map(({ fullName }) => fullName);
}

function isTimeout(module: TestModule): boolean {
  const errors = [...module.children.allTests('failed')].flatMap((test) => test.result().errors ?? []);
  return errors.every(({ message }) => /^(?:Test|Hook) timed out in \d+/.test(message));
}

function problemsOf(module: TestModule | undefined): string[] {
  if (module === undefined) return ['the test file was not run'];
  return [...module.errors().map(({ message }) => message), ...failedTests(module)];
}

/** Which modules a mutant needs instances of: those that reach the defect by their imports. */
class MutantModules {
  readonly #mutated: string;
  readonly #reaches = new Map<string, boolean>();

  constructor({ file }: Mutant) {
    this.#mutated = join(projectRoot, file);
  }

  isOwn(path: string): boolean {
    if (path === this.#mutated) return true;
    if (!path.startsWith(projectRoot) || path.includes('/node_modules/') || !path.endsWith('.ts'))
      return false;
    const known = this.#reaches.get(path);
    if (known !== undefined) return known;
    // Ends walks around a circle of imports.
    this.#reaches.set(path, false);
    const isOwn = importsOf(path).some((imported) => this.isOwn(imported));
    this.#reaches.set(path, isOwn);
    return isOwn;
  }
}

const imports = new Map<string, string[]>();

function importsOf(path: string): string[] {
  const known = imports.get(path);
  if (known !== undefined) return known;
  const text = readFileSync(path, 'utf8');
  const found = [...text.matchAll(/(?:\bfrom|\bimport\()\s*'(\.{1,2}\/[^']+\.ts)'/g)];
  const paths = found.map(([, source]) => resolve(dirname(path), source!));
  imports.set(path, paths);
  return paths;
}
