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
  const tables = [
    ...(fleets.length === 0 ? [] : [table(fleets.map(fleetRow))]),
    ...(waiting.length === 0 ? [] : [table(waiting.map((one) => objectRow(one, options)))]),
  ];
  const ready = fleets.filter(({ why }) => why === undefined).length;
  const sums = [
    ...(fleets.length === 0 ? [] : [sumText(fleets.length, 'fleet', ready)]),
    objects.length === 0
      ? `no RateLimitConfigs ${place}`
      : sumText(objects.length, 'object', objects.length - waiting.length),
  ];
  return [...tables, `${sums.join('; ')}\n`].join('\n');
}

function sumText(total: number, noun: string, ready: number): string {
  const rest = total === ready ? '' : `, ${total - ready} not`;
  return `${total} ${noun}${total === 1 ? '' : 's'}, ${ready} ready${rest}`;
}

/** Columns in their order; empty texts are shown as `-`. */
type Row = Record<string, string>;

function fleetRow({
  namespace,
  name,
  limiters,
  current,
  refusing,
  version,
  conditions,
  why,
}: ShownFleet): Row {
  const ready = why ?? conditions.find(({ type }) => type === 'Ready');
  const progressing = conditions.find(({ type, status }) => type === 'Progressing' && status === 'True');
  const words = [why?.message, progressing?.message].filter((message) => message !== undefined);
  return {
    NAMESPACE: namespace,
    FLEET: name,
    LIMITERS: limiters,
    CURRENT: current === undefined ? '' : String(current),
    REFUSING: refusing.map((one) => one.name).join(','),
    VERSION: version,
    READY: ready?.status ?? '',
    PROGRESSING: progressing === undefined ? 'False' : 'True',
    REASON: ready?.reason ?? '',
    SINCE: ready?.since ?? '',
    MESSAGE: words.join('; '),
  };
}

function objectRow(object: ShownObject, { wide }: { wide: boolean }): Row {
  const { namespace, name, domain, fleet, className, generation, servedGeneration, controllerName } = object;
  const { type, status, reason, since, message } = object.why!;
  return {
    NAMESPACE: namespace,
    NAME: name,
    DOMAIN: domain,
    FLEET: fleet,
    ...(wide && {
      CLASS: className,
      GENERATION: String(generation),
      SERVED: servedGeneration === undefined ? '' : String(servedGeneration),
      CONTROLLER: controllerName ?? '',
    }),
    CONDITION: `${type}=${status}`,
    REASON: reason,
    SINCE: since,
    MESSAGE: message,
  };
}

/** One object with all that its status says. */
export function objectText(object: ShownObject): string {
  const { namespace, name, className, domain, fleet, generation, observedGeneration, why } = object;
  const { servedGeneration = 'none', controllerName = 'none' } = object;
  const facts: Row[] = [
    {
      NAMESPACE: namespace,
      NAME: name,
      CLASS: className,
      DOMAIN: domain,
      FLEET: fleet,
      GENERATION: String(generation),
      OBSERVED: String(observedGeneration ?? 'none'),
      SERVED: String(servedGeneration),
      CONTROLLER: controllerName,
    },
  ];
  // What is missing in the status stands in it as if it were said there.
  const isSaid = why === undefined || object.conditions.includes(why);
  const conditions = isSaid ? object.conditions : [why, ...object.conditions];
  return `${table(facts)}\n${table(conditions.map(conditionRow))}`;
}

function conditionRow({ type, status, reason, since, message }: ShownCondition): Row {
  return { CONDITION: type, STATUS: status, REASON: reason, SINCE: since, MESSAGE: message };
}

/** In kubectl's form. All texts are the cluster's, so that none may act on the terminal. */
function table(rows: readonly Row[]): string {
  const columns = Object.keys(rows[0]!);
  const lines = [columns, ...rows.map((row) => columns.map((name) => escaped(row[name] || '-')))];
  const widths = columns.map((_, index) => Math.max(...lines.map((line) => line[index]!.length)));
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
