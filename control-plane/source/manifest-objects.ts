import { isDeepStrictEqual } from 'node:util';
import { type ConfigObject, type ConfigStatus, objectKey } from '../model/config-object.ts';
import { hashOf } from '../model/fleet-snapshot.ts';
import { duplicate, type FileManifest, type ManifestProblem } from './manifest-folder.ts';

/**
 * Gives manifests what the Kubernetes API gives to its objects: a uid for their life, a generation that grows with each
 * change of `spec`, and a status. All of it is the same for the same files after a start.
 */
export class ManifestObjects {
  /** By `objectKey`. */
  #objects = new Map<string, ConfigObject>();
  /** How often an object of this name was created. */
  readonly #lives = new Map<string, number>();
  #duplicates = new Set<string>();

  get objects(): ConfigObject[] {
    return [...this.#objects.values()];
  }

  newest(object: ConfigObject): ConfigObject | undefined {
    const newest = this.#objects.get(objectKey(object));
    return newest?.uid === object.uid ? newest : undefined;
  }

  /** Takes the manifests that there are now, of one name the first; returns those that are newly left out. */
  update(manifests: readonly FileManifest[]): { hasChanged: boolean; problems: ManifestProblem[] } {
    const before = this.#objects;
    const places = new Map<string, string>();
    const duplicates = new Map<string, ManifestProblem>();
    this.#objects = new Map();
    for (const manifest of manifests) {
      const key = objectKey(manifest);
      const firstPlace = places.get(key);
      if (firstPlace === undefined) {
        places.set(key, manifest.place);
        this.#objects.set(key, this.#object(key, manifest, before.get(key)));
      } else {
        const problem = duplicate(manifest.place, key, firstPlace);
        duplicates.set(`${problem.place} ${problem.text}`, problem);
      }
    }
    const known = this.#duplicates;
    this.#duplicates = new Set(duplicates.keys());
    return {
      hasChanged: !hasSameValues(before, this.#objects),
      problems: [...duplicates].filter(([text]) => !known.has(text)).map(([, problem]) => problem),
    };
  }

  /** Returns whether it changed anything; a status for an object that is gone does not. */
  setStatus(uid: string, status: ConfigStatus): boolean {
    for (const [key, object] of this.#objects) {
      if (object.uid !== uid) continue;
      if (isDeepStrictEqual(object.status, status)) return false;
      this.#objects.set(key, { ...object, status });
      return true;
    }
    return false;
  }

  #object(
    key: string,
    { kind, namespace, name, spec }: FileManifest,
    before: ConfigObject | undefined,
  ): ConfigObject {
    if (before === undefined) {
      const life = (this.#lives.get(key) ?? 0) + 1;
      this.#lives.set(key, life);
      const uid = hashOf(`${key} ${life}`);
      const identity = { ...(kind && { kind }), namespace, name, uid };
      return { ...identity, generation: 1, createdMs: 0, spec, status: undefined };
    }
    if (isDeepStrictEqual(before.spec, spec)) return before;
    return { ...before, generation: before.generation + 1, spec };
  }
}

function hasSameValues(a: ReadonlyMap<string, ConfigObject>, b: ReadonlyMap<string, ConfigObject>): boolean {
  return a.size === b.size && [...a].every(([key, object]) => b.get(key) === object);
}
