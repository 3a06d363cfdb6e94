/** The statuses that wait to be written, and their order. */
import { FairQueue } from '../../process/queues/fair-queue.ts';
import { PacingTokenBucket } from '../../process/time/pacing.ts';
import { fleetKind } from '../../rules/language/kinds.ts';
import { type ConfigObject, type FleetObject, findCondition } from '../model/config-object.ts';
import type { StatusWrite } from '../model/write-ledger.ts';

export type StatusEntry = StatusWrite<ConfigObject> | StatusWrite<FleetObject>;

export function isOfFleet(entry: StatusEntry): entry is StatusWrite<FleetObject> {
  return entry.object.kind === fleetKind;
}

/** Chosen: the fraction of the writes of one second that may be used at once after a pause. */
const burstPart = 0.2;

/** The priority of a status. Lower ones are written first. */
const Rank = {
  /** The status has an incorrect `Ready=True` of the current generation, or describes a fleet. There are few fleets. */
  wrong: 0,
  /** The status is about an older generation. */
  changed: 1,
  other: 2,
} as const;

/** A waiting status. `group` is its namespace, because namespaces take turns. */
interface WaitingStatus<Entry> {
  readonly group: string;
  readonly rank: number;
  entry: Entry;
}

function newQueues<Entry>(): FairQueue<WaitingStatus<Entry>>[] {
  return Object.values(Rank).map(() => new FairQueue());
}

/**
 * A queue of statuses to write, with one budget for all. First come objects whose status wrongly shows that they are ready, then
 * those of new generations, then the others. Among equals, namespaces take turns, so that many changes in one namespace delay no other
 * one. An object is in the queue once, with its newest status. While one of its statuses is being written, none is offered.
 */
export class StatusQueue<Entry extends StatusEntry = StatusEntry> {
  readonly #budget: PacingTokenBucket;
  /** Waiting statuses by rank. Within a namespace, the status that has waited longest is first. */
  #queues = newQueues<Entry>();
  /** Waiting statuses by uid. */
  readonly #waiting = new Map<string, WaitingStatus<Entry>>();
  readonly #inFlight = new Set<string>();

  constructor({ writesPerSecond }: { writesPerSecond: number }) {
    const burst = Math.max(1, Math.floor(writesPerSecond * burstPart));
    this.#budget = new PacingTokenBucket({ burst, perSecond: writesPerSecond });
  }

  /** The number of waiting statuses, without those that are being written. */
  get size(): number {
    return this.#waiting.size;
  }

  /** Replaces a waiting status of the same object. The entry's object has the status that the new one replaces. */
  offer(entry: Entry): void {
    const { uid, namespace } = entry.object;
    const rank = rankOf(entry);
    const known = this.#waiting.get(uid);
    if (known?.rank === rank) {
      known.entry = entry;
      return;
    }
    this.withdraw(uid);
    const waiting = { group: namespace, rank, entry };
    this.#waiting.set(uid, waiting);
    this.#queues[rank]!.add(waiting);
  }

  /** Removes the waiting status of the object. */
  withdraw(uid: string): void {
    const waiting = this.#waiting.get(uid);
    if (waiting !== undefined) this.#queues[waiting.rank]!.remove(waiting);
    this.#waiting.delete(uid);
  }

  /** Clears the queue when this process no longer leads. Running writes continue. */
  clear(): void {
    this.#queues = newQueues();
    this.#waiting.clear();
  }

  /**
   * Returns the next status to write. Undefined if nothing waits or the budget is used up. Call `done` after the write or its
   * failure.
   */
  next(nowMs: number): Entry | undefined {
    const queue = this.#queues.find(({ size }) => size > 0);
    if (queue === undefined || !this.#budget.take(nowMs)) return undefined;
    const { entry } = queue.next()!;
    const { uid } = entry.object;
    this.#waiting.delete(uid);
    this.#inFlight.add(uid);
    return entry;
  }

  done(uid: string): void {
    this.#inFlight.delete(uid);
  }

  spared(): void {
    this.#budget.putBack();
  }

  /** The uids of objects whose statuses are being written. */
  get inFlight(): ReadonlySet<string> {
    return this.#inFlight;
  }

  /** Returns the milliseconds until `next` returns a status. Undefined if none waits, except those that are being written. */
  nextDueMs(nowMs: number): number | undefined {
    return this.#waiting.size === 0 ? undefined : this.#budget.waitMs(nowMs);
  }
}

function rankOf(entry: StatusEntry): number {
  if (isOfFleet(entry)) return Rank.wrong;
  const { generation, status: before } = entry.object;
  if (before === undefined || before.observedGeneration < generation) return Rank.changed;
  const saysReady = findCondition(before, 'Ready')?.status === 'True';
  return saysReady && findCondition(entry.status, 'Ready')?.status !== 'True' ? Rank.wrong : Rank.other;
}
