/** Decides who owns the statuses: which other writer replaces ours, and when we may write again. Pure: the time is passed in. */
import type { ConfigObject } from '../model/config-object.ts';
import type { WriteObservation } from '../model/write-ledger.ts';

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
export interface ContestedStatus {
  readonly found: readonly { atMs: number; by: string | undefined }[];
  /** The time from which on the object may be written again. It is in the past if it may be written now. */
  readonly pausedUntilMs: number;
}

export const uncontested: ContestedStatus = { found: [], pausedUntilMs: Number.NEGATIVE_INFINITY };

/** Another writer replaced our status. `ownName`: undefined if no other control plane can write statuses. */
export function afterOverwrite(
  before: ContestedStatus,
  { status, statusManager: manager }: Pick<ConfigObject, 'status' | 'statusManager'>,
  { ownName, nowMs }: { ownName: string | undefined; nowMs: number },
): { contested: ContestedStatus; news: OwnershipEvent } {
  const by = status?.controllerName;
  const found = [...before.found.filter(({ atMs }) => nowMs - atMs < minuteMs), { atMs: nowMs, by }];
  const others = found.filter((one) => one.by !== undefined && one.by !== ownName);
  const isConflict = by !== undefined && by !== ownName && others.length >= conflictAfter;
  const yields = isConflict && ownName !== undefined && by < ownName;
  const pauseMs = yields ? yieldMs : found.length >= maxRepairs ? repairPauseMs : undefined;
  return {
    contested: pauseMs === undefined ? { ...before, found } : { found: [], pausedUntilMs: nowMs + pauseMs },
    news: isConflict ? { is: 'class-conflict', by, yields } : { is: 'overwritten', by, manager },
  };
}
