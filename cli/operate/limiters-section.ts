/** The limiters part of a status report: the state that each limiter reports, and its problems. */
import { durationText, escaped, type Row, rateText, table } from '../shared/text.ts';
import type { FoundLimiters, Json } from './limiters.ts';

export interface LimitersReport {
  ok: boolean;
  /** Problems that are not those of a single limiter. */
  problems: string[];
  totals: { limiters: number; answered: number; decisions: number; limited: number; p99Ms: number | null };
  /** The answer of each limiter, with its address and its problems. */
  limiters: Json[];
}

export function limitersReport({
  members,
  silent,
}: Pick<FoundLimiters, 'members' | 'silent'>): LimitersReport {
  const answered = members.map(({ limiter, state }) => {
    return { address: limiter.address, answered: true, problems: problemsOf(state), ...state };
  });
  const lost = silent.map(({ address, problem, refused }) => {
    return { address, answered: false, ...(refused && { refused }), problems: [problem] };
  });
  const problems = Array.from(Map.groupBy(members, ({ limiter }) => limiter.fleet)).flatMap(([fleet, of]) => {
    const versions = new Set(of.map(({ state }) => state.rules?.version));
    const whose = fleet === undefined ? 'limiters' : `limiters of fleet ${fleet}`;
    return versions.size > 1 ? [`${whose} have ${versions.size} versions of the rules`] : [];
  });
  const sum = (pick: (rates: Json) => number | undefined) =>
    members.reduce((total, { state }) => total + (pick(state.rates ?? {}) ?? 0), 0);
  const slowest = members.flatMap(({ state }) => slowestOf(state.rates ?? {}) ?? []);
  return {
    ok: problems.length === 0 && lost.length === 0 && answered.every((one) => one.problems.length === 0),
    problems,
    totals: {
      limiters: members.length + silent.length,
      answered: members.length,
      decisions: sum(({ decisions }) => decisions),
      limited: sum(({ limited }) => limited),
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
      `the circuit breaker ${store.openSince ? `has been open since ${store.openSince}` : 'is open'}; the limiter does not call the store`,
    );
  else if (store.connected === false) words.push(`${store.type} is not connected`);
  return words;
}

/** A limiter sends no error to callers with rights for some domains only. */
function loadErrorText(error: Json): string {
  if (!error) return 'its log says why';
  const { source, line, column, text } = error;
  return `${[source, line, column].filter((part) => part !== null).join(':')}: ${text}`;
}

export function limitersText(report: LimitersReport): string {
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
      'LIMITED/S': rates.limited === undefined ? undefined : rateText(rates.limited),
      P99: millisecondsText(slowestOf(rates)),
    };
  });
  const { limiters, answered, decisions, limited, p99Ms } = report.totals;
  const wrong = report.limiters.flatMap(({ address, limiter, problems }) =>
    problems.map((problem: string) => ({ LIMITER: limiter?.name ?? address, PROBLEM: problem })),
  );
  const all = [...wrong, ...report.problems.map((problem) => ({ LIMITER: 'all', PROBLEM: problem }))];
  const rates = `${rateText(decisions)} decisions/s, ${rateText(limited)} limited/s`;
  const slowest = p99Ms === null ? '' : `, p99 ${millisecondsText(p99Ms)} at most`;
  const sum = `${answered} of ${limiters} limiters answered; ${rates}${slowest}\n${filesText(report.limiters)}`;
  return [table(rows), ...(all.length > 0 ? [table(all)] : []), sum].join('\n');
}

/** Names limiters whose rules no control plane knows, because they are `ok` with any rules. */
function filesText(limiters: readonly Json[]): string {
  const ofFiles = limiters.filter(({ rules }) => rules?.source === 'file');
  const [first, ...others] = ofFiles.map(({ limiter, address }) => limiter.name || address);
  if (first === undefined) return '';
  if (others.length === 0)
    return `${escaped(first)} reads its rules from files, and reports to no control plane\n`;
  const who = ofFiles.length === limiters.length ? 'all limiters' : [first, ...others].join(', ');
  return `${escaped(who)} read their rules from files, and report to no control plane\n`;
}

/** The slower of gRPC and HTTP. One of them may have no requests. */
function slowestOf({ p99Ms, httpP99Ms }: Json): number | null | undefined {
  return p99Ms == null || httpP99Ms == null ? (p99Ms ?? httpP99Ms) : Math.max(p99Ms, httpP99Ms);
}

function stateOf({ answered, refused, problems }: Json): string {
  if (answered) return problems.length === 0 ? 'ok' : 'not well';
  return refused ? 'refused' : 'silent';
}

function millisecondsText(ms: unknown): string | undefined {
  return typeof ms === 'number' ? `${Number(ms.toPrecision(3))} ms` : undefined;
}

/** Shortens a hash to the length that Git shows. */
function shortVersion(version: unknown): string {
  const text = String(version ?? '');
  return /^[0-9a-f]{13,}$/.test(text) ? text.slice(0, 12) : text;
}
