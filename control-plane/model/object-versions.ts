/** How far a process has followed the objects of the API server. Only versions of the same watch can be compared. */
import { fleetPlural } from '../../rules/language/kinds.ts';
import { type ConfigObject, kindOf } from './config-object.ts';
import { isNewerVersion } from './write-ledger.ts';

/** The newest known `resourceVersion` of each watch, by `watchKey`. Empty if the source of objects has no versions. */
export type ObjectVersions = Readonly<Record<string, string>>;

export const noVersions: ObjectVersions = {};

/** The name of the watch of all objects of a kind, or of those of a namespace. */
export function watchKey(kind: ConfigObject['kind'], namespace = '*'): string {
  return `${kindOf({ kind }).plural} ${namespace}`;
}

/** The watches of RateLimitFleets, and of namespaces, whose labels they may select. */
export const accessWatches = { fleets: fleetPlural, namespaces: 'namespaces' } as const;

/** Returns the versions that watches show. A watch that must list again has none. */
export function shownVersions(
  watches: Iterable<
    readonly [key: string, watch: { readonly resourceVersion: string | undefined } | undefined]
  >,
): ObjectVersions {
  const shown: Record<string, string> = {};
  for (const [key, watch] of watches)
    if (watch?.resourceVersion !== undefined) shown[key] = watch.resourceVersion;
  return shown;
}

/** The versions of the API server that the access to each fleet follows from. Another value for each edit, even without an effect. */
export type AccessVersions = ReadonlyMap<string, ObjectVersions>;

export const noAccesses: AccessVersions = new Map();

/** Returns `versions` with the newest version of these objects for each of the watches that show them. */
export function withVersionsOf(
  objects: Iterable<ConfigObject>,
  { versions, watches }: { versions: ObjectVersions; watches: ObjectVersions },
): ObjectVersions {
  const newest: Record<string, string> = {};
  for (const { kind, namespace, resourceVersion } of objects) {
    const ofNamespace = watchKey(kind, namespace);
    const watch = ofNamespace in watches ? ofNamespace : watchKey(kind);
    if (resourceVersion !== undefined && !isReached(newest[watch], resourceVersion))
      newest[watch] = resourceVersion;
  }
  return Object.keys(newest).length === 0 ? versions : { ...versions, ...newest };
}

/** Returns whether each watch has reached the required version. */
export function areReached(versions: ObjectVersions, required: ObjectVersions): boolean {
  return Object.entries(required).every(([watch, version]) => isReached(versions[watch], version));
}

export function isReached(version: string | undefined, required: string): boolean {
  return version !== undefined && !isNewerVersion(required, version);
}

interface EditStep {
  readonly number: number;
  readonly versions: ObjectVersions;
  readonly accesses: AccessVersions;
}

/** The numbers of the newest snapshots after edits, in ascending order. Immutable. */
export class EditSteps {
  readonly #steps: readonly EditStep[];

  private constructor(steps: readonly EditStep[]) {
    this.#steps = steps;
  }

  static readonly none = new EditSteps([]);

  /** The accesses of the last step. */
  get accesses(): AccessVersions {
    return this.#steps.at(-1)?.accesses ?? noAccesses;
  }

  /** Replaces a step with the same versions, because nothing was edited in between. */
  with(step: EditStep, max: number): EditSteps {
    const last = this.#steps.at(-1);
    const isSame = last?.versions === step.versions && last.accesses === step.accesses;
    if (isSame && last.number === step.number) return this;
    return new EditSteps((isSame ? [...this.#steps.slice(0, -1), step] : [...this.#steps, step]).slice(-max));
  }

  /** Returns the number of the newest snapshot whose edits these versions show. */
  reachedBy(versions: ObjectVersions): number {
    const isReachedBy = ({ versions: required, accesses }: EditStep): boolean =>
      [required, ...accesses.values()].every((one) => areReached(versions, one));
    return this.#steps.findLast(isReachedBy)?.number ?? 0;
  }
}
