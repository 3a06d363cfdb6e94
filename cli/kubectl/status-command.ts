import { ApiError } from '../../control-plane/kubernetes/api-error.ts';
import { fleetPlural, overridePlural, plural } from '../../rules/language/kinds.ts';
import { namespaceProblem, objectNameProblem } from '../../rules/reader/read-manifests.ts';
import { type Cluster, clusterCommand, clusterHelp, placeText } from '../shared/cluster.ts';
import { escaped, type ParsedFlags, UsageError } from '../shared/flags.ts';
import { io } from '../shared/io.ts';
import { dataText, type OutputFormat, outputFlag, outputFormat } from '../shared/output.ts';
import {
  type ShownFleet,
  type ShownObject,
  type ShownOverride,
  shownFleet,
  shownObject,
  shownOverride,
} from './shown-objects.ts';
import { allReady, objectJson, objectText, statusJson, statusText } from './status-report.ts';

const help = `Usage: kubectl weir status [<name>] [flags]

Shows the fleets of limiters, every RateLimitConfig that is not Ready: the condition that says why, since when, and the
limiters in question; and the RateLimitOverrides that have not ended. With a name it shows all conditions of that object,
rlo/<name> is a RateLimitOverride. Fleets are those of the control planes that serve
the objects, and those of the namespace itself.

${clusterHelp}      --class <name>          objects of this class alone (default: of all classes)
  -o, --output <form>         how to print the result: table (default), wide, json or yaml

  kubectl weir status -A
  kubectl weir status shop -n mail || kubectl describe rlc shop -n mail

Exit status: 0 when all is ready, 1 when something is not, 2 for a wrong command line, or a cluster that cannot be asked.
`;

export const statusCommand = clusterCommand(
  help,
  { class: { type: 'string' }, output: { ...outputFlag.output, values: ['table', 'wide', 'json', 'yaml'] } },
  async (flags, cluster) => {
    const isWide = flags.text('output') === 'wide';
    const output = isWide ? 'text' : outputFormat(flags, ['table', 'wide', 'json', 'yaml']);
    const [name, stray] = flags.positionals;
    if (stray !== undefined)
      throw new UsageError(`status takes the name of one object, "${stray}" is another`);
    if (name !== undefined) return statusOfOne(name, cluster, output);
    const facts = { ...(await gathered(flags, cluster)), place: cluster.place };
    io().stdout.write(
      output === 'text' ? statusText(facts, { wide: isWide }) : dataText(statusJson(facts), output),
    );
    return allReady(facts) ? 0 : 1;
  },
);

async function statusOfOne(name: string, cluster: Cluster, output: OutputFormat): Promise<number> {
  if (cluster.namespace === undefined)
    throw new UsageError('an object has one namespace: a name and --all-namespaces exclude each other');
  const ofOverride = /^rlo\/(.*)$/.exec(name)?.[1];
  const problem = objectNameProblem(ofOverride ?? name);
  if (problem !== undefined) throw new UsageError(`the name ${problem}`);
  const object = shownObject(
    await (ofOverride === undefined ? cluster.get(plural, name) : cluster.get(overridePlural, ofOverride)),
  );
  io().stdout.write(output === 'text' ? objectText(object) : dataText(objectJson(object), output));
  return object.why === undefined ? 0 : 1;
}

async function gathered(
  flags: ParsedFlags,
  cluster: Cluster,
): Promise<{ fleets: ShownFleet[]; objects: ShownObject[]; overrides: ShownOverride[] }> {
  const className = flags.text('class');
  const all = await cluster.list(plural, cluster.namespace, shownObject);
  const isOfClass = (one: ShownObject) => className === undefined || one.className === className;
  const objects = all.filter(isOfClass);
  const overrides = (await shownList(cluster, overridePlural, cluster.namespace, shownOverride)).filter(
    isOfClass,
  );
  const ofClass = new Set(objects.map(fleetOf));
  const isMeant = ({ namespace, name }: ShownFleet) =>
    ofClass.has(`${namespace}/${name}`) ||
    (className === undefined && (cluster.namespace ?? namespace) === namespace);
  const named = objects.flatMap((one) => one.controllerName?.split('/', 1) ?? []);
  const controllers = named.filter((name) => namespaceProblem(name) === undefined);
  const places = cluster.namespace === undefined ? [undefined] : new Set([cluster.namespace, ...controllers]);
  const fleets: ShownFleet[] = [];
  for (const place of places)
    fleets.push(...(await shownList(cluster, fleetPlural, place, shownFleet)).filter(isMeant));
  return { fleets, objects, overrides };
}

/** `weir-system/default`: a fleet is an object in the namespace of its control plane. */
function fleetOf({ controllerName = '', fleet }: ShownObject): string {
  return `${controllerName.split('/', 1)[0]}/${fleet}`;
}

/** Without the right to a kind, or its definition, what is known of others is worth showing still. */
async function shownList<T>(
  cluster: Cluster,
  kinds: string,
  namespace: string | undefined,
  show: (value: unknown) => T,
): Promise<T[]> {
  try {
    return await cluster.list(kinds, namespace, show);
  } catch (error) {
    if (!(error instanceof ApiError && (error.status === 403 || error.status === 404))) throw error;
    const what = kinds === fleetPlural ? 'fleets' : 'overrides';
    const note = `no ${what} are shown ${placeText(namespace)}: ${error.message}`;
    io().stderr.write(`kubectl weir: ${escaped(note)}\n`);
    return [];
  }
}
