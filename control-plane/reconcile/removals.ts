/**
 * Deleted objects, until no limiter runs their rules and receivers of webhooks were notified. Every replica sees deletions and the
 * leader's records of them, so that each replica can become the leader. Pure: its inputs are passed in.
 */
import type { ConfigObject } from '../model/config-object.ts';
import type { ClusterDecision, ObjectOutcome } from '../model/decision.ts';
import { changedKeys } from '../model/versioned-map.ts';

export interface RemovedObject
  extends Pick<ConfigObject, 'kind' | 'namespace' | 'name' | 'uid' | 'generation'> {
  /** The last resource that was served for it. Null: none, so that no limiter runs it. */
  served: { fleet: string; domain: string; resource: string } | null;
  /** The time when the deletion was found, in milliseconds since 1970. */
  removedMs: number;
}

interface PendingRemoval {
  object: RemovedObject;
  /** The first snapshot of its fleet from which on no snapshot contains it. Undefined while nothing is served to the fleet. */
  since: number | undefined;
  /** Whether receivers are being notified. */
  isReported: boolean;
}

export interface RemovalsOptions {
  /** The maximum number of waiting objects. Above it, the oldest object is dropped. */
  max: number;
  /** The time after a deletion within which another leader would have stored it. */
  forgetAfterMs: number;
  dropped(): void;
}

/** Chosen: a watch that is further behind shows notified objects again, and they are notified twice. */
const maxLagMs = 60_000;

export class Removals {
  readonly #options: RemovalsOptions;
  /** Waiting objects by uid, the oldest first. */
  readonly #waiting = new Map<string, PendingRemoval>();
  /** Times by uid when receivers had been notified. */
  readonly #doneMs = new Map<string, number>();
  #outcomes: ClusterDecision['outcomes'] = new Map();
  /** Uids of stored objects. */
  #stored: ReadonlySet<string> = new Set();

  constructor(options: RemovalsOptions) {
    this.#options = options;
  }

  /** The objects that must outlive this process, the oldest first. */
  get objects(): RemovedObject[] {
    return [...this.#waiting.values()].map(({ object }) => object);
  }

  /** `isGone`: whether the object no longer exists, neither in this control plane nor in another. */
  observe(decision: ClusterDecision, isGone: (object: ConfigObject) => boolean, nowMs: number): void {
    for (const uid of changedKeys(decision.outcomes, this.#outcomes)) {
      const outcome = decision.outcomes.has(uid) ? undefined : this.#outcomes.get(uid)!;
      if (outcome && isGone(outcome.object)) this.#add(removedObject(outcome, nowMs));
    }
    this.#outcomes = decision.outcomes;
  }

  /** Adopts the currently stored objects. Receivers were notified of objects that the leader removed from them. */
  useStored(stored: readonly RemovedObject[], { leads, nowMs }: { leads: boolean; nowMs: number }): void {
    const uids = new Set(stored.map(({ uid }) => uid));
    if (!leads) for (const uid of this.#stored) if (!uids.has(uid)) this.#waiting.delete(uid);
    this.#stored = uids;
    for (const [uid, doneMs] of this.#doneMs) if (nowMs - doneMs >= maxLagMs) this.#doneMs.delete(uid);
    for (const object of stored) this.#add(object);
  }

  /** Follows another leader. Objects that the leader has not stored after this time count as notified. */
  follow(nowMs: number): void {
    for (const [uid, { object, isReported }] of this.#waiting) {
      const isOld = nowMs - object.removedMs >= this.#options.forgetAfterMs;
      if (isOld && !isReported && !this.#stored.has(uid)) this.#waiting.delete(uid);
    }
  }

  /**
   * Returns the objects to notify about now, each of them once. Call `done` when their receivers were notified. `newest` is the number of
   * a fleet's snapshot.
   */
  due(
    newest: (fleet: string) => number | undefined,
    mayRun: (fleet: string, resource: string, sinceNumber: number) => boolean,
  ): RemovedObject[] {
    const due = [...this.#waiting.values()].filter((waiting) => {
      const { uid, served } = waiting.object;
      // Another replica saw the deletion before this one.
      if (waiting.isReported || this.#outcomes.has(uid)) return false;
      if (served === null) return true;
      waiting.since ??= newest(served.fleet);
      return !mayRun(served.fleet, served.resource, waiting.since ?? Number.POSITIVE_INFINITY);
    });
    for (const waiting of due) waiting.isReported = true;
    return due.map(({ object }) => object);
  }

  done(uid: string, nowMs: number): void {
    this.#waiting.delete(uid);
    this.#doneMs.set(uid, nowMs);
  }

  #add(object: RemovedObject): void {
    const { uid } = object;
    if (this.#waiting.has(uid) || this.#doneMs.has(uid)) return;
    this.#waiting.set(uid, { object, since: undefined, isReported: false });
    if (this.#waiting.size <= this.#options.max) return;
    const [oldest] = this.#waiting.keys();
    this.#waiting.delete(oldest!);
    this.#options.dropped();
  }
}

function removedObject({ object, served }: ObjectOutcome, removedMs: number): RemovedObject {
  const { kind, namespace, name, uid, generation } = object;
  const last = served && { fleet: served.fleet, domain: served.domain, resource: served.resource };
  const identity = { ...(kind && { kind }), namespace, name, uid, generation };
  return { ...identity, served: last ?? null, removedMs };
}
