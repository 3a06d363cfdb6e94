import { UsageError } from '../shared/flags.ts';
import { outputHelp } from '../shared/report.ts';
import { entryTexts, readDescriptor } from '../shared/request.ts';
import { table } from '../shared/text.ts';
import { type Json, limiterHelp } from './limiters.ts';
import { limitersCommand } from './operate-command.ts';

const help = `Usage: weir assignments <domain> [<key=value> ...] [flags]

Shows the assignments of quota clients, such as Envoys, over all limiters that serve them (RLQS). It shows how much a client may still use of a limit, and how much it used, denied and returned since its first report. With entries, the command shows only buckets that contain all of them. It shows at most 1,000 assignments, the largest first.

${limiterHelp}${outputHelp}
  weir assignments shop plan=gold

Exit status: 0, or 1 when a limiter did not answer; 2 for a wrong command line, or a cluster that does not answer.
`;

const noQuotaClients = 'it serves no quota clients, because RLQS is off';

/** Chosen: people rarely read more rows, and a limiter sends this many at once. */
const maxRows = 1_000;

export const assignmentsCommand = limitersCommand(help, (flags) => {
  if (flags.positionals.length === 0) throw new UsageError('assignments needs a domain');
  const { domain, entries } = readDescriptor(flags.positionals, 'assignments');
  const query = { domain, entry: entryTexts(entries), limit: `${maxRows}` };
  return async (limiters) => {
    const answers = await limiters.each({ path: '/v1/assignments', query }, noQuotaClients);
    const all: Json[] = answers.flatMap(({ member, body }) =>
      body.assignments.map((one: Json) => ({ ...one, limiter: member.name })),
    );
    all.sort((a, b) => b.mayUse - a.mayUse || b.used - a.used);
    const assignments = all.slice(0, maxRows);
    return { value: { assignments }, text: () => assignmentsText(assignments) };
  };
});

function assignmentsText(assignments: readonly Json[]): string {
  if (assignments.length === 0) return 'no quota client has an assignment in this domain\n';
  return table(
    assignments.map(({ limiter, caller, address, rule, bucket, mayUse, used, denied, returned, since }) => ({
      ...{ LIMITER: limiter, CLIENT: caller ?? address, RULE: rule, BUCKET: bucketText(bucket) },
      ...{ 'MAY USE': mayUse, USED: used, DENIED: denied, RETURNED: returned, SINCE: since },
    })),
  );
}

function bucketText(bucket: Readonly<Record<string, string>>): string {
  return Object.entries(bucket)
    .map(([key, value]) => `${key}=${value}`)
    .join(',');
}
