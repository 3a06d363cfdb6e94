/**
 * Records which statuses this process has written, and whether its watch shows them yet. Each write is based on one version
 * of its object, and the API server rejects it if the object has changed. So every version between that one and the one
 * that the write created is this process's own.
 *
 *     sent -- done ------> confirmed: used instead of an older state of the watch, for at most a minute
 *          -- conflict --> outdated: nothing is written until the watch shows a newer version, for at most 10 s. If that version
 *                          has the same status, the write was applied, and its request arrived twice
 *          -- rejected --> as before
 *          -- no answer yet, or an ambiguous one: a status with the same content counts as our own, also while later writes are sent
 *
 * There is one entry per object, which `forget` or `retain` removes. A status without an entry counts as another writer's.
 */
import type { Clock } from '../../process/time/clock.ts';

/** An object of the API with a status that this process writes. */
export interface StatusOwner {
  uid: string;
  resourceVersion?: string | undefined;
  status: object | undefined;
}

type StatusOf<Kind extends StatusOwner> = NonNullable<Kind['status']>;

/** A status, and the object that it is based on. */
export interface StatusWrite<Kind extends StatusOwner> {
  object: Kind;
  status: StatusOf<Kind>;
}

/** `failed`: the write may have been applied anyway. `version`: the version that the write created, if objects have versions. */
export interface WriteEnd {
  is: 'written' | 'outdated' | 'gone' | 'refused' | 'failed';
  version?: string;
}

/** The result of a watch event about a status that this process wrote. */
export type WriteObservation<Kind extends StatusOwner> =
  /** A write without an answer was applied. */
  | { is: 'written'; entry: StatusWrite<Kind> }
  /** Another writer changed this status. */
  | { is: 'overwritten'; status: StatusOf<Kind> };

export interface WriteLedgerOptions<Kind extends StatusOwner> {
  clock: Clock;
  isSame(a: Kind['status'], b: Kind['status']): boolean;
}

interface StatusWrites<Kind extends StatusOwner> {
  confirmed?: { status: StatusOf<Kind>; version: string; atMs: number } | undefined;
  /** Writes in flight, and writes whose answers were lost; the oldest first, and at most `maxUnanswered`. */
  unanswered: readonly StatusWrite<Kind>[];
}

/** If a watch lags longer, it has lost the write, for example after a backup was restored. */
const maxLagMs = 60_000;
/** Chosen: more unanswered writes indicate an outage. If an older write was applied after all, it counts as another writer's. */
const maxUnanswered = 8;
/** The time to wait for the watch to show the version that made a write fail. */
const maxOutdatedMs = 10_000;

export class WriteLedger<Kind extends StatusOwner> {
  readonly #options: WriteLedgerOptions<Kind>;
  /** All entries by uid. */
  readonly #entries = new Map<string, StatusWrites<Kind>>();
  readonly #outdated = new Map<string, { from: string; untilMs: number }>();

  constructor(options: WriteLedgerOptions<Kind>) {
    this.#options = options;
  }

  /** Records that a write is being sent. Call the returned function once, with the outcome. */
  begin(write: StatusWrite<Kind>): (end: WriteEnd) => void {
    const { uid, resourceVersion: from = '' } = write.object;
    const entry: StatusWrites<Kind> = this.#entries.get(uid) ?? { unanswered: [] };
    // Takes a copy, because a failed write may be sent again.
    const sent = { ...write };
    entry.unanswered = [...entry.unanswered, sent].slice(-maxUnanswered);
    this.#entries.set(uid, entry);
    return ({ is, version }) => {
      // The entry may have been forgotten in the meantime.
      if (is === 'failed' || this.#entries.get(uid) !== entry) return;
      const atMs = this.#options.clock.nowMs();
      // Once a write was applied, earlier ones can only conflict. A conflict may also be one with the write itself: a proxy may send a
      // request twice, and return the second answer.
      if (is === 'written') entry.unanswered = [];
      else if (is !== 'outdated') entry.unanswered = entry.unanswered.filter((one) => one !== sent);
      if (is === 'written') this.#outdated.delete(uid);
      else if (is !== 'refused') this.#outdated.set(uid, { from, untilMs: atMs + maxOutdatedMs });
      if (version !== undefined) entry.confirmed = { status: write.status, version, atMs };
    };
  }

  /** Returns whether this process wrote the version of the object that an event shows. */
  isOwn({ uid, resourceVersion = '', status }: Kind): boolean {
    const entry = this.#entries.get(uid);
    if (entry === undefined) return false;
    const { confirmed } = entry;
    const isCovered = confirmed !== undefined && !isNewerVersion(resourceVersion, confirmed.version);
    return isCovered || this.#unanswered(entry, status) !== undefined;
  }

  /** Returns the object with its newest status: as the watch shows it, or as this process has written it since. */
  look(shown: Kind): { known: Kind; found?: WriteObservation<Kind> } {
    const { uid, status, resourceVersion: version = '' } = shown;
    const entry = this.#entries.get(uid);
    if (entry === undefined) return { known: shown };
    const nowMs = this.#options.clock.nowMs();
    if (entry.confirmed !== undefined && isNewerVersion(entry.confirmed.version, version)) {
      if (nowMs - entry.confirmed.atMs < maxLagMs) return { known: withStatus(shown, entry.confirmed) };
      entry.confirmed = undefined;
    }
    const { confirmed } = entry;
    const sent = this.#unanswered(entry, status);
    const outdated = this.#outdated.get(uid);
    if (outdated !== undefined && isNewerVersion(version, outdated.from)) {
      this.#outdated.delete(uid);
      entry.unanswered = [];
      if (sent !== undefined) {
        entry.confirmed = { status: sent.status, version, atMs: nowMs };
        return { known: shown, found: { is: 'written', entry: sent } };
      }
    }
    const isOwn = confirmed === undefined || this.#options.isSame(confirmed.status, status);
    if (isOwn || sent !== undefined) return { known: shown };
    entry.confirmed = undefined;
    return { known: shown, found: { is: 'overwritten', status: confirmed.status } };
  }

  /** Returns whether a status may be written. It must not replace an outdated version. */
  mayWrite({ uid }: Kind): boolean {
    const nowMs = this.#options.clock.nowMs();
    return nowMs >= (this.#outdated.get(uid)?.untilMs ?? nowMs);
  }

  /** The times at which the result of `mayWrite` changes. */
  dueMs(): number[] {
    return [...this.#outdated.values()].map(({ untilMs }) => untilMs);
  }

  /** The object is gone. */
  forget(uid: string): void {
    this.#entries.delete(uid);
    this.#outdated.delete(uid);
  }

  /** Removes the entries of all other objects, which are gone. */
  retain(objects: readonly Kind[]): void {
    const uids = new Set(objects.map(({ uid }) => uid));
    for (const uid of this.#entries.keys()) if (!uids.has(uid)) this.forget(uid);
  }

  /** Clears the ledger, because another process may write from now on. */
  clear(): void {
    this.#entries.clear();
    this.#outdated.clear();
  }

  /** Returns the write without an answer that has this status. */
  #unanswered({ unanswered }: StatusWrites<Kind>, status: Kind['status']): StatusWrite<Kind> | undefined {
    return unanswered.find((one) => this.#options.isSame(one.status, status));
  }
}

/**
 * Returns whether version `a` of an object is later than `b`. Versions are growing decimal numbers without a sign (Kubernetes API
 * Concepts, "Resource versions"). For other texts, and if one is missing, the answer depends only on the two values.
 */
export function isNewerVersion(a: string, b: string): boolean {
  return a.length === b.length ? a > b : a.length > b.length;
}

/** Returns the object with the status that a write created. */
export function withStatus<Kind extends StatusOwner>(
  object: Kind,
  { status, version }: { status: StatusOf<Kind>; version: string | undefined },
): Kind {
  return { ...object, status, ...(version === undefined ? {} : { resourceVersion: version }) };
}
