/**
 * Runs the tests of the stores with one defect after the other in the Lua of a folder, on a real Redis. Files on disk stay as
 * they are.
 */
import { globSync, readFileSync } from 'node:fs';
import { basename, resolve } from 'node:path';
import { BaseSequencer, createVitest, type TestSpecification, type Vitest } from 'vitest/node';
import { projectRoot } from '../../scripts/commands.ts';
import { type LuaMutant, luaMutants, withLuaMutants } from './lua-mutants.ts';
import { sampled } from './sample.ts';
import type { SampleOptions } from './sample-checker.ts';
import { lineOf, type MutantReport } from './score.ts';

/** Takes a second, and finds most of what is wrong in the formulas. */
const formulas = 'algorithms-in-redis';
/** Tests that reserve. The Lua of reservations runs in no other tests. */
const reservationTests = [
  'redis-reservation-clock',
  'redis-reservations',
  'redis-reservation-loss',
  'redis-lifetimes',
  'redis-full',
];
const counterTests = ['counter-store', 'redis-bounds', 'stop-when-over', 'redis-leases'];

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
  const runner = new LuaTests(mutants);
  await runner.open();
  try {
    await runner.expectSound();
    const reports: MutantReport[] = [];
    for (const [index, mutant] of mutants.entries()) {
      const noticedBy = await runner.noticedBy(index);
      const report = {
        ...described(mutant),
        is: noticedBy === undefined ? 'survived' : 'killed',
      } as const;
      reports.push(report);
      console.log(
        `${mutants.length - reports.length} left, ${lineOf(report)}: ${report.is}${noticedBy === undefined ? '' : ` by ${noticedBy}`}`,
      );
    }
    // Each failure was one of its mutant, and not of what an earlier one left.
    await runner.expectSound();
    return reports;
  } finally {
    await runner.close();
  }
}

function described({ file, line, text, replacement }: FileMutant): Pick<MutantReport, 'place' | 'change'> {
  return { place: `${file}:${line}`, change: `${text} becomes ${replacement || 'nothing'}` };
}

/** One instance of vitest, which reads each source once: the sources have all mutants, and a process of tests chooses one. */
class LuaTests {
  readonly #mutants: readonly FileMutant[];
  /** How many mutants of a source each test file noticed. The first failure ends a mutant. */
  readonly #noticed = new Map<string, number>();
  #order: readonly string[] = [];
  #vitest: Vitest | undefined;

  constructor(mutants: readonly FileMutant[]) {
    this.#mutants = mutants;
  }

  async open(): Promise<void> {
    const byPath = new Map<string, [number, FileMutant][]>();
    for (const [index, mutant] of this.#mutants.entries()) {
      const path = resolve(projectRoot, mutant.file);
      byPath.set(path, [...(byPath.get(path) ?? []), [index, mutant]]);
    }
    const load = (id: string): string | null => {
      const mutants = byPath.get(id);
      return mutants === undefined ? null : withLuaMutants(readFileSync(id, 'utf8'), mutants);
    };
    const place = ({ moduleId }: TestSpecification): number => this.#order.indexOf(moduleId);
    class InOrder extends BaseSequencer {
      override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
        return files.toSorted((one, other) => place(one) - place(other));
      }
    }
    this.#vitest = await createVitest(
      'test',
      {
        config: false,
        root: projectRoot,
        watch: false,
        reporters: [],
        include: [formulas, ...reservationTests, ...counterTests].map(
          (name) => `test/stores/${name}.test.ts`,
        ),
        setupFiles: ['./test/mutation/lua-setup.ts', './test/support/property-cases.ts'],
        pool: 'forks',
        maxWorkers: 2,
        bail: 1,
        testTimeout: 20_000,
        sequence: { sequencer: InOrder },
        cache: false,
        // Its keys know neither the mutants nor this plugin.
        fsModuleCache: false,
      },
      { plugins: [{ name: 'lua-mutants', enforce: 'pre', load }] },
    );
  }

  async close(): Promise<void> {
    await this.#vitest?.close();
  }

  /** Throws where a test fails without a mutant. */
  async expectSound(): Promise<void> {
    const files = new Set(this.#mutants.flatMap(({ file }) => testsOf(file)));
    const failed = await this.#failedFile([...files], undefined);
    if (failed !== undefined) throw new Error(`${failed} fails without a mutant`);
  }

  /** The test file that noticed the mutant. */
  async noticedBy(index: number): Promise<string | undefined> {
    const { file } = this.#mutants[index]!;
    const noticed = (test: string): number => this.#noticed.get(`${file} ${test}`) ?? 0;
    const [first, ...others] = testsOf(file).toSorted((one, other) => noticed(other) - noticed(one));
    // Most defects end with the first file, and a second process beside it would start in vain.
    const failed = (await this.#failedFile([first!], index)) ?? (await this.#failedFile(others, index));
    if (failed !== undefined) this.#noticed.set(`${file} ${failed}`, noticed(failed) + 1);
    return failed;
  }

  async #failedFile(tests: readonly string[], mutant: number | undefined): Promise<string | undefined> {
    const vitest = this.#vitest!;
    const project = vitest.getRootProject();
    this.#order = tests.map((name) => resolve(projectRoot, `test/stores/${name}.test.ts`));
    vitest.state.filesMap.clear();
    vitest.state.errorsSet.clear();
    project.provide('luaMutant', mutant ?? -1);
    const specifications = this.#order.map((path) => project.createSpecification(path));
    const { testModules, unhandledErrors } = await vitest.runTestSpecifications(specifications);
    const failed = testModules.find((module) => module.state() === 'failed');
    if (failed !== undefined) return basename(failed.moduleId, '.test.ts');
    return unhandledErrors.length === 0 ? undefined : 'an error outside of tests';
  }
}

/** Tests that run the Lua of the file. */
function testsOf(file: string): string[] {
  if (file.startsWith('limiter/algorithms/')) return [formulas, ...counterTests, ...reservationTests];
  if (basename(file).startsWith('reservation-')) return reservationTests;
  return [...counterTests, ...reservationTests];
}
