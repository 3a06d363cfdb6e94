/** `/top` of the debug listener: its parameters, and its two formats. */
import type { TopDomain, TopKey, TopQuery, TopReport } from './top-report.ts';

export interface TopPage {
  status: number;
  contentType: string;
  lines: string[];
}

export interface TopPageQuery extends TopQuery {
  format: 'text' | 'json';
}

const defaultKeys = 10;
/** Chosen: more keys than a sketch can hold, because several are joined. */
const maxKeys = 100_000;
const plainText = 'text/plain; charset=utf-8';

const parameters = ['domain', 'n', 'format'];

/** Reads `domain`, `n` and `format`. Returns an Error if one of them is invalid. */
export function parseTopQuery(query: URLSearchParams): TopPageQuery | Error {
  const unknown = [...query.keys()].find((name) => !parameters.includes(name));
  if (unknown !== undefined) {
    return new Error(`there is no parameter ${quoted(unknown)}: use domain, n and format`);
  }
  const n = query.get('n') ?? String(defaultKeys);
  const keys = /^\d{1,6}$/.test(n) ? Number(n) : 0;
  if (keys < 1 || keys > maxKeys) return new Error(`n must be a number from 1 to ${maxKeys}`);
  const format = query.get('format') ?? 'text';
  if (format !== 'text' && format !== 'json') return new Error('format must be text or json');
  return { domain: query.get('domain') ?? undefined, keys, format };
}

/** Answers one request. An invalid request gets 400. */
export async function topPage(
  query: URLSearchParams,
  reporter: { report(question: TopQuery): Promise<TopReport> } | undefined,
): Promise<TopPage> {
  const question = parseTopQuery(query);
  if (question instanceof Error) return textPage(400, [question.message]);
  if (reporter === undefined) return textPage(404, ['/top is off: STATS_TOP_KEYS is 0']);
  const report = await reporter.report(question);
  if (question.domain !== undefined && report.domains.length === 0)
    return noneOverLimit(question, question.domain, report);
  if (question.format === 'text') return textPage(200, textLines(report));
  return { status: 200, contentType: 'application/json', lines: [JSON.stringify(topJson(report))] };
}

/** A domain without rules looks the same: no request was over its limits. */
function noneOverLimit({ format }: TopPageQuery, domain: string, { sinceMs }: TopReport): TopPage {
  const since = new Date(sinceMs).toISOString();
  const problem = `no key is known to be over limit in the domain ${quoted(domain)} since ${since}; /rlconfig has the domains with rules`;
  if (format === 'text') return textPage(404, [problem]);
  return { status: 404, contentType: 'application/json', lines: [JSON.stringify({ error: problem })] };
}

function textPage(status: number, lines: string[]): TopPage {
  return { status, contentType: plainText, lines };
}

function textLines(report: TopReport): string[] {
  const { domainCount, domains } = report;
  const since = new Date(report.sinceMs).toISOString();
  const seconds = Math.round((report.untilMs - report.sinceMs) / 1000);
  const head = `hits over limit since ${since}, ${seconds} s; domains: ${domainCount}, shown: ${domains.length}`;
  return [head, ...domains.flatMap((domain) => ['', ...domainLines(domain)])];
}

function domainLines({ domain, overLimit, missed, keys }: TopDomain): string[] {
  const others = missed === 0 ? 'all keys are listed' : `a key that is not listed has at most ${missed}`;
  const rows = keys.map((key) => [
    String(key.atMost),
    String(key.atLeast),
    shareText(key, overLimit),
    quoted(key.key),
    `${quoted(key.rule)}${key.shadowMode ? ' (shadow mode)' : ''}`,
  ]);
  const table = [['at most', 'at least', 'share', 'key', 'rule'], ...rows];
  const widths = [0, 1, 2].map((column) => Math.max(...table.map((row) => row[column]!.length)));
  return [
    `domain ${quoted(domain)}: ${overLimit} hits over limit; ${others}`,
    ...table.map((row) => {
      const numbers = widths.map((width, column) => row[column]!.padStart(width));
      return `  ${[...numbers, ...row.slice(widths.length)].join('  ')}`;
    }),
  ];
}

function shareText({ atMost }: TopKey, overLimit: number): string {
  return `${((100 * atMost) / overLimit).toFixed(1)}%`;
}

/** Quotes a text of a caller, so that no part of it affects a terminal. */
function quoted(text: string): string {
  const escaped = (character: string): string =>
    `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`;
  return JSON.stringify(text).replace(
    /[\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff]/g,
    escaped,
  );
}

export function topJson({ sinceMs, untilMs, domainCount, domains }: TopReport): object {
  return {
    since: new Date(sinceMs).toISOString(),
    until: new Date(untilMs).toISOString(),
    domainCount,
    domains: domains.map(({ domain, overLimit, missed, keys }) => ({
      domain,
      overLimit,
      missed,
      keys: keys.map((key) => ({ ...key, share: key.atMost / overLimit })),
    })),
  };
}
