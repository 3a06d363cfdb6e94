import { escaped } from '../shared/flags.ts';
import type { ShownCondition, ShownFleet, ShownObject } from './shown-objects.ts';

/** What `kubectl weir status` found. */
export interface StatusFacts {
  fleets: readonly ShownFleet[];
  objects: readonly ShownObject[];
  /** `in namespace shop`. */
  place: string;
}

/** Whether everything that was looked at is ready. */
export function allReady({ fleets, objects }: StatusFacts): boolean {
  return [...fleets, ...objects].every(({ why }) => why === undefined);
}

/** Fleets, what is not ready and why, and the sum of it, for a person. `wide` has more columns. */
export function statusText({ fleets, objects, place }: StatusFacts, options: { wide: boolean }): string {
  const waiting = objects.filter(({ why }) => why !== undefined);
  const rows = [fleets.map(fleetRow), waiting.map((one) => objectRow(one, options))];
  const tables = rows.filter(({ length }) => length > 0).map(table);
  const sums = [sumText(fleets, 'fleet'), sumText(objects, 'object')].filter((sum) => sum !== '');
  if (objects.length === 0) sums.push(`no RateLimitConfigs ${place}`);
  return [...tables, `${sums.join('; ')}\n`].join('\n');
}

function sumText(all: readonly (ShownFleet | ShownObject)[], noun: string): string {
  if (all.length === 0) return '';
  const ready = all.filter(({ why }) => why === undefined).length;
  const rest = all.length === ready ? '' : `, ${all.length - ready} not`;
  return `${all.length} ${noun}${all.length === 1 ? '' : 's'}, ${ready} ready${rest}`;
}

/** Columns in their order; what is empty or missing is shown as `-`. */
type Row = Record<string, string | number | undefined>;

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

/** In kubectl's form. All texts are the cluster's, so that none may act on the terminal. */
function table(rows: readonly Row[]): string {
  const columns = Object.keys(rows[0]!);
  const lines = [columns, ...rows.map((row) => columns.map((name) => escaped(`${row[name] ?? ''}` || '-')))];
  const widths = columns.map((_, index) =>
    lines.reduce((widest, line) => Math.max(widest, line[index]!.length), 0),
  );
  const padded = lines.map((line) => line.map((cell, index) => cell.padEnd(widths[index]!)).join('   '));
  return padded.map((line) => `${line.trimEnd()}\n`).join('');
}

/** For programs: the fleets, and all objects that are not ready, with all of their conditions. */
export function statusJson(facts: StatusFacts): string {
  const notReady = facts.objects.filter(({ why }) => why !== undefined);
  const report = {
    fleets: facts.fleets.map(readable),
    notReady: notReady.map(readable),
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
