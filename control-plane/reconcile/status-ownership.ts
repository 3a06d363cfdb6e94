/**
 * Whose the statuses are: what this process wrote of each object, whether the source shows it already, who wrote over
 * it, and when a status may be written again. Pure: the clock is passed in.
 */
import { type ConfigObject, type ConfigStatus, isNewerVersion, withStatus } from '../model/config-object.ts';
import type { StatusEntry } from '../replicas/status-pump.ts';
import { sameStatus } from './conditions.ts';

/** What was found on looking at an object, for those who follow it. */
export type OwnershipNews =
  /** Somebody else changed what this process wrote; `by` is the control plane that the status names, `manager` who wrote it. */
  | { is: 'overwritten'; by: string | undefined; manager?: string | undefined }
  /** Another control plane writes to objects of this class; `yields`: this one leaves the object to it for a while. */
  | { is: 'class-conflict'; by: string; yields: boolean }
  /** A write whose answer was lost had been done. */
  | { is: 'written'; entry: StatusEntry };

const minuteMs = 60_000;
/** So often within a minute another control plane's name is found where this one's was, until one of them yields. */
const conflictAfter = 2;
/** How long the one that yields leaves an object alone. */
export const yieldMs = 10 * minuteMs;
/** Chosen: whoever it is, and whatever name is written: so many repairs within a minute, then a pause. */
const mostRepairs = 5;
const repairPauseMs = 20_000;

/**
 * One object whose status others write, too.
 *
 *     calm -- overwritten --> repairing -- by another control plane, twice within a minute --> yielding (10 minutes),
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

  /** When it may be written again; in the past when it may. */
  get pausedUntilMs(): number {
    return this.#pausedUntilMs;
  }

  /** What this process wrote was written over; `by` is the name that the status bears now. */
  overwritten(by: string | undefined, nowMs: number): OwnershipNews {
    this.#found = this.#found.filter(({ atMs }) => nowMs - atMs < minuteMs);
    this.#found.push({ atMs: nowMs, by });
    const ownName = this.#ownName;
    const others = this.#found.filter((one) => one.by !== undefined && one.by !== ownName);
    const isConflict = by !== undefined && by !== ownName && others.length >= conflictAfter;
    const yields = isConflict && ownName !== undefined && by < ownName;
    if (yields) this.#pause(nowMs + yieldMs);
    else if (this.#found.length >= mostRepairs) this.#pause(nowMs + repairPauseMs);
    return isConflict ? { is: 'class-conflict', by, yields } : { is: 'overwritten', by };
  }

  #pause(untilMs: number): void {
    this.#pausedUntilMs = untilMs;
    this.#found = [];
  }
}

interface Written {
  status: ConfigStatus;
  version: string;
  atMs: number;
}

/** A write that the API server refused, since the object had changed. */
interface Refused {
  entry: StatusEntry;
  /** An attempt before it had no answer, and may be why the object had changed. */
  mayBeWritten: boolean;
  untilMs: number;
}

/** Chosen: a source that is behind for longer has lost what was written, as after a restored backup. */
const mostLagMs = 60_000;
/** Chosen: a source that does not show what made a write fail within this time is not waited for any longer. */
const mostRefusedMs = 10_000;

export class StatusOwnership {
  readonly #ownName: string | undefined;
  /** All by uid. */
  readonly #written = new Map<string, Written>();
  readonly #refused = new Map<string, Refused>();
  readonly #contested = new Map<string, ContestedStatus>();

  /** `ownName` undefined: nobody else can write statuses. */
  constructor(ownName: string | undefined) {
    this.#ownName = ownName;
  }

  /**
   * The object with its newest status: as it is shown, or as this process wrote it since. `inFlight` is the status that is
   * being written for it.
   */
  look(
    shown: ConfigObject,
    inFlight: ConfigStatus | undefined,
    nowMs: number,
  ): { known: ConfigObject; news: OwnershipNews | undefined } {
    const { uid, status, resourceVersion = '' } = shown;
    let written = this.#written.get(uid);
    if (written !== undefined && isNewerVersion(written.version, resourceVersion)) {
      if (nowMs - written.atMs < mostLagMs) return { known: withStatus(shown, written), news: undefined };
      this.#written.delete(uid);
      written = undefined;
    }
    const refused = this.#refused.get(uid);
    if (
      refused !== undefined &&
      isNewerVersion(resourceVersion, refused.entry.object.resourceVersion ?? '')
    ) {
      this.#refused.delete(uid);
      const { entry, mayBeWritten } = refused;
      if (mayBeWritten && status !== undefined && sameStatus(entry.status, status)) {
        this.#written.set(uid, { status, version: resourceVersion, atMs: nowMs });
        return { known: shown, news: { is: 'written', entry } };
      }
    }
    const isOwn = written === undefined || sameStatus(written.status, status) || sameStatus(inFlight, status);
    if (isOwn) return { known: shown, news: undefined };
    this.#written.delete(uid);
    // What was given up may be written by others, and come back with that.
    if (written?.status.controllerName !== this.#ownName) return { known: shown, news: undefined };
    const news = this.#contestedOf(uid).overwritten(status?.controllerName, nowMs);
    const { statusManager: manager } = shown;
    return { known: shown, news: news.is === 'overwritten' ? { ...news, manager } : news };
  }

  /** Whether a status may be written that follows from `known`. */
  mayWrite({ uid }: ConfigObject, nowMs: number): boolean {
    const pausedUntilMs = this.#contested.get(uid)?.pausedUntilMs ?? nowMs;
    return nowMs >= pausedUntilMs && nowMs >= (this.#refused.get(uid)?.untilMs ?? nowMs);
  }

  /** When `mayWrite` next answers differently by the time alone; undefined: never. */
  nextDueMs(nowMs: number): number | undefined {
    const ends = [
      ...[...this.#contested.values()].map(({ pausedUntilMs }) => pausedUntilMs),
      ...[...this.#refused.values()].map(({ untilMs }) => untilMs),
    ].filter((endMs) => endMs > nowMs);
    return ends.length === 0 ? undefined : ends.reduce((a, b) => Math.min(a, b));
  }

  /** `version` undefined: the source shows it at once. */
  written({ object: { uid }, status }: StatusEntry, version: string | undefined, nowMs: number): void {
    this.#refused.delete(uid);
    if (version !== undefined) this.#written.set(uid, { status, version, atMs: nowMs });
  }

  /** The object has changed since the version that the entry follows from: wait for what the source shows next. */
  refused(entry: StatusEntry, mayBeWritten: boolean, nowMs: number): void {
    this.#refused.set(entry.object.uid, { entry, mayBeWritten, untilMs: nowMs + mostRefusedMs });
  }

  forget(uid: string): void {
    for (const facts of [this.#written, this.#refused, this.#contested]) facts.delete(uid);
  }

  clear(): void {
    for (const facts of [this.#written, this.#refused, this.#contested]) facts.clear();
  }

  #contestedOf(uid: string): ContestedStatus {
    const contested = this.#contested.get(uid) ?? new ContestedStatus(this.#ownName);
    this.#contested.set(uid, contested);
    return contested;
  }
}
