import { isDeepStrictEqual } from 'node:util';
import { type ConfigObject, type ConfigStatus, objectKey, UnreadSpec } from '../model/config-object.ts';
import { hashOf } from '../model/fleet-snapshot.ts';
import { VersionedMap } from '../model/versioned-map.ts';
import { duplicate, type FileManifest, type ManifestProblem } from './manifest-folder.ts';

/**
 * Gives manifests what the Kubernetes API gives to its objects: a uid for their life, a generation that grows with each
 * change of `spec`, and a status. All of it is the same for the same files after a start.
 */
export class ManifestObjects {
  /** Keyed by uid. */
  #objects = VersionedMap.of<ConfigObject>();
  /** How often an object of this name was created. */
  readonly #lives = new Map<string, number>();
  /** Keyed by `objectKey`. */
  #places: ReadonlyMap<string, string> = new Map();
  #duplicates = new Set<string>();

  /** Keyed by uid. */
  get objects(): VersionedMap<ConfigObject> {
    return this.#objects;
  }

  /** Where its manifest stands: `limits.yaml:12`. */
  placeOf(object: ConfigObject): string | undefined {
    return this.#places.get(objectKey(object));
  }

  /** Takes the manifests that there are now, of one name the first; returns those that are newly left out. */
  update(manifests: readonly FileManifest[]): { hasChanged: boolean; problems: ManifestProblem[] } {
    const before = new Map([...this.#objects.values()].map((object) => [objectKey(object), object]));
    const places = new Map<string, string>();
    const duplicates = new Map<string, ManifestProblem>();
    // Every object that is not set below is gone.
    const next = new Map<string, ConfigObject | undefined>();
    for (const uid of this.#objects.keys()) next.set(uid, undefined);
    for (const manifest of manifests) {
      const key = objectKey(manifest);
      const firstPlace = places.get(key);
      if (firstPlace === undefined) {
        places.set(key, manifest.place);
        const object = this.#object(key, manifest, before.get(key));
        next.set(object.uid, object);
      } else {
        const problem = duplicate(manifest.place, key, firstPlace);
        duplicates.set(`${problem.place} ${problem.text}`, problem);
      }
    }
    this.#places = places;
    const objects = this.#objects.with(next);
    const hasChanged = objects !== this.#objects;
    this.#objects = objects;
    const known = this.#duplicates;
    this.#duplicates = new Set(duplicates.keys());
    return {
      hasChanged,
      problems: [...duplicates].filter(([text]) => !known.has(text)).map(([, problem]) => problem),
    };
  }

  /** Returns whether it changed anything; a status for an object that is gone does not. */
  setStatus(uid: string, status: ConfigStatus): boolean {
    const object = this.#objects.get(uid);
    if (object === undefined || isDeepStrictEqual(object.status, status)) return false;
    this.#objects = this.#objects.with(new Map([[uid, { ...object, status }]]));
    return true;
  }

  #object(
    key: string,
    { kind, namespace, name, spec: read, problem }: FileManifest,
    before: ConfigObject | undefined,
  ): ConfigObject {
    const spec = problem === undefined ? read : new UnreadSpec(problem);
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
