import { hitsWords } from '../../rules/describe.ts';
import { printProblem, readTime, UsageError, wholeNumber } from '../shared/flags.ts';
import { outputHelp } from '../shared/report.ts';
import { entryTexts, readDescriptor } from '../shared/request.ts';
import { count, escaped } from '../shared/text.ts';
import { type Json, limiterHelp } from './limiters.ts';
import { entriesText, limitersCommand, windowOf } from './operate-command.ts';

const help = `Usage: weir why <domain> [<key=value> ...] [flags]
       weir why --request-id <id> [flags]

Shows why a request was over limit: the rule, the counts, the version of the rules and the limiter. It asks every limiter for
the requests over limit that it remembers (REFUSALS_KEPT), and shows the newest one first.

  --request-id <id>           x-request-id of the request, or the trace id of its traceparent
  --at <time>                 show requests within 15 s of this time: RFC 3339, or seconds since 1970
  --since <time>              show nothing older. A duration such as 10m counts back from now
  --until <time>              show nothing newer
  --limit <n>                 the number of requests to show (default 10)
${limiterHelp}${outputHelp}
  weir why shop remote_address=203.0.113.7 --since 10m
  weir why --request-id 3f1c9a52-6f0e-9f0c-8c43-0d0b1c6d3a11

Exit status: 0 when the command found a request over limit and every limiter answered. 1 when it found none, or a limiter did not
answer. 2 for a wrong command line, or a cluster that does not answer.
`;

/** Chosen: clocks of proxies and limiters differ by less. */
const aroundMs = 15_000;

export const whyCommand = limitersCommand(help, (flags) => {
  const requestId = flags.text('request-id');
  const isOfKey = flags.positionals.length > 0;
  if (!isOfKey && requestId === undefined) throw new UsageError('why needs a domain, or --request-id');
  const { domain, entries } = isOfKey
    ? readDescriptor(flags.positionals, 'why')
    : { domain: undefined, entries: [] };
  const max = wholeNumber(flags, 'limit', { default: 10, min: 1, max: 1000 });
  const range = timeRange(
    { at: flags.text('at'), since: flags.text('since'), until: flags.text('until') },
    Date.now(),
  );
  const query = { domain, entry: entryTexts(entries), requestId, ...range, limit: `${max}` };
  return async (limiters) => {
    const answers = await limiters.each({ path: '/v1/refusals', query });
    const remembered: Json[] = answers.map(({ member, body: { kept, since } }) => {
      return { limiter: member.name, kept, since };
    });
    const all: Json[] = answers.flatMap(({ member, body }) =>
      body.refusals.map((one: Json) => ({ ...one, limiter: one.limiter ?? member.name })),
    );
    all.sort((a, b) => (a.at < b.at ? 1 : -Number(a.at > b.at)));
    const value = { refusals: all.slice(0, max), remembered };
    const isUnknown = all.length === 0 && domain !== undefined;
    const hint = isUnknown ? await limiters.misspelled(domain, entries) : undefined;
    if (hint !== undefined) printProblem(hint);
    return { isDone: all.length > 0, value, text: () => whyText(value) };
  };
});

/** Returns the range of the parameters `since` and `until`. @throws UsageError */
export function timeRange(
  { at, since, until }: { at: string | undefined; since: string | undefined; until: string | undefined },
  nowMs: number,
): { since: string | undefined; until: string | undefined } {
  if (at !== undefined) {
    if (since !== undefined || until !== undefined) throw new UsageError('--at excludes --since and --until');
    const atMs = readTime('--at', at, nowMs);
    return { since: new Date(atMs - aroundMs).toISOString(), until: new Date(atMs + aroundMs).toISOString() };
  }
  const text = (flag: string, given: string | undefined) =>
    given === undefined ? undefined : new Date(readTime(flag, given, nowMs)).toISOString();
  return { since: text('--since', since), until: text('--until', until) };
}

function whyText({ refusals, remembered }: { refusals: Json[]; remembered: Json[] }): string {
  if (refusals.length > 0) return refusals.map(overLimitText).join('\n');
  const memories = remembered.map(({ limiter, kept, since }) => {
    const from = since ? `, the oldest from ${since}` : '';
    return `  ${escaped(String(limiter))}: ${count(kept, 'request')} over limit${from}\n`;
  });
  return `No limiter remembers a matching request over limit. What each limiter remembers:\n${memories.join('')}The request was OK, the limiters no longer remember it, or another limiter decided it. "weir counters list" shows the counter now, "weir explain" the rule.\n`;
}

/** Describes requests over limit for people. */
function overLimitText(row: Json): string {
  const {
    at,
    domain,
    rule,
    limitName,
    entries,
    used,
    window,
    algorithm,
    override,
    blocked,
    rulesVersion,
    limiter,
    count,
    requestId,
    traceId,
  } = row;
  const name = limitName ? ` (${limitName})` : '';
  const per = window === undefined || window === null ? '' : ` in ${windowOf(window)}`;
  const what = algorithm ?? window?.algorithm;
  const lines = [
    `${at}  ${limiter} over limit: ${entriesText(entries)} of ${domain}${count > 1 ? `, ${count} times in this second` : ''}`,
    `  rule      ${rule}${name}`,
    ...(blocked
      ? [`  blocked   by override ${override}, regardless of use; "weir override list" shows the reason`]
      : [`  limit     ${hitsWords(row.limit, row)}${per}${what ? `, ${what}` : ''}; used ${used}`]),
    ...(override && !blocked ? [`  override  ${override}`] : []),
    `  rules     version ${rulesVersion}`,
    ...(requestId ? [`  request   ${requestId}`] : []),
    ...(traceId ? [`  trace     ${traceId}`] : []),
  ];
  return lines.map((line) => `${escaped(line)}\n`).join('');
}
