/** `npm run properties`: runs the property, model and fuzz tests with a multiple of their cases, round after round. */
import { randomInt } from 'node:crypto';
import { globSync, readFileSync, writeFileSync } from 'node:fs';
import { basename } from 'node:path';
import {
  createVitest,
  type Reporter,
  type SerializedError,
  type TestCase,
  type TestModule,
} from 'vitest/node';
import { HangRecord, isEndOf } from '../test/support/hang-record.ts';
import { gateTimes, minSeconds, propertyTimesFile } from '../test/support/property-times.ts';
import { defineFlags, explaining, FlagError, scriptFlags } from '../test/support/script-flags.ts';

interface PropertiesOptions {
  /** Parts of the paths of test files. If empty, all files with properties run. */
  paths: string[];
  times: number;
  /** Undefined for one round. */
  minutes: number | undefined;
  seed: number;
  /** The name of the test, as a pattern. */
  name: string | undefined;
  /** The path of the case, as fast-check reports it. */
  path: string | undefined;
  writesTimes: boolean;
}

const flags = defineFlags({
  help: `Usage: npm run properties -- [part of a file's path ...] [flags]

Runs the property, model and fuzz tests with more cases than usual, on two workers, and prints the failures.

  --times <n>      multiplies the cases of each test, 0.1 to 10000 (default 10); npm test runs half of them
  --minutes <n>    repeats rounds with new seeds for this time, 0.1 to 1440. The last round ends within a minute after it
                   (default: one complete round)
  --seed <n>       seed of the first round, 0 to 2147483647; each further round uses the next seed (default: random)
  --name <text>    runs only tests whose name matches this regular expression
  --path <path>    runs only this case of a property, as a failure reports it; for a test with one property. Statements of
                   the test about all its cases are then not true
  --write-times    runs one round with the cases of npm test, and writes the processor time of each property into
                   test/support/property-times.json, which determines the guard against hangs. Use an idle machine

It prints a failure at once, with its seed, path, smallest case and the command that repeats it. Add the case to the
test, as one of the \`examples\` or as a separate test.
Exit status: 0 if no test failed, 1 if a test failed, 2 for a wrong command line.
`,
  rows: {
    times: { type: 'number', min: 0.1, max: 10_000, default: 10 },
    minutes: { type: 'number', min: 0.1, max: 1440 },
    seed: { type: 'number', min: 0, max: 2_147_483_647, whole: true, default: randomInt(1_000_000) },
    name: { type: 'string' },
    path: { type: 'string' },
    'write-times': { type: 'boolean' },
  },
  takesWords: true,
  read: ({ 'write-times': writesTimes, ...values }, paths): PropertiesOptions => {
    const { minutes, name, path } = values;
    if (path !== undefined && !/^\d+(:\d+)*$/.test(path))
      throw new FlagError(`--path is numbers with colons between, not "${path}"`);
    const isPartial = paths.length > 0 || [name, path, minutes].some((value) => value !== undefined);
    if (writesTimes && isPartial)
      throw new FlagError(
        '--write-times runs all properties once: give it no path, --name, --path or --minutes',
      );
    return { ...values, writesTimes, paths, times: writesTimes ? gateTimes : values.times };
  },
});

/** Returns files with properties or fuzz tests, except those that measure time. @throws FlagError if no path matches */
function propertyFiles(parts: readonly string[]): string[] {
  const exclude = ['node_modules/**', 'dist/**', '.cache/**', '**/*.timing.test.ts'];
  const mentions = (file: string, words: readonly string[]): boolean => {
    const text = readFileSync(file, 'utf8');
    return words.some((word) => text.includes(word));
  };
  const marks = ["from 'fast-check'", 'property-cases.ts'];
  const suites = globSync('**/*.suite.ts', { exclude }).filter((file) => mentions(file, marks));
  const found = globSync('**/*.test.ts', { exclude })
    .filter((file) => parts.length === 0 || parts.some((part) => file.includes(part)))
    .filter((file) => mentions(file, [...marks, ...suites.map((suite) => basename(suite))]))
    .sort();
  if (found.length > 0) return found;
  throw new FlagError(`no file with property tests has ${parts.join(' or ')} in its path`);
}

function withoutPackages(stack: string): string {
  return stack
    .split('\n')
    .filter((line) => !line.includes('/node_modules/'))
    .join('\n');
}

/** Returns the flag that selects a test by its whole name, for a shell. */
function namePattern(fullName: string): string[] {
  const name = fullName.replaceAll(/[.*+?^${}()|[\]\\]/g, '\\$&');
  return ['--name', `'^${name.replaceAll("'", `'\\''`)}$'`];
}

/** Collects the results of all rounds, and prints failures immediately. */
class Tally implements Reporter {
  cases = 0;
  readonly tests = new Set<string>();
  /** The command that repeats the first failure, by the name of the test. */
  readonly failed = new Map<string, string>();
  /** The CPU time of the most expensive property, by file. */
  readonly seconds = new Map<string, number>();
  readonly #options: PropertiesOptions;
  readonly #hangs = new HangRecord();
  seed = 0;

  constructor(options: PropertiesOptions) {
    this.#options = options;
  }

  onTestCaseResult(test: TestCase): void {
    const file = test.module.relativeModuleId;
    const { cases, propertySeconds = 0 } = test.meta();
    this.seconds.set(file, Math.max(this.seconds.get(file) ?? 0, propertySeconds));
    if (cases !== undefined) {
      this.cases += cases;
      this.tests.add(`${file} > ${test.fullName}`);
    }
    const { state, errors } = test.result();
    if (state === 'failed') this.#fail(`${file} > ${test.fullName}`, errors, this.#repeating(test));
  }

  onTestRunEnd(modules: readonly TestModule[], unhandled: readonly SerializedError[]): void {
    for (const module of modules) {
      const errors = [
        ...module.errors(),
        ...[...module.children.allSuites()].flatMap((suite) => suite.errors()),
      ];
      if (errors.length > 0)
        this.#fail(module.relativeModuleId, errors, this.#command([module.relativeModuleId]));
    }
    const hangs = this.#hangs.read();
    for (const { file, test, limitSeconds } of hangs) {
      const message = `a case does not return: its property took more than ${limitSeconds} s of processor time`;
      this.#fail(`${file} > ${test}`, [{ message }], this.#command([file, ...namePattern(test)]));
    }
    const unexpected = unhandled.filter((error) => !isEndOf(error, hangs));
    if (unexpected.length > 0)
      this.#fail('outside of a test', unexpected, this.#command(this.#options.paths));
  }

  #fail(name: string, errors: readonly SerializedError[], command: string): void {
    if (this.failed.has(name)) return;
    this.failed.set(name, command);
    console.log(`failed: ${name}`);
    for (const { stack, message, cause } of errors) {
      console.log(withoutPackages(stack ?? message));
      if (cause !== undefined) console.log(withoutPackages(cause.stack ?? cause.message));
    }
    console.log(`repeat it with: ${command}`);
  }

  /** The failed case, if fast-check reports its path. */
  #repeating(test: TestCase): string {
    const reported = test.result().errors?.map(({ message }) => /path: "([\d:]+)"/.exec(message)?.[1]);
    const path = reported?.find((path) => path !== undefined);
    const flags = [...namePattern(test.fullName), ...(path === undefined ? [] : ['--path', path])];
    return this.#command([test.module.relativeModuleId, ...flags]);
  }

  #command(args: readonly string[]): string {
    const { times } = this.#options;
    return `npm run properties -- ${[...args, '--times', times, '--seed', this.seed].join(' ')}`;
  }
}

/** Ends with the round, or some time after `until`. */
async function runRound(
  options: PropertiesOptions,
  files: string[],
  tally: Tally,
  until: AbortSignal,
): Promise<void> {
  process.env['PROPERTY_SEED'] = String(tally.seed);
  const vitest = await createVitest('test', {
    ...{ watch: false, retry: 0, project: ['unit', 'tests'], reporters: [tally] },
    ...(options.name !== undefined && { testNamePattern: options.name }),
  });
  const breakOff = (): void => void vitest.cancelCurrentRun('keyboard-input');
  until.addEventListener('abort', breakOff);
  // The running test stops its servers. A property that does not end stops with the process.
  const late = new Promise<void>((resolve) => {
    until.addEventListener('abort', () => setTimeout(resolve, 30_000).unref());
  });
  await Promise.race([vitest.start(files), late]);
  until.removeEventListener('abort', breakOff);
  await vitest.close();
}

function writeTimes(seconds: ReadonlyMap<string, number>): void {
  const rows = [...seconds]
    .filter(([, max]) => max > minSeconds)
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([file, max]) => [file, Math.ceil(10 * max) / 10] as const);
  writeFileSync(propertyTimesFile, `${JSON.stringify(Object.fromEntries(rows), undefined, 2)}\n`);
}

/** Runs rounds until the time ends or you press Ctrl-C. */
async function runRounds(options: PropertiesOptions, files: string[]): Promise<void> {
  const startMs = performance.now();
  const seconds = (): string => `${Math.round((performance.now() - startMs) / 1000)} s`;
  const end = new AbortController();
  process.once('SIGINT', () => end.abort());
  if (options.minutes !== undefined) setTimeout(() => end.abort(), options.minutes * 60_000).unref();
  process.env['PROPERTY_TIMES'] = String(options.times);
  if (options.path !== undefined) process.env['PROPERTY_PATH'] = options.path;

  const tally = new Tally(options);
  let rounds = 0;
  do {
    tally.seed = options.seed + rounds;
    console.log(`seed ${tally.seed}: ${files.length} files, ${options.times} times their cases`);
    await runRound(options, files, tally, end.signal);
    rounds += 1;
    console.log(
      `${tally.cases} cases of ${tally.tests.size} tests in ${seconds()}, ${tally.failed.size} failed, so far`,
    );
  } while (options.minutes !== undefined && !end.signal.aborted);
  const seeds = rounds === 1 ? `seed ${options.seed}` : `seeds ${options.seed} to ${tally.seed}`;
  console.log(`properties: ${tally.tests.size} tests, ${tally.cases} cases, ${seeds}, ${seconds()}`);
  for (const [name, command] of tally.failed) console.log(`failed: ${name}\n  ${command}`);
  if (tally.failed.size === 0) console.log(tally.cases === 0 ? 'nothing ran' : 'nothing failed');
  if (options.writesTimes && tally.failed.size === 0) writeTimes(tally.seconds);
  process.exit(tally.failed.size > 0 || tally.cases === 0 ? 1 : 0);
}

const options = scriptFlags(flags);
await runRounds(
  options,
  explaining(flags.help, () => propertyFiles(options.paths)),
);
