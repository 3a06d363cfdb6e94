/** One report of what runs and what should run: the limiters as they answer, and the objects of their cluster. */

import { overridePlural, plural } from '../../rules/language/kinds.ts';
import { objectNameProblem } from '../../rules/reader/read-manifests.ts';
import { type Cluster, isMissing, withCluster } from '../shared/cluster.ts';
import {
  CommandError,
  choiceOf,
  type ParsedFlags,
  printProblem,
  rejectIdle,
  UsageError,
} from '../shared/flags.ts';
import { type CommandReport, reportCommand, watchHelp } from '../shared/report.ts';
import { askingOf, LimitersClient, limiterHelp, namedLimiters } from './limiters.ts';
import { type LimitersReport, limitersReport, limitersText } from './limiters-section.ts';
import {
  allReady,
  type ObjectsReport,
  objectsOf,
  objectsText,
  objectsValue,
  objectText,
  readable,
  stoppedOf,
} from './objects-section.ts';
import { orLimiters, withLimiters } from './operate-command.ts';
import { podsOfFleets } from './pods.ts';
import { shownObject } from './shown-objects.ts';

const sections = ['limiters', 'objects'] as const;

/** Flags that select what the report on all objects and limiters shows. */
const selectingFlags = ['only', 'class', 'fleet', 'selector'];

const forms = ['table', 'wide', 'json', 'yaml'] as const;

const help = `Usage: weir status [<name>] [flags]

Reports in two sections. The first asks all limiters for the version of their rules, their store
and breaker, decisions and hits over limit a second, and the 99th percentile of decision times. It
names those that did not answer. The second shows the objects of the cluster: fleets,
RateLimitConfigs that are not Ready with the reason, and RateLimitOverrides that have not ended. With
a name it shows all conditions of that object; rlo/<name> is a RateLimitOverride. With --limiter or WEIR_LIMITERS, it shows no objects.

  --only limiters|objects     show only this section
${limiterHelp}  -A, --all-namespaces        objects of all namespaces, and the limiters of all fleets
  --class <name>              only objects of this class (default: all classes)
${watchHelp}  -o, --output <form>         how to print the report: table (default), wide, json or yaml

  weir status --limiter limiter.example.com        # every address of the name
  weir status -A -o json | jq .ok
  weir status shop -n mail || kubectl describe rlc shop -n mail

Exit status: 0 when everything is well and ready. 1 when an object or a limiter is not ready, a
limiter does not answer, its store is down, or its last load of rules failed. Also 1 when rules
differ between limiters of a fleet, or a control plane has had no leader for a minute. 2 for a wrong command line, or when nothing can be asked. A section that is not available, for example because you lack the rights, is named on standard error and does not affect the exit status. With --only, the exit status is then 2.
`;

export const statusCommand = reportCommand(help, status, { forms });

async function status(flags: ParsedFlags): Promise<CommandReport> {
  const only = choiceOf(flags, 'only', sections);
  const [name, stray] = flags.positionals;
  if (stray !== undefined) throw new UsageError(`status takes the name of one object, "${stray}" is another`);
  const isNamed = namedLimiters(flags) !== undefined;
  if (isNamed && (name !== undefined || only === 'objects'))
    throw new UsageError('limiters that are named by --limiter or WEIR_LIMITERS have no objects');
  if (name !== undefined) rejectIdle(flags, selectingFlags, 'with a name: the report shows only that object');
  if (isNamed) {
    const found = await withLimiters(flags, (limiters) => limiters.found());
    return reportOf({ limiters: limitersReport(found) });
  }
  const lookThere = async (cluster: Cluster): Promise<CommandReport> =>
    name === undefined ? reportOf(await bothOf(cluster, flags, only)) : statusOfOne(name, cluster);
  return withCluster(flags, lookThere, orLimiters);
}

/** The sections of the report. A section that was not requested or could not be read is undefined. */
interface Sections {
  limiters?: LimitersReport | undefined;
  objects?: ObjectsReport | undefined;
}

/** Reads both sections. Rejects if a requested section fails, if both fail, or if a server does not answer. */
async function bothOf(
  cluster: Cluster,
  flags: ParsedFlags,
  only: (typeof sections)[number] | undefined,
): Promise<Sections> {
  let first: unknown;
  const ifThere = async <T>(what: string, find: () => Promise<T>): Promise<T | undefined> => {
    if (only !== undefined && only !== what) return undefined;
    try {
      return await find();
    } catch (error) {
      const isAbsent = isMissing(error) || error instanceof CommandError;
      if (only !== undefined || !isAbsent) throw error;
      if (first !== undefined) throw first;
      first = error;
      return undefined;
    }
  };
  const objects = await ifThere('objects', () => objectsOf(cluster, flags));
  const limiters = await ifThere('limiters', () => limitersOf(cluster, flags, objects));
  if (first instanceof Error)
    printProblem(`no ${objects === undefined ? 'objects' : 'limiters'} are shown: ${first.message}`);
  return { limiters, objects };
}

/** Finds the limiters of the fleets that serve the objects. */
async function limitersOf(
  cluster: Cluster,
  flags: ParsedFlags,
  objects: ObjectsReport | undefined,
): Promise<LimitersReport> {
  const pods = await podsOfFleets(cluster, flags, objects?.fleets ?? []);
  const found = await new LimitersClient(pods, askingOf(flags)).found();
  const { members, silent } = found;
  const [barred] = silent;
  if (
    members.length === 0 &&
    barred !== undefined &&
    silent.every(({ problem }) => /^no port-forward .*\b403\b/.test(problem))
  )
    throw new CommandError(`${barred.address}: ${barred.problem} (right: create pods/portforward)`, 2);
  return limitersReport(found);
}

function reportOf({ limiters, objects }: Sections): CommandReport {
  const ok = limiters?.ok !== false && (objects === undefined || allReady(objects));
  const { ok: _ok, ...ofLimiters } = limiters ?? { problems: [], totals: null, limiters: null };
  const value = { ok, ...ofLimiters, objects: objects === undefined ? null : objectsValue(objects) };
  const text = (wide: boolean) =>
    [limiters && limitersText(limiters), objects && objectsText(objects, { wide })]
      .filter((part) => part !== undefined)
      .join('\n');
  return { status: ok ? 0 : 1, value, text: () => text(false), document: () => text(true) };
}

async function statusOfOne(name: string, cluster: Cluster): Promise<CommandReport> {
  if (cluster.namespace === undefined)
    throw new UsageError('an object has one namespace: a name and --all-namespaces exclude each other');
  const ofOverride = /^rlo\/(.*)$/.exec(name)?.[1];
  const problem = objectNameProblem(ofOverride ?? name);
  if (problem !== undefined) throw new UsageError(`the name ${problem}`);
  const object = shownObject(
    await (ofOverride === undefined ? cluster.get(plural, name) : cluster.get(overridePlural, ofOverride)),
  );
  const stopped = await stoppedOf(cluster, [object]);
  const status = object.why === undefined && stopped.length === 0 ? 0 : 1;
  const value = { ...readable(object), stoppedControlPlanes: stopped };
  const text = () => objectText(object, stopped);
  return { status, value, text, document: text };
}
