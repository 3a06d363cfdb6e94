/**
 * Deleted objects, until no limiter runs their rules and receivers of webhooks were notified. Every replica sees deletions and the
 * leader's records of them, so that each replica can become the leader.
 */
import type { ConfigObject } from '../model/config-object.ts';
import type { ClusterDecision, ObjectOutcome, RemovedObject } from '../model/decision.ts';
import { changedKeys } from '../model/versioned-map.ts';

interface PendingRemoval {
  readonly object: RemovedObject;
  /** The first snapshot of its fleet from which on no snapshot contains it. Undefined while nothing is served to the fleet. */
  readonly since: number | undefined;
  /** Whether receivers are being notified. */
  readonly isReported: boolean;
}

export interface RemovalsOptions {
  /** The maximum number of waiting objects. Above it, the oldest object is dropped. */
  max: number;
  /** The time after a deletion within which another leader would have stored it. */
  forgetAfterMs: number;
}

/** Chosen: a watch that is further behind shows notified objects again, and they are notified twice. */
const maxLagMs = 60_000;

interface Parts {
  readonly options: RemovalsOptions;
  /** Waiting objects by uid, the oldest first. */
  readonly waiting: ReadonlyMap<string, PendingRemoval>;
  /** Times by uid when receivers had been notified. */
  readonly doneMs: ReadonlyMap<string, number>;
  readonly outcomes: ClusterDecision['outcomes'];
  /** Uids of stored objects. */
  readonly stored: ReadonlySet<string>;
  readonly dropped: number;
}

/** Immutable. */
export class Removals {
  readonly #parts: Parts;

  private constructor(parts: Parts) {
    this.#parts = parts;
  }

  static none(options: RemovalsOptions): Removals {
    const nothing = { waiting: new Map(), doneMs: new Map(), outcomes: new Map(), stored: new Set<string>() };
    return new Removals({ options, ...nothing, dropped: 0 });
  }

  /** The objects that must outlive this process, the oldest first. */
  get objects(): RemovedObject[] {
    return [...this.#parts.waiting.values()].map(({ object }) => object);
  }

  /** The number of objects that were dropped so far. */
  get dropped(): number {
    return this.#parts.dropped;
  }

  isWaiting(uid: string): boolean {
    return this.#parts.waiting.has(uid);
  }

  /** `isGone`: whether the object no longer exists, neither in this control plane nor in another. */
  afterDecision(
    { outcomes }: Pick<ClusterDecision, 'outcomes'>,
    isGone: (object: ConfigObject) => boolean,
    nowMs: number,
  ): Removals {
    const { outcomes: before } = this.#parts;
    if (outcomes === before) return this;
    const gone = [...changedKeys(outcomes, before)].flatMap((uid) => {
      const outcome = outcomes.has(uid) ? undefined : before.get(uid)!;
      return outcome && isGone(outcome.object) ? [removedObject(outcome, nowMs)] : [];
    });
    return this.#with({ outcomes }).#withObjects(gone);
  }

  /** Adopts the currently stored objects. Receivers were notified of objects that the leader removed from them. */
  afterStore(
    stored: readonly RemovedObject[],
    { leads, nowMs }: { leads: boolean; nowMs: number },
  ): Removals {
    const uids = new Set(stored.map(({ uid }) => uid));
    const isReported = (uid: string): boolean => !leads && this.#parts.stored.has(uid) && !uids.has(uid);
    const waiting = new Map([...this.#parts.waiting].filter(([uid]) => !isReported(uid)));
    const doneMs = new Map([...this.#parts.doneMs].filter(([, ms]) => nowMs - ms < maxLagMs));
    return this.#with({ waiting, doneMs, stored: uids }).#withObjects(stored);
  }

  /** Follows another leader. Objects that the leader has not stored after this time count as notified. */
  ofOtherLeader(nowMs: number): Removals {
    const { options, stored } = this.#parts;
    const isPast = ({ object, isReported }: PendingRemoval): boolean => {
      const isOld = nowMs - object.removedMs >= options.forgetAfterMs;
      return isOld && !isReported && !stored.has(object.uid);
    };
    const past = [...this.#parts.waiting.values()].filter(isPast);
    return past.length === 0 ? this : this.#without(past.map(({ object }) => object.uid));
  }

  /**
   * Returns the objects to notify about now, each of them once. Call `afterNotices` when their receivers were notified. `newest` is the
   * number of a fleet's snapshot.
   */
  reporting(
    newest: (fleet: string) => number | undefined,
    mayRun: (fleet: string, resource: string, sinceNumber: number) => boolean,
  ): { due: readonly RemovedObject[]; removals: Removals } {
    const due: RemovedObject[] = [];
    const waiting = new Map(this.#parts.waiting);
    for (const [uid, pending] of waiting) {
      // Another replica saw the deletion before this one.
      if (pending.isReported || this.#parts.outcomes.has(uid)) continue;
      const { served } = pending.object;
      const since = pending.since ?? (served === null ? undefined : newest(served.fleet));
      const isReported =
        served === null || !mayRun(served.fleet, served.resource, since ?? Number.POSITIVE_INFINITY);
      if (isReported) due.push(pending.object);
      waiting.set(uid, { ...pending, since, isReported });
    }
    return { due, removals: this.#with({ waiting }) };
  }

  /** The receivers were notified of these objects. */
  afterNotices(uids: Iterable<string>, nowMs: number): Removals {
    const done = [...uids];
    const doneMs = new Map([...this.#parts.doneMs, ...done.map((uid) => [uid, nowMs] as const)]);
    return this.#with({ doneMs }).#without(done);
  }

  #with(parts: Partial<Parts>): Removals {
    return new Removals({ ...this.#parts, ...parts });
  }

  #without(uids: readonly string[]): Removals {
    const waiting = new Map(this.#parts.waiting);
    for (const uid of uids) waiting.delete(uid);
    return this.#with({ waiting });
  }

  #withObjects(objects: readonly RemovedObject[]): Removals {
    const { options, doneMs } = this.#parts;
    const waiting = new Map(this.#parts.waiting);
    for (const object of objects) {
      const { uid } = object;
      if (!waiting.has(uid) && !doneMs.has(uid))
        waiting.set(uid, { object, since: undefined, isReported: false });
    }
    const surplus = [...waiting.keys()].slice(0, Math.max(0, waiting.size - options.max));
    const dropped = this.#parts.dropped + surplus.length;
    return this.#with({ waiting, dropped }).#without(surplus);
  }
}

function removedObject({ object, served }: ObjectOutcome, removedMs: number): RemovedObject {
  const { kind, namespace, name, uid, generation } = object;
  const last = served && { fleet: served.fleet, domain: served.domain, resource: served.resource };
  const identity = { ...(kind && { kind }), namespace, name, uid, generation };
  return { ...identity, served: last ?? null, removedMs };
}
