/**
 * Deleted objects, until no limiter runs their rules and receivers of webhooks were notified. Every replica sees deletions and the
 * leader's records of them, so that each replica can become the leader.
 */
import type { ConfigObject } from '../model/config-object.ts';
import type { ClusterDecision, ObjectOutcome, RemovedObject } from '../model/decision.ts';
import { changedKeys } from '../model/versioned-map.ts';
import type { VersionLedger } from './fleet-rollout.ts';
import type { LimiterView } from './limiter-view.ts';

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

/** The deleted objects that a replica knows. Immutable. */
export interface Removals {
  readonly options: RemovalsOptions;
  /** Waiting objects by uid, the oldest first. */
  readonly waiting: ReadonlyMap<string, PendingRemoval>;
  /** Times by uid when receivers had been notified. */
  readonly doneMs: ReadonlyMap<string, number>;
  readonly outcomes: ClusterDecision['outcomes'];
  /** Uids of stored objects. */
  readonly stored: ReadonlySet<string>;
  /** The number of objects that were dropped so far. */
  readonly dropped: number;
}

export function noRemovals(options: RemovalsOptions): Removals {
  const nothing = { waiting: new Map(), doneMs: new Map(), outcomes: new Map(), stored: new Set<string>() };
  return { options, ...nothing, dropped: 0 };
}

/** Returns the objects that must outlive this process, the oldest first. */
export function waitingObjects({ waiting }: Removals): RemovedObject[] {
  return [...waiting.values()].map(({ object }) => object);
}

export interface RemovalFacts {
  decision: ClusterDecision;
  ledger: VersionLedger;
  limiters: LimiterView;
  leads: boolean;
  /** See `Evaluation`. */
  awaitsLimiters: boolean;
  /** Returns whether the object no longer exists, neither in this control plane nor in another. */
  isGone(object: ConfigObject): boolean;
  nowMs: number;
}

/** Returns the removals after a look at the limiters. `due`: objects to notify about now, and the number of known limiters. */
export function evaluateRemovals(
  removals: Removals,
  { decision, ledger, limiters, leads, awaitsLimiters, isGone, nowMs }: RemovalFacts,
): { removals: Removals; due?: readonly { object: RemovedObject; total: number }[] } {
  const observed = afterDecision(removals, decision, isGone, nowMs);
  if (!leads) return { removals: followingOtherLeader(observed, nowMs) };
  if (awaitsLimiters) return { removals: observed };
  const reported = reporting(
    observed,
    (fleet) => ledger.newest(fleet)?.number,
    (fleet, resource, since) => limiters.fleet(fleet).mayRun(resource, since),
  );
  const due = reported.due.map((object) => {
    return { object, total: object.served === null ? 0 : limiters.fleet(object.served.fleet).total };
  });
  return { removals: reported.removals, due };
}

/** Adopts a decision. Objects that no longer exist wait from now on. */
export function afterDecision(
  removals: Removals,
  { outcomes }: Pick<ClusterDecision, 'outcomes'>,
  isGone: RemovalFacts['isGone'],
  nowMs: number,
): Removals {
  const { outcomes: before } = removals;
  if (outcomes === before) return removals;
  const gone = [...changedKeys(outcomes, before)].flatMap((uid) => {
    const outcome = outcomes.has(uid) ? undefined : before.get(uid)!;
    return outcome && isGone(outcome.object) ? [removedObject(outcome, nowMs)] : [];
  });
  return withObjects({ ...removals, outcomes }, gone);
}

/** Adopts the currently stored objects. Receivers were notified of objects that the leader removed from them. */
export function afterStore(
  removals: Removals,
  objects: readonly RemovedObject[],
  { leads, nowMs }: { leads: boolean; nowMs: number },
): Removals {
  const stored = new Set(objects.map(({ uid }) => uid));
  const reported = leads ? [] : removals.stored.difference(stored);
  const doneMs = new Map([...removals.doneMs].filter(([, ms]) => nowMs - ms < maxLagMs));
  return withObjects({ ...without(removals, reported), doneMs, stored }, objects);
}

/** Follows another leader. Objects that the leader has not stored after this time count as notified. */
export function followingOtherLeader(removals: Removals, nowMs: number): Removals {
  const { options, stored, waiting } = removals;
  const past = [...waiting].filter(([uid, { object, isReported }]) => {
    const isOld = nowMs - object.removedMs >= options.forgetAfterMs;
    return isOld && !isReported && !stored.has(uid);
  });
  return past.length === 0 ? removals : without(removals, new Map(past).keys());
}

/**
 * Returns the objects to notify about now, each of them once. Call `afterNotices` when their receivers were notified. `newest` is the
 * number of a fleet's snapshot.
 */
export function reporting(
  removals: Removals,
  newest: (fleet: string) => number | undefined,
  mayRun: (fleet: string, resource: string, sinceNumber: number) => boolean,
): { due: readonly RemovedObject[]; removals: Removals } {
  const due: RemovedObject[] = [];
  const waiting = new Map(removals.waiting);
  for (const [uid, pending] of waiting) {
    // Another replica saw the deletion before this one.
    if (pending.isReported || removals.outcomes.has(uid)) continue;
    const { served } = pending.object;
    const since = pending.since ?? (served === null ? undefined : newest(served.fleet));
    const isReported =
      served === null || !mayRun(served.fleet, served.resource, since ?? Number.POSITIVE_INFINITY);
    if (isReported) due.push(pending.object);
    waiting.set(uid, { ...pending, since, isReported });
  }
  return { due, removals: { ...removals, waiting } };
}

/** The receivers were notified of these objects. */
export function afterNotices(removals: Removals, uids: ReadonlySet<string>, nowMs: number): Removals {
  const done = [...uids].map((uid) => [uid, nowMs] as const);
  return { ...without(removals, uids), doneMs: new Map([...removals.doneMs, ...done]) };
}

function without(removals: Removals, uids: Iterable<string>): Removals {
  const waiting = new Map(removals.waiting);
  for (const uid of uids) waiting.delete(uid);
  return { ...removals, waiting };
}

function withObjects(removals: Removals, objects: readonly RemovedObject[]): Removals {
  const { options, doneMs } = removals;
  const waiting = new Map(removals.waiting);
  for (const object of objects) {
    const { uid } = object;
    if (!waiting.has(uid) && !doneMs.has(uid))
      waiting.set(uid, { object, since: undefined, isReported: false });
  }
  const surplus = [...waiting.keys()].slice(0, Math.max(0, waiting.size - options.max));
  return without({ ...removals, waiting, dropped: removals.dropped + surplus.length }, surplus);
}

function removedObject({ object, served }: ObjectOutcome, removedMs: number): RemovedObject {
  const { kind, namespace, name, uid, generation } = object;
  const last = served && { fleet: served.fleet, domain: served.domain, resource: served.resource };
  const identity = { ...(kind && { kind }), namespace, name, uid, generation };
  return { ...identity, served: last ?? null, removedMs };
}
