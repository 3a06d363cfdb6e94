import { setTimeout as sleep } from 'node:timers/promises';
import { parseGoDuration } from '../../process/settings/go-values.ts';
import { commandOf, type ParsedFlags, UsageError } from '../shared/flags.ts';
import { io } from '../shared/io.ts';
import {
  durationText,
  type OutputFormat,
  outputFlag,
  outputFormat,
  printedText,
  type Row,
  rateText,
  table,
} from '../shared/output.ts';
import { type Json, limiterFlags, limiterHelp, type Member, type Silent } from './limiters.ts';
import { withLimiters } from './operate-command.ts';

export const watchFlags = { watch: { type: 'boolean', short: 'w' }, interval: { type: 'string' } } as const;

export const watchHelp = `  -w, --watch                 look again and again, until Ctrl-C
  --interval <t>              between two looks (default 2s)
`;

const help = `Usage: weir status [flags]

Asks every limiter at once how it is: replicas, the version of the rules on each, the store and its breaker, decisions and hits
over limit a second, and the 99th percentile of the time that a decision takes. Says who did not answer.

${limiterHelp}${watchHelp}  -o, --output <form>         how to print the result: table (default), json or yaml

  weir status --limiter limiter.example.com        # every address of the name
  weir status -n weir-system -o json | jq .ok
  weir status --limiter 10.0.0.1 --limiter 10.0.0.2:6071 --watch

Exit status: 0 when all is well; 1 when a limiter is silent, refuses to answer or is not ready, its store is away, its last load
of rules failed, or rules differ between limiters; 2 for a wrong command line, or a cluster that cannot be asked.
`;

export const statusCommand = commandOf(
  help,
  { ...outputFlag, ...watchFlags, ...limiterFlags },
  async (flags) => {
    const [stray] = flags.positionals;
    if (stray !== undefined) throw new UsageError(`status takes flags only, "${stray}" is none`);
    const format = outputFormat(flags);
    return watched(
      flags,
      async () => {
        const found = await withLimiters(flags, (limiters) => limiters.members());
        const report = statusReport(found.members, found.silent);
        return { status: report.ok ? 0 : 1, text: printedText(report, format, () => statusText(report)) };
      },
      format,
    );
  },
);

/** Prints once, or with --watch until a signal comes; the status is that of the last look. */
export async function watched(
  flags: ParsedFlags,
  look: () => Promise<{ status: number; text: string }>,
  format: OutputFormat,
): Promise<number> {
  const intervalMs = parseGoDuration(flags.text('interval') ?? '2s');
  if (intervalMs === undefined || intervalMs < 100 || intervalMs > 3_600_000)
    throw new UsageError(`--interval is a duration from 100ms to 1h, not "${flags.text('interval')}"`);
  if (!flags.on('watch') && flags.text('interval') !== undefined)
    throw new UsageError('--interval has no effect without --watch');
  const ended = new AbortController();
  for (const signal of ['SIGINT', 'SIGTERM'] as const) io().once(signal, () => ended.abort());
  for (let round = 0; ; round++) {
    const { status, text } = await look();
    const between = io().stdout.isTTY
      ? '\u001b[H\u001b[2J'
      : format === 'yaml'
        ? '---\n'
        : round === 0
          ? ''
          : '\n';
    io().stdout.write(flags.on('watch') ? between + text : text);
    if (!flags.on('watch') || ended.signal.aborted) return status;
    await sleep(intervalMs, undefined, { signal: ended.signal }).catch(() => undefined);
    if (ended.signal.aborted) return status;
  }
}

export interface StatusReport {
  ok: boolean;
  /** What is not of one limiter alone. */
  problems: string[];
  totals: { limiters: number; answered: number; decisions: number; limited: number; p99Ms: number | null };
  /** As each answered, with its address and what is wrong with it. */
  limiters: Json[];
}

export function statusReport(members: readonly Member[], silent: readonly Silent[]): StatusReport {
  const answered = members.map(({ limiter, state }) => {
    return { address: limiter.address, answered: true, problems: problemsOf(state), ...state };
  });
  const lost = silent.map(({ address, problem, refused }) => {
    return { address, answered: false, ...(refused && { refused }), problems: [problem] };
  });
  const versions = new Set(members.map(({ state }) => state.rules?.version));
  const problems = versions.size > 1 ? [`limiters have ${versions.size} versions of the rules`] : [];
  const sum = (pick: (rates: Json) => number | undefined) =>
    members.reduce((total, { state }) => total + (pick(state.rates ?? {}) ?? 0), 0);
  const slowest = members.flatMap(({ state }) => state.rates?.p99Ms ?? []);
  return {
    ok: problems.length === 0 && lost.length === 0 && answered.every((one) => one.problems.length === 0),
    problems,
    totals: {
      limiters: members.length + silent.length,
      answered: members.length,
      decisions: sum(({ decisions }) => decisions),
      limited: sum(limitedOf),
      p99Ms: slowest.length === 0 ? null : Math.max(...slowest),
    },
    limiters: [...answered, ...lost],
  };
}

function problemsOf({ ready, failing = [], rules = {}, store = {} }: Json): string[] {
  const words: string[] = [];
  if (ready === false) words.push(`not ready${failing.length > 0 ? `: ${failing.join(', ')}` : ''}`);
  if (rules.lastLoadFailed === true)
    words.push(`the last load of rules failed: ${loadErrorText(rules.lastError)}`);
  if (store.breaker === 'open')
    words.push(
      `the breaker is open${store.openSince ? ` since ${store.openSince}` : ''}: the store is not asked`,
    );
  else if (store.connected === false) words.push(`${store.type} is not connected`);
  return words;
}

/** Limiters of before have no error here, nor has one for a caller of some domains alone. */
function loadErrorText(error: Json): string {
  if (!error) return 'its log says why';
  const { source, line, column, text } = error;
  return `${[source, line, column].filter((part) => part !== null).join(':')}: ${text}`;
}

/** Hits of requests that were refused. Limiters of before tell of hits beyond limits alone. */
function limitedOf({ limited, overLimit }: Json): number | undefined {
  return limited ?? overLimit;
}

export function statusText(report: StatusReport): string {
  const rows = report.limiters.map((one): Row => {
    const { address, limiter = {}, rules = {}, store = {}, rates = {}, startedAt = limiter.startedAt } = one;
    const upSeconds = (Date.now() - Date.parse(startedAt ?? '')) / 1000;
    return {
      LIMITER: limiter.name,
      ADDRESS: address,
      STATE: stateOf(one),
      VERSION: limiter.version,
      UP: Number.isNaN(upSeconds) ? undefined : durationText(upSeconds),
      RULES: shortVersion(rules.version),
      OVERRIDES: rules.overrides,
      STORE: store.type,
      BREAKER: store.breaker,
      'DECISIONS/S': rates.decisions === undefined ? undefined : rateText(rates.decisions),
      'LIMITED/S': limitedOf(rates) === undefined ? undefined : rateText(limitedOf(rates)!),
      P99: millisecondsText(rates.p99Ms),
    };
  });
  const { limiters, answered, decisions, limited, p99Ms } = report.totals;
  const wrong = report.limiters.flatMap(({ address, limiter, problems }) =>
    problems.map((problem: string) => ({ LIMITER: limiter?.name ?? address, PROBLEM: problem })),
  );
  const all = [...wrong, ...report.problems.map((problem) => ({ LIMITER: 'all', PROBLEM: problem }))];
  const rates = `${rateText(decisions)} decisions/s, ${rateText(limited)} limited/s`;
  const slowest = p99Ms === null ? '' : `, p99 ${millisecondsText(p99Ms)} at most`;
  const sum = `${answered} of ${limiters} limiters answered; ${rates}${slowest}\n`;
  return [table(rows), ...(all.length > 0 ? [table(all)] : []), sum].join('\n');
}

function stateOf({ answered, refused, problems }: Json): string {
  if (answered) return problems.length === 0 ? 'ok' : 'not well';
  return refused ? 'refused' : 'silent';
}

function millisecondsText(ms: unknown): string | undefined {
  return typeof ms === 'number' ? `${Number(ms.toPrecision(3))} ms` : undefined;
}

/** A hash in the length that Git shows. */
function shortVersion(version: unknown): string {
  const text = String(version ?? '');
  return /^[0-9a-f]{13,}$/.test(text) ? text.slice(0, 12) : text;
}
