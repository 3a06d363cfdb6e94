import { readOverride } from '../../rules/reader/read-override.ts';
import { formatManifestError } from '../../rules/rule-error.ts';
import { commandOfVerbs, type ParsedFlags, printProblem, rejectIdle, UsageError } from '../shared/flags.ts';
import { type CommandReport, outputHelp, reportCommand } from '../shared/report.ts';
import { readDescriptor } from '../shared/request.ts';
import { durationText, table, valueText } from '../shared/text.ts';
import { type Json, namedLimiters } from './limiters.ts';
import { entriesText } from './operate-command.ts';
import {
  limitersTarget,
  type OverrideOutcome,
  type OverrideTarget,
  withFlagNames,
} from './override-limiters.ts';
import { objectsTarget } from './override-objects.ts';

const whereHelp = `  --limiter <host[:port]>     the debug listener of a limiter (default port: 6070). Repeat the flag for several (default: the variable WEIR_LIMITERS, separated by commas, else the cluster)
  --token-file <path>         a file with the token, for limiters that require one (default: the file that WEIR_TOKEN_FILE names)
  --timeout <t>               how long to wait for each answer (default: 5s for limiters, 30s for the API server)
  -n, --namespace <name>      the namespace of the object (default: as for the domain's RateLimitConfig)
  --context <name>, --kubeconfig <file>   as for kubectl
${outputHelp}`;

export const makingHelp = `${whereHelp}  --class, --fleet <name>     class and fleet of the object (default: as for the domain's RateLimitConfig)
  --wait <t>                  how long to wait until the object is Ready (default 10s; 0s: not at all)
  --dry-run                   print what the command would create, without creating it
`;

const units = ['second', 'minute', 'hour', 'day', 'week', 'month', 'year'];

const setHelp = `Usage: weir override set <domain> <key=value> ... <effect> <end> --reason <text> [flags]

Overrides the rules for these entries for a limited time, and replaces an earlier override of the same entries. In a value, * stands for any text. With --limiter or WEIR_LIMITERS, the command asks the limiters; otherwise it creates a RateLimitOverride in the cluster.

Choose one effect:
  --limit <n>                 the number of requests per window, instead of the rule's
  --unit <unit>               the unit of --limit, if no rule matches: ${units.join(', ')}
  --limit-name <name>         the limit to override, if the rule has several
  --unlimited                 allow all requests
  --shadow                    count requests, but never reject them
  --block                     reject all requests
Choose one end:
  --for <t>                   a duration: 2h, 30m, 1d; at most 30 days, unless OVERRIDES_MAX_SECONDS of the limiters allows more
  --until <time>              a time in RFC 3339, such as 2026-01-31T18:00:00Z
  --permanent                 until you remove it

  --reason <text>             why you set it, for people who find it
${makingHelp}
  weir override set shop remote_address=203.0.113.7 --limit 100 --for 2h --reason "sale"
  weir override set shop 'tenant=acme-*' --block --for 30m --reason abuse
  weir override set shop tenant=a --block --for 1h --reason x --dry-run | kubectl apply -f -

Exit status: 0 when the override was created. 1 when it was rejected, has no effect on the rules, is not Ready in time, or a limiter did not answer. 2 for a wrong command line, or a cluster that does not answer.
`;

const setCommand = reportCommand(
  setHelp,
  async (flags) => {
    const { domain, entries } = readDescriptor(flags.positionals, 'override set');
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
  { values: { unit: units } },
);

/** A text that is not a number is rejected together with the other fields. */
function numberOr(text: string): number | string {
  return /^\d+$/.test(text) ? Number(text) : text;
}

/** Returns the one flag of these that is given. @throws UsageError */
function onlyOf<Name extends string>(flags: ParsedFlags, names: readonly Name[], what: string): Name {
  const given = names.filter((name) => flags.on(name) || flags.text(name) !== undefined);
  const [only] = given;
  if (given.length === 1 && only !== undefined) return only;
  const listed = names.map((name) => `--${name}`).join(', ');
  const found = given.length === 0 ? '' : `, and not ${given.map((name) => `--${name}`).join(' and ')}`;
  throw new UsageError(`set ${what} with one of ${listed}${found}`);
}

function targetOf(flags: ParsedFlags): OverrideTarget {
  if (namedLimiters(flags) === undefined) return objectsTarget(flags);
  rejectIdle(flags, ['wait'], 'with --limiter or WEIR_LIMITERS: only objects become Ready');
  return limitersTarget(flags);
}

/** Creates an override or grant from the fields of `/v1/overrides`: an object in a cluster, or through the API of limiters. */
export async function setOverride(flags: ParsedFlags, wanted: Json): Promise<CommandReport> {
  checkOverride(wanted);
  if (!flags.on('dry-run')) return reportOf(await targetOf(flags).put(wanted), overridesText);
  const value = await targetOf(flags).draft(wanted);
  return { status: 0, value, text: () => valueText(value, 'yaml') };
}

/** Reports overrides in one form, whether limiters or a cluster returned them. */
function reportOf(
  { overrides, silent, notes, isDone }: OverrideOutcome,
  text: (overrides: readonly Json[]) => string,
): CommandReport {
  for (const note of notes) printProblem(note);
  const status = silent.length === 0 && isDone ? 0 : 1;
  return { status, value: { overrides, silent }, text: () => text(overrides) };
}

/** Reports errors in terms of flags before anything is sent. Only the server knows the maximum duration. @throws UsageError */
function checkOverride(body: Json): void {
  if (!body.reason) throw new UsageError('give a reason with --reason');
  if (body.match.length === 0)
    throw new UsageError('give the entries: key=value, in the order of the descriptor');
  const nowMs = Date.now();
  const { problems = [] } = readOverride(body, {
    source: 'api',
    id: 'new',
    createdMs: nowMs,
    by: '',
    fromMs: nowMs,
    maxSeconds: Number.MAX_SAFE_INTEGER,
    rejectsPast: true,
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

const listHelp = `Usage: weir override list [<domain>] [flags]

Shows the overrides of the limiters and when they end, whether they come from the API, from files or from objects. Without limiters, it shows the RateLimitOverrides of the cluster.

${whereHelp}
  weir override list shop --limiter localhost

Exit status: 0, or 1 when a limiter did not answer; 2 for a wrong command line, or a cluster that does not answer.
`;

const listCommand = reportCommand(listHelp, async (flags) => {
  const [domain, stray] = flags.positionals;
  if (stray !== undefined)
    throw new UsageError(`override list takes one domain, found another one: "${stray}"`);
  return reportOf(await targetOf(flags).list(domain), overridesText);
});

const removeHelp = `Usage: weir override rm <id> [flags]
       weir override rm <domain> <key=value> ... [flags]

Removes an override by its ID or by its entries. In a cluster, the ID is the name of the object.

${whereHelp}
  weir override rm shop remote_address=203.0.113.7

Exit status: 0 when the override was removed. 1 when there is none, or a limiter did not answer. 2 for a wrong command line, or a cluster that cannot be reached.
`;

const removeCommand = reportCommand(removeHelp, async (flags) => {
  const [id, ...rest] = flags.positionals;
  if (id === undefined) throw new UsageError('override rm needs an id, or a domain and entries');
  const which = rest.length === 0 ? { id } : readDescriptor(flags.positionals, 'override rm');
  return reportOf(await targetOf(flags).remove(which), removedText);
});

/** Formats overrides, one line each. */
function overridesText(overrides: readonly Json[]): string {
  if (overrides.length === 0) return 'no overrides\n';
  return table(
    overrides.map((one) => ({
      ID: one.source === 'api' ? one.id : one.name,
      SOURCE: one.source,
      DOMAIN: one.domain,
      MATCH: entriesText(one.match),
      EFFECT: effectText(one),
      LEFT:
        one.secondsLeft === null || one.secondsLeft === undefined
          ? one.grant === undefined
            ? 'permanent'
            : 'its window'
          : durationText(one.secondsLeft),
      STATE: one.state,
      ...(overrides.some(({ limiters }) => limiters.length > 0) && { LIMITERS: one.limiters.length }),
      ...(overrides.some(({ createdBy }) => createdBy) && { BY: one.createdBy }),
      REASON: one.reason,
      ...(overrides.some(({ message }) => message) && { MESSAGE: one.message && withFlagNames(one.message) }),
    })),
  );
}

/** Formats removed overrides as they were before. */
function removedText(overrides: readonly Json[]): string {
  const words = overrides.length === 1 ? '1 override was' : `${overrides.length} overrides were`;
  const rows = overrides.length === 0 ? '' : `\nBefore:\n${overridesText(overrides)}`;
  return `${words} removed\n${rows}`;
}

function effectText({ words, requestsPerUnit, unit, unlimited, shadow, block, grant, limit }: Json): string {
  const of = limit ? ` (${limit})` : '';
  if (words !== undefined) return `${words}${of}`;
  if (requestsPerUnit !== undefined) return `${requestsPerUnit}${unit ? ` a ${unit}` : ''}${of}`;
  if (grant !== undefined) return `${grant} more${of}`;
  return unlimited ? `unlimited${of}` : shadow ? `shadow${of}` : block ? `block${of}` : '';
}

const help = `Usage: weir override set|list|rm [flags]

  set     override a limit for a time: another limit, unlimited, shadow or block
  list    show overrides, and when they end
  rm      remove an override

  weir override set shop remote_address=203.0.113.7 --limit 100 --for 2h --reason "sale"
  weir override list shop
  weir override rm shop remote_address=203.0.113.7

"weir override <word> --help" describes each of them.
`;

export const overrideCommand = commandOfVerbs(help, {
  set: setCommand,
  list: listCommand,
  rm: removeCommand,
});
