import { printProblem, UsageError } from '../shared/flags.ts';
import { outputHelp } from '../shared/report.ts';
import { entryTexts, readDescriptor } from '../shared/request.ts';
import { durationText, type Row, table } from '../shared/text.ts';
import { type Json, limiterHelp, withLimiter } from './limiters.ts';
import { limitersCommand } from './operate-command.ts';

const help = `Usage: weir budget <domain> <key=value> ... [flags]

Shows the budgets of one descriptor: the amounts that are used, reserved and left, when the window ends, and the highest threshold of warn_at that was reached. Expired reservations are released first. One limiter answers for a shared store; limiters that count in memory each answer for themselves. The entries are one descriptor. If no rule limits it, standard error lists the entries that have a rule of their own.

${limiterHelp}${outputHelp}
  weir budget llm team=a --limiter localhost
  weir budget llm team=a model=large -o json

Exit status: 0 when every limiter has such a budget. 1 when no rule limits the descriptor, or a limiter did not answer or rejected the request. 2 for a
wrong command line, or a cluster that does not answer.
`;

export const budgetCommand = limitersCommand(help, (flags) => {
  const { domain, entries } = readDescriptor(flags.positionals, 'budget');
  if (entries.length === 0) throw new UsageError('budget needs the entries of a descriptor, key=value');
  const texts = entryTexts(entries);
  return async (limiters) => {
    const ask = (entry: string[]) => limiters.holders({ path: '/v1/budgets', query: { domain, entry } });
    const answers = await ask(texts);
    const without = answers.filter(({ body }) => body.budgets.length === 0);
    if (without.length > 0) {
      const alone = texts.length === 1 ? [] : await Promise.all(texts.map((text) => ask([text])));
      const limited = texts.filter((_, i) => alone[i]?.some(({ body }) => body.budgets.length > 0));
      const hint = limited.length === 0 ? '' : ` (single entries with a rule: ${limited.join(', ')})`;
      for (const { member } of without)
        printProblem(`${member.name}: no rule of ${domain} limits ${texts.join(', ')}${hint}`);
    }
    const budgets: Json[] = answers.flatMap(({ member, body }) => withLimiter(member, body.budgets));
    return {
      isDone: without.length === 0,
      value: { budgets },
      text: () => (budgets.length === 0 ? '' : table(budgets.map(rowOf))),
    };
  };
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
    LIMIT: limit.words,
    USED: used,
    RESERVED: open === 0 ? reserved : `${reserved} (${open} open${age})`,
    LEFT: left,
    RESET: durationText(reset),
    MARK: mark === null ? undefined : `${mark}%`,
  };
}
