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
 * all entries end. What the last minute confirmed then only replaces older states of the watch, because another leader may write.
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

interface ConfirmedWrite<Kind extends StatusOwner> {
  readonly status: StatusOf<Kind>;
  readonly version: string;
  readonly atMs: number;
}

/** The writes of an object in a former term of this leader. */
interface FormerWrites<Kind extends StatusOwner> {
  readonly confirmed?: ConfirmedWrite<Kind> | undefined;
  /** The write that was sent last, which may still be in flight. */
  readonly latest: StatusWrite<Kind>;
}

/** The writes of an object in this term. */
interface StatusWrites<Kind extends StatusOwner> extends FormerWrites<Kind> {
  /** Writes in flight, and writes whose answers were lost; the oldest first, and at most `maxUnanswered`. */
  readonly unanswered: readonly StatusWrite<Kind>[];
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
  /** The writes of former terms by uid. */
  readonly former: ReadonlyMap<string, FormerWrites<Kind>>;
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
    return new WriteLedger({ isSame, entries: VersionedMap.of(), former: new Map(), outdated: new Map() });
  }

  /** A write is being sent. `ended` follows with the same value. */
  begun(write: StatusWrite<Kind>): WriteLedger<Kind> {
    const { uid } = write.object;
    const { confirmed, unanswered = [] } = this.#parts.entries.get(uid) ?? {};
    const { resourceVersion: base = '' } = write.object;
    const newest = this.#confirmed(uid);
    // A write over a version that one of ours has replaced can only conflict. It must not be found as one that was applied.
    const isLate = newest !== undefined && isNewerVersion(newest.version, base);
    const sent = isLate ? unanswered : [...unanswered, write].slice(-maxUnanswered);
    return this.#with(uid, { confirmed, unanswered: sent, latest: write });
  }

  /**
   * This process has lost the lead. What it wrote last still replaces older states of the watch, which may have stopped. So a later term
   * does not write it again.
   */
  lostLead(nowMs: number): WriteLedger<Kind> {
    const { isSame, former, entries } = this.#parts;
    const isRecent = ({ confirmed }: FormerWrites<Kind>): boolean =>
      confirmed !== undefined && nowMs - confirmed.atMs < maxLagMs;
    const recent = [...former, ...entries].filter(([, entry]) => isRecent(entry));
    return new WriteLedger({
      isSame,
      entries: VersionedMap.of(),
      former: new Map(recent.map(([uid, { confirmed, latest }]) => [uid, { confirmed, latest }])),
      outdated: new Map(),
    });
  }

  ended(write: StatusWrite<Kind>, { is, version }: WriteEnd, nowMs: number): WriteLedger<Kind> {
    const { uid, resourceVersion: from = '' } = write.object;
    const { entries, former } = this.#parts;
    const confirmed = version === undefined ? undefined : { status: write.status, version, atMs: nowMs };
    const entry = entries.get(uid);
    if (entry?.latest !== write) {
      // The object may have been forgotten in the meantime.
      if (confirmed === undefined || former.get(uid)?.latest !== write) return this;
      const next = new Map(former).set(uid, { confirmed, latest: write });
      return new WriteLedger({ ...this.#parts, former: next });
    }
    if (is === 'failed') return this;
    let { unanswered } = entry;
    // Once a write was applied, earlier ones can only conflict. A conflict may also be one with the write itself: a proxy may send a
    // request twice, and return the second answer.
    // An earlier attempt of the same write, without an answer, may have been applied.
    if (is === 'written') unanswered = [];
    else if (is !== 'outdated') unanswered = withoutLast(unanswered, write);
    const ledger = this.#with(uid, { ...entry, confirmed: confirmed ?? entry.confirmed, unanswered });
    if (is === 'refused') return ledger;
    return ledger.#outdating(uid, is === 'written' ? undefined : { from, untilMs: nowMs + maxOutdatedMs });
  }

  /** Returns whether this process wrote the version of the object that an event shows. */
  isOwn({ uid, resourceVersion = '', status }: Kind): boolean {
    const entry = this.#parts.entries.get(uid);
    const confirmed = this.#confirmed(uid);
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
    const newest = this.#confirmed(uid) as ConfirmedWrite<Shown> | undefined;
    const isBehind = newest !== undefined && isNewerVersion(newest.version, version);
    if (isBehind && nowMs - newest.atMs < maxLagMs) return { known: withStatus(shown, newest), writes: this };
    const entry = entries.get(uid) as StatusWrites<Shown> | undefined;
    if (entry === undefined) return { known: shown, writes: this };
    const confirmed = isBehind ? undefined : entry.confirmed;
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
    const isLeft = ([uid]: [uid: string, unknown]): boolean => !gone.has(uid);
    const entries = this.#parts.entries.with(gone);
    const former = new Map([...this.#parts.former].filter(isLeft));
    const outdated = new Map([...this.#parts.outdated].filter(isLeft));
    const isSame = entries === this.#parts.entries && former.size === this.#parts.former.size;
    return isSame ? this : new WriteLedger({ ...this.#parts, entries, former, outdated });
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

  /** Returns the newest write of the object that was confirmed, in this term or in a former one. */
  #confirmed(uid: string): ConfirmedWrite<Kind> | undefined {
    const { confirmed } = this.#parts.entries.get(uid) ?? {};
    const { confirmed: former } = this.#parts.former.get(uid) ?? {};
    if (confirmed === undefined || former === undefined) return confirmed ?? former;
    return isNewerVersion(former.version, confirmed.version) ? former : confirmed;
  }

  /** Returns the write without an answer that has this status. */
  #unanswered<One extends Kind>(
    entry: StatusWrites<One> | undefined,
    status: One['status'],
  ): StatusWrite<One> | undefined {
    return entry?.unanswered.find((one) => this.#parts.isSame(one.status, status));
  }
}

function withoutLast<Item>(items: readonly Item[], item: Item): readonly Item[] {
  const index = items.lastIndexOf(item);
  return index < 0 ? items : items.toSpliced(index, 1);
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
