import { globSync, realpathSync, statSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { systemErrorReason } from '../../process/log/error-text.ts';
import { findingText } from '../check/check-report.ts';
import { documentOf } from '../forms/forms.ts';
import { findingsTable, markdownDocument } from '../forms/markdown.ts';
import { findingForms, type Report, type ReportedFinding } from '../forms/report.ts';
import { readReplayRules } from '../replay/replay-command.ts';
import { rootsOf } from '../shared/contained-files.ts';
import { commandOf, type ParsedFlags, printProblem, rejectIdle, UsageError } from '../shared/flags.ts';
import { io } from '../shared/io.ts';
import { servedByFlags } from '../shared/read-input.ts';
import { type CommandReport, outputForm, printReport } from '../shared/report.ts';
import { count, paintFor, timeText } from '../shared/text.ts';
import { maxRecorded, recordTests } from './record-tests.ts';
import { type CoveredRule, shownPath, type TestRun, TestRunner } from './run-tests.ts';
import { defaultStart } from './test-file.ts';
import { FolderWatch, isFolder, isPassedOver } from './watch-folders.ts';

const help = `Usage: weir test [file or folder ...] [flags]
       weir test <rules> --record <requests.ndjson>

Runs tests of your rules. If an answer differs from the expected one, it shows what was decided instead, and why.
It decides with the limiter's own code and counts in memory. Time passes only where a test says so. Name test files, or
folders that contain *.test.yaml at any depth (default: the working folder). shop.test.yaml tests the rules in
shop.yaml beside it. If that file does not exist, it tests all rules of its folder, or those that \`rules\` names:

  domain: shop
  steps:
    - path=/a -> OK x2, OVER_LIMIT
    - after: 1m
    - path=/a, plan=free -> OK (1 left)

Time begins at ${defaultStart} unless \`at\` says otherwise. docs/test.md describes the format.

  --min-coverage <percent>   exit with status 1 if tests reach less than this share of the rules that have a limit
  --record <file>            instead of running tests, write tests from a recording as for "weir replay" (- is standard input). They expect what the rules decide today. Save the output in the folder of the rules
  --watch                    run again when a file changes, until Ctrl-C
  --class <name>             the class of the manifests to read, if there are several (one per control plane)
  --fleet <name>             the fleet of the manifests to read, if there are several
  --root <folder>            do not read files outside this folder (default: the working folder, and the folders that you name). Repeat the flag for several
  -o, --output <form>        how to print the result: text (default), json, yaml, tap, junit, github (annotations
                             of a workflow's run), sarif or markdown
  -q, --quiet                print only what makes the exit status 1 or 2

  weir test examples
  weir test examples/rules --min-coverage 80
  weir test examples/rules --record examples/replay/requests.ndjson

Exit status: 0 when all answers were as expected. 1 when one was not, or the tests reached too few rules. 2 for a wrong
command line, no tests at all, or tests or rules that cannot be read.
`;

export const testCommand = commandOf(
  help,
  async (flags) => {
    const recording = flags.text('record');
    if (recording !== undefined) return record(recording, flags);
    const wanted = readWanted(flags);
    const runOnce = () => printReport(reportOf(runTests(wanted, flags), wanted), wanted.form);
    return flags.on('watch') ? watched(wanted, flags) : runOnce();
  },
  { values: { output: findingForms } },
);

interface Wanted {
  paths: string[];
  /** The folders of the arguments: an argument itself, or the folder of a file. */
  folders: string[];
  roots: string[];
  form: string;
  /** The minimum coverage in percent. */
  minCoverage: number | undefined;
  isQuiet: boolean;
}

function readWanted(flags: ParsedFlags): Wanted {
  const paths = flags.positionals.length > 0 ? flags.positionals.map(shownPath) : ['.'];
  const given = flags.text('min-coverage');
  const minCoverage = given === undefined ? undefined : Number(given.replace(/%$/, ''));
  if (minCoverage !== undefined && !(given !== '' && minCoverage >= 0 && minCoverage <= 100))
    throw new UsageError(`--min-coverage is a percentage from 0 to 100, not "${given}"`);
  const folders = paths.map(folderOf);
  const roots = rootsOf(flags);
  return {
    paths,
    folders,
    roots: roots.length > 0 ? roots : ['.', ...folders].map((path) => realpathSync(path)),
    form: outputForm(flags, findingForms),
    minCoverage,
    isQuiet: flags.on('quiet'),
  };
}

/** @throws UsageError */
function folderOf(path: string): string {
  try {
    return statSync(path).isDirectory() ? path : dirname(path);
  } catch (error) {
    throw new UsageError(`${path}: ${systemErrorReason(error)}`, { cause: error });
  }
}

/** Lists files of a folder and below, without packages and hidden folders. */
function filesBelow(folder: string, pattern: string): string[] {
  const found = globSync(`**/${pattern}`, {
    cwd: folder,
    exclude: isPassedOver,
  });
  return found.sort().map((path) => shownPath(join(folder, path)));
}

function runTests({ paths, roots }: Wanted, flags: ParsedFlags): TestRun {
  const runner = new TestRunner({ roots, served: servedByFlags(flags), paint: paintFor(io().stdout) });
  const folders = paths.filter((path) => folderOf(path) === path);
  const tests = paths.flatMap((path) =>
    folders.includes(path) ? filesBelow(path, '*.test.{yaml,yml}') : path,
  );
  if (tests.length === 0) throw new UsageError(`there are no tests: no *.test.yaml in ${paths.join(', ')}`);
  for (const path of new Set(tests)) runner.run(path);
  for (const folder of folders)
    for (const path of filesBelow(folder, '*.{yaml,yml}')) if (!tests.includes(path)) runner.addRulesOf(path);
  return runner;
}

function reportOf(run: TestRun, wanted: Wanted): CommandReport {
  const { minCoverage } = wanted;
  const coverage = coverageOf(run.coverage);
  const isLow = coverage !== undefined && minCoverage !== undefined && coverage.percent < minCoverage;
  const isFailed = isLow || run.outcomes.some(({ failures }) => failures.length > 0);
  const status = coverage === undefined ? 2 : isFailed ? 1 : 0;
  return {
    status,
    value: resultValue(run, status),
    text: () => resultText(run, wanted, isLow),
    document: (form) => documentOf({ ...findingsOf(run, wanted, isLow), exitStatus: status }, form),
  };
}

function findingsOf(run: TestRun, { paths, isQuiet }: Wanted, isLow: boolean): Omit<Report, 'exitStatus'> {
  const failures: ReportedFinding[] = run.outcomes.flatMap((one) => one.failures);
  const coverage = coverageOf(run.coverage);
  const file = paths[0]!;
  const low: ReportedFinding[] = isLow
    ? [{ severity: 'error', code: 'low-coverage', file, message: coverageText(coverage!) }]
    : [];
  const unreached = (coverage?.missed ?? []).map(({ rule, ...place }): ReportedFinding => {
    const message = `no test reaches ${rule}`;
    return {
      severity: 'note',
      code: 'unreached-rule',
      file: place.file,
      line: place.line,
      column: 1,
      message,
    };
  });
  const wrong = [...failures, ...low];
  return {
    command: 'test',
    findings: [...wrong, ...unreached],
    files: [],
    cases: [
      ...run.outcomes.map((one) => ({ ...one, findings: one.failures })),
      ...(isLow ? [{ name: 'coverage', file, findings: low }] : []),
    ],
    isQuiet,
    markdown: () =>
      markdownDocument({
        marker: 'weir test',
        title: `Tests of rate limits: ${summaryText(run)}`,
        parts: wrong.length === 0 ? [] : [{ table: findingsTable(wrong) }],
      }),
  };
}

function resultText(run: TestRun, { isQuiet, minCoverage }: Wanted, isLow: boolean): string {
  const paint = paintFor(io().stdout);
  const failed = run.outcomes.flatMap(({ failures }) =>
    failures.map((one) => findingText(one, paint) + (one.explanation ?? '').replace(/^(?=.)/gm, '  ')),
  );
  const low = isLow ? [`${paint('red', 'failed:')} fewer than --min-coverage ${minCoverage}\n`] : [];
  if (isQuiet) return [...failed, ...low].join('');
  const coverage = coverageOf(run.coverage);
  const missed = coverage?.missed ?? [];
  const unreached = missed
    .slice(0, 20)
    .map(
      ({ rule, file, line }) => `  not reached: ${rule} (${line === undefined ? file : `${file}:${line}`})\n`,
    );
  const more = missed.length > 20 ? [`  and ${missed.length - 20} more; --output json has all\n`] : [];
  const end = failed.length === 0 ? paint('green', 'ok') : paint('red', 'failed');
  const covered =
    coverage === undefined
      ? 'coverage: unknown, as not all tests could be run\n'
      : `${coverageText(coverage)}\n`;
  return [...failed, `${end}: ${summaryText(run)}\n`, covered, ...unreached, ...more, ...low].join('');
}

function summaryText({ outcomes }: TestRun): string {
  const failed = outcomes.filter(({ failures }) => failures.length > 0).length;
  const answers = outcomes.reduce((sum, one) => sum + one.answers, 0);
  const files = new Set(outcomes.map(({ file }) => file)).size;
  const passed = `${failed === 0 ? '' : `${failed} of `}${count(outcomes.length, 'test')}`;
  return `${passed}${failed === 0 ? '' : ' failed'}, ${count(answers, 'answer')}, ${count(files, 'file')}`;
}

interface Coverage {
  percent: number;
  rules: number;
  reached: number;
  missed: CoveredRule[];
}

function coverageOf(covered: TestRun['coverage']): Coverage | undefined {
  if (covered === undefined) return undefined;
  const missed = covered.filter(({ isReached }) => !isReached);
  const rules = covered.length;
  const reached = rules - missed.length;
  return { percent: rules === 0 ? 100 : (100 * reached) / rules, rules, reached, missed };
}

function coverageText({ rules, reached, percent }: Coverage): string {
  return `coverage: tests reach ${reached} of ${count(rules, 'rule')} (${Math.floor(percent)}%)`;
}

function resultValue(run: TestRun, exitStatus: number): object {
  const coverage = coverageOf(run.coverage);
  return {
    exitStatus,
    tests: run.outcomes.map(({ failures, ...one }) => ({
      ...one,
      passed: failures.length === 0,
      failures: failures.map(({ code, line, column, message, explanation = '' }) => {
        return { code, line, column, message, explanation };
      }),
    })),
    coverage: coverage === undefined ? null : coverageJson(coverage),
  };
}

function coverageJson({ rules, reached, percent, missed }: Coverage): object {
  return { rules, reached, percent, missed: missed.map(({ rule, file, line }) => ({ rule, file, line })) };
}

/** Resolves with the status of the last run when the process is interrupted. */
async function watched(wanted: Wanted, flags: ParsedFlags): Promise<number> {
  const { promise, resolve } = Promise.withResolvers<void>();
  io().once('SIGINT', resolve);
  io().once('SIGTERM', resolve);
  // No program reads any more, such as `head`.
  io().stdout.once('error', () => resolve());
  let [status, read] = [0, new Set<string>()];
  const follow = (): void => watching.follow([...wanted.folders, ...Array.from(read, folderOrParent)], read);
  const run = (): void => {
    try {
      const result = runTests(wanted, flags);
      read = new Set(result.read);
      // Before the result is printed, because the user may change a file as soon as it is visible.
      follow();
      status = printReport(reportOf(result, wanted), wanted.form);
    } catch (error) {
      if (!(error instanceof UsageError)) throw error;
      follow();
      printProblem(error.message);
      status = 2;
    }
  };
  const output = wanted.form === 'text' ? io().stdout : io().stderr;
  const watching = new FolderWatch(() => {
    output.write(`\n${timeText(Date.now())}: something changed, tests run again\n`);
    run();
  });
  follow();
  run();
  await promise;
  watching.close();
  return status;
}

/** Returns the folder of a path that may no longer exist. */
function folderOrParent(path: string): string {
  return isFolder(path) ? path : dirname(path);
}

async function record(recording: string, flags: ParsedFlags): Promise<number> {
  rejectIdle(flags, ['min-coverage', 'watch', 'output', 'quiet'], 'with --record, which runs no tests');
  const [place, stray] = flags.positionals;
  if (place === undefined || stray !== undefined) throw new UsageError('--record needs one set of rules');
  const rules = readReplayRules(place, {
    mergeDomains: false,
    chosen: servedByFlags(flags),
    roots: rootsOf(flags),
  });
  if (rules === undefined) return 2;
  try {
    const { text, requests, isCut, leftOut } = await recordTests(recording, () => io().stdin, {
      rules,
      place,
    });
    const reasons = Map.groupBy(leftOut, ({ reason }) => reason);
    for (const [reason, lines] of reasons)
      printProblem(
        `${recording}:${lines[0]!.line}: ${reason}; left out, ${count(lines.length, 'line')} like it`,
      );
    if (isCut) printProblem(`${recording}: only its first ${maxRecorded} requests`);
    if (requests === 0) printProblem(`${recording}: contains no request for these rules`);
    else io().stdout.write(text);
    return requests === 0 ? 2 : 0;
  } catch (error) {
    printProblem(`${recording}: ${systemErrorReason(error)}`);
    return 2;
  }
}
