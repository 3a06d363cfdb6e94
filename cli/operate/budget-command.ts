import { UsageError } from '../shared/flags.ts';
import { durationText, outputHelp, type Row, table } from '../shared/output.ts';
import { readDescriptor } from '../shared/request.ts';
import { type Json, limiterHelp, reportFailedLimiters } from './limiters.ts';
import { askHolders, entryTexts, limitersCommand } from './operate-command.ts';

const help = `Usage: weir budget <domain> <key=value> ... [flags]

Shows the budgets of one descriptor: the amounts that are used, reserved and left, when the window ends, and the highest threshold of warn_at that was reached. Expired reservations are released first. One limiter answers for a shared store; limiters that count in memory each answer for themselves. The entries are one descriptor. If no rule limits it, standard error lists the entries that have a rule of their own.

${limiterHelp}${outputHelp}
  weir budget llm team=a --limiter localhost
  weir budget llm team=a model=large -o json

Exit status: 0 when every limiter has such a budget. 1 when no rule limits the descriptor, or a limiter did not answer or rejected the request. 2 for a
wrong command line, or a cluster that does not answer.
`;

export const budgetCommand = limitersCommand(help, async (flags, limiters) => {
  const { domain, entries } = readDescriptor(flags.positionals, 'budget');
  if (entries.length === 0) throw new UsageError('budget needs the entries of a descriptor, key=value');
  const { members, silent } = await limiters.living();
  const ask = (entry: string[]) =>
    askHolders(limiters, members, { path: '/v1/budgets', query: { domain, entry } });
  const texts = entryTexts(entries);
  const { answers, failed } = await ask(texts);
  reportFailedLimiters(failed);
  const without = answers.filter(({ body }) => body.budgets.length === 0);
  if (without.length > 0) {
    const alone = texts.length === 1 ? [] : await Promise.all(texts.map((text) => ask([text])));
    const limited = texts.filter((_, i) => alone[i]?.answers.some(({ body }) => body.budgets.length > 0));
    const hint = limited.length === 0 ? '' : ` (single entries with a rule: ${limited.join(', ')})`;
    const problem = `no rule of ${domain} limits ${texts.join(', ')}${hint}`;
    reportFailedLimiters(without.map(({ member }) => ({ address: member.name, problem })));
  }
  const budgets: Json[] = answers.flatMap(({ member, body }) =>
    body.budgets.map((one: Json) =>
      member.state.store?.type === 'memory' ? { ...one, limiter: member.name } : one,
    ),
  );
  const report = { budgets, silent: [...silent, ...failed] };
  const status = report.silent.length === 0 && without.length === 0 ? 0 : 1;
  return { status, value: report, text: () => (budgets.length === 0 ? '' : table(budgets.map(rowOf))) };
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
    // Older limiters send no `words`.
    LIMIT: limit.words ?? `${limit.requestsPerUnit} per ${limit.unit}`,
    USED: used,
    RESERVED: open === 0 ? reserved : `${reserved} (${open} open${age})`,
    LEFT: left,
    RESET: durationText(reset),
    MARK: mark === null ? undefined : `${mark}%`,
  };
}
