/** How far a process has followed the objects of the API server. Only versions of the same watch can be compared. */
import { type ConfigObject, kindOf } from './config-object.ts';
import { isNewerVersion } from './write-ledger.ts';

/** The newest known `resourceVersion` of each watch, by `watchKey`. Empty if the source of objects has no versions. */
export type ObjectVersions = Readonly<Record<string, string>>;

export const noVersions: ObjectVersions = {};

/** The name of the watch of all objects of a kind, or of those of a namespace. */
export function watchKey(kind: ConfigObject['kind'], namespace = '*'): string {
  return `${kindOf({ kind }).plural} ${namespace}`;
}

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

function isReached(version: string | undefined, required: string): boolean {
  return version !== undefined && !isNewerVersion(required, version);
}
