import type { ConfigObject } from './config-object.ts';

/** By uid: objects as they are now; undefined: gone, or not ours any more. */
export type ChangedObjects = ReadonlyMap<string, ConfigObject | undefined>;

/** What has changed since each of several readers looked last, so that nobody has to look at all objects. */
export class ObjectChanges {
  readonly #unread = new Set<Map<string, ConfigObject | undefined>>();

  note(uid: string, object: ConfigObject | undefined): void {
    for (const changes of this.#unread) changes.set(uid, object);
  }

  /** Returns a function that takes what was noted since its last call, at first since now. */
  reader(): () => ChangedObjects {
    let changes = new Map<string, ConfigObject | undefined>();
    this.#unread.add(changes);
    return () => {
      const taken = changes;
      this.#unread.delete(taken);
      changes = new Map();
      this.#unread.add(changes);
      return taken;
    };
  }
}
