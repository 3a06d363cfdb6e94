/** The cluster part of a status report: fleets, objects that are not ready and why, and overrides that have not ended. */

import { fleetPlural, overridePlural, plural } from '../../rules/language/kinds.ts';
import { namespaceProblem, objectNameProblem } from '../../rules/reader/read-manifests.ts';
import { type Cluster, isMissing, placeText } from '../shared/cluster.ts';
import { type ParsedFlags, printProblem } from '../shared/flags.ts';
import { servedByFlags } from '../shared/read-input.ts';
import { count, type Row, table } from '../shared/text.ts';
import {
  type ShownCondition,
  type ShownFleet,
  type ShownObject,
  type ShownOverride,
  shownFleet,
  shownObject,
  shownOverride,
} from './shown-objects.ts';

export interface ObjectsReport {
  fleets: readonly ShownFleet[];
  objects: readonly ShownObject[];
  overrides: readonly ShownOverride[];
  /** The control planes that wrote statuses and no longer lead. */
  stopped: readonly StoppedControlPlane[];
  /** The only namespace that was looked at; undefined if all were. */
  namespace: string | undefined;
}

/** A control plane without a leader: it writes no statuses. */
export interface StoppedControlPlane {
  /** `<namespace>/<LEASE_NAME>`. */
  name: string;
  /** When a leader last renewed the Lease object. Null if the object does not exist. */
  since: string | null;
}

/** Lists the objects of a class in one namespace or in all of them. Rejects if objects cannot be listed. */
export async function objectsOf(cluster: Cluster, flags: ParsedFlags): Promise<ObjectsReport> {
  const { className } = servedByFlags(flags);
  const all = await cluster.list(plural, cluster.namespace, shownObject);
  const isOfClass = (one: ShownObject) => className === undefined || one.className === className;
  const objects = all.filter(isOfClass);
  const allOverrides = await shownList(cluster, overridePlural, cluster.namespace, shownOverride);
  const overrides = allOverrides.filter(isOfClass);
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
  const stopped = await stoppedOf(cluster, [...objects, ...overrides]);
  return { fleets, objects, overrides, stopped, namespace: cluster.namespace };
}

/** Chosen: the time without a leader after which a control plane has stopped. Clocks may differ by nearly as much. */
const longestPauseMs = 60_000;

/** Reads the Lease objects of the control planes that wrote statuses. Leaves out those that the user may not read. */
export async function stoppedOf(
  cluster: Cluster,
  objects: readonly ShownObject[],
): Promise<StoppedControlPlane[]> {
  const stopped: StoppedControlPlane[] = [];
  for (const name of new Set(objects.flatMap(({ controllerName }) => controllerName ?? []))) {
    const [namespace = '', lease = ''] = name.split('/');
    if (namespaceProblem(namespace) !== undefined || objectNameProblem(lease) !== undefined) continue;
    try {
      const { spec } = (await cluster.get('leases', lease, namespace)) as { spec?: { renewTime?: string } };
      const renewedMs = Date.parse(spec?.renewTime ?? '');
      if (Date.now() - renewedMs > longestPauseMs)
        stopped.push({ name, since: `${new Date(renewedMs).toISOString().slice(0, 19)}Z` });
    } catch (error) {
      if (!isMissing(error)) throw error;
      if (error.status === 404) stopped.push({ name, since: null });
    }
  }
  return stopped;
}

/** Returns for example `weir-system/default`: a fleet belongs to the namespace of its control plane. */
function fleetOf({ controllerName = '', fleet }: ShownObject): string {
  return `${controllerName.split('/', 1)[0]}/${fleet}`;
}

/** If the right to list a kind or its definition is missing, the report shows the other kinds. */
export async function shownList<T>(
  cluster: Cluster,
  kinds: string,
  namespace: string | undefined,
  show: (value: unknown) => T,
): Promise<T[]> {
  try {
    return await cluster.list(kinds, namespace, show);
  } catch (error) {
    if (!isMissing(error)) throw error;
    const what = kinds === fleetPlural ? 'fleets' : 'overrides';
    printProblem(`no ${what} are shown ${placeText(namespace)}: ${error.message}`);
    return [];
  }
}

/** Whether all listed objects are ready, and their control planes run. */
export function allReady({ fleets, objects, overrides, stopped }: ObjectsReport): boolean {
  return stopped.length === 0 && [...fleets, ...objects, ...overrides].every(({ why }) => why === undefined);
}

/** Chosen: the maximum number of overrides in the report. `kubectl get rlo` lists all. */
const maxOverrides = 50;

/** Formats the report for people: fleets, objects that are not ready, active overrides, and a summary. `wide` adds columns. */
export function objectsText(
  { fleets, objects, overrides, stopped, namespace }: ObjectsReport,
  options: { wide: boolean },
): string {
  const waiting = objects.filter(({ why }) => why !== undefined);
  const lying = overrides.filter(({ isOver }) => !isOver);
  // Overrides that are not ready come first, because no other part of the report shows them.
  const shown = [...lying.filter(({ why }) => why), ...lying.filter(({ why }) => !why)].slice(
    0,
    maxOverrides,
  );
  const rows = [
    fleets.map(fleetRow),
    waiting.map((one) => objectRow(one, options)),
    shown.map((one) => overrideRow(one, options)),
  ];
  const tables = rows.filter(({ length }) => length > 0).map(table);
  const sums = [sumText(fleets, 'fleet'), sumText(objects, 'object')].filter((sum) => sum !== '');
  if (lying.length > 0) sums.push(sumText(lying, 'override'));
  if (lying.length > shown.length) sums.push(`${lying.length - shown.length} overrides are not shown`);
  const isEmpty = objects.length === 0;
  if (isEmpty) sums.push(`no RateLimitConfigs ${placeText(namespace)}`);
  const where = isEmpty || namespace === undefined ? '' : `${placeText(namespace)}: `;
  return [...tables, `${stopsText(stopped)}${where}${sums.join('; ')}\n`].join('\n');
}

function stopsText(stopped: readonly StoppedControlPlane[]): string {
  return stopped
    .map(
      ({ name, since }) =>
        `control plane ${name} has no ${since === null ? 'Lease object' : `leader since ${since}`}: statuses may be out of date\n`,
    )
    .join('');
}

function sumText(all: readonly (ShownFleet | ShownObject)[], noun: string): string {
  if (all.length === 0) return '';
  const ready = all.filter(({ why }) => why === undefined).length;
  const rest = all.length === ready ? '' : `, ${all.length - ready} not`;
  return `${count(all.length, noun)}, ${ready} ready${rest}`;
}

function fleetRow(fleet: ShownFleet): Row {
  const { namespace, name, limiters, current, refusing, version, conditions, why } = fleet;
  const ready = why ?? conditions.find(({ type }) => type === 'Ready');
  const progressing = conditions.find(({ type, status }) => type === 'Progressing' && status === 'True');
  return {
    NAMESPACE: namespace,
    FLEET: name,
    LIMITERS: limiters,
    CURRENT: current,
    REFUSING: refusing.map((one) => one.name).join(','),
    VERSION: version,
    READY: ready?.status,
    PROGRESSING: progressing === undefined ? 'False' : 'True',
    REASON: ready?.reason,
    SINCE: ready?.since,
    MESSAGE: [why?.message, progressing?.message].filter((words) => words !== undefined).join('; '),
  };
}

function objectRow(object: ShownObject, { wide }: { wide: boolean }): Row {
  const { namespace, name, domain, fleet, className, generation, servedGeneration, controllerName } = object;
  const { type, status, reason, since, message } = object.why!;
  const more = {
    CLASS: className,
    GENERATION: generation,
    SERVED: servedGeneration,
    CONTROLLER: controllerName,
  };
  return {
    NAMESPACE: namespace,
    NAME: name,
    DOMAIN: domain,
    FLEET: fleet,
    ...(wide && more),
    CONDITION: `${type}=${status}`,
    REASON: reason,
    SINCE: since,
    MESSAGE: message,
  };
}

function overrideRow(override: ShownOverride, { wide }: { wide: boolean }): Row {
  const { namespace, name, domain, fleet, className, controllerName } = override;
  const { match, effect, endsAt, why, idle } = override;
  const remark = why ?? idle;
  return {
    NAMESPACE: namespace,
    OVERRIDE: name,
    DOMAIN: domain,
    FLEET: fleet,
    ...(wide && { CLASS: className, CONTROLLER: controllerName }),
    MATCH: match,
    EFFECT: effect,
    ENDS: endsAt,
    READY: why === undefined ? 'True' : why.status,
    REASON: remark?.reason,
    MESSAGE: remark?.message,
  };
}

/** Formats one object with its whole status. `stopped`: its control plane, if it has stopped. */
export function objectText(object: ShownObject, stopped: readonly StoppedControlPlane[] = []): string {
  const { conditions, why } = object;
  const facts = {
    NAMESPACE: object.namespace,
    NAME: object.name,
    CLASS: object.className,
    DOMAIN: object.domain,
    FLEET: object.fleet,
    GENERATION: object.generation,
    OBSERVED: object.observedGeneration,
    SERVED: object.servedGeneration,
    CONTROLLER: object.controllerName,
  };
  // A missing part of the status is shown as if it were a condition.
  const shown = why === undefined || conditions.includes(why) ? conditions : [why, ...conditions];
  const stops = stopped.length === 0 ? '' : `\n${stopsText(stopped)}`;
  return `${table([facts])}\n${table(shown.map(conditionRow))}${stops}`;
}

function conditionRow({ type, status, reason, since, message }: ShownCondition): Row {
  return { CONDITION: type, STATUS: status, REASON: reason, SINCE: since, MESSAGE: message };
}

/** Returns the report for programs: the fleets, all objects that are not ready, and all active overrides, with all conditions. */
export function objectsValue({ fleets, objects, overrides, stopped }: ObjectsReport): object {
  const notReady = objects.filter(({ why }) => why !== undefined);
  return {
    fleets: fleets.map(readable),
    notReady: notReady.map(readable),
    overrides: overrides.filter(({ isOver }) => !isOver).map(readable),
    stoppedControlPlanes: stopped,
    objectCount: objects.length,
    readyCount: objects.length - notReady.length,
  };
}

/** Returns one item of the report for programs. */
export function readable<T extends { why: ShownCondition | undefined }>(shown: T): T & { ready: boolean } {
  return { ...shown, ready: shown.why === undefined };
}
