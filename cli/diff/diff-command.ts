import type { ReplayReport } from '../../replay/replay-report.ts';
import { defaultClass, defaultFleet } from '../../rules/language/kinds.ts';
import { findingForms, type ReportedFinding } from '../forms/report.ts';
import type { ExplainedError } from '../mistakes/mistakes.ts';
import { rootsOf } from '../shared/contained-files.ts';
import { type ParsedFlags, printProblem, rejectIdle, UsageError } from '../shared/flags.ts';
import { io } from '../shared/io.ts';
import { mergesDomains } from '../shared/limiter-setting.ts';
import {
  type AskingUrl,
  type InputOptions,
  isUrl,
  loadConflicts,
  plainErrors,
  printInputErrors,
  printLoadConflicts,
  type RuleInput,
  readInput,
  readUrl,
  type ServedBy,
  servedByFlags,
  sourcesServedBy,
} from '../shared/read-input.ts';
import type { LoadedSource } from '../shared/read-rule-texts.ts';
import { outputForm, reportCommand } from '../shared/report.ts';
import { count, escaped } from '../shared/text.ts';
import { compareSources } from './compare-domain.ts';
import { type Comparison, diffReport, effectOrder } from './diff-report.ts';
import type { RuleChange } from './limit-effect.ts';

/** Words of `--fail-on`: effects, and the two kinds of looser change that let every request pass. */
const failingWords = [...effectOrder, 'unlimited', 'shadow'] as const;

/**
 * Reads `--fail-on gone,unlimited`. `none` alone is an empty set. Returns undefined without the flag.
 * @throws UsageError
 */
export function failingEffects(values: readonly string[]): ReadonlySet<string> | undefined {
  if (values.length === 0) return undefined;
  const words = values.flatMap((value) => value.split(',')).map((word) => word.trim());
  if (words.length === 1 && words[0] === 'none') return new Set();
  for (const word of words) {
    if (failingWords.some((known) => known === word)) continue;
    throw new UsageError(
      `--fail-on: "${word}" is not an effect; it takes ${failingWords.join(', ')}, or none`,
    );
  }
  return new Set(words);
}

/** Returns the changes with one of these effects. */
export function failingChanges(
  changes: readonly RuleChange[],
  effects: ReadonlySet<string>,
): readonly RuleChange[] {
  return changes.filter((change) => wordsOf(change).some((word) => effects.has(word)));
}

/** Returns the words of `--fail-on` for a change, the most important first. */
function wordsOf({ effect, effects, passes }: RuleChange): string[] {
  return [...passes, effect, ...effects];
}

/** Returns for example `2 changes that --fail-on names: shop: remote_address (gone), ...`. */
export function failureText(changes: readonly RuleChange[], named: ReadonlySet<string>): string {
  const shown = changes.slice(0, 5).map((change) => {
    const word = wordsOf(change).find((one) => named.has(one));
    return `${change.domain}: ${change.rule.join(' > ')} (${word})`;
  });
  const more = changes.length > shown.length ? ', ...' : '';
  return `failed: ${count(changes.length, 'change')} that --fail-on names: ${shown.join(', ')}${more}`;
}

const help = `Usage: weir diff <old> <new> [flags]

Compares two sets of rules: which are added, removed, changed or moved, and what each change means for requests. Each may be a file, a folder, - for standard input, a pipe, or the debug listener of a running limiter (http://host:6070/rlconfig). You can compare a rule file with a manifest. An empty file, such as /dev/null, has no rules.

  --class <name>           compare only the manifests of this class (default: compare each class separately)
  --fleet <name>           compare only the manifests of this fleet
  --merge-domain-configs   allow several files for one domain, as MERGE_DOMAIN_CONFIG=true does
  --fail-on <effect>[,...] status 1 only for these effects; none: never
  --replay <file>          a recording as for "weir replay": also report which requests would be newly limited, and which no longer
  --setting <NAME=VALUE>   with --replay, a setting of the limiter, as for "weir replay". Repeat the flag for several
  --token-file <path>      a file with the token, for a limiter that requires one (default: the file that WEIR_TOKEN_FILE names)
  --timeout <t>            how long to wait for the answer of a limiter (default 5s)
  --root <folder>          do not read files outside this folder (default: the folder of each file that you name). Repeat the flag for several. Links that point outside a folder of rules are never followed
  -o, --output <form>      how to print the changes, on standard output: text (default), json, yaml, sarif, junit, tap, github
                           (annotations of a workflow's run) or markdown (a comment of a pull request)
  -q, --quiet              print only changes that --fail-on names; for text and github

  weir diff <(git show main:rules/shop.yaml) rules/shop.yaml
  weir diff http://localhost:6070/rlconfig rules/
  weir diff --fail-on gone,unlimited,shadow old/rules rules/
  weir diff --output markdown --replay requests.ndjson old/rules rules/

Effects: new (newly limited), stricter, mixed, looser, gone (no longer limited), same (at most other names). --fail-on accepts two more kinds of looser: unlimited, and shadow (now in shadow mode, which rejects no requests). Exit status: 0 without changes. 1 with changes, or with --fail-on, with changes that it names. 2 for a wrong command line, or rules that cannot be read.
`;

export const diffCommand = reportCommand(
  help,
  async (flags) => {
    const isText = outputForm(flags, findingForms) === 'text';
    const named = failingEffects(flags.list('fail-on'));
    const paths = pathsOf(flags);
    const options = {
      mergeDomains: flags.on('merge-domain-configs') || mergesDomains(flags.list('setting')),
      mayBeEmpty: true,
      roots: rootsOf(flags),
    };
    const read: Side[] = [];
    for (const path of paths) read.push(await readSide(path, isText, { options, flags }));
    const [before, after] = read.map(({ input }) => input?.sources ?? []) as [LoadedSource[], LoadedSource[]];
    const loads = loadsOf(before, after, servedByFlags(flags));
    const errors = read.flatMap((side) => side.errors);
    // One side may have no rules. Then every rule of the other side is new or gone.
    if (errors.length === 0) errors.push(...loads.flatMap((load) => clashesOfLoad(load, options)));
    const changes = errors.length === 0 ? loads.flatMap(changesOf) : [];
    const failing = named === undefined ? [] : failingChanges(changes, named);
    const failure = failing.length === 0 ? undefined : failureText(failing, named!);
    const from = flags.text('replay');
    const report =
      errors.length > 0 || from === undefined ? undefined : await replayOf(from, flags, before, after);
    if (errors.length === 0 && from !== undefined && report === undefined)
      errors.push({ severity: 'error', code: 'unreadable', file: from, message: 'cannot be replayed' });
    const isDifferent = (named === undefined ? changes : failing).length > 0;
    const exitStatus = errors.length > 0 ? 2 : isDifferent ? 1 : 0;
    const replay = report === undefined ? undefined : { from: from!, report };
    const files = read.flatMap(({ input }) => input?.texts.map(({ path }) => path) ?? []);
    const found: Comparison = { changes, failing, failure, before, after, files, replay, errors };
    if (failure !== undefined) io().stderr.write(`${escaped(failure)}\n`);
    return diffReport(found, exitStatus, flags.on('quiet'));
  },
  { forms: findingForms },
);

/** @throws UsageError */
function pathsOf(flags: ParsedFlags): [string, string] {
  const [oldPath, newPath, stray] = flags.positionals;
  if (oldPath === undefined || newPath === undefined || stray !== undefined)
    throw new UsageError(`diff takes two sets of rules, not ${flags.positionals.length}`);
  const replay = flags.text('replay');
  if ([oldPath, newPath, replay].filter((path) => path === '-').length > 1)
    throw new UsageError(`only one of the ${replay === undefined ? 'two' : 'three'} can be standard input`);
  if (replay === undefined) rejectIdle(flags, ['setting'], 'without --replay');
  if (![oldPath, newPath].some(isUrl)) rejectIdle(flags, ['token-file', 'timeout'], 'without a limiter');
  return [oldPath, newPath];
}

interface Side {
  /** Undefined if the limiter does not answer. */
  input: RuleInput | undefined;
  errors: ReportedFinding[];
}

/** Loads the code for limiters only if there is one. */
async function asking(flags: ParsedFlags): Promise<AskingUrl> {
  const { askingOf } = await import('../operate/limiters.ts');
  return askingOf(flags);
}

/** Reads one side. Its errors are also printed on standard error. A limiter that does not answer is reported in the requested format. */
async function readSide(
  path: string,
  isText: boolean,
  { options, flags }: { options: InputOptions; flags: ParsedFlags },
): Promise<Side> {
  try {
    const input = isUrl(path) ? await readUrl(path, await asking(flags)) : readInput(path, options);
    if (input.errorCount > 0) printInputErrors(input);
    return { input, errors: plainErrors(input).map(findingOf) };
  } catch (error) {
    if (!(error instanceof UsageError) || isText) throw error;
    printProblem(error.message);
    const { origin, pathname } = URL.parse(path) ?? { origin: path, pathname: '' };
    const file = `${origin}${pathname}`;
    const { message } = error;
    return { input: undefined, errors: [{ severity: 'error', code: 'unreadable', file, message }] };
  }
}

function findingOf({
  code,
  source: file,
  line,
  column,
  length,
  text,
  hint,
}: ExplainedError): ReportedFinding {
  return { severity: 'error', code, file, line, column, length, message: text, hint };
}

function clashesOfLoad({ before, after }: ComparedLoad, options: InputOptions): ReportedFinding[] {
  const side = [before, after].find((sources) => printLoadConflicts(sources, options));
  return side === undefined ? [] : loadConflicts(side, options).map(findingOf);
}

/** Replays the recording with the new rules and compares them with the old ones. The replay is loaded only for this. */
async function replayOf(
  from: string,
  flags: ParsedFlags,
  before: readonly LoadedSource[],
  after: readonly LoadedSource[],
): Promise<ReplayReport | undefined> {
  const { readReplaySettings, replayed } = await import('../replay/replay-command.ts');
  const merging = flags.on('merge-domain-configs') ? ['MERGE_DOMAIN_CONFIG=true'] : [];
  const settings = readReplaySettings([...flags.list('setting'), ...merging]);
  const [against, rules] = [before, after].map((sources) =>
    sourcesServedBy(sources, servedByFlags(flags)).map(({ source }) => source),
  );
  return replayed({ rules: rules!, against: against!, settings, from, roots: rootsOf(flags) });
}

/** The rules that limiters of one fleet and class load, before and after. */
interface ComparedLoad {
  /** Undefined if there is only one class. */
  className: string | undefined;
  fleet: string;
  before: LoadedSource[];
  after: LoadedSource[];
}

/** Without a class, a source belongs to the only one, or else to the default. Without a fleet, it belongs to the default fleet. */
function loadsOf(
  before: readonly LoadedSource[],
  after: readonly LoadedSource[],
  { className: chosen, fleet: chosenFleet }: ServedBy,
): ComparedLoad[] {
  const classes = new Set([...before, ...after].flatMap((one) => chosen ?? one.className ?? []));
  const [only = defaultClass] = classes.size === 1 ? classes : [];
  const loads = new Map<string, ComparedLoad>();
  for (const side of ['before', 'after'] as const) {
    for (const source of side === 'before' ? before : after) {
      const { className = only, fleet = defaultFleet } = source;
      if (chosen !== undefined && className !== chosen) continue;
      if (chosenFleet !== undefined && (source.fleet ?? chosenFleet) !== chosenFleet) continue;
      const key = `${className} ${fleet}`;
      const fresh = { className: classes.size > 1 ? className : undefined, fleet, before: [], after: [] };
      const load = loads.get(key) ?? fresh;
      loads.set(key, load);
      load[side].push(source);
    }
  }
  return [...loads.values()];
}

function changesOf({ className, fleet, before, after }: ComparedLoad): RuleChange[] {
  const [was, is] = [before, after].map((sources) => sources.map(({ source }) => source));
  const changes = compareSources(was!, is!, fleet);
  return className === undefined ? changes : changes.map((change) => ({ className, ...change }));
}
