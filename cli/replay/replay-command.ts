import { type LimiterSettings, parseLimiterSettings } from '../../limiter/settings/settings.ts';
import { systemErrorReason } from '../../process/log/error-text.ts';
import { TooManyBadLines } from '../../replay/recorded-request.ts';
import { Replay, rulesCountedAs } from '../../replay/replay.ts';
import { type ReplayReport, reportOf } from '../../replay/replay-report.ts';
import { type Algorithm, algorithmNames, defaultAlgorithm } from '../../rules/algorithms/registry.ts';
import type { RuleSource } from '../../rules/model.ts';
import { orWords } from '../../rules/rule-error.ts';
import type { SourceCheckOptions } from '../../rules/validate-sources.ts';
import { Containment, rootsOf } from '../shared/contained-files.ts';
import {
  choiceOf,
  type ParsedFlags,
  printProblem,
  rejectIdle,
  UsageError,
  wholeNumber,
} from '../shared/flags.ts';
import { io } from '../shared/io.ts';
import { parseSettingFlags } from '../shared/limiter-setting.ts';
import {
  printInputErrors,
  printLoadConflicts,
  readInput,
  type ServedBy,
  servedByFlags,
  sourcesServedBy,
} from '../shared/read-input.ts';
import { reportCommand } from '../shared/report.ts';
import { Progress } from './progress.ts';
import { type OpenedRecording, openRecording } from './recording-lines.ts';
import { reportText } from './report-text.ts';

interface ReadOptions extends SourceCheckOptions {
  chosen: ServedBy;
  /** The folders of `--root`, resolved. */
  roots: readonly string[];
  /** The algorithm that counts fixed windows. */
  as?: Algorithm | undefined;
}

/**
 * Reads the rules of one class and fleet, which a limiter could load together. Returns undefined if they cannot be loaded; the reasons
 * are then on standard error. @throws UsageError
 */
export function readReplayRules(path: string, options: ReadOptions): RuleSource[] | undefined {
  const input = readInput(path, options);
  if (printInputErrors(input)) return undefined;
  const sources = sourcesServedBy(input.sources, options.chosen);
  if (sources.length === 0 && input.sources.length > 0) {
    const { className, fleet } = options.chosen;
    const names = [className && `the class "${className}"`, fleet && `the fleet "${fleet}"`];
    throw new UsageError(`${path} has no rules of ${names.filter(Boolean).join(' and ')}`);
  }
  const counted = sources.map((loaded) => ({ ...loaded, source: countedAs(loaded.source, options) }));
  return printLoadConflicts(counted, options) ? undefined : counted.map(({ source }) => source);
}

function countedAs(source: RuleSource, { as, support }: ReadOptions): RuleSource {
  if (as === undefined) return source;
  const calendarMonths = support?.calendarMonths === true;
  return { ...source, descriptors: rulesCountedAs(source.descriptors, as, { calendarMonths }) };
}

/** Settings of a limiter that change its answers, given by flags. A replay reads no environment. */
export const replaySettingNames = [
  'NEAR_LIMIT_RATIO',
  'USE_CALENDAR_MONTH_RATE_LIMIT',
  'STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT',
  'SHADOW_MODE',
  'QUOTA_MODE',
  'COUNTER_KEYS',
  'MERGE_DOMAIN_CONFIG',
  'MEMORY_STORE_MAX_COUNTERS',
  'MEMORY_STORE_MAX_BYTES',
] as const;

/** Reads settings, each as `NAME=VALUE`. */
export function readReplaySettings(
  given: readonly string[],
  names: readonly string[] = replaySettingNames,
): LimiterSettings {
  return parseSettingFlags(given, names, (env) =>
    parseLimiterSettings({ BACKEND_TYPE: 'memory', DISABLE_STATS: 'true', ...env }),
  ).settings;
}

/** Returns how such a limiter checks rules when it loads them. */
export function checkOptions(settings: LimiterSettings): SourceCheckOptions {
  const calendarMonths = settings.useCalendarMonthRateLimit;
  return {
    mergeDomains: settings.mergeDomainConfig,
    support: { admission: undefined, groups: undefined, calendarMonths },
  };
}

/** A bound on the number of requests: a number, or a percentage of all. */
export interface RequestCountBound {
  /** The bound as given. */
  text: string;
  isExceeded(requests: number, total: number): boolean;
}

/** Reads `0`, `120` or `0.5%`. Returns undefined without the flag. */
export function readRequestBound(flag: string, text: string | undefined): RequestCountBound | undefined {
  if (text === undefined) return undefined;
  const match = /^(\d+)$|^(\d+(?:\.\d+)?)%$/.exec(text);
  if (match === null)
    throw new UsageError(`${flag} is a number of requests or a percentage such as 0.5%, not "${text}"`);
  const [, number, percent] = match;
  if (number !== undefined) return { text, isExceeded: (requests) => requests > Number(number) };
  return { text, isExceeded: (requests, total) => requests * 100 > total * Number(percent) };
}

/** The algorithms of `--as`. */
const otherAlgorithms = algorithmNames.filter((_, number) => number !== defaultAlgorithm);

const help = `Usage: weir replay <rules> --from <requests.ndjson> [--against <rules>] [flags]

Replays recorded requests against rules, as a limiter that counts in memory would decide them. Reports which requests would have been limited: by which rule, who and when. Time follows the recording. <rules> are the same as for "weir check". docs/replay.md describes how to get a recording from Envoy's access log. Each line is a request:

  {"time":"2026-11-20T09:00:00Z","domain":"shop","descriptors":[[["remote_address","203.0.113.7"]]]}

  --from <file>              the recording, one request per line. A .gz file is unpacked, and - is standard input
  --against <rules>          also replay it against these rules, and report the difference
  --as <algorithm>           count fixed windows with another algorithm, ${orWords(otherAlgorithms)}, and report the
                             difference to the rules as they are written, or to --against
  --class <name>             the class of the manifests to read, if there are several (one per control plane)
  --fleet <name>             the fleet of the manifests to read, if there are several
  -o, --output <form>        how to print the report: table (default), json or yaml
  --top <n>                  the number of most limited counters to list (default 10)
  --setting <NAME=VALUE>     a setting of the limiter. Repeat the flag for several. Settings: ${replaySettingNames.join(', ')}
  --merge-domain-configs     the same as --setting MERGE_DOMAIN_CONFIG=true
  --root <folder>            do not read files outside this folder (default: the folder of each file that you name). Repeat the flag for several. Links that point outside a folder of rules are never followed
  --max-limited <n>          exit with status 1 if more requests are limited than this number or percentage (0.5%)
  --max-newly-limited <n>    the same for requests that --against did not limit
  --max-errors <n>           stop after this many lines that cannot be replayed (default 100)
  --sort-window <n>          how many lines late a request may be and still be put in order (default 10000)

Exit status: 0 when the recording was replayed. 1 when more requests were limited than allowed. 2 for a wrong command line, or when the rules or the recording cannot be used.
`;

interface Wanted {
  rules: string;
  against: string | undefined;
  as: Algorithm | undefined;
  from: string;
  top: number;
  maxErrors: number;
  sortWindow: number;
  maxLimited: RequestCountBound | undefined;
  maxNewlyLimited: RequestCountBound | undefined;
}

export const replayCommand = reportCommand(help, async (flags) => {
  const wanted = readWanted(flags);
  const merging = flags.on('merge-domain-configs') ? ['MERGE_DOMAIN_CONFIG=true'] : [];
  const settings = readReplaySettings([...flags.list('setting'), ...merging]);
  const options = { ...checkOptions(settings), chosen: servedByFlags(flags), roots: rootsOf(flags) };
  const rules = readReplayRules(wanted.rules, { ...options, as: wanted.as });
  const against = wanted.against === undefined ? [] : readReplayRules(wanted.against, options);
  if (rules === undefined || against === undefined) return 2;
  const report = await replayed({
    ...wanted,
    rules,
    against: wanted.against === undefined ? undefined : against,
    settings,
    roots: options.roots,
  });
  if (report === undefined) return 2;
  const status = isWithinBounds(report, wanted) ? 0 : 1;
  return { status, value: report, text: () => reportText(report) };
});

/** A replay with two sets of rules. */
interface Replayed {
  rules: RuleSource[];
  against: RuleSource[] | undefined;
  settings: LimiterSettings;
  from: string;
  /** The folders of `--root`, resolved. */
  roots: readonly string[];
  top?: number;
  maxErrors?: number;
  sortWindow?: number;
}

/** Resolves to undefined if the replay could not finish. The reason is then on standard error. */
export async function replayed(options: Replayed): Promise<ReplayReport | undefined> {
  const { rules, against, settings, from, roots } = options;
  const problem = recordingProblem(from, roots);
  if (problem !== undefined) {
    printProblem(`${from}: ${problem}`);
    return undefined;
  }
  const { top = 10, maxErrors = 100, sortWindow = 10_000 } = options;
  const replay = new Replay({ rules, against, settings, sortWindow, maxBadLines: maxErrors });
  return (await replayFile(from, replay)) ? reportOf(replay, top) : undefined;
}

/** A recording often comes from an earlier step of a job and is not beside the rules, so the folder in its name counts as a root. */
function recordingProblem(path: string, roots: readonly string[]): string | undefined {
  if (new Containment(path, []).problem() === undefined) return undefined;
  return new Containment(path, roots).problem();
}

function readWanted(flags: ParsedFlags): Wanted {
  const [rules, ...stray] = flags.positionals;
  const from = flags.text('from');
  const other = choiceOf(flags, 'as', otherAlgorithms);
  const as = other === undefined ? undefined : (algorithmNames.indexOf(other) as Algorithm);
  // With `--as`, the rules are replayed as written, too.
  const against = flags.text('against') ?? (as === undefined ? undefined : rules);
  if (rules === undefined || from === undefined) throw new UsageError('replay needs rules and --from <file>');
  if (stray.length > 0)
    throw new UsageError(
      `replay takes one set of rules, and a second one with --against, found another one: "${stray[0]}"`,
    );
  if ([rules, against, from].filter((path) => path === '-').length > 1) {
    throw new UsageError(
      as === undefined || flags.text('against') !== undefined
        ? 'only one of them can be "-", standard input'
        : '--as reads the rules twice: without --against they cannot be "-", standard input',
    );
  }
  if (against === undefined) rejectIdle(flags, ['max-newly-limited'], 'without --against or --as');
  return {
    rules,
    against,
    as,
    from,
    top: wholeNumber(flags, 'top', { default: 10, min: 0, max: 100_000 }),
    maxErrors: wholeNumber(flags, 'max-errors', { default: 100, min: 0, max: Number.MAX_SAFE_INTEGER }),
    sortWindow: wholeNumber(flags, 'sort-window', { default: 10_000, min: 0, max: 1_000_000 }),
    maxLimited: readRequestBound('--max-limited', flags.text('max-limited')),
    maxNewlyLimited: readRequestBound('--max-newly-limited', flags.text('max-newly-limited')),
  };
}

/** Returns false if the replay could not finish. The reason is then on standard error. */
async function replayFile(path: string, replay: Replay): Promise<boolean> {
  const name = path === '-' ? '<stdin>' : path;
  let recording: OpenedRecording;
  try {
    recording = openRecording(path, () => io().stdin);
  } catch (error) {
    printProblem(`${name}: ${systemErrorReason(error)}`);
    return false;
  }
  const progress = new Progress({
    output: io().stderr,
    nowMs: () => performance.now(),
    totalBytes: recording.bytes,
  });
  let problem: string | undefined;
  try {
    await recording.lines((text, line) => {
      replay.addLine(text, line);
      if (line % 1024 === 0) progress.update(replay.requests.count, recording.bytesRead());
    });
    replay.finish();
    if (replay.requests.count === 0) problem = 'contains no request';
  } catch (error) {
    problem = error instanceof TooManyBadLines ? error.message : systemErrorReason(error);
  }
  progress.finish(replay.requests.count);
  printBadLines(name, replay);
  if (problem !== undefined) printProblem(`${name}: ${problem}`);
  return problem === undefined;
}

function printBadLines(name: string, { badLines }: Replay): void {
  for (const { line, reason } of badLines.first) printProblem(`${name}:${line}: ${reason}`);
  const more = badLines.count - badLines.first.length;
  if (more > 0) io().stderr.write(`... and ${more} more lines that could not be replayed\n`);
}

function isWithinBounds({ requests, rules, difference }: ReplayReport, wanted: Wanted): boolean {
  const bounds = [
    { flag: '--max-limited', words: 'limited', bound: wanted.maxLimited, count: rules.limited.requests },
    {
      flag: '--max-newly-limited',
      words: 'newly limited',
      bound: wanted.maxNewlyLimited,
      count: difference?.newlyLimited.limited.requests ?? 0,
    },
  ];
  const broken = bounds.filter(({ bound, count }) => bound?.isExceeded(count, requests) === true);
  for (const { flag, words, bound, count } of broken) {
    printProblem(`${count} of ${requests} requests ${words}, more than ${flag} ${bound?.text}`);
  }
  return broken.length === 0;
}
