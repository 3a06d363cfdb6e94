/** The rules and overrides of a cluster's objects that limiters run, as far as the objects show. */
import { byAge } from '../../control-plane/model/config-object.ts';
import type { Override } from '../../rules/override.ts';
import { readSpec } from '../../rules/reader/manifest-reader.ts';
import { formatManifestError } from '../../rules/rule-error.ts';
import { programName } from '../shared/io.ts';
import { type ServedBy, sourcesServedBy } from '../shared/read-input.ts';
import { type LoadedSource, readOverrideObject } from '../shared/read-rule-texts.ts';
import { isAccepted, type ShownObject, shownObject, shownOverride } from './shown-objects.ts';

/** An object with the fields that are needed to read its rules. */
export interface ClusterRules extends ShownObject {
  createdMs: number;
  spec: unknown;
}

export function clusterRules(value: unknown): ClusterRules {
  const { metadata, spec } = value as { metadata?: { creationTimestamp?: string }; spec?: unknown };
  const createdMs = Date.parse(metadata?.creationTimestamp ?? '');
  return { ...shownObject(value), createdMs: Number.isNaN(createdMs) ? 0 : createdMs, spec };
}

/** The rules by which limiters decide requests of a domain, as far as the cluster shows. */
export interface ClusterRulesInForce {
  /** All rules of the class and fleet that serve the domain. */
  sources: readonly LoadedSource[];
  /** Notes about the domain's objects. */
  notes: string[];
  /** Reasons why the rules in force are not certain. */
  problems: string[];
}

/** @throws UsageError if several classes or fleets have the domain and none is selected */
export function rulesInForce(
  objects: readonly ClusterRules[],
  domain: string,
  chosen: ServedBy,
): ClusterRulesInForce {
  const found: ClusterRulesInForce = { sources: [], notes: [], problems: [] };
  const sources: LoadedSource[] = [];
  for (const object of objects.toSorted(byAge)) {
    const { className, fleet } = object;
    if ((chosen.className ?? className) !== className || (chosen.fleet ?? fleet) !== fleet) continue;
    const reading = readSpec(object.spec, `${object.namespace}/${object.name}`);
    const isOfDomain = object.domain === domain || (reading.ok && reading.source.domain === domain);
    const standing = standingOf(object);
    if (isOfDomain) {
      if (standing.note !== undefined) found.notes.push(standing.note);
      if (standing.problem !== undefined) found.problems.push(standing.problem);
    }
    if (!standing.isInForce) continue;
    if (reading.ok) sources.push(sourceOf(object, reading));
    else if (isOfDomain) {
      const words = reading.errors.map((error) => formatManifestError(error)).join('; ');
      found.problems.push(`${nameOf(object)} cannot be read by this version of ${programName()}: ${words}`);
    }
  }
  const [holder] = sourcesServedBy(
    sources.filter(({ source }) => source.domain === domain),
    chosen,
  );
  found.sources = sources.filter(({ className, fleet }) =>
    holder === undefined ? true : className === holder.className && fleet === holder.fleet,
  );
  return found;
}

/** Whether limiters run the current generation of the object, with notes and problems. */
function standingOf(object: ShownObject): { isInForce: boolean; note?: string; problem?: string } {
  const { generation, servedGeneration, why } = object;
  const name = nameOf(object);
  if (isAccepted(object)) {
    if (why === undefined) return { isInForce: true };
    return { isInForce: true, note: `${name} is not in force everywhere: ${why.reason}, ${why.message}` };
  }
  const reason = why === undefined ? 'it is not accepted' : `${why.reason}, ${why.message}`;
  if (servedGeneration === undefined) return { isInForce: false, note: `${name} is not used: ${reason}` };
  const problem = `limiters run generation ${servedGeneration} of ${name}, and its object is at ${generation}: ${reason}`;
  return { isInForce: false, problem };
}

function nameOf({ namespace, name }: ShownObject): string {
  return `${namespace}/${name}`;
}

function sourceOf(
  { namespace, name }: ShownObject,
  { source, fleet, className }: Extract<ReturnType<typeof readSpec>, { ok: true }>,
): LoadedSource {
  const object = { namespace, name, labels: {} };
  return {
    kind: 'manifests',
    file: source.name,
    load: undefined,
    source,
    fleet,
    className,
    object,
    placeOf: () => undefined,
  };
}

/** The overrides of a domain that limiters of this class and fleet apply. `notes` names those that some limiters do not apply. */
export function overridesInForce(
  objects: readonly unknown[],
  domain: string,
  served: ServedBy,
): { overrides: Override[]; notes: string[] } {
  const notes: string[] = [];
  const overrides = objects.flatMap((object) => {
    const { spec, createdMs } = clusterRules(object);
    const shown = shownOverride(object);
    const { namespace, className, fleet, why, isOver } = shown;
    const isServed = (served.className ?? className) === className && (served.fleet ?? fleet) === fleet;
    if ((spec as { domain?: string }).domain !== domain || !isServed || isOver) return [];
    const name = `${namespace}/${shown.name}`;
    const isUsed = isAccepted(shown);
    const how = isUsed ? 'not in force everywhere' : 'not used';
    if (why !== undefined) notes.push(`override ${name} is ${how}: ${why.reason}, ${why.message}`);
    if (!isUsed) return [];
    const { override } = readOverrideObject(spec, shown, createdMs);
    return override ?? [];
  });
  return { overrides, notes };
}
