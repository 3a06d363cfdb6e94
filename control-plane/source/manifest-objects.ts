import { isDeepStrictEqual } from 'node:util';
import { type ConfigObject, type ConfigStatus, objectKey, UnreadSpec } from '../model/config-object.ts';
import { hashOf } from '../model/fleet-snapshot.ts';
import { ObjectChanges } from '../model/object-changes.ts';
import { duplicate, type FileManifest, type ManifestProblem } from './manifest-folder.ts';

/**
 * Gives manifests what the Kubernetes API gives to its objects: a uid for their life, a generation that grows with each
 * change of `spec`, and a status. All of it is the same for the same files after a start.
 */
export class ManifestObjects {
  readonly changes = new ObjectChanges();
  /** By `objectKey`. */
  #objects = new Map<string, ConfigObject>();
  /** How often an object of this name was created. */
  readonly #lives = new Map<string, number>();
  /** By `objectKey`. */
  #places: ReadonlyMap<string, string> = new Map();
  #duplicates = new Set<string>();

  get objects(): ConfigObject[] {
    return [...this.#objects.values()];
  }

  newest(object: ConfigObject): ConfigObject | undefined {
    const newest = this.#objects.get(objectKey(object));
    return newest?.uid === object.uid ? newest : undefined;
  }

  /** Where its manifest stands: `limits.yaml:12`. */
  placeOf(object: ConfigObject): string | undefined {
    return this.#places.get(objectKey(object));
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
    this.#places = places;
    const hasChanged = this.#noteChanges(before);
    const known = this.#duplicates;
    this.#duplicates = new Set(duplicates.keys());
    return {
      hasChanged,
      problems: [...duplicates].filter(([text]) => !known.has(text)).map(([, problem]) => problem),
    };
  }

  /** Returns whether it changed anything; a status for an object that is gone does not. */
  setStatus(uid: string, status: ConfigStatus): boolean {
    for (const [key, object] of this.#objects) {
      if (object.uid !== uid) continue;
      if (isDeepStrictEqual(object.status, status)) return false;
      const next = { ...object, status };
      this.#objects.set(key, next);
      this.changes.note(uid, next);
      return true;
    }
    return false;
  }

  #noteChanges(before: ReadonlyMap<string, ConfigObject>): boolean {
    let hasChanged = false;
    for (const key of new Set([...before.keys(), ...this.#objects.keys()])) {
      const [old, now] = [before.get(key), this.#objects.get(key)];
      if (old === now) continue;
      hasChanged = true;
      if (old !== undefined) this.changes.note(old.uid, undefined);
      if (now !== undefined) this.changes.note(now.uid, now);
    }
    return hasChanged;
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
