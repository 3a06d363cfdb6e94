/**
 * Which changes of objects are this process's own status writes: it decided them, so they are no reason to decide anew.
 * A write is known by the resourceVersion that the API server returns for it. Its event may come before that answer: so
 * an event that comes while the object's status is being written stays open until the answer is there. What is not
 * certain to be ours, such as a write whose answer was lost, is another's. Pure.
 */
interface Writes {
  underWay: number;
  /** Versions of events whose writer is not known yet. */
  open: Set<string>;
  /** Versions that writes returned and no event had yet, oldest first. */
  awaited: Set<string>;
}

/** Chosen: a watch that is further behind tells of own writes as of others'. */
const mostAwaited = 64;

export type Writer = 'own' | 'other' | 'open';

export class OwnWrites {
  readonly #told: (writer: Exclude<Writer, 'open'>) => void;
  /** By uid. */
  readonly #writes = new Map<string, Writes>();

  /** `told` is called for events that were open, each kind once for all of one write. */
  constructor(told: (writer: Exclude<Writer, 'open'>) => void) {
    this.#told = told;
  }

  /** A write of the object's status goes out. Call what it returns once, with the version that came of it, if one is known. */
  begin(uid: string): (resourceVersion?: string) => void {
    const writes = this.#writes.get(uid) ?? { underWay: 0, open: new Set(), awaited: new Set() };
    this.#writes.set(uid, writes);
    writes.underWay += 1;
    return (version) => {
      writes.underWay -= 1;
      const isShown = version !== undefined && writes.open.delete(version);
      if (version !== undefined && !isShown) writes.awaited.add(version);
      const [oldest] = writes.awaited;
      if (oldest !== undefined && writes.awaited.size > mostAwaited) writes.awaited.delete(oldest);
      const hasOthers = writes.underWay === 0 && writes.open.size > 0;
      if (writes.underWay === 0) writes.open.clear();
      if (isShown) this.#told('own');
      if (hasOthers) this.#told('other');
    };
  }

  /** Whose the event is by which an object came to this version. */
  writerOf(uid: string, resourceVersion: string): Writer {
    const writes = this.#writes.get(uid);
    if (writes === undefined) return 'other';
    if (writes.awaited.has(resourceVersion)) {
      // Events come in the order of the writes: one that was passed over will not come.
      for (const version of writes.awaited) {
        writes.awaited.delete(version);
        if (version === resourceVersion) break;
      }
      return 'own';
    }
    if (writes.underWay === 0) return 'other';
    writes.open.add(resourceVersion);
    return 'open';
  }

  /** The object is gone. */
  forget(uid: string): void {
    this.#writes.delete(uid);
  }
}
