/**
 * Finds the statuses to write: compares the statuses that follow from decision and limiters with those that were written. Each status is
 * based on a version of its object, and only replaces the status of that version. Only the leader writes.
 */
import { isDeepStrictEqual } from 'node:util';
import { noCapabilities } from '../../rules/language/capabilities.ts';
import {
  type ConfigObject,
  type ConfigStatus,
  findCondition,
  isOfOther,
  type StatusObject,
} from '../model/config-object.ts';
import { type ClusterDecision, domainKey, type ObjectOutcome } from '../model/decision.ts';
import { hasReason } from '../model/reasons.ts';
import { changedKeys, VersionedMap } from '../model/versioned-map.ts';
import type { StatusWrite, WriteLedger } from '../model/write-ledger.ts';
import { type ConfigStatusFacts, notWatchedStatus, sameStatus, statusOf } from './conditions.ts';
import type { FirstSnapshot, FleetRollout, RolloutProgress, VersionLedger } from './fleet-rollout.ts';
import type { LimiterView } from './limiter-view.ts';
import {
  afterOverwrite,
  type ContestedStatus,
  type OwnershipEvent,
  uncontested,
} from './status-ownership.ts';

/** The changes since the last evaluation. */
export interface BoardChanges {
  /** Statuses to write by uid, in the order in which they were found. Undefined if there is nothing left to write. */
  entries: ReadonlyMap<string, StatusWrite<ConfigObject> | undefined>;
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
  /** The writes of this process. */
  writes: WriteLedger<StatusObject>;
  /** The uids of objects whose statuses are being written. */
  inFlight: Pick<ReadonlySet<string>, 'has'>;
  /** Fleets whose snapshot is longer than a default gRPC client accepts. */
  oversize: ReadonlySet<string>;
  /**
   * Whether limiters may still be on their way to a new leader. Until they have arrived, the status of the previous leader stays, unless
   * a limiter rejects the rules.
   */
  awaitsLimiters?: boolean;
  nowMs: number;
}

/** The facts that determine a status. While they do not change, the status does not change. */
type Grounds = Required<Omit<ConfigStatusFacts, 'controllerName' | 'nowMs'>>;

interface Evaluated {
  readonly grounds: Grounds;
  readonly status: ConfigStatus;
  readonly isWritten: boolean;
  readonly isHeld: boolean;
  /** If only the number of overrides has changed, or reports may confirm the former status, the status is not written before this time. */
  readonly notBeforeMs: number;
  /** The status at the first look, if it is one of this control plane: that of another describes its own limiters. */
  readonly first: ConfigStatus | undefined;
  /** Whether limiters have not yet reported everything that the status depends on. */
  readonly isAwaited: boolean;
}

/** Before any time, also after the clock was set back. */
const atOnce = Number.NEGATIVE_INFINITY;

/** Chosen: many overrides must not cause as many status writes. */
const countEveryMs = 10_000;

/** Chosen: a replica renews its Lease object more often, and a wrong status stays for less than 2 s. */
const confirmPatienceMs = 1_700;

const noCounts: ReadonlyMap<string, number> = new Map();
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

/** Counts at the time at which a status was created. */
const countsOfStatus = new WeakMap<ConfigStatus, LimiterCounts>();

/** Counts the limiters that one of our statuses describes. Undefined if nothing of its object is served. */
export function countsOf(status: ConfigStatus): LimiterCounts | undefined {
  return countsOfStatus.get(status);
}

/** The statuses of all objects as of the last evaluation. Immutable. */
export interface StatusBoard {
  /** The controller name in every status. Undefined if there is no other control plane. */
  readonly controllerName: string | undefined;
  /** Results by uid. */
  readonly evaluated: VersionedMap<Evaluated>;
  /** Fleets by uid of the objects that not every limiter has in force. */
  readonly behind: VersionedMap<string>;
  readonly fleets: ReadonlyMap<string, FleetRollout>;
  readonly oversize: Evaluation['oversize'];
  /**
   * Uids of objects that each evaluation checks, because there is a status to write, or because the source does not show a written status
   * yet.
   */
  readonly open: ReadonlySet<string>;
  /** Times by uid at which a status was written only because of a number of overrides, while they still delay another one. */
  readonly countedMs: ReadonlyMap<string, number>;
  /** Statuses by uid that others write, too. */
  readonly contested: ReadonlyMap<string, ContestedStatus>;
  /** Uids of objects that were given up. */
  readonly left: ReadonlySet<string>;
  /** The decision of the last evaluation. If it is undefined because changes were lost, the next evaluation checks all objects. */
  readonly decision: ClusterDecision | undefined;
  readonly ledger: VersionLedger | undefined;
  readonly objects: Evaluation['objects'];
}

/** The board of a process that has not led yet, or no longer leads, because others may then write. */
export function emptyBoard(controllerName: string | undefined): StatusBoard {
  return {
    controllerName,
    evaluated: VersionedMap.of(),
    behind: VersionedMap.of(),
    fleets: new Map(),
    oversize: new Set(),
    open: new Set(),
    countedMs: new Map(),
    contested: new Map(),
    left: new Set(),
    decision: undefined,
    ledger: undefined,
    objects: new Map(),
  };
}

/** The result of an evaluation. */
export interface BoardResult {
  board: StatusBoard;
  /** The ledger with what the evaluation found. */
  writes: WriteLedger<StatusObject>;
  changes: BoardChanges;
  /** When to evaluate again even if there is no news. Infinity if that is not needed. */
  dueMs: number;
}

/** Returns the board after an evaluation. */
export function evaluateStatuses(before: StatusBoard, evaluation: Evaluation): BoardResult {
  return new BoardLook(before, evaluation).result();
}

/** One evaluation. It looks at each object at most once. */
class BoardLook {
  readonly #before: StatusBoard;
  readonly #at: Evaluation;
  readonly #left: ReadonlySet<string>;
  #writes: WriteLedger<StatusObject>;
  readonly #contested: Map<string, ContestedStatus>;
  readonly #evaluated = new Map<string, Evaluated | undefined>();
  readonly #behind = new Map<string, string | undefined>();
  readonly #open: Set<string>;
  readonly #countedMs: Map<string, number>;
  /** Times at which statuses are due that are not written yet. */
  readonly #heldMs: number[] = [];
  readonly #gone = new Set<string>();
  readonly #entries = new Map<string, StatusWrite<ConfigObject> | undefined>();
  readonly #news: { object: ConfigObject; news: OwnershipEvent }[] = [];

  constructor(before: StatusBoard, at: Evaluation) {
    this.#before = before;
    this.#at = at;
    const { contested, open, countedMs } = before;
    const { left, writes, nowMs } = at;
    this.#left = new Set(left.map(({ uid }) => uid));
    this.#writes = writes;
    this.#contested = new Map(contested);
    this.#open = new Set(open);
    this.#countedMs = new Map([...countedMs].filter(([, ms]) => nowMs < ms + countEveryMs));
  }

  result(): BoardResult {
    const { decision, limiters, oversize, objects, left, nowMs } = this.#at;
    const { controllerName, evaluated, behind } = this.#before;
    for (const uid of this.#due().union(this.#before.left)) {
      const outcome = decision.outcomes.get(uid);
      const shown = outcome && objects.get(uid);
      if (shown !== undefined) this.#evaluate(outcome!, shown);
      else if (!this.#left.has(uid)) this.#forget(uid);
    }
    for (const object of left) this.#leave(object);
    const writes = this.#gone.size === 0 ? this.#writes : this.#writes.without(this.#gone);
    const board: StatusBoard = {
      controllerName,
      evaluated: evaluated.with(this.#evaluated),
      behind: behind.with(this.#behind),
      fleets: new Map([...decision.fleets.keys()].map((name) => [name, limiters.fleet(name)])),
      oversize,
      open: this.#open,
      countedMs: this.#countedMs,
      contested: this.#contested,
      left: this.#left,
      decision,
      ledger: this.#at.ledger,
      objects,
    };
    const counts = [...this.#countedMs.values()].map((ms) => ms + countEveryMs);
    const pauses = [...this.#contested.values()].map(({ pausedUntilMs }) => pausedUntilMs);
    const times = [...counts, ...pauses, ...this.#heldMs, ...writes.dueMs()];
    const dueMs = Math.min(...times.filter((ms) => ms > nowMs));
    return { board, writes, changes: { entries: this.#entries, found: this.#news }, dueMs };
  }

  /** Returns uids of objects that may differ from the last evaluation. */
  #due(): Set<string> {
    const { decision: last, evaluated, behind, fleets, open, ...before } = this.#before;
    const { decision, ledger, objects, limiters, oversize } = this.#at;
    if (last === undefined) return new Set([...decision.outcomes.keys(), ...evaluated.keys()]);
    const due = open
      .union(changedKeys(objects, before.objects))
      .union(changedKeys(decision.outcomes, last.outcomes))
      .union(ledger.changedSince(before.ledger ?? ledger))
      .union(recounted(decision, last));
    const more = new Set<string>();
    const others = new Set<string | undefined>();
    for (const [name, former] of fleets) {
      const fleet = limiters.fleet(name);
      const isSameSize = oversize.has(name) === before.oversize.has(name);
      if (fleet === former && isSameSize) continue;
      (isSameSize && fleet.isAtLeast(former) ? more : others).add(name);
    }
    if (more.size > 0) for (const [uid, fleet] of behind) if (more.has(fleet)) due.add(uid);
    if (others.size > 0)
      for (const [uid, { grounds }] of evaluated) if (others.has(grounds.outcome.served?.fleet)) due.add(uid);
    return due;
  }

  #evaluate(outcome: ObjectOutcome, shown: ConfigObject): void {
    const { awaitsLimiters = false, limiters, nowMs } = this.#at;
    const { controllerName } = this.#before;
    const { uid } = shown;
    const last = this.#before.evaluated.get(uid);
    const known = this.#look(shown);
    const first = last === undefined ? firstStatus(known, controllerName) : last.first;
    const grounds = this.#grounds(outcome, known, first);
    const fleet = outcome.served?.fleet;
    const isBehind = fleet !== undefined && grounds.standing !== limiters.fleet(fleet).shared;
    this.#behind.set(uid, isBehind ? fleet : undefined);
    if (last !== undefined && isSame(last.grounds, grounds)) {
      this.#keepOpen(uid, !last.isWritten || known !== shown);
      const isHeld = (awaitsLimiters && last.isHeld) || nowMs < last.notBeforeMs;
      if (isHeld) this.#heldMs.push(last.notBeforeMs);
      if (!last.isWritten && !isHeld) this.#offer(known, last.status);
      return;
    }
    const { standing, previous } = grounds;
    const status = statusOf({ ...grounds, controllerName, nowMs });
    if (standing !== undefined) countsOfStatus.set(status, limiterCounts(standing));
    const isWritten = sameStatus(status, previous);
    // Once this process has written the status itself, its reasons are known.
    const isAwaited =
      last?.isAwaited !== false && mayBeAsBefore(status, first, standing) && !sameStatus(status, first);
    const isHeld = isAwaited && sameStatus(previous, first);
    const notBeforeMs = isWritten
      ? atOnce
      : Math.max(this.#confirmedFrom(uid, standing), this.#countedFrom(status, known));
    this.#heldMs.push(notBeforeMs);
    this.#evaluated.set(uid, { grounds, status, isWritten, isHeld, notBeforeMs, first, isAwaited });
    this.#keepOpen(uid, !isWritten || known !== shown);
    const isDone = isWritten || (awaitsLimiters && isHeld) || nowMs < notBeforeMs;
    if (isDone) this.#withdraw(uid);
    else this.#offer(known, status);
  }

  #keepOpen(uid: string, isOpen: boolean): void {
    if (this.#at.inFlight.has(uid) || isOpen) this.#open.add(uid);
    else this.#open.delete(uid);
  }

  /** Returns when a status may be written, as far as only reports of replicas are missing that have decided the last edit. */
  #confirmedFrom(uid: string, standing: RolloutProgress | undefined): number {
    const editedMs = standing?.isUnconfirmed ? this.#at.ledger.since(uid)?.ms : undefined;
    return editedMs === undefined ? atOnce : editedMs + confirmPatienceMs;
  }

  /** Returns when a status may be written, as far as only the count of overrides has changed. */
  #countedFrom(status: ConfigStatus, { uid, status: previous }: ConfigObject): number {
    const { nowMs } = this.#at;
    if (previous === undefined || status.overrides === previous.overrides) return atOnce;
    const { overrides: _, ...rest } = status;
    const { overrides: __, ...restBefore } = previous;
    if (!sameStatus(rest, restBefore)) return atOnce;
    const lastMs = this.#countedMs.get(uid);
    if (lastMs !== undefined) return lastMs + countEveryMs;
    this.#countedMs.set(uid, nowMs);
    return atOnce;
  }

  /**
   * Gives up an object, once. Its status then no longer has our name, so that another control plane that serves the object may write any
   * status.
   */
  #leave(object: ConfigObject): void {
    this.#drop(object.uid);
    const known = this.#look(object);
    const isReported = known.status?.controllerName !== this.#before.controllerName;
    if (isReported) this.#withdraw(object.uid);
    else this.#offer(known, notWatchedStatus(known, this.#at.nowMs));
  }

  /** The object with its newest status: see `WriteLedger.look`. */
  #look(shown: ConfigObject): ConfigObject {
    const { controllerName: ownName } = this.#before;
    const { nowMs } = this.#at;
    const { known, found, writes } = this.#writes.look(shown, nowMs);
    this.#writes = writes;
    if (found?.is === 'written') this.#news.push({ object: known, news: found });
    // Others may write an object that was given up, so it may become ours again.
    else if (found !== undefined && found.status.controllerName === ownName) {
      const before = this.#contested.get(shown.uid) ?? uncontested;
      const { contested, news } = afterOverwrite(before, shown, { ownName, nowMs });
      this.#contested.set(shown.uid, contested);
      this.#news.push({ object: known, news });
    }
    return known;
  }

  /** While another status of the object is being written, it stays open: the next one follows from the result. */
  #offer(known: ConfigObject, status: ConfigStatus): void {
    const { inFlight, nowMs } = this.#at;
    const { pausedUntilMs } = this.#contested.get(known.uid) ?? uncontested;
    const mayWrite = nowMs >= pausedUntilMs && this.#writes.mayWrite(known, nowMs);
    if (!mayWrite || inFlight.has(known.uid)) this.#withdraw(known.uid);
    else this.#entries.set(known.uid, { object: known, status });
  }

  #withdraw(uid: string): void {
    this.#entries.set(uid, undefined);
  }

  #grounds(
    outcome: ObjectOutcome,
    { status: previous }: ConfigObject,
    first: ConfigStatus | undefined,
  ): Grounds {
    const { decision, ledger, limiters, oversize } = this.#at;
    const { object, served } = outcome;
    const unserved = { standing: undefined, awaitsMore: false, hasOthers: false, isOversize: false };
    if (served === undefined) return { outcome, ...unserved, overrides: 0, previous };
    const fleet = limiters.fleet(served.fleet);
    const standing = fleet.of(ledger.since(object.uid) ?? never, served.resource);
    return {
      outcome,
      standing,
      awaitsMore: standing.mayBeMore && hadOtherRules(first, served.hash),
      hasOthers: fleet.hasOthers,
      isOversize: oversize.has(served.fleet),
      overrides: object.kind === undefined ? (decision.overrides?.get(domainKey(served)) ?? 0) : 0,
      previous,
    };
  }

  #drop(uid: string): void {
    this.#open.delete(uid);
    this.#behind.set(uid, undefined);
    this.#evaluated.set(uid, undefined);
  }

  #forget(uid: string): void {
    this.#drop(uid);
    this.#countedMs.delete(uid);
    this.#contested.delete(uid);
    this.#gone.add(uid);
    this.#withdraw(uid);
  }
}

function firstStatus({ status }: ConfigObject, controllerName: string | undefined): ConfigStatus | undefined {
  return isOfOther(status, controllerName) ? undefined : status;
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
function recounted(
  { outcomes, overrides = noCounts }: ClusterDecision,
  { overrides: before = noCounts }: ClusterDecision,
): Set<string> {
  const changed = changedKeys(overrides, before);
  if (changed.size === 0) return changed;
  const isCounted = ({ served }: ObjectOutcome): boolean =>
    served !== undefined && changed.has(domainKey(served));
  return new Set([...outcomes].filter(([, outcome]) => isCounted(outcome)).map(([uid]) => uid));
}

/** Returns the counts for webhooks. */
export function limiterCounts({ inForce, rejected, total }: RolloutProgress): LimiterCounts {
  return { inForce, refused: rejected.count, total };
}

/** An object that is decided again, without what was remembered of it, may have an equal outcome. */
function isSame({ outcome: a, ...ofA }: Grounds, { outcome: b, ...ofB }: Grounds): boolean {
  const others = Object.keys(ofA) as (keyof typeof ofA)[];
  return (a === b || isDeepStrictEqual(a, b)) && others.every((fact) => ofA[fact] === ofB[fact]);
}
