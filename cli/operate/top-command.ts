import { joinedSummaries, type TopSummary } from '../../limiter/top-offenders/space-saving.ts';
import { hintOf, UsageError, wholeNumber } from '../shared/flags.ts';
import { outputHelp, watchHelp } from '../shared/report.ts';
import { escaped, table } from '../shared/text.ts';
import { type AnsweringLimiter, type FoundLimiters, type Json, limiterHelp } from './limiters.ts';
import { limitersCommand } from './operate-command.ts';

const help = `Usage: weir top [<domain>] [flags]

Shows the keys that are most often over their limit, by domain and over all limiters. The numbers cover the last minutes, as in /top (docs/over-limit.md). A range means that the number is not exact. A note appears if no limiter has rules for the domain.

  --keys <n>                  the number of keys per domain (default 10)
${limiterHelp}${watchHelp}${outputHelp}
  weir top --limiter limiter.example.com
  weir top shop --keys 3 --watch

Exit status: 0, or 1 when a limiter did not answer; 2 for a wrong command line, or a cluster that does not answer.
`;

/** Chosen: a page for one or two screens, as `/top` has it. */
const maxDomains = 10;

export const topCommand = limitersCommand(help, (flags) => {
  const [domain, stray] = flags.positionals;
  if (stray !== undefined) throw new UsageError(`top takes one domain, found another one: "${stray}"`);
  const keys = wholeNumber(flags, 'keys', { default: 10, min: 1, max: 100 });
  return async (limiters) => {
    const report = await topReport(limiters, { domain, keys });
    const isEmpty = domain !== undefined && report.domains.length === 0;
    const value = { ...report, notes: isEmpty ? await unknownDomain(limiters, domain) : [] };
    return { value, text: () => topText(value) };
  };
});

interface TopReport {
  since: string | null;
  domainCount: number;
  domains: { domain: string; overLimit: number; missed: number; keys: Json[] }[];
}

/** Returns a note if no limiter has rules of the domain, with the domain that was probably intended. */
async function unknownDomain(limiters: FoundLimiters, domain: string): Promise<string[]> {
  const path = '/v1/rules';
  const { members } = limiters;
  const found = await Promise.all(members.map((member) => limiters.ask(member, { path, query: { domain } })));
  if (found.some((answer) => answer.ok || answer.status !== 404)) return [];
  // There may be many rules, so only one limiter is queried, and only if the domain is unknown.
  const rules = await limiters.ask(members[0]!, { path });
  const known: string[] = rules.ok ? rules.body.domains.map((one: Json) => one.domain) : [];
  return [`no rules are in force for the domain "${domain}"${hintOf(domain, known)}`];
}

/** Reads the first domains of every limiter. If another limiter lists a domain that one did not list, that domain is queried again. */
async function topReport(
  limiters: FoundLimiters,
  { domain, keys }: { domain: string | undefined; keys: number },
): Promise<TopReport> {
  const questionOf = (name: string | undefined) => ({ path: '/v1/top', query: { domain: name, n: '100' } });
  const answers = await limiters.each(questionOf(domain));
  const reported = new Map<string, Map<AnsweringLimiter, Json>>();
  for (const { member, body } of answers)
    for (const one of body.domains)
      reported.set(one.domain, (reported.get(one.domain) ?? new Map()).set(member, one));
  const more = Array.from(reported).flatMap(([name, of]) =>
    answers.map(async ({ member, body }) => {
      if (of.has(member) || body.domainCount <= body.domains.length) return;
      const answer = await limiters.ask(member, questionOf(name));
      if (!answer.ok) limiters.fail(member, answer.problem);
      else if (answer.body.domains[0]) of.set(member, answer.body.domains[0]);
    }),
  );
  await Promise.all(more);
  const domains = Array.from(reported, ([name, of]) => ({ domain: name, ...joined([...of.values()], keys) }));
  domains.sort((a, b) => b.overLimit - a.overLimit || (a.domain < b.domain ? -1 : 1));
  const sinces = answers.map(({ body }) => body.since).sort();
  return {
    since: sinces[0] ?? null,
    domainCount: Math.max(domains.length, ...answers.map(({ body }) => body.domainCount)),
    domains: domains.slice(0, maxDomains),
  };
}

/** Joins one domain of several limiters. */
function joined(parts: readonly Json[], max: number): Omit<TopReport['domains'][number], 'domain'> {
  const summaries = parts.map(({ overLimit, missed, keys }): TopSummary => {
    // A page ends before the sketch does. A key that it leaves out may weigh as much as its last one.
    const unseen = keys.length < 100 ? missed : Math.max(missed, keys.at(-1).atMost);
    return {
      sinceMs: 0,
      total: overLimit,
      missed: unseen,
      keys: keys.map(({ key, rule, shadowMode, atLeast, atMost }: Json) => {
        return { key, rule, shadowMode, count: atMost, error: atMost - atLeast };
      }),
    };
  });
  const { total, missed, keys } = joinedSummaries(summaries);
  const shown = keys.slice(0, max).map(({ key, rule, shadowMode, count, error }) => {
    const atLeast = Math.max(0, count - error);
    return { key, rule, shadowMode, atLeast, atMost: count, share: total === 0 ? 0 : count / total };
  });
  return { overLimit: total, missed, keys: shown };
}

function topText({ since, domains, domainCount, notes }: TopReport & { notes: string[] }): string {
  if (domains.length === 0)
    return `no request was over limit\n${notes.map((note) => `note: ${escaped(note)}\n`).join('')}`;
  const tables = domains.map(({ domain, overLimit, keys }) => {
    const rows = keys.map(({ key, rule, shadowMode, atLeast, atMost, share }) => ({
      OVER: atLeast === atMost ? atMost : `${atLeast}-${atMost}`,
      SHARE: `${(share * 100).toFixed(1)}%`,
      KEY: key,
      RULE: shadowMode ? `${rule} (shadow)` : rule,
    }));
    return `${table([{ DOMAIN: domain, 'OVER LIMIT': overLimit }])}\n${table(rows)}`;
  });
  const more = domainCount > domains.length ? `; ${domainCount - domains.length} more domains` : '';
  return `${tables.join('\n')}\nsince ${since}${more}\n`;
}
