import { readOverride } from '../../rules/override.ts';
import { formatManifestError } from '../../rules/rule-error.ts';
import { clusterFlags, tellingOfClusters } from '../shared/cluster.ts';
import {
  commandOf,
  commandOfVerbs,
  escaped,
  type FlagTypes,
  type ParsedFlags,
  UsageError,
} from '../shared/flags.ts';
import { io } from '../shared/io.ts';
import { type OutputFormat, outputFlag, outputFormat, printedText } from '../shared/output.ts';
import { type Json, limiterFlags, namesLimiters, type Silent, tellOf } from './limiters.ts';
import { askHolders, domainAndEntries, entryTexts, orLimiters, withLimiters } from './operate-command.ts';
import { listObjects, overridesText, putObject, removedText, removeObjects } from './override-objects.ts';

/** Where overrides are: with limiters, or in a cluster. */
const whereFlags = {
  limiter: limiterFlags.limiter,
  'token-file': limiterFlags['token-file'],
  timeout: limiterFlags.timeout,
  namespace: clusterFlags.namespace,
  context: clusterFlags.context,
  kubeconfig: clusterFlags.kubeconfig,
  ...outputFlag,
} as const satisfies FlagTypes;

const whereHelp = `  --limiter <host[:port]>     a limiter's debug listener (port 6070 by default); repeat the flag for several (default: the variable
                              WEIR_LIMITERS, separated by commas, else a cluster)
  --token-file <path>         what to show limiters that ask for a token (default: the file that WEIR_TOKEN_FILE names)
  --timeout <t>               how long to wait for the answers of limiters (default 5s)
  -n, --namespace <name>      of the object (default: that of the domain's RateLimitConfig)
  --context <name>, --kubeconfig <file>   as kubectl
  -o, --output <form>         how to print the result: table (default), json or yaml
`;

/** Of what makes an override. */
export const makingFlags = {
  ...whereFlags,
  class: { type: 'string' },
  fleet: { type: 'string' },
  wait: { type: 'string' },
  'dry-run': { type: 'boolean' },
} as const satisfies FlagTypes;

export const makingHelp = `${whereHelp}  --class, --fleet <name>     of the object (default: those of the domain's RateLimitConfig)
  --wait <t>                  how long to wait until the object is Ready (default 10s; 0s: not at all)
  --dry-run                   print what would be made; nothing is
`;

const setHelp = `Usage: weir override set <domain> <key=value> ... <effect> <end> --reason <text> [flags]

Lays something over the rules for these entries, for a time; in place of what was set for the same before. Values may have *,
which stands for any text. With --limiter or WEIR_LIMITERS it goes to limiters; else it becomes a RateLimitOverride in the cluster.

One effect:
  --limit <n>                 so many requests a window, in place of the rule's
  --unit <unit>               of --limit where no rule matches: second, minute, hour, day, week, month, year
  --limit-name <name>         which of several limits of the rule
  --unlimited                 all pass
  --shadow                    counted, and never refused
  --block                     all are refused
One end:
  --for <t>                   2h, 30m, 1d; 30 days at most unless the limiters' OVERRIDES_MAX_SECONDS says otherwise
  --until <time>              RFC 3339, such as 2026-01-31T18:00:00Z
  --permanent                 until it is removed

  --reason <text>             why, for whoever finds it
${makingHelp}
  weir override set shop remote_address=203.0.113.7 --limit 100 --for 2h --reason "sale, ticket 4711"
  weir override set shop 'tenant=acme-*' --block --for 30m --reason abuse
  weir override set shop tenant=acme --unlimited --permanent --reason contract --dry-run -o yaml | kubectl apply -f -

Exit status: 0 when it was made; 1 when it was refused, changes nothing by the rules, is not Ready in time, or a limiter was silent;
2 for a wrong command line, or a cluster that cannot be asked.
`;

const setCommand = commandOf(
  setHelp,
  {
    limit: { type: 'string' },
    unit: { type: 'string', values: ['second', 'minute', 'hour', 'day', 'week', 'month', 'year'] },
    'limit-name': { type: 'string' },
    unlimited: { type: 'boolean' },
    shadow: { type: 'boolean' },
    block: { type: 'boolean' },
    for: { type: 'string' },
    until: { type: 'string' },
    permanent: { type: 'boolean' },
    reason: { type: 'string' },
    ...makingFlags,
  },
  (flags) => {
    const { domain, entries } = domainAndEntries(flags.positionals, 'override set');
    const effect = onlyOf(flags, ['limit', 'unlimited', 'shadow', 'block'], 'what to do');
    const end = onlyOf(flags, ['for', 'until', 'permanent'], 'how long');
    const [limit, unit] = [flags.text('limit-name'), flags.text('unit')];
    const ends = {
      for: { for: flags.text('for') },
      until: { expiresAt: flags.text('until') },
      permanent: { permanent: true },
    };
    return setOverride(flags, {
      domain,
      match: entries,
      ...(limit !== undefined && { limit }),
      ...(effect === 'limit' ? { requestsPerUnit: numberOr(flags.text('limit')!) } : { [effect]: true }),
      ...(unit !== undefined && { unit }),
      ...ends[end],
      reason: flags.text('reason'),
    });
  },
);

/** What is no number is refused with the other fields. */
function numberOr(text: string): number | string {
  return /^\d+$/.test(text) ? Number(text) : text;
}

/** The one of these flags that is there. @throws UsageError */
function onlyOf<Name extends string>(flags: ParsedFlags, names: readonly Name[], what: string): Name {
  const given = names.filter((name) => flags.on(name) || flags.text(name) !== undefined);
  const [only] = given;
  if (given.length === 1 && only !== undefined) return only;
  const listed = names.map((name) => `--${name}`).join(', ');
  const found = given.length === 0 ? '' : `, and not ${given.map((name) => `--${name}`).join(' and ')}`;
  throw new UsageError(`say ${what} by one of ${listed}${found}`);
}

/** Makes an override, or a grant, of the fields of `/v1/overrides`: an object in a cluster, else by the API. */
export async function setOverride(flags: ParsedFlags, body: Json): Promise<number> {
  const format = outputFormat(flags);
  checkOverride(body);
  if (namesLimiters(flags)) return setByApi(flags, body, format);
  return tellingOfClusters(() => putObject(flags, body, format), orLimiters);
}

/** Says what is wrong in the words of flags before anything is asked; how long it may be the other side knows. @throws UsageError */
function checkOverride(body: Json): void {
  if (!body.reason) throw new UsageError('say why by --reason');
  if (body.match.length === 0)
    throw new UsageError('say for which entries: key=value, in the order of the descriptor');
  const nowMs = Date.now();
  const { problems = [] } = readOverride(body, {
    source: 'api',
    id: 'new',
    createdMs: nowMs,
    by: '',
    fromMs: nowMs,
    maxSeconds: Number.MAX_SAFE_INTEGER,
    refusesPast: true,
  });
  const asFlags: Record<string, string> = {
    requestsPerUnit: '--limit',
    grant: '--hits',
    expiresAt: '--until',
    limit: '--limit-name',
  };
  const words = problems.map((problem) =>
    formatManifestError(problem).replace(/^\w+(?=[:.[])/, (field) =>
      field === 'match' || field === 'domain' ? field : (asFlags[field] ?? `--${field}`),
    ),
  );
  if (words.length > 0) throw new UsageError(words.join('; '));
}

async function setByApi(flags: ParsedFlags, body: Json, format: OutputFormat): Promise<number> {
  if (flags.on('dry-run')) {
    io().stdout.write(printedText(body, format === 'text' ? 'yaml' : format, () => ''));
    return 0;
  }
  const method = body.grant === undefined ? 'PUT' : 'POST';
  return withLimiters(flags, async (limiters) => {
    const { members, silent } = await limiters.living();
    const { answers, failed } = await askHolders(limiters, members, { method, path: '/v1/overrides', body });
    tellOf(failed);
    const overrides = answers.map(({ member, body: made }) => ({ ...made, limiter: member.name }));
    const status = printChange({ overrides, silent: [...silent, ...failed] }, format);
    return tellOfStandings(overrides) ? status : 1;
  });
}

/** Says what limiters remark on it. False: by the rules of one it changes nothing. */
function tellOfStandings(overrides: readonly Json[]): boolean {
  for (const { limiter, standing, message } of overrides) {
    if (!message || (standing !== 'NoRule' && standing !== 'InForce')) continue;
    const words = escaped(message).replace('requestsPerUnit needs a unit then', '--limit needs --unit then');
    const how = standing === 'NoRule' ? 'is set and changes nothing' : 'note';
    io().stderr.write(`weir: ${escaped(limiter)}: ${how}: ${words}\n`);
  }
  return overrides.every(({ standing }) => standing !== 'NoRule');
}

/** What was made or removed, and who did not take part. */
function printChange(
  report: { overrides: Json[]; silent: Silent[] },
  format: OutputFormat,
  text = overridesText,
): number {
  io().stdout.write(printedText(report, format, () => text(report.overrides)));
  return report.silent.length === 0 ? 0 : 1;
}

const listHelp = `Usage: weir override list [<domain>] [flags]

Shows the overrides that limiters have, with the time that is left: those of the API, of files and of objects. Without limiters those
of the cluster's objects.

${whereHelp}
  weir override list shop --limiter localhost

Exit status: 0, or 1 when a limiter was silent; 2 for a wrong command line, or a cluster that cannot be asked.
`;

const listCommand = commandOf(listHelp, whereFlags, async (flags) => {
  const [domain, stray] = flags.positionals;
  if (stray !== undefined) throw new UsageError(`override list takes one domain, "${stray}" is too many`);
  const format = outputFormat(flags);
  if (!namesLimiters(flags)) return tellingOfClusters(() => listObjects(flags, domain, format), orLimiters);
  return withLimiters(flags, async (limiters) => {
    const { members, silent } = await limiters.living();
    const all = await limiters.askAll(members, { path: '/v1/overrides', query: { domain } });
    const failed = all.flatMap(({ member, answer }) =>
      answer.ok ? [] : [{ address: member.limiter.address, problem: answer.problem }],
    );
    tellOf(failed);
    const overrides = new Map<string, Json>();
    for (const { member, answer } of all) {
      for (const one of answer.ok ? answer.body.overrides : []) {
        const key = `${one.source} ${one.id} ${one.standing}`;
        const known = overrides.get(key) ?? { ...one, limiters: [] };
        known.limiters.push(member.name);
        overrides.set(key, known);
      }
    }
    return printChange({ overrides: [...overrides.values()], silent: [...silent, ...failed] }, format);
  });
});

const removeHelp = `Usage: weir override rm <id> [flags]
       weir override rm <domain> <key=value> ... [flags]

Removes an override by its id, or what was set for these entries; of the cluster by the name of the object.

${whereHelp}
  weir override rm shop remote_address=203.0.113.7

Exit status: 0 when it was removed; 1 when there is none, or a limiter was silent; 2 for a wrong command line, or a cluster that cannot
be asked.
`;

const removeCommand = commandOf(removeHelp, whereFlags, async (flags) => {
  const [id, ...rest] = flags.positionals;
  if (id === undefined) throw new UsageError('override rm needs an id, or a domain and entries');
  const format = outputFormat(flags);
  const place = rest.length === 0 ? undefined : domainAndEntries(flags.positionals, 'override rm');
  if (!namesLimiters(flags))
    return tellingOfClusters(() => removeObjects(flags, place ?? id, format), orLimiters);
  return withLimiters(flags, async (limiters) => {
    const { members, silent } = await limiters.living();
    const query = place === undefined ? { id } : { domain: place.domain, entry: entryTexts(place.entries) };
    const { answers, failed } = await askHolders(limiters, members, {
      method: 'DELETE',
      path: '/v1/overrides',
      query,
    });
    tellOf(failed);
    const overrides = answers.flatMap(({ body }) => body.removed);
    return printChange({ overrides, silent: [...silent, ...failed] }, format, removedText);
  });
});

const help = `Usage: weir override set|list|rm [flags]

  set     lay a limit, unlimited, shadow or block over the rules for a time
  list    show what lies over the rules, and for how long
  rm      remove it

  weir override set shop remote_address=203.0.113.7 --limit 100 --for 2h --reason "sale"
  weir override list shop
  weir override rm shop remote_address=203.0.113.7

"weir override <word> --help" says what each takes.
`;

export const overrideCommand = commandOfVerbs(help, {
  set: setCommand,
  list: listCommand,
  rm: removeCommand,
});
