import { escaped, UsageError } from '../shared/flags.ts';
import { durationText, outputFlag, outputFormat, printedText, type Row, table } from '../shared/output.ts';
import { type Json, limiterHelp, tellOf } from './limiters.ts';
import { askHolders, domainAndEntries, entryTexts, limitersCommand } from './operate-command.ts';

const help = `Usage: weir budget <domain> <key=value> ... [flags]

Shows how the budgets of one descriptor stand: what is used, what of it is held by reservations that are still open (and for how
long the oldest has been), what is left, until when, and the highest mark of warn_at that is reached. Expired reservations are
given back on the way. A store that limiters share is asked by one of them; of limiters that count in memory each shows its own.

${limiterHelp}  -o, --output <form>         how to print the result: table (default), json or yaml

  weir budget llm team=a --limiter localhost
  weir budget llm team=a model=large -o json

Exit status: 0 when every limiter answered; 1 when one was silent or refused; 2 for a wrong command line, or a cluster that cannot
be asked.
`;

export const budgetCommand = limitersCommand(help, outputFlag, async (flags, limiters) => {
  const { domain, entries } = domainAndEntries(flags.positionals, 'budget');
  if (entries.length === 0) throw new UsageError('budget needs the entries of a descriptor, key=value');
  const format = outputFormat(flags);
  const { members, silent } = await limiters.living();
  const query = { domain, entry: entryTexts(entries) };
  const { answers, failed } = await askHolders(limiters, members, { path: '/v1/budgets', query });
  tellOf(failed);
  const budgets: Json[] = answers.flatMap(({ member, body }) =>
    body.budgets.map((one: Json) =>
      member.state.store?.type === 'memory' ? { ...one, limiter: member.name } : one,
    ),
  );
  const report = { budgets, silent: [...silent, ...failed] };
  const none = `no rule of ${escaped(domain)} limits such a request\n`;
  process.stdout.write(
    printedText(report, format, () => (budgets.length === 0 ? none : table(budgets.map(rowOf)))),
  );
  return report.silent.length === 0 ? 0 : 1;
});

function rowOf({
  limiter,
  rule,
  limit,
  shadow,
  used,
  reserved,
  open,
  oldestSeconds,
  left,
  reset,
  mark,
}: Json): Row {
  const name = limit.name ? ` (${limit.name})` : '';
  const age = oldestSeconds === null ? '' : `, oldest ${durationText(oldestSeconds)}`;
  return {
    ...(limiter === undefined ? {} : { LIMITER: limiter }),
    RULE: `${rule ?? 'hidden'}${name}${shadow ? ' (shadow)' : ''}`,
    LIMIT: limitWords(limit),
    USED: used,
    RESERVED: open === 0 ? reserved : `${reserved} (${open} open${age})`,
    LEFT: left,
    RESET: durationText(reset),
    MARK: mark === null ? undefined : `${mark}%`,
  };
}

/** `600000 tokens per month`, `5 per 2 days`. */
function limitWords({ requestsPerUnit, hitsUnit, unit, multiplier, calendar }: Json): string {
  const counted = hitsUnit === undefined || hitsUnit === 'requests' ? '' : ` ${hitsUnit}`;
  const length = multiplier > 1 ? `${multiplier} ${unit}s` : (calendar?.unit ?? unit);
  return `${requestsPerUnit}${counted} per ${length}${calendar ? ` (${calendar.timezone})` : ''}`;
}
