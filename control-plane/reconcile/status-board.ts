/**
 * Finds the statuses to write: compares the statuses that follow from decision and limiters with those that were written. Each status is
 * based on a version of its object, and only replaces the status of that version. Only the leader writes.
 */
import { noCapabilities } from '../../rules/language/capabilities.ts';
import {
  type Condition,
  type ConfigObject,
  type ConfigStatus,
  findCondition,
  isOfOther,
} from '../model/config-object.ts';
import { type ClusterDecision, domainKey, type ObjectOutcome } from '../model/decision.ts';
import { hasReason } from '../model/reasons.ts';
import { changedKeys } from '../model/versioned-map.ts';
import type { WriteLedger } from '../model/write-ledger.ts';
import type { StatusEntry } from '../replicas/status-queue.ts';
import { notWatchedStatus, sameStatus, statusOf } from './conditions.ts';
import type { FirstSnapshot, FleetRollout, RolloutProgress, VersionLedger } from './fleet-rollout.ts';
import type { LimiterView } from './limiter-view.ts';
import { type OwnershipEvent, StatusOwnership } from './status-ownership.ts';

export interface StatusBoardOptions {
  writes: WriteLedger<ConfigObject>;
  /** Returns the status that is being written, by uid. */
  inFlight(uid: string): ConfigStatus | undefined;
  /** The controller name in every status. Undefined if there is no other control plane. */
  controllerName: string | undefined;
}

/** The changes since the last evaluation. */
export interface BoardChanges {
  /** Statuses to write by uid, in the order in which they were found. Undefined if there is nothing left to write. */
  entries: ReadonlyMap<string, StatusEntry | undefined>;
  found: readonly { object: ConfigObject; news: OwnershipEvent }[];
}

export interface Evaluation {
  decision: ClusterDecision;
  /** The ledger with this decision. */
  ledger: VersionLedger;
  limiters: LimiterView;
  /** The source's current objects by uid, because the decision may be older. */
  objects: ReadonlyMap<string, ConfigObject>;
  /** The objects that no longer belong to this control plane, but still have its name in their status. */
  left: readonly ConfigObject[];
  /** Returns whether the fleet's snapshot is longer than a default gRPC client accepts. */
  isOversize(fleet: string): boolean;
  /**
   * Whether limiters may still be on their way to a new leader. Until they have arrived, the status of the previous leader stays, unless
   * a limiter rejects the rules.
   */
  awaitsLimiters?: boolean;
  nowMs: number;
}

interface Found {
  status: ConfigStatus | undefined;
  /** Whether its limiters have not yet reported everything that the status depends on. */
  isAwaited: boolean;
}

/** The result of an evaluation for a fleet. */
interface FleetSeen {
  standing: FleetRollout;
  isOversize: boolean;
  /** Uids of objects with rules in the fleet. */
  objects: Set<string>;
  /** The objects that not every limiter has in force. */
  behind: Set<string>;
}

/** The facts that determine a status. While they do not change, the status does not change. */
interface Grounds {
  outcome: ObjectOutcome;
  standing: RolloutProgress | undefined;
  awaitsMore: boolean;
  hasOthers: boolean;
  isOversize: boolean;
  overrides: number;
  previous: ConfigStatus | undefined;
}

interface Evaluated {
  grounds: Grounds;
  status: ConfigStatus;
  isWritten: boolean;
  isHeld: boolean;
  /** If only the number of overrides has changed, the status is not written before this time. */
  notBeforeMs: number;
}

/** Chosen: many overrides must not cause as many status writes. */
const countEveryMs = 10_000;

/** No snapshot contains rules of the object. */
const never: FirstSnapshot = { number: Number.POSITIVE_INFINITY, ms: 0, needs: noCapabilities };

/**
 * The numbers of an object that webhooks report. Its status does not contain them, because each limiter that connects or leaves would
 * change it.
 */
export interface LimiterCounts {
  /** Limiters of the fleet that have the served rules in force. */
  inForce: number;
  refused: number;
  /** The number of limiters, without those that have not sent their first answer. */
  total: number;
}

export class StatusBoard {
  readonly #options: StatusBoardOptions;
  readonly #ownership: StatusOwnership;
  #evaluated = new Map<string, Evaluated>();
  /** Results of the first look at an object, by uid. */
  readonly #found = new Map<string, Found>();
  /** Times by uid at which a status was written only because of a number of overrides. */
  readonly #countedMs = new Map<string, number>();
  /** Counts at the time at which a status was created. */
  readonly #counts = new WeakMap<ConfigStatus, LimiterCounts>();
  /** Uids of objects that were given up. */
  #left: ReadonlySet<string> = new Set();
  readonly #fleets = new Map<string, FleetSeen>();
  /**
   * Uids of objects that each evaluation checks, because there is a status to write, or because the source does not show a written status
   * yet.
   */
  readonly #open = new Set<string>();
  /** The decision of the last evaluation. Undefined if the next one must check all objects. */
  #decision: ClusterDecision | undefined;
  #objects: Evaluation['objects'] = new Map();
  /** The entries of the current evaluation. */
  #entries = new Map<string, StatusEntry | undefined>();
  #news: { object: ConfigObject; news: OwnershipEvent }[] = [];

  constructor(options: StatusBoardOptions) {
    this.#options = options;
    this.#ownership = new StatusOwnership(options.controllerName, options.writes);
  }

  /** Evaluates the statuses. */
  evaluate(evaluation: Evaluation): BoardChanges {
    this.#entries = new Map();
    this.#news = [];
    const { decision, objects, nowMs } = evaluation;
    const left = new Set(evaluation.left.map(({ uid }) => uid));
    const due = this.#due(evaluation).union(this.#left);
    this.#decision = decision;
    this.#objects = objects;
    this.#left = left;
    for (const uid of due) {
      const outcome = decision.outcomes.get(uid);
      const shown = outcome && objects.get(uid);
      if (shown !== undefined) this.#evaluate(outcome!, shown, evaluation);
      else if (!left.has(uid)) this.#forget(uid);
    }
    for (const object of evaluation.left) this.#leave(object, nowMs);
    return { entries: this.#entries, found: this.#news };
  }

  /** Returns uids of objects that may differ from the last evaluation. */
  #due({ decision, limiters, objects, isOversize }: Evaluation): Set<string> {
    const last = this.#decision;
    const due =
      last === undefined
        ? new Set([...decision.outcomes.keys(), ...this.#evaluated.keys()])
        : this.#open
            .union(changedKeys(objects, this.#objects))
            .union(changedKeys(decision.outcomes, last.outcomes))
            .union(recounted(decision, last));
    for (const [name, seen] of this.#fleets) {
      const standing = limiters.fleet(name);
      const isNowOversize = isOversize(name);
      if (standing === seen.standing && isNowOversize === seen.isOversize) continue;
      const isMore = isNowOversize === seen.isOversize && standing.isAtLeast(seen.standing);
      for (const uid of isMore ? seen.behind : seen.objects) due.add(uid);
      seen.standing = standing;
      seen.isOversize = isNowOversize;
    }
    return due;
  }

  /** Returns when to evaluate again even if there is no news. Undefined if that is not needed. */
  nextDueMs(nowMs: number): number | undefined {
    const counts = [...this.#countedMs.values()].map((ms) => ms + countEveryMs);
    return [...counts, ...this.#ownership.dueMs()]
      .filter((ms) => ms > nowMs)
      .reduce<number | undefined>((min, ms) => Math.min(min ?? ms, ms), undefined);
  }

  /** Counts the limiters that one of our statuses describes. Undefined if nothing of its object is served. */
  counts(status: ConfigStatus): LimiterCounts | undefined {
    return this.#counts.get(status);
  }

  /** Call it when the changes since the last evaluation are lost. The next evaluation checks all objects. */
  missed(): void {
    this.#decision = undefined;
  }

  /** Clears the board when this process no longer leads, because others may then write. */
  clear(): void {
    this.#decision = undefined;
    this.#evaluated.clear();
    this.#open.clear();
    this.#fleets.clear();
    this.#ownership.clear();
    this.#found.clear();
    this.#countedMs.clear();
  }

  #evaluate(outcome: ObjectOutcome, shown: ConfigObject, evaluation: Evaluation): void {
    const { awaitsLimiters = false, nowMs } = evaluation;
    const { uid } = shown;
    const known = this.#look(shown, nowMs);
    const grounds = this.#grounds(outcome, known, evaluation);
    const last = this.#evaluated.get(uid);
    this.#remember(outcome, grounds.standing, evaluation);
    if (last !== undefined && isSame(last.grounds, grounds)) {
      this.#keepOpen(uid, !last.isWritten || known !== shown);
      const isHeld = (awaitsLimiters && last.isHeld) || nowMs < last.notBeforeMs;
      if (!last.isWritten && !isHeld) this.#offer(known, last.status, nowMs);
      return;
    }
    const { controllerName } = this.#options;
    const status = statusOf({ ...grounds, controllerName, nowMs });
    if (grounds.standing !== undefined) this.#counts.set(status, limiterCounts(grounds.standing));
    const isWritten = sameStatus(status, grounds.previous);
    const isHeld = this.#isHeld(status, known, grounds);
    const notBeforeMs = isWritten ? nowMs : this.#countedFrom(status, known, nowMs);
    this.#evaluated.set(uid, { grounds, status, isWritten, isHeld, notBeforeMs });
    this.#keepOpen(uid, !isWritten || known !== shown);
    const isDone = isWritten || (awaitsLimiters && isHeld) || nowMs < notBeforeMs;
    if (isDone && this.#options.inFlight(uid) === undefined) this.#withdraw(uid);
    else this.#offer(known, status, nowMs);
  }

  #keepOpen(uid: string, isOpen: boolean): void {
    if (isOpen || this.#options.inFlight(uid) !== undefined) this.#open.add(uid);
    else this.#open.delete(uid);
  }

  /** Stores the fleet of the object, and whether all limiters have its rules. */
  #remember(
    { object: { uid }, served }: ObjectOutcome,
    standing: RolloutProgress | undefined,
    at: Evaluation,
  ): void {
    const before = this.#evaluated.get(uid)?.grounds.outcome.served?.fleet;
    if (before !== served?.fleet) this.#leaveFleet(uid);
    if (served === undefined) return;
    const seen = this.#fleets.get(served.fleet) ?? {
      standing: at.limiters.fleet(served.fleet),
      isOversize: at.isOversize(served.fleet),
      objects: new Set(),
      behind: new Set(),
    };
    this.#fleets.set(served.fleet, seen);
    seen.objects.add(uid);
    if (standing === seen.standing.shared) seen.behind.delete(uid);
    else seen.behind.add(uid);
  }

  #leaveFleet(uid: string): void {
    const fleet = this.#evaluated.get(uid)?.grounds.outcome.served?.fleet;
    const seen = fleet === undefined ? undefined : this.#fleets.get(fleet);
    seen?.behind.delete(uid);
    if (seen?.objects.delete(uid) && seen.objects.size === 0) this.#fleets.delete(fleet!);
  }

  /** Returns when a status may be written, as far as only the count of overrides has changed. */
  #countedFrom(status: ConfigStatus, { uid, status: previous }: ConfigObject, nowMs: number): number {
    if (previous === undefined || status.overrides === previous.overrides) return nowMs;
    const { overrides: _, ...rest } = status;
    const { overrides: __, ...restBefore } = previous;
    if (!sameStatus(rest, restBefore)) return nowMs;
    const notBeforeMs = (this.#countedMs.get(uid) ?? Number.NEGATIVE_INFINITY) + countEveryMs;
    if (notBeforeMs > nowMs) return notBeforeMs;
    this.#countedMs.set(uid, nowMs);
    return nowMs;
  }

  /**
   * Gives up an object, once. Its status then no longer has our name, so that another control plane that serves the object may write any
   * status.
   */
  #leave(object: ConfigObject, nowMs: number): void {
    const { inFlight: inFlightOf, controllerName } = this.#options;
    const { uid } = object;
    this.#drop(uid);
    const known = this.#look(object, nowMs);
    const inFlight = inFlightOf(uid);
    const isReported = known.status?.controllerName !== controllerName;
    const isBeingReported = inFlight !== undefined && inFlight.controllerName === undefined;
    if (isReported || isBeingReported) this.#withdraw(uid);
    else this.#offer(known, notWatchedStatus(known, nowMs), nowMs);
  }

  #look(shown: ConfigObject, nowMs: number): ConfigObject {
    const { known, news } = this.#ownership.look(shown, nowMs);
    if (news !== undefined) this.#news.push({ object: known, news });
    return known;
  }

  #offer(known: ConfigObject, status: ConfigStatus, nowMs: number): void {
    const isOnItsWay = sameStatus(status, this.#options.inFlight(known.uid));
    if (isOnItsWay || !this.#ownership.mayWrite(known, nowMs)) this.#withdraw(known.uid);
    else this.#entries.set(known.uid, { object: known, status });
  }

  #withdraw(uid: string): void {
    this.#entries.set(uid, undefined);
  }

  #grounds(
    outcome: ObjectOutcome,
    known: ConfigObject,
    { decision, ledger, limiters, isOversize }: Evaluation,
  ): Grounds {
    const { object, served } = outcome;
    const previous = known.status;
    if (served === undefined) {
      const nothing = {
        standing: undefined,
        awaitsMore: false,
        hasOthers: false,
        isOversize: false,
        overrides: 0,
      };
      return { outcome, ...nothing, previous };
    }
    const fleet = limiters.fleet(served.fleet);
    const standing = fleet.of(ledger.since(object.uid) ?? never, served.resource);
    const { status: before } = this.#foundAt(known);
    const awaitsMore = standing.mayBeMore && hadOtherRules(before, served.hash);
    const { hasOthers } = fleet;
    const overrides = object.kind === undefined ? (decision.overrides?.get(domainKey(served)) ?? 0) : 0;
    const ofFleet = { hasOthers, isOversize: isOversize(served.fleet) };
    return { outcome, standing, awaitsMore, ...ofFleet, overrides, previous };
  }

  /** The status of another control plane describes its own limiters. */
  #foundAt({ uid, status }: ConfigObject): Found {
    let found = this.#found.get(uid);
    if (found === undefined) {
      const isOurs = !isOfOther(status, this.#options.controllerName);
      found = { status: isOurs ? status : undefined, isAwaited: true };
      this.#found.set(uid, found);
    }
    return found;
  }

  /**
   * Returns whether the status of the previous leader stays for now. Once this process has written the status itself, its reasons are
   * known.
   */
  #isHeld(next: ConfigStatus, known: ConfigObject, { previous, standing }: Grounds): boolean {
    const found = this.#foundAt(known);
    found.isAwaited &&= mayBeAsBefore(next, found.status, standing) && !sameStatus(next, found.status);
    return found.isAwaited && sameStatus(previous, found.status);
  }

  #drop(uid: string): void {
    this.#leaveFleet(uid);
    this.#open.delete(uid);
    this.#evaluated.delete(uid);
    this.#found.delete(uid);
  }

  #forget(uid: string): void {
    this.#drop(uid);
    this.#ownership.forget(uid);
    this.#countedMs.delete(uid);
    this.#withdraw(uid);
  }
}

/** Returns whether limiters that have not answered yet could make the former status of an object true again. */
function mayBeAsBefore(
  next: ConfigStatus,
  before: ConfigStatus | undefined,
  standing: RolloutProgress | undefined,
): boolean {
  if (before === undefined || standing === undefined || standing.rejected.count > 0 || standing.hasOlder) {
    return false;
  }
  return (
    !hasReason(findCondition(before, 'Programmed'), 'NoLimiters') &&
    next.observedGeneration === before.observedGeneration &&
    next.servedVersion === before.servedVersion &&
    next.fleet === before.fleet &&
    findCondition(next, 'Accepted')?.message === findCondition(before, 'Accepted')?.message
  );
}

/** Returns whether limiters had rules of the object in force when this process first saw it, and not these rules. */
function hadOtherRules(found: ConfigStatus | undefined, hash: string): boolean {
  const { servedVersion } = found ?? {};
  const hadLimiters = !hasReason(findCondition(found, 'Programmed'), 'NoLimiters');
  return servedVersion !== undefined && servedVersion !== hash && hadLimiters;
}

/** Returns uids of objects in whose domain other overrides are served. */
function recounted({ outcomes, overrides }: ClusterDecision, last: ClusterDecision): Set<string> {
  const counts = [
    overrides ?? new Map<string, number>(),
    last.overrides ?? new Map<string, number>(),
  ] as const;
  const places = new Set([...counts[0].keys(), ...counts[1].keys()]);
  const changed = new Set([...places].filter((place) => counts[0].get(place) !== counts[1].get(place)));
  if (changed.size === 0) return changed;
  const isCounted = ({ served }: ObjectOutcome): boolean =>
    served !== undefined && changed.has(domainKey(served));
  return new Set([...outcomes].filter(([, outcome]) => isCounted(outcome)).map(([uid]) => uid));
}

/** Returns the counts for webhooks. */
export function limiterCounts({ inForce, rejected, total }: RolloutProgress): LimiterCounts {
  return { inForce, refused: rejected.count, total };
}

function isSame(a: Grounds, b: Grounds): boolean {
  return (
    a.outcome === b.outcome &&
    a.standing === b.standing &&
    a.awaitsMore === b.awaitsMore &&
    a.hasOthers === b.hasOthers &&
    a.isOversize === b.isOversize &&
    a.overrides === b.overrides &&
    a.previous === b.previous
  );
}

/** A condition that is news to anyone who follows the object. */
export type Transition = Pick<
  Condition,
  'type' | 'status' | 'reason' | 'message' | 'lastTransitionTime' | 'observedGeneration'
>;

/**
 * Returns the conditions of `next` whose status or reason has changed, or whose generation is newer. `Ready` is never among them, because
 * it repeats the others.
 */
export function transitions(previous: ConfigStatus | undefined, next: ConfigStatus): Transition[] {
  return next.conditions.filter((condition) => {
    if (condition.type === 'Ready') return false;
    const before = findCondition(previous, condition.type);
    return (
      before?.status !== condition.status ||
      before.reason !== condition.reason ||
      before.observedGeneration !== condition.observedGeneration
    );
  });
}
