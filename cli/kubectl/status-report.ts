import { type Row, table } from '../shared/output.ts';
import type { ShownCondition, ShownFleet, ShownObject, ShownOverride } from './shown-objects.ts';

/** What `kubectl weir status` found. */
export interface StatusFacts {
  fleets: readonly ShownFleet[];
  objects: readonly ShownObject[];
  overrides: readonly ShownOverride[];
  /** `in namespace shop`. */
  place: string;
}

/** Whether everything that was looked at is ready. */
export function allReady({ fleets, objects, overrides }: StatusFacts): boolean {
  return [...fleets, ...objects, ...overrides].every(({ why }) => why === undefined);
}

/** Chosen: more of them are for `kubectl get rlo`. */
const mostOverrides = 50;

/** Fleets, what is not ready and why, overrides that have not ended, and the sum of it, for a person. `wide` has more columns. */
export function statusText(
  { fleets, objects, overrides, place }: StatusFacts,
  options: { wide: boolean },
): string {
  const waiting = objects.filter(({ why }) => why !== undefined);
  const lying = overrides.filter(({ isOver }) => !isOver);
  // Those that are not ready first: no other place shows them.
  const shown = [...lying.filter(({ why }) => why), ...lying.filter(({ why }) => !why)].slice(
    0,
    mostOverrides,
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
  if (objects.length === 0) sums.push(`no RateLimitConfigs ${place}`);
  return [...tables, `${sums.join('; ')}\n`].join('\n');
}

function sumText(all: readonly (ShownFleet | ShownObject)[], noun: string): string {
  if (all.length === 0) return '';
  const ready = all.filter(({ why }) => why === undefined).length;
  const rest = all.length === ready ? '' : `, ${all.length - ready} not`;
  return `${all.length} ${noun}${all.length === 1 ? '' : 's'}, ${ready} ready${rest}`;
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
  const { namespace, name, domain, fleet, className, controllerName, match, effect, endsAt, why } = override;
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
    REASON: why?.reason,
    MESSAGE: why?.message,
  };
}

/** One object with all that its status says. */
export function objectText(object: ShownObject): string {
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
  // What is missing in the status stands in it as if it were said there.
  const said = why === undefined || conditions.includes(why) ? conditions : [why, ...conditions];
  return `${table([facts])}\n${table(said.map(conditionRow))}`;
}

function conditionRow({ type, status, reason, since, message }: ShownCondition): Row {
  return { CONDITION: type, STATUS: status, REASON: reason, SINCE: since, MESSAGE: message };
}

/** For programs: the fleets, all objects that are not ready, and all overrides that have not ended, with all of their conditions. */
export function statusJson(facts: StatusFacts): string {
  const notReady = facts.objects.filter(({ why }) => why !== undefined);
  const report = {
    fleets: facts.fleets.map(readable),
    notReady: notReady.map(readable),
    overrides: facts.overrides.filter(({ isOver }) => !isOver).map(readable),
    objectCount: facts.objects.length,
    readyCount: facts.objects.length - notReady.length,
  };
  return `${JSON.stringify(report, undefined, 2)}\n`;
}

export function objectJson(object: ShownObject): string {
  return `${JSON.stringify(readable(object), undefined, 2)}\n`;
}

function readable<T extends { why: ShownCondition | undefined }>(shown: T): T & { ready: boolean } {
  return { ...shown, ready: shown.why === undefined };
}
