import { type FSWatcher, globSync, realpathSync, statSync, watch } from 'node:fs';
import { dirname, join } from 'node:path';
import { systemErrorReason } from '../../process/log/error-text.ts';
import { count, findingText } from '../check/check-report.ts';
import { reportText } from '../forms/forms.ts';
import { findingsTable, markdownDocument } from '../forms/markdown.ts';
import { isQuietReport, type Report, type ReportedFinding, reportFlag, reportForm } from '../forms/report.ts';
import { readReplayRules } from '../replay/replay-command.ts';
import { rootFlag, rootsOf } from '../shared/contained-files.ts';
import { commandOf, type ParsedFlags, paintFor, printProblem, UsageError } from '../shared/flags.ts';
import { io } from '../shared/io.ts';
import { printedText } from '../shared/output.ts';
import { servedByFlags } from '../shared/read-input.ts';
import { mostRecorded, recordTests } from './record-tests.ts';
import { type CoveredRule, shownPath, type TestRun, TestRunner } from './run-tests.ts';
import { defaultStart } from './test-file.ts';

const help = `Usage: weir test [file or folder ...] [flags]
       weir test <rules> --record <requests.ndjson>

Runs tests of your rules. If an answer differs from the expected one, it shows what was decided instead, and why.
It decides with the limiter's own code and counts in memory. Time passes only as the tests say. Name test files, or
folders that contain *.test.yaml at any depth (default: the working folder). shop.test.yaml tests the rules in
shop.yaml beside it. If that file does not exist, it tests all rules of its folder, or those that \`rules\` names:

  domain: shop
  steps:
    - path=/a -> OK x2, OVER_LIMIT
    - after: 1m
    - path=/a, plan=free -> OK (1 left)

Time begins at ${defaultStart} unless \`at\` says otherwise. docs/test.md has all that tests can say.

  --min-coverage <percent>   status 1 where tests reach fewer of the rules that have a limit
  --record <file>            writes tests instead, from a recording as "weir replay" reads it (- is standard input):
                             they expect what the rules decide today. They go to standard output, and belong
                             into the folder of the rules
  --watch                    runs again when a file changes, until it is interrupted
  --class <name>             whose manifests to read, where there are several classes (of control planes)
  --fleet <name>             whose manifests to read, where there are several fleets
  --root <folder>            read no file from outside of this folder (default: the working folder, and the folders
                             that are named); repeat the flag for several
  -o, --output <form>        how to print the result: text (default), json, yaml, tap, junit, github (annotations
                             of a workflow's run), sarif or markdown
  -q, --quiet                say nothing but what makes the status 1 or 2

  weir test examples
  weir test examples/rules --min-coverage 80
  weir test examples/rules --record examples/replay/requests.ndjson

Exit status: 0 when all answers were as expected, 1 when one was not or too few rules are reached, 2 for a wrong
command line, no tests at all, or tests or rules that cannot be read.
`;

export const testCommand = commandOf(
  help,
  {
    'min-coverage': { type: 'string' },
    record: { type: 'string' },
    watch: { type: 'boolean' },
    class: { type: 'string' },
    fleet: { type: 'string' },
    ...rootFlag,
    ...reportFlag,
  },
  async (flags) => {
    const recording = flags.text('record');
    if (recording !== undefined) return record(recording, flags);
    const wanted = readWanted(flags);
    return flags.on('watch') ? watched(wanted, flags) : print(runTests(wanted, flags), wanted);
  },
);

interface Wanted {
  paths: string[];
  roots: string[];
  form: ReturnType<typeof reportForm>;
  /** In percent. */
  minCoverage: number | undefined;
  isQuiet: boolean;
}

function readWanted(flags: ParsedFlags): Wanted {
  const paths = flags.positionals.length > 0 ? flags.positionals.map(shownPath) : ['.'];
  const given = flags.text('min-coverage');
  const minCoverage = given === undefined ? undefined : Number(given.replace(/%$/, ''));
  if (minCoverage !== undefined && !(given !== '' && minCoverage >= 0 && minCoverage <= 100))
    throw new UsageError(`--min-coverage is a percentage from 0 to 100, not "${given}"`);
  for (const path of paths) folderOf(path);
  const roots = rootsOf(flags);
  return {
    paths,
    roots: roots.length > 0 ? roots : ['.', ...paths.map(folderOf)].map((path) => realpathSync(path)),
    form: reportForm(flags),
    minCoverage,
    isQuiet: isQuietReport(flags),
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

/** Files of a folder and below, those of packages and hidden ones aside. */
function filesBelow(folder: string, pattern: string): string[] {
  const found = globSync(`**/${pattern}`, {
    cwd: folder,
    exclude: (name) => name === 'node_modules' || (name.startsWith('.') && name.length > 1),
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

function print(run: TestRun, wanted: Wanted): number {
  const { form, isQuiet, minCoverage } = wanted;
  const failures = run.outcomes.flatMap(({ failures }) => failures);
  const { percent, missed } = coverageOf(run.coverage);
  const isLow = minCoverage !== undefined && percent < minCoverage;
  const isUnreadable = failures.some(({ code }) => code === 'unreadable' || code === 'invalid-test');
  const status = isUnreadable ? 2 : failures.length > 0 || isLow ? 1 : 0;
  if (form === 'text') io().stdout.write(resultText(run, wanted, isLow));
  else if (form === 'json' || form === 'yaml')
    io().stdout.write(printedText(resultJson(run, status), form, () => ''));
  else {
    const low: ReportedFinding[] = isLow
      ? [unplaced('low-coverage', 'error', wanted.paths[0]!, coverageText(run.coverage))]
      : [];
    const unreached = missed.map(({ rule, file, line }) => {
      return { ...unplaced('unreached-rule', 'note', file, `no test reaches ${rule}`), line, column: 1 };
    });
    const report: Report = {
      command: 'test',
      findings: [...failures, ...low, ...unreached],
      files: [],
      cases: [
        ...run.outcomes.map((one) => ({ ...one, findings: one.failures })),
        ...(isLow ? [{ name: 'coverage', file: wanted.paths[0]!, line: undefined, findings: low }] : []),
      ],
      exitStatus: status,
      isQuiet,
      markdown: () =>
        markdownDocument({
          marker: 'weir test',
          title: `Tests of rate limits: ${summaryText(run)}`,
          parts: [...failures, ...low].length === 0 ? [] : [{ table: findingsTable([...failures, ...low]) }],
        }),
    };
    io().stdout.write(reportText(report, form, io().cwd()));
  }
  return status;
}

function unplaced(
  code: string,
  severity: ReportedFinding['severity'],
  file: string,
  message: string,
): ReportedFinding {
  return { severity, code, file, line: undefined, column: undefined, message };
}

function resultText(run: TestRun, { isQuiet, minCoverage }: Wanted, isLow: boolean): string {
  const paint = paintFor(io().stdout);
  const failed = run.outcomes.flatMap(({ failures }) =>
    failures.map((one) => findingText(one, paint) + one.explanation.replace(/^(?=.)/gm, '  ')),
  );
  const low = isLow ? [`${paint('red', 'failed:')} fewer than --min-coverage ${minCoverage}\n`] : [];
  if (isQuiet) return [...failed, ...low].join('');
  const { missed } = coverageOf(run.coverage);
  const unreached = missed
    .slice(0, 20)
    .map(
      ({ rule, file, line }) => `  not reached: ${rule} (${line === undefined ? file : `${file}:${line}`})\n`,
    );
  const more = missed.length > 20 ? [`  and ${missed.length - 20} more; --output json has all\n`] : [];
  const end = failed.length === 0 ? paint('green', 'ok') : paint('red', 'failed');
  const coverage = `${coverageText(run.coverage)}\n`;
  return [...failed, `${end}: ${summaryText(run)}\n`, coverage, ...unreached, ...more, ...low].join('');
}

function summaryText({ outcomes }: TestRun): string {
  const failed = outcomes.filter(({ failures }) => failures.length > 0).length;
  const answers = outcomes.reduce((sum, one) => sum + one.answers, 0);
  const files = new Set(outcomes.map(({ file }) => file)).size;
  const passed = `${failed === 0 ? '' : `${failed} of `}${count(outcomes.length, 'test')}`;
  return `${passed}${failed === 0 ? '' : ' failed'}, ${count(answers, 'answer')}, ${count(files, 'file')}`;
}

function coverageOf(coverage: readonly CoveredRule[]): {
  percent: number;
  reached: number;
  missed: CoveredRule[];
} {
  const missed = coverage.filter(({ isReached }) => !isReached);
  const reached = coverage.length - missed.length;
  return { percent: coverage.length === 0 ? 100 : (100 * reached) / coverage.length, reached, missed };
}

function coverageText(coverage: readonly CoveredRule[]): string {
  const { percent, reached } = coverageOf(coverage);
  return `coverage: tests reach ${reached} of ${count(coverage.length, 'rule')} (${Math.floor(percent)}%)`;
}

function resultJson({ outcomes, coverage }: TestRun, exitStatus: number): object {
  const { percent, reached, missed } = coverageOf(coverage);
  return {
    exitStatus,
    tests: outcomes.map(({ failures, ...one }) => ({
      ...one,
      passed: failures.length === 0,
      failures: failures.map(({ code, line, column, message, explanation }) => {
        return { code, line, column, message, explanation };
      }),
    })),
    coverage: {
      rules: coverage.length,
      reached,
      percent,
      missed: missed.map(({ rule, file, line }) => ({ rule, file, line })),
    },
  };
}

/** Resolves with the status of the last run, when the process is interrupted. */
async function watched(wanted: Wanted, flags: ParsedFlags): Promise<number> {
  const { promise, resolve } = Promise.withResolvers<void>();
  io().once('SIGINT', resolve);
  io().once('SIGTERM', resolve);
  const watchers = new Map<string, FSWatcher>();
  let [status, due] = [0, setTimeout(() => {}, 0)];
  const run = (): void => {
    try {
      const result = runTests(wanted, flags);
      follow(result.read);
      status = print(result, wanted);
    } catch (error) {
      if (!(error instanceof UsageError)) throw error;
      printProblem(error.message);
      status = 2;
    }
  };
  const follow = (paths: Iterable<string>): void => {
    for (const folder of Array.from(paths, folderOf)) {
      if (watchers.has(folder)) continue;
      const watcher = watch(folder, { recursive: true }, () => {
        clearTimeout(due);
        due = setTimeout(run, 50);
      });
      watchers.set(folder, watcher);
    }
  };
  follow(wanted.paths);
  run();
  await promise;
  clearTimeout(due);
  for (const watcher of watchers.values()) watcher.close();
  return status;
}

async function record(recording: string, flags: ParsedFlags): Promise<number> {
  const [place, stray] = flags.positionals;
  if (place === undefined || stray !== undefined) throw new UsageError('--record needs one set of rules');
  const rules = readReplayRules(place, {
    mergeDomains: false,
    chosen: servedByFlags(flags),
    roots: rootsOf(flags),
  });
  if (rules === undefined) return 2;
  try {
    const { text, requests, leftOut } = await recordTests(recording, () => io().stdin, { rules, place });
    const reasons = Map.groupBy(leftOut, ({ reason }) => reason);
    for (const [reason, lines] of reasons)
      printProblem(
        `${recording}:${lines[0]!.line}: ${reason}; left out, ${count(lines.length, 'line')} like it`,
      );
    if (requests === mostRecorded) printProblem(`${recording}: only its first ${mostRecorded} requests`);
    if (requests === 0) printProblem(`${recording}: holds no request for these rules`);
    else io().stdout.write(text);
    return requests === 0 ? 2 : 0;
  } catch (error) {
    printProblem(`${recording}: ${systemErrorReason(error)}`);
    return 2;
  }
}
