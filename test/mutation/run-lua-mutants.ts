/**
 * Runs the tests of the stores with one defect after the other in the Lua of a folder, on a real Redis. Files on disk stay as
 * they are.
 */
import { globSync, readFileSync } from 'node:fs';
import { basename, resolve } from 'node:path';
import { createVitest, type Vitest } from 'vitest/node';
import { projectRoot } from '../../scripts/commands.ts';
import { type LuaMutant, luaMutants, withLuaMutants } from './lua-mutants.ts';
import { sampled } from './sample.ts';
import type { SampleOptions } from './sample-checker.ts';
import { lineOf, type MutantReport } from './score.ts';

/** Tests that reserve. The Lua of reservations runs in no other tests. */
const ofReservations = [
  ...['redis-reservation-clock', 'redis-reservations', 'redis-reservation-loss', 'redis-lifetimes'],
  ...['redis-full', 'redis-reservation-reset'],
];
const ofCounters = [
  ...['redis-store', 'counter-store', 'redis-bounds', 'stop-when-over', 'redis-leases'],
  ...ofReservations,
];
/** The first of them takes a second, and finds most of what is wrong in the formulas. */
const ofFormulas = ['algorithms-in-redis', ...ofCounters];

/** Chosen: what a process costs is little beside the tests of so many mutants, and it ends before it has grown. */
const batchSize = 25;

/** Chosen: the slowest hook starts a server. A server that loops makes each hook wait for it. */
const hookTimeoutMs = 30_000;

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
  if (all.length === 0) return undefined;
  const nameOf = ({ file, line, text, start }: FileMutant): string => `${file} ${line} ${text} ${start}`;
  const { lines } = options;
  const mutants =
    lines === undefined
      ? sampled(all, { ...options, nameOf })
      : all.filter((mutant) => lines.includes(lineOf(described(mutant))));
  process.env['PROPERTY_SEED'] = String(options.seed);
  // Without its server, a suite would be skipped, and every mutant would survive it. Valkey finds what Redis finds.
  process.env['CI'] = 'true';
  process.env['WEIR_VALKEY_SERVER'] = 'none';
  const tests = await LuaTests.open(mutants);
  const reports: MutantReport[] = [];
  try {
    for (const [names, numbers] of Map.groupBy(mutants.keys(), (number) => testsOf(mutants[number]!.file))) {
      for (let first = 0; first < numbers.length; first += batchSize) {
        const batch = numbers.slice(first, first + batchSize);
        const noticedBy = await tests.noticedBy(names, batch);
        for (const number of batch) {
          const by = noticedBy.get(number);
          const report = {
            ...described(mutants[number]!),
            is: by === undefined ? 'survived' : 'killed',
          } as const;
          reports.push(report);
          const how = by === undefined ? '' : ` by ${by}`;
          console.log(`${mutants.length - reports.length} left, ${lineOf(report)}: ${report.is}${how}`);
        }
      }
    }
    return reports;
  } finally {
    await tests.close();
  }
}

function described({ file, line, text, replacement }: FileMutant): Pick<MutantReport, 'place' | 'change'> {
  return { place: `${file}:${line}`, change: `${text} becomes ${replacement || 'nothing'}` };
}

/** Tests that run the Lua of the file. */
function testsOf(file: string): readonly string[] {
  if (file.startsWith('limiter/algorithms/')) return ofFormulas;
  return basename(file).startsWith('reservation-') ? ofReservations : ofCounters;
}

/** One instance of vitest, which reads each source once, with all mutants in it (lua-batch.ts). */
class LuaTests {
  readonly #vitest: Vitest;

  private constructor(vitest: Vitest) {
    this.#vitest = vitest;
  }

  static async open(mutants: readonly FileMutant[]): Promise<LuaTests> {
    const byPath = Map.groupBy(mutants.entries(), ([, { file }]) => resolve(projectRoot, file));
    const load = (id: string): string | null => {
      const its = byPath.get(id) ?? [];
      const isOfScripts = id.endsWith('/redis/lua/scripts.ts');
      if (its.length === 0 && !isOfScripts) return null;
      const marked = withLuaMutants(readFileSync(id, 'utf8'), its);
      return isOfScripts ? withMarkedScripts(marked) : marked;
    };
    const vitest = await createVitest(
      'test',
      {
        config: false,
        root: projectRoot,
        watch: false,
        reporters: [],
        include: ['test/mutation/lua-batch.ts'],
        setupFiles: ['./test/support/property-cases.ts'],
        pool: 'forks',
        maxWorkers: 1,
        testTimeout: 20_000,
        hookTimeout: hookTimeoutMs,
        retry: 0,
        cache: false,
        // Its keys know neither the mutants nor this plugin.
        fsModuleCache: false,
      },
      { plugins: [{ name: 'lua-mutants', enforce: 'pre', load }] },
    );
    return new LuaTests(vitest);
  }

  async close(): Promise<void> {
    await this.#vitest.close();
  }

  /** Which test file noticed a mutant first. Throws where one fails without a mutant, before or after all of them. */
  async noticedBy(names: readonly string[], batch: readonly number[]): Promise<Map<number, string>> {
    const noticedBy = new Map<number, string>();
    let left = batch;
    for (const name of names) {
      if (left.length === 0) break;
      const [before, ...rest] = await this.#failures(name, [null, ...left, null]);
      if (before || rest.at(-1)) throw new Error(`${name} fails without a mutant`);
      for (const [i, number] of left.entries()) if (rest[i]) noticedBy.set(number, name);
      left = left.filter((number) => !noticedBy.has(number));
    }
    return noticedBy;
  }

  /** Whether the test file fails, for each mutant. */
  async #failures(name: string, mutants: readonly (number | null)[]): Promise<boolean[]> {
    const project = this.#vitest.getRootProject();
    this.#vitest.state.filesMap.clear();
    this.#vitest.state.errorsSet.clear();
    const path = resolve(projectRoot, `test/stores/${name}.test.ts`);
    project.provide('luaBatch', { path, mutants, hookTimeoutMs });
    const batch = project.createSpecification(resolve(projectRoot, 'test/mutation/lua-batch.ts'));
    const { testModules } = await this.#vitest.runTestSpecifications([batch]);
    const suites = testModules.flatMap((module) => [...module.children.suites()]);
    if (suites.length !== mutants.length) {
      const errors = testModules.flatMap((module) => module.errors().map(({ message }) => message));
      throw new Error(`${name} does not run: ${errors.join(', ')}`);
    }
    return suites.map((suite) => suite.state() === 'failed');
  }
}

/** Scripts that lua-batch.ts can change after they were made. */
function withMarkedScripts(source: string): string {
  const made = "return { source, sha1: createHash('sha1').update(source).digest('hex') };";
  if (!source.includes(made)) throw new Error('redisScript is another one');
  return source.replace(made, 'return globalThis.markedScript(source);');
}
