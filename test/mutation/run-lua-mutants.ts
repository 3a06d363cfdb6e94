/**
 * Runs the tests of the stores with one defect after the other in the Lua of a folder, on a real Redis. Files on disk stay as
 * they are.
 */
import { globSync, readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { createVitest } from 'vitest/node';
import { projectRoot } from '../../scripts/commands.ts';
import { type LuaMutant, luaMutants, withLuaMutant } from './lua-mutants.ts';
import { sampled } from './sample.ts';
import type { SampleOptions } from './sample-checker.ts';
import { lineOf, type MutantReport } from './score.ts';

const formulas = 'test/stores/algorithms-in-redis.test.ts';
/** All at once, after the formulas. */
const storeFiles = [
  'redis-lifetimes',
  'redis-leases',
  'counter-store',
  'redis-scripts',
  'stop-when-over',
  'redis-not-counted',
  'redis-bounds',
  'redis-reservations',
].map((name) => `test/stores/${name}.test.ts`);

interface FileMutant extends LuaMutant {
  file: string;
}

/** Undefined where the folder has no Lua. Throws where the tests fail without a mutant. */
export async function runLuaMutants(
  folder: string,
  options: SampleOptions,
): Promise<MutantReport[] | undefined> {
  const all = globSync(`${folder}/**/*.ts`, { cwd: projectRoot, exclude: ['**/*.test.ts'] })
    .sort()
    .flatMap((file) =>
      luaMutants(readFileSync(resolve(projectRoot, file), 'utf8')).map((mutant) => ({ ...mutant, file })),
    );
  // Without its server, a suite would be skipped, and every mutant would survive it.
  process.env['CI'] = 'true';
  if (all.length === 0) return undefined;
  const nameOf = ({ file, line, text, start }: FileMutant): string => `${file} ${line} ${text} ${start}`;
  const { lines } = options;
  const mutants =
    lines === undefined
      ? sampled(all, { ...options, nameOf })
      : all.filter((mutant) => lines.includes(lineOf(described(mutant))));
  process.env['PROPERTY_SEED'] = String(options.seed);
  if (!(await passesAll())) throw new Error('the tests of the stores fail without a mutant');
  const reports: MutantReport[] = [];
  for (const mutant of mutants) {
    const is = (await passesAll(mutant)) ? 'survived' : 'killed';
    const report = { ...described(mutant), is } as const;
    reports.push(report);
    console.log(`${mutants.length - reports.length} left, ${lineOf(report)}: ${is}`);
  }
  // Each failure was one of its mutant, and not of what an earlier one left.
  if (!(await passesAll()))
    throw new Error('the tests of the stores fail without a mutant, after all of them');
  return reports;
}

function described({ file, line, text, replacement }: FileMutant): Pick<MutantReport, 'place' | 'change'> {
  return { place: `${file}:${line}`, change: `${text} becomes ${replacement || 'nothing'}` };
}

/** The first failure ends a mutant. The formulas take a second, and find most of what is wrong in them. */
async function passesAll(mutant?: FileMutant): Promise<boolean> {
  const isOfFormula = mutant === undefined || mutant.file.startsWith('limiter/algorithms/');
  return (!isOfFormula || (await passes([formulas], mutant))) && (await passes(storeFiles, mutant));
}

/** An instance of vitest for each run, because one remembers failures and modules. */
async function passes(testFiles: readonly string[], mutant: FileMutant | undefined): Promise<boolean> {
  const load = (id: string): string | null =>
    mutant !== undefined && id === resolve(projectRoot, mutant.file)
      ? withLuaMutant(readFileSync(id, 'utf8'), mutant)
      : null;
  const vitest = await createVitest(
    'test',
    {
      config: false,
      root: projectRoot,
      watch: false,
      reporters: [],
      include: [...testFiles],
      setupFiles: ['./test/support/property-cases.ts'],
      pool: 'forks',
      maxWorkers: 2,
      bail: 1,
      testTimeout: 20_000,
      cache: false,
      // Its keys know neither the mutant nor this plugin.
      fsModuleCache: false,
    },
    { plugins: [{ name: 'lua-mutant', enforce: 'pre', load }] },
  );
  try {
    const project = vitest.getRootProject();
    const specifications = testFiles.map((file) => project.createSpecification(resolve(projectRoot, file)));
    const { testModules, unhandledErrors } = await vitest.runTestSpecifications(specifications);
    return unhandledErrors.length === 0 && testModules.every((module) => module.ok());
  } finally {
    await vitest.close();
  }
}
