import { randomUUID } from 'node:crypto';
import { hitsWords } from '../../rules/describe.ts';
import { choiceOf, commandOfVerbs, UsageError, wholeNumber } from '../shared/flags.ts';
import { outputHelp, reportCommand } from '../shared/report.ts';
import { entryTexts, readDescriptor } from '../shared/request.ts';
import { durationText, escaped, type Row, table } from '../shared/text.ts';
import {
  type AnsweringLimiter,
  type FoundLimiters,
  type Json,
  limiterHelp,
  type Question,
  withLimiter,
} from './limiters.ts';
import { entriesText, limitersCommand, windowOf } from './operate-command.ts';
import { makingHelp, setOverride } from './override-command.ts';

const exits = `Exit status: 0 when it succeeded. 1 when a limiter did not answer or rejected the request. 2 for a wrong command line, or a cluster that cannot be reached.
`;

const listHelp = `Usage: weir counters list <domain> [<key=value> ...] [flags]

Shows counters, and how much of them is used and left. The entries name one descriptor, in its order. Without entries, the command scans the store for all counters of the domain. One limiter reads a shared store; limiters that count in memory each show their own counters.

  --over                      show only counters that are over their limit
  --sort used|left|reset|key  sort all counters, and show the first ones (default: in the order in which they are found)
  --limit <n>                 the number of counters to show (default 100)
${limiterHelp}${outputHelp}
  weir counters list shop remote_address=203.0.113.7 --limiter localhost
  weir counters list shop --over --sort used --limit 20

${exits}`;

const resetHelp = `Usage: weir counters reset <domain> <key=value> ... [flags]
       weir counters reset <domain> --all

Sets the counters of one descriptor, or of the whole domain, to zero: in the store, and in the local caches and leases of all limiters. Shows which limiters have confirmed it. One limiter resets a shared store; limiters that count in memory each reset their own counters.

  --all                       all counters of the domain
${limiterHelp}${outputHelp}
  weir counters reset shop remote_address=203.0.113.7

${exits}`;

const grantHelp = `Usage: weir counters grant <domain> <key=value> ... --hits <n> --reason <text> [flags]

Allows additional hits of one descriptor until its window ends. For a sliding window or a token bucket, they are valid for the length of one window. With --limiter or WEIR_LIMITERS, the command asks the limiters; otherwise it creates a RateLimitOverride in the cluster.

  --hits <n>                  the number of additional hits
  --limit-name <name>         the limit to change, if the rule has several
  --id <id>                   an ID for this grant. Repeating it grants nothing more (default: a new ID)
${makingHelp}
  weir counters grant shop tenant=acme --hits 1000 --reason "batch import, ticket 4711"

${exits}`;

const sorts = ['used', 'left', 'reset', 'key'] as const;

const listCommand = limitersCommand(listHelp, (flags) => {
  const { domain, entries } = readDescriptor(flags.positionals, 'counters list');
  const max = wholeNumber(flags, 'limit', { default: 100, min: 1, max: 100_000 });
  const sort = choiceOf(flags, 'sort', sorts);
  const over = flags.on('over') ? 'true' : undefined;
  const limit = `${sort === undefined ? Math.min(max, 1000) : 1000}`;
  const query = { domain, entry: entryTexts(entries), over, sort, limit };
  const wanted = { max, order: sort && bySort(sort) };
  return async (limiters) => {
    const groups = await Promise.all(
      limiters.counterHolders().map((group) => countersOf(limiters, group, query, wanted)),
    );
    const all = groups.flatMap((group) => group.counters);
    if (wanted.order !== undefined) all.sort(wanted.order);
    const notes = [...new Set(groups.flatMap((group) => group.notes))];
    const more = all.length > max || groups.some((group) => group.isCut);
    const value = { counters: all.slice(0, max), more, notes };
    return { value, text: () => listText(value, domain, limiters.silent.length > 0) };
  };
});

/** Sorts the most interesting counters first: most used, least left, or first to be reset. A page is sorted on its own. */
function bySort(sort: (typeof sorts)[number]): (a: Json, b: Json) => number {
  if (sort === 'key') return (a, b) => (a.key < b.key ? -1 : Number(a.key > b.key));
  if (sort === 'used') return (a, b) => (b.used ?? -1) - (a.used ?? -1);
  return (a, b) => (a[sort] ?? Infinity) - (b[sort] ?? Infinity);
}

interface FoundCounters {
  counters: Json[];
  notes: string[];
  isCut: boolean;
}

/** Reads pages until there are enough counters. With a sort order it reads all pages and returns the first counters. */
async function countersOf(
  limiters: FoundLimiters,
  group: readonly AnsweringLimiter[],
  query: Question['query'],
  { max, order }: { max: number; order: ((a: Json, b: Json) => number) | undefined },
): Promise<FoundCounters> {
  const found: FoundCounters = { counters: [], notes: [], isCut: false };
  let cursor: string | undefined;
  do {
    const question = { path: '/v1/counters', query: { ...query, cursor } };
    const { member, answer } = await limiters.askOne(group, question);
    if (!answer.ok) {
      limiters.fail(member, answer.problem);
      return found;
    }
    for (const counter of withLimiter(member, answer.body.counters)) found.counters.push(counter);
    found.notes = [...new Set([...found.notes, ...(answer.body.notes ?? [])])];
    cursor = answer.body.cursor ?? undefined;
    if (order === undefined || found.counters.length <= max) continue;
    found.isCut = true;
    found.counters = found.counters.sort(order).slice(0, max);
  } while (cursor !== undefined && (order !== undefined || found.counters.length < max));
  found.isCut ||= cursor !== undefined;
  return found;
}

function listText(
  { counters, more, notes }: { counters: Json[]; more: boolean; notes: string[] },
  domain: string,
  isAnySilent: boolean,
): string {
  const words = notes.map((note) => `note: ${escaped(note)}\n`).join('');
  // If a limiter did not answer, its counters are unknown.
  if (counters.length === 0 && isAnySilent) return words;
  if (counters.length === 0) return `no counters of ${escaped(domain)} were found\n${words}`;
  const end = more ? '... there are more; raise --limit to show them\n' : '';
  return table(counterRows(counters)) + end + words;
}

function counterRows(counters: readonly Json[]): Row[] {
  const isOfMemory = counters.some(({ limiter }) => limiter !== undefined);
  return counters.map((counter) => {
    const { entries, rule, limitName, window, used, left, reset, leased, certain, limiter } = counter;
    const name = limitName ? ` (${limitName})` : '';
    return {
      ...(isOfMemory && { LIMITER: limiter }),
      ENTRIES: entriesText(entries) + (certain === false ? ' (uncertain)' : ''),
      RULE: rule === null ? 'none' : `${rule}${name}`,
      WINDOW: window === undefined ? undefined : `${windowOf(window)} ${window.algorithm ?? ''}`.trim(),
      USED: used,
      LIMIT: limitText(counter),
      LEFT: left ?? undefined,
      RESET: typeof reset === 'number' ? durationText(reset) : undefined,
      LEASED: leased || undefined,
    };
  });
}

function limitText(counter: Json): string | undefined {
  const { limit: max, override, overrideEffect } = counter;
  if (overrideEffect === 'unlimited') return 'unlimited (override)';
  if (max === null || max === undefined) return undefined;
  const limit = hitsWords(counter.limit, counter);
  if (overrideEffect === 'block') return `${limit} (blocked)`;
  if (overrideEffect === 'shadow') return `${limit} (shadow)`;
  return `${limit}${override ? ' (override)' : ''}`;
}

const resetCommand = limitersCommand(resetHelp, (flags) => {
  const { domain, entries } = readDescriptor(flags.positionals, 'counters reset');
  const all = flags.on('all');
  if (entries.length === 0 && !all)
    throw new UsageError('counters reset needs the entries of a descriptor, or --all for the whole domain');
  if (entries.length > 0 && all) throw new UsageError('--all is for the whole domain: leave the entries out');
  const query = { domain, entry: entryTexts(entries), all: all ? 'true' : undefined };
  return async (limiters) => {
    const answers = await limiters.holders({ method: 'DELETE', path: '/v1/counters', query });
    const parts = await Promise.all(
      answers.map(async ({ member, body }) => {
        const pages = await allPages(limiters, member, query, body);
        const counters: Json[] = pages.flatMap((page) => page.counters);
        // The counters of several stores need the name of their limiter.
        const named =
          answers.length > 1 ? counters.map((one) => ({ ...one, limiter: member.name })) : counters;
        return { pages, counters: named };
      }),
    );
    const pages = parts.flatMap((part) => part.pages);
    const missing: Json[] = pages.flatMap((page) => page.missing ?? []);
    const value = {
      domain,
      reset: pages.reduce((sum, { reset }) => sum + reset, 0),
      counters: parts.flatMap(({ counters }) => counters),
      limiters: confirmations(pages),
      notes: [...new Set(pages.flatMap(({ notes = [] }) => notes as string[]))],
      missing: [...new Map(missing.map((one) => [one.command, one])).values()],
    };
    const isDone = value.limiters.every(({ confirmed }) => confirmed) && missing.length === 0;
    return { isDone, value, text: () => resetText(value) };
  };
});

/** Resets a whole domain in pages. */
async function allPages(
  limiters: FoundLimiters,
  member: AnsweringLimiter,
  query: Question['query'],
  first: Json,
): Promise<Json[]> {
  const pages = [first];
  for (let cursor = first.cursor; typeof cursor === 'string'; ) {
    const question = { method: 'DELETE', path: '/v1/counters', query: { ...query, cursor } } as const;
    const answer = await limiters.ask(member, question);
    if (!answer.ok) {
      limiters.fail(member, `${answer.problem} (only some counters were reset)`);
      break;
    }
    pages.push(answer.body);
    cursor = answer.body.cursor;
  }
  return pages;
}

/** Returns the confirmations by instance. A limiter that did not answer one page has not confirmed. */
function confirmations(pages: readonly Json[]): Json[] {
  const all = new Map<string, Json>();
  for (const { limiters = [] } of pages) {
    for (const one of limiters) {
      const before = all.get(one.instance);
      if (before === undefined || before.confirmed) all.set(one.instance, one);
    }
  }
  return [...all.values()];
}

function resetText({
  reset,
  counters,
  limiters,
  missing,
  notes,
}: {
  reset: number;
  counters: Json[];
  limiters: Json[];
  missing: Json[];
  notes: string[];
}): string {
  const lines = [reset === 1 ? '1 counter was reset\n' : `${reset} counters were reset\n`];
  lines.push(...notes.map((note) => `note: ${escaped(note)}\n`));
  if (counters.length > 0) lines.push(`\nBefore:\n${table(counterRows(counters))}`);
  if (limiters.length > 0) {
    const rows = limiters.map(({ name, confirmed, afterMs }) => {
      return {
        LIMITER: name,
        CONFIRMED: confirmed
          ? `after ${afterMs} ms`
          : 'no: its cache may answer OVER_LIMIT until the window ends',
      };
    });
    lines.push(`\n${table(rows)}`);
  }
  for (const { command, message } of missing)
    lines.push(
      `the store denies ${command} to limiters: ${escaped(message)} (docs/store.md has the rights)\n`,
    );
  return lines.join('');
}

const grantCommand = reportCommand(grantHelp, async (flags) => {
  const { domain, entries } = readDescriptor(flags.positionals, 'counters grant');
  if (flags.text('hits') === undefined)
    throw new UsageError('counters grant needs --hits, the number of additional hits');
  const grant = wholeNumber(flags, 'hits', { default: 0, min: 1, max: 4_294_967_295 });
  const limit = flags.text('limit-name');
  const id = flags.text('id') ?? randomUUID();
  return setOverride(flags, {
    domain,
    match: entries,
    ...(limit && { limit }),
    grant,
    reason: flags.text('reason'),
    id,
  });
});

const help = `Usage: weir counters list|reset|grant <domain> [<key=value> ...] [flags]

  list    show counters, and how much of them is used and left
  reset   set the counters of a descriptor, or of a domain, to zero
  grant   allow additional hits until the window ends

  weir counters list shop --over --sort used
  weir counters reset shop remote_address=203.0.113.7
  weir counters grant shop tenant=acme --hits 1000 --reason "batch import"

"weir counters <word> --help" describes each of them.
`;

export const countersCommand = commandOfVerbs(help, {
  list: listCommand,
  reset: resetCommand,
  grant: grantCommand,
});
