/**
 * Keeps every object's status true: compares what follows from decision and limiters with what was written, and queues
 * what differs. What was written counts before what the source has, until the source has it too. Leaders only.
 */
import { TokenBucket } from '../../process/time/pacing.ts';
import {
  type Condition,
  type ConfigObject,
  type ConfigStatus,
  findCondition,
} from '../model/config-object.ts';
import type { Decision, Verdict } from '../model/decision.ts';
import type { StatusEntry } from '../replicas/status-pump.ts';
import { ProgrammedReason, sameStatus, statusOf } from './conditions.ts';
import type { LimiterView, Since, Standing, VersionLedger } from './fleet-standing.ts';

export interface StatusBoardOptions {
  queue: StatusQueue;
  ledger: VersionLedger;
  limiters: LimiterView;
}

export interface Evaluation {
  decision: Decision;
  /** As the source has it now; the decision may have been made before it was written. */
  statusOf(object: ConfigObject): ConfigStatus | undefined;
  /** Whether the fleet's snapshot is longer than the usual client of gRPC takes. */
  isOversize(fleet: string): boolean;
  /**
   * Limiters may still be on their way to a leader that has just begun: until then what the one before said of an object
   * stays, unless somebody refuses it.
   */
  awaitsLimiters?: boolean;
  nowMs: number;
}

interface Found {
  status: ConfigStatus | undefined;
  /** Whether its limiters have not said all yet that the status rests on. */
  isAwaited: boolean;
}

/** What a status followed from. As long as none of it changes, the status does not. */
interface Grounds {
  verdict: Verdict;
  standing: Standing | undefined;
  hasOthers: boolean;
  isOversize: boolean;
  previous: ConfigStatus | undefined;
}

interface Evaluated {
  grounds: Grounds;
  status: ConfigStatus;
  isWritten: boolean;
  isHeld: boolean;
}

interface Written {
  status: ConfigStatus;
  atMs: number;
  /** What the source had then: as long as it has the same, it only lags behind. */
  sourceHad: ConfigStatus | undefined;
}

/** Chosen: another status than ours that a source shows may be an older one of ours until then, later it is foreign. */
const trustWrittenMs = 10_000;
/** Nothing of an object is in any snapshot. */
const never: Since = { number: Number.POSITIVE_INFINITY, ms: 0 };

/** What webhooks tell of an object; its status does not, since each limiter that comes or goes would change it. */
export interface LimiterCounts {
  /** Limiters of the fleet that have the served rules in force. */
  inForce: number;
  refused: number;
  /** Without those that have not answered for the first time. */
  total: number;
}

export class StatusBoard {
  readonly #options: StatusBoardOptions;
  #evaluated = new Map<string, Evaluated>();
  readonly #written = new Map<string, Written>();
  /** By uid: what this process found when it first looked at the object. */
  readonly #found = new Map<string, Found>();
  /** When a status was made. */
  readonly #counts = new WeakMap<ConfigStatus, LimiterCounts>();

  constructor(options: StatusBoardOptions) {
    this.#options = options;
  }

  /** Call after `VersionLedger.observe` and `LimiterView.update`. */
  evaluate(evaluation: Evaluation): void {
    const { verdicts } = evaluation.decision;
    for (const uid of this.#evaluated.keys()) if (!verdicts.has(uid)) this.#forget(uid);
    for (const verdict of verdicts.values()) this.#evaluate(verdict, evaluation);
  }

  /** Returns what was written before, for events: see `transitions`. */
  written({ object, status }: StatusEntry, nowMs: number): ConfigStatus | undefined {
    const before = this.#written.get(object.uid)?.status ?? object.status;
    this.#written.set(object.uid, { status, atMs: nowMs, sourceHad: object.status });
    return before;
  }

  /** Of the limiters that a status of ours speaks of; undefined when nothing is served for its object. */
  counts(status: ConfigStatus): LimiterCounts | undefined {
    return this.#counts.get(status);
  }

  /** When this process no longer leads: others may write then. */
  clear(): void {
    this.#evaluated.clear();
    this.#written.clear();
    this.#found.clear();
    this.#options.queue.clear();
  }

  #evaluate(verdict: Verdict, evaluation: Evaluation): void {
    const { awaitsLimiters = false, nowMs } = evaluation;
    const { uid } = verdict.object;
    const shown = evaluation.statusOf(verdict.object);
    const grounds = this.#grounds(verdict, shown, evaluation);
    const last = this.#evaluated.get(uid);
    if (last !== undefined && isSame(last.grounds, grounds)) {
      const isHeld = awaitsLimiters && last.isHeld;
      if (!last.isWritten && !isHeld) this.#offer(verdict, shown, last.status);
      return;
    }
    const status = statusOf({ ...grounds, nowMs });
    if (grounds.standing !== undefined) this.#counts.set(status, limiterCounts(grounds.standing));
    const isWritten = sameStatus(status, grounds.previous);
    const isHeld = this.#isHeld(status, shown, grounds);
    this.#evaluated.set(uid, { grounds, status, isWritten, isHeld });
    const isDone = isWritten || (awaitsLimiters && isHeld);
    if (isDone && this.#options.queue.inFlight(uid) === undefined) this.#options.queue.withdraw(uid);
    else this.#offer(verdict, shown, status);
  }

  #offer({ object }: Verdict, shown: ConfigStatus | undefined, status: ConfigStatus): void {
    const { queue } = this.#options;
    if (sameStatus(status, queue.inFlight(object.uid))) queue.withdraw(object.uid);
    else queue.offer(shown === object.status ? object : { ...object, status: shown }, status);
  }

  #grounds(verdict: Verdict, shown: ConfigStatus | undefined, { isOversize, nowMs }: Evaluation): Grounds {
    const { ledger, limiters } = this.#options;
    const { object, served } = verdict;
    const previous = this.#previous(object.uid, shown, nowMs);
    if (served === undefined) {
      return { verdict, standing: undefined, hasOthers: false, isOversize: false, previous };
    }
    const fleet = limiters.fleet(served.fleet);
    const standing = fleet.of(ledger.since(object.uid) ?? never, served.resource);
    return { verdict, standing, hasOthers: fleet.hasOthers, isOversize: isOversize(served.fleet), previous };
  }

  #previous(uid: string, status: ConfigStatus | undefined, nowMs: number): ConfigStatus | undefined {
    const written = this.#written.get(uid);
    if (written === undefined) return status;
    const isShown = sameStatus(written.status, status);
    const isLagging = nowMs - written.atMs < trustWrittenMs || sameStatus(written.sourceHad, status);
    if (!isShown && isLagging) return written.status;
    this.#written.delete(uid);
    return status;
  }

  #foundAt(uid: string, status: ConfigStatus | undefined): Found {
    let found = this.#found.get(uid);
    if (found === undefined) {
      found = { status, isAwaited: true };
      this.#found.set(uid, found);
    }
    return found;
  }

  /** Whether the word of the leader before stays for now. Once it was ours too, we know what it rests on. */
  #isHeld(
    next: ConfigStatus,
    shown: ConfigStatus | undefined,
    { verdict, previous, standing }: Grounds,
  ): boolean {
    const found = this.#foundAt(verdict.object.uid, shown);
    found.isAwaited &&= mayBeAsBefore(next, found.status, standing) && !sameStatus(next, found.status);
    return found.isAwaited && sameStatus(previous, found.status);
  }

  #forget(uid: string): void {
    this.#evaluated.delete(uid);
    this.#written.delete(uid);
    this.#found.delete(uid);
    this.#options.queue.withdraw(uid);
  }
}

/** Whether limiters that have not answered yet could make the former status of an object true again. */
function mayBeAsBefore(
  next: ConfigStatus,
  before: ConfigStatus | undefined,
  standing: Standing | undefined,
): boolean {
  if (before === undefined || standing === undefined || standing.refused.count > 0 || standing.hasOlder) {
    return false;
  }
  return (
    findCondition(before, 'Programmed')?.reason !== ProgrammedReason.NoLimiters &&
    next.observedGeneration === before.observedGeneration &&
    next.servedVersion === before.servedVersion &&
    next.fleet === before.fleet &&
    findCondition(next, 'Accepted')?.message === findCondition(before, 'Accepted')?.message
  );
}

/** For webhooks. */
export function limiterCounts({ inForce, refused, total }: Standing): LimiterCounts {
  return { inForce, refused: refused.count, total };
}

function isSame(a: Grounds, b: Grounds): boolean {
  return (
    a.verdict === b.verdict &&
    a.standing === b.standing &&
    a.hasOthers === b.hasOthers &&
    a.isOversize === b.isOversize &&
    a.previous === b.previous
  );
}

/** A condition that is news to whoever follows the object. */
export type Transition = Pick<
  Condition,
  'type' | 'status' | 'reason' | 'message' | 'lastTransitionTime' | 'observedGeneration'
>;

/**
 * The conditions of `next` that have another status or reason than before, or speak of a newer generation. `Ready` is
 * never among them: it says what the others said.
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

/** Chosen: what may be written at once after a quiet time, as a part of the writes of one second. */
const burstPart = 0.2;

/**
 * Statuses that wait to be written, under one budget for all: those of objects that a user just changed first, then
 * those that wait longest. An object waits once, with its newest status; while one of its statuses is being written, it
 * has to wait, so that no older one is ever written last.
 */
export class StatusQueue {
  readonly #budget: TokenBucket;
  readonly #urgent = new Map<string, StatusEntry>();
  readonly #others = new Map<string, StatusEntry>();
  /** By uid: what is being written. */
  readonly #inFlight = new Map<string, StatusEntry>();
  /** By uid: what was offered while another one was being written. */
  readonly #held = new Map<string, StatusEntry>();

  constructor({ writesPerSecond }: { writesPerSecond: number }) {
    const burst = Math.max(1, Math.floor(writesPerSecond * burstPart));
    this.#budget = new TokenBucket({ burst, perSecond: writesPerSecond });
  }

  /** Without those being written. */
  get size(): number {
    return this.#urgent.size + this.#others.size + this.#held.size;
  }

  /** Takes the place of a status of the same object that waits. */
  offer(object: ConfigObject, status: ConfigStatus): void {
    const { uid } = object;
    const entry = { object, status };
    if (this.#inFlight.has(uid)) {
      this.#held.set(uid, entry);
    } else if (isUsersChange(object)) {
      this.#others.delete(uid);
      this.#urgent.set(uid, entry);
    } else if (this.#urgent.has(uid)) {
      this.#urgent.set(uid, entry);
    } else {
      this.#others.set(uid, entry);
    }
  }

  /** There is nothing to write for the object any more. */
  withdraw(uid: string): void {
    for (const waiting of [this.#urgent, this.#others, this.#held]) waiting.delete(uid);
  }

  /** When this process no longer leads. What is being written is not called back. */
  clear(): void {
    for (const waiting of [this.#urgent, this.#others, this.#held]) waiting.clear();
  }

  /** What to write now; undefined when nothing waits or the budget is used up. Call `done` when it is written or failed. */
  next(nowMs: number): StatusEntry | undefined {
    const waiting = this.#urgent.size > 0 ? this.#urgent : this.#others;
    const [first] = waiting;
    if (first === undefined || !this.#budget.take(nowMs)) return undefined;
    const [uid, entry] = first;
    waiting.delete(uid);
    this.#inFlight.set(uid, entry);
    return entry;
  }

  done(uid: string): void {
    this.#inFlight.delete(uid);
    const held = this.#held.get(uid);
    this.#held.delete(uid);
    if (held !== undefined) this.offer(held.object, held.status);
  }

  /** What is being written for the object. */
  inFlight(uid: string): ConfigStatus | undefined {
    return this.#inFlight.get(uid)?.status;
  }

  /** Milliseconds until `next` has something; undefined when nothing waits but for what is being written. */
  nextDueMs(nowMs: number): number | undefined {
    if (this.#urgent.size + this.#others.size === 0) return undefined;
    return this.#budget.waitMs(nowMs);
  }
}

function isUsersChange({ generation, status }: ConfigObject): boolean {
  return status === undefined || status.observedGeneration < generation;
}
