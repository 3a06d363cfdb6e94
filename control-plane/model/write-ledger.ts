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
 * There is one entry per object, until `without` removes it. A status without an entry counts as another writer's. When the lead is lost,
 * only confirmed writes of the last minute remain, and another leader may replace them.
 */
import { VersionedMap } from './versioned-map.ts';

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

interface StatusWrites<Kind extends StatusOwner> {
  readonly confirmed?: { status: StatusOf<Kind>; version: string; atMs: number } | undefined;
  /** Writes in flight, and writes whose answers were lost; the oldest first, and at most `maxUnanswered`. */
  readonly unanswered: readonly StatusWrite<Kind>[];
  /** The write that was sent last. */
  readonly latest: StatusWrite<Kind>;
  /** `confirmed` was written before this process lost the lead. Another leader may have replaced it. */
  readonly isFormer?: boolean | undefined;
}

/** If a watch lags longer, it has lost the write, for example after a backup was restored. */
const maxLagMs = 60_000;
/** Chosen: more unanswered writes indicate an outage. If an older write was applied after all, it counts as another writer's. */
const maxUnanswered = 8;
/** The time to wait for the watch to show the version that made a write fail. */
const maxOutdatedMs = 10_000;

interface Parts<Kind extends StatusOwner> {
  isSame(a: Kind['status'], b: Kind['status']): boolean;
  /** All entries by uid. */
  readonly entries: VersionedMap<StatusWrites<Kind>>;
  /** Versions by uid over which nothing is written. */
  readonly outdated: ReadonlyMap<string, { from: string; untilMs: number }>;
}

/** Immutable. */
export class WriteLedger<Kind extends StatusOwner> {
  readonly #parts: Parts<Kind>;

  private constructor(parts: Parts<Kind>) {
    this.#parts = parts;
  }

  static empty<Kind extends StatusOwner>(isSame: Parts<Kind>['isSame']): WriteLedger<Kind> {
    return new WriteLedger({ isSame, entries: VersionedMap.of(), outdated: new Map() });
  }

  /** A write is being sent. `ended` follows with the same value. */
  begun(write: StatusWrite<Kind>): WriteLedger<Kind> {
    const { uid } = write.object;
    const { confirmed, unanswered = [], isFormer } = this.#parts.entries.get(uid) ?? {};
    const { resourceVersion: base = '' } = write.object;
    // A write over a version that one of ours has replaced can only conflict. It must not be found as one that was applied.
    const isLate = confirmed !== undefined && isNewerVersion(confirmed.version, base);
    const sent = isLate ? unanswered : [...unanswered, write].slice(-maxUnanswered);
    return this.#with(uid, { confirmed, unanswered: sent, latest: write, isFormer });
  }

  /**
   * This process has lost the lead. What it wrote last still replaces older states of the watch, which may have stopped. So a later term
   * does not write it again.
   */
  lostLead(nowMs: number): WriteLedger<Kind> {
    const { isSame, entries } = this.#parts;
    const former = new Map<string, StatusWrites<Kind>>();
    for (const [uid, entry] of entries)
      if (entry.confirmed !== undefined && nowMs - entry.confirmed.atMs < maxLagMs)
        former.set(uid, { ...entry, unanswered: [], isFormer: true });
    const kept = VersionedMap.of<StatusWrites<Kind>>().with(former);
    return new WriteLedger({ isSame, entries: kept, outdated: new Map() });
  }

  ended(write: StatusWrite<Kind>, { is, version }: WriteEnd, nowMs: number): WriteLedger<Kind> {
    const { uid, resourceVersion: from = '' } = write.object;
    const entry = this.#parts.entries.get(uid);
    // The entry may have been forgotten in the meantime.
    if (is === 'failed' || entry?.latest !== write) return this;
    const isOfFormerTerm = entry.isFormer === true && !entry.unanswered.includes(write);
    if (isOfFormerTerm && is !== 'written') return this;
    let { confirmed, unanswered } = entry;
    // Once a write was applied, earlier ones can only conflict. A conflict may also be one with the write itself: a proxy may send a
    // request twice, and return the second answer.
    if (is === 'written') unanswered = [];
    else if (is !== 'outdated') unanswered = unanswered.filter((one) => one !== write);
    if (version !== undefined) confirmed = { status: write.status, version, atMs: nowMs };
    const isFormer = is === 'written' ? isOfFormerTerm : entry.isFormer;
    const ledger = this.#with(uid, { ...entry, confirmed, unanswered, isFormer });
    if (is === 'refused') return ledger;
    return ledger.#outdating(uid, is === 'written' ? undefined : { from, untilMs: nowMs + maxOutdatedMs });
  }

  /** Returns whether this process wrote the version of the object that an event shows. */
  isOwn({ uid, resourceVersion = '', status }: Kind): boolean {
    const entry = this.#parts.entries.get(uid);
    if (entry === undefined) return false;
    const { confirmed } = entry;
    const isCovered = confirmed !== undefined && !isNewerVersion(resourceVersion, confirmed.version);
    return isCovered || this.#unanswered(entry, status) !== undefined;
  }

  /**
   * Returns the object with its newest status: as the watch shows it, or as this process has written it since. The next ledger does not
   * find the same again.
   */
  look<Shown extends Kind>(
    shown: Shown,
    nowMs: number,
  ): { known: Shown; found?: WriteObservation<Shown>; writes: WriteLedger<Kind> } {
    const { entries, outdated, isSame } = this.#parts;
    const { uid, status, resourceVersion: version = '' } = shown;
    const entry = entries.get(uid) as StatusWrites<Shown> | undefined;
    if (entry === undefined) return { known: shown, writes: this };
    let { confirmed } = entry;
    if (confirmed !== undefined && isNewerVersion(confirmed.version, version)) {
      if (nowMs - confirmed.atMs < maxLagMs) return { known: withStatus(shown, confirmed), writes: this };
      confirmed = undefined;
    }
    const sent = this.#unanswered(entry, status);
    const from = outdated.get(uid)?.from;
    const isPast = from !== undefined && isNewerVersion(version, from);
    const unanswered = isPast ? [] : entry.unanswered;
    const next = (after: typeof confirmed): WriteLedger<Kind> => {
      const ledger = this.#with(uid, { ...entry, confirmed: after, unanswered });
      return isPast ? ledger.#outdating(uid, undefined) : ledger;
    };
    if (isPast && sent !== undefined) {
      const writes = next({ status: sent.status, version, atMs: nowMs });
      return { known: shown, found: { is: 'written', entry: sent }, writes };
    }
    if (entry.isFormer) confirmed = undefined;
    if (confirmed === undefined || isSame(confirmed.status, status) || sent !== undefined)
      return { known: shown, writes: isPast || confirmed !== entry.confirmed ? next(confirmed) : this };
    const found = { is: 'overwritten', status: confirmed.status } as const;
    return { known: shown, found, writes: next(undefined) };
  }

  /** Returns whether a status may be written. It must not replace an outdated version. */
  mayWrite({ uid }: Kind, nowMs: number): boolean {
    return nowMs >= (this.#parts.outdated.get(uid)?.untilMs ?? nowMs);
  }

  /** The times at which the result of `mayWrite` changes. */
  dueMs(): number[] {
    return [...this.#parts.outdated.values()].map(({ untilMs }) => untilMs);
  }

  /** These objects are gone. */
  without(uids: Iterable<string>): WriteLedger<Kind> {
    const gone = new Map([...uids].map((uid) => [uid, undefined]));
    const entries = this.#parts.entries.with(gone);
    const outdated = new Map([...this.#parts.outdated].filter(([uid]) => !gone.has(uid)));
    return entries === this.#parts.entries ? this : new WriteLedger({ ...this.#parts, entries, outdated });
  }

  #with(uid: string, entry: StatusWrites<Kind>): WriteLedger<Kind> {
    return new WriteLedger({ ...this.#parts, entries: this.#parts.entries.with(new Map([[uid, entry]])) });
  }

  #outdating(uid: string, version: { from: string; untilMs: number } | undefined): WriteLedger<Kind> {
    const outdated = new Map(this.#parts.outdated);
    if (version === undefined) outdated.delete(uid);
    else outdated.set(uid, version);
    return new WriteLedger({ ...this.#parts, outdated });
  }

  /** Returns the write without an answer that has this status. */
  #unanswered<One extends Kind>(
    { unanswered }: StatusWrites<One>,
    status: One['status'],
  ): StatusWrite<One> | undefined {
    return unanswered.find((one) => this.#parts.isSame(one.status, status));
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
