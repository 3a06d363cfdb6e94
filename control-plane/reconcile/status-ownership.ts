/** Decides who owns the statuses: which other writer replaces ours, and when we may write again. Pure: the clock is passed in. */
import type { ConfigObject } from '../model/config-object.ts';
import type { WriteLedger, WriteObservation } from '../model/write-ledger.ts';

/** The result of checking an object, for parts that follow it. */
export type OwnershipEvent =
  /** Another writer changed a status of this process. `by` is the control plane that the status names, and `manager` is the writer. */
  | { is: 'overwritten'; by: string | undefined; manager?: string | undefined }
  /** Another control plane writes to objects of this class. `yields`: this control plane leaves the object to it for a while. */
  | { is: 'class-conflict'; by: string; yields: boolean }
  | Extract<WriteObservation<ConfigObject>, { is: 'written' }>;

const minuteMs = 60_000;
/** The number of times within a minute that another control plane's name replaces ours, before one of them yields. */
const conflictAfter = 2;
/** How long a control plane that yields does not write the object. */
export const yieldMs = 10 * minuteMs;
/** Chosen: the number of repairs within a minute before a pause, regardless of the writer and its name. */
const maxRepairs = 5;
const repairPauseMs = 20_000;

/**
 * One object whose status others write, too.
 *
 *     rest -- overwritten --> repairing -- by another control plane, twice within a minute --> yielding (10 minutes),
 *      ^                         |          unless the own name sorts first                       |
 *      |                         +-- five times within a minute --> pausing (20 s) ---------------+
 *      +------------------------------------------------------------------------------------------+
 */
export class ContestedStatus {
  readonly #ownName: string | undefined;
  #found: { atMs: number; by: string | undefined }[] = [];
  #pausedUntilMs = Number.NEGATIVE_INFINITY;

  constructor(ownName: string | undefined) {
    this.#ownName = ownName;
  }

  /** The time from which on the object may be written again. It is in the past if it may be written now. */
  get pausedUntilMs(): number {
    return this.#pausedUntilMs;
  }

  /** Called when another writer replaced our status. `by` is the name in the current status. */
  overwritten(by: string | undefined, nowMs: number): OwnershipEvent {
    this.#found = this.#found.filter(({ atMs }) => nowMs - atMs < minuteMs);
    this.#found.push({ atMs: nowMs, by });
    const ownName = this.#ownName;
    const others = this.#found.filter((one) => one.by !== undefined && one.by !== ownName);
    const isConflict = by !== undefined && by !== ownName && others.length >= conflictAfter;
    const yields = isConflict && ownName !== undefined && by < ownName;
    if (yields) this.#pause(nowMs + yieldMs);
    else if (this.#found.length >= maxRepairs) this.#pause(nowMs + repairPauseMs);
    return isConflict ? { is: 'class-conflict', by, yields } : { is: 'overwritten', by };
  }

  #pause(untilMs: number): void {
    this.#pausedUntilMs = untilMs;
    this.#found = [];
  }
}

export class StatusOwnership {
  readonly #ownName: string | undefined;
  readonly #writes: WriteLedger<ConfigObject>;
  /** Contested statuses by uid. */
  readonly #contested = new Map<string, ContestedStatus>();

  /** `ownName`: undefined if no other control plane can write statuses. */
  constructor(ownName: string | undefined, writes: WriteLedger<ConfigObject>) {
    this.#ownName = ownName;
    this.#writes = writes;
  }

  /** The object with its newest status: see `WriteLedger.look`. */
  look(shown: ConfigObject, nowMs: number): { known: ConfigObject; news: OwnershipEvent | undefined } {
    const { known, found } = this.#writes.look(shown);
    if (found?.is !== 'overwritten') return { known, news: found };
    // Others may write an object that was given up, so it may become ours again.
    if (found.status.controllerName !== this.#ownName) return { known, news: undefined };
    const news = this.#contestedOf(shown.uid).overwritten(shown.status?.controllerName, nowMs);
    const { statusManager: manager } = shown;
    return { known, news: news.is === 'overwritten' ? { ...news, manager } : news };
  }

  /** Returns whether a status may be written that follows from `known`. */
  mayWrite(known: ConfigObject, nowMs: number): boolean {
    const pausedUntilMs = this.#contested.get(known.uid)?.pausedUntilMs ?? nowMs;
    return nowMs >= pausedUntilMs && this.#writes.mayWrite(known);
  }

  /** Returns the times when `mayWrite` changes by time alone. */
  dueMs(): number[] {
    return [...[...this.#contested.values()].map((one) => one.pausedUntilMs), ...this.#writes.dueMs()];
  }

  forget(uid: string): void {
    this.#writes.forget(uid);
    this.#contested.delete(uid);
  }

  clear(): void {
    this.#writes.clear();
    this.#contested.clear();
  }

  #contestedOf(uid: string): ContestedStatus {
    const contested = this.#contested.get(uid) ?? new ContestedStatus(this.#ownName);
    this.#contested.set(uid, contested);
    return contested;
  }
}
