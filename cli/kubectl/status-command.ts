import { ApiError } from '../../control-plane/kubernetes/api-error.ts';
import { fleetPlural } from '../../rules/manifest/fleet-model.ts';
import { namespaceProblem, objectNameProblem } from '../../rules/manifest/read-manifests.ts';
import { plural } from '../../rules/manifest/spec-model.ts';
import { escaped, type ParsedFlags, UsageError } from '../shared/flags.ts';
import { type Cluster, clusterCommand, clusterHelp, placeText } from './cluster.ts';
import { type ShownFleet, type ShownObject, shownFleet, shownObject } from './shown-objects.ts';
import { allReady, objectJson, objectText, statusJson, statusText } from './status-report.ts';

const help = `Usage: kubectl weir status [<name>] [flags]

Shows the fleets of limiters and every RateLimitConfig that is not Ready: the condition that says why, since when, and the
limiters in question. With a name it shows all conditions of that one. Fleets are those of the control planes that serve
the objects, and those of the namespace itself.

${clusterHelp}      --class <name>          objects of this class alone (default: of all classes)
  -o, --output text|wide|json how to print the result (default text)

  kubectl weir status -A
  kubectl weir status shop -n mail || kubectl describe rlc shop -n mail

Exit status: 0 when all is ready, 1 when something is not, 2 for a wrong command line, or a cluster that cannot be asked.
`;

export const statusCommand = clusterCommand(
  help,
  { class: { type: 'string' }, output: { type: 'string', short: 'o' } },
  async (flags, cluster) => {
    const output = flags.text('output') ?? 'text';
    if (!/^(?:text|wide|json)$/.test(output))
      throw new UsageError(`--output is text, wide or json, not "${output}"`);
    const [name, stray] = flags.positionals;
    if (stray !== undefined)
      throw new UsageError(`status takes the name of one object, "${stray}" is another`);
    if (name !== undefined) return statusOfOne(name, cluster, output);
    const facts = { ...(await gathered(flags, cluster)), place: cluster.place };
    process.stdout.write(
      output === 'json' ? statusJson(facts) : statusText(facts, { wide: output === 'wide' }),
    );
    return allReady(facts) ? 0 : 1;
  },
);

async function statusOfOne(name: string, cluster: Cluster, output: string): Promise<number> {
  if (cluster.namespace === undefined)
    throw new UsageError('an object has one namespace: a name and --all-namespaces exclude each other');
  const problem = objectNameProblem(name);
  if (problem !== undefined) throw new UsageError(`the name ${problem}`);
  const object = shownObject(await cluster.get(plural, name));
  process.stdout.write(output === 'json' ? objectJson(object) : objectText(object));
  return object.why === undefined ? 0 : 1;
}

async function gathered(
  flags: ParsedFlags,
  cluster: Cluster,
): Promise<{ fleets: ShownFleet[]; objects: ShownObject[] }> {
  const className = flags.text('class');
  const all = await cluster.list(plural, cluster.namespace, shownObject);
  const objects = all.filter((one) => className === undefined || one.className === className);
  const ofClass = new Set(objects.map(fleetOf));
  const isMeant = ({ namespace, name }: ShownFleet) =>
    ofClass.has(`${namespace}/${name}`) ||
    (className === undefined && (cluster.namespace ?? namespace) === namespace);
  const named = objects.flatMap((one) => one.controllerName?.split('/', 1) ?? []);
  const controllers = named.filter((name) => namespaceProblem(name) === undefined);
  const places = cluster.namespace === undefined ? [undefined] : new Set([cluster.namespace, ...controllers]);
  const fleets: ShownFleet[] = [];
  for (const place of places) fleets.push(...(await fleetsOf(cluster, place)).filter(isMeant));
  return { fleets, objects };
}

/** `weir-system/default`: a fleet is an object in the namespace of its control plane. */
function fleetOf({ controllerName = '', fleet }: ShownObject): string {
  return `${controllerName.split('/', 1)[0]}/${fleet}`;
}

/** Without the right to fleets, or without fleets, what is known of objects is worth showing still. */
async function fleetsOf(cluster: Cluster, namespace: string | undefined): Promise<ShownFleet[]> {
  try {
    return await cluster.list(fleetPlural, namespace, shownFleet);
  } catch (error) {
    if (!(error instanceof ApiError && (error.status === 403 || error.status === 404))) throw error;
    const note = `no fleets are shown ${placeText(namespace)}: ${error.message}`;
    process.stderr.write(`kubectl weir: ${escaped(note)}\n`);
    return [];
  }
}
