/** The statuses that wait to be written, and their order. */
import { PacingTokenBucket } from '../../process/time/pacing.ts';
import { type ConfigObject, type ConfigStatus, findCondition } from '../model/config-object.ts';
import type { StatusWrite } from '../model/write-ledger.ts';

export type StatusEntry = StatusWrite<ConfigObject>;

/** Chosen: the part of the writes of one second that may be used at once after a pause. */
const burstPart = 0.2;

/** The priority of a status. Lower ones are written first. */
const Rank = {
  /** The status has a wrong `Ready=True` of the current generation. */
  wrong: 0,
  /** The status is about an older generation. */
  changed: 1,
  other: 2,
} as const;

/** Waiting statuses of one rank. Namespaces take turns. Within a namespace, the status that waits longest is next. */
class Turns {
  readonly #entries = new Map<string, StatusEntry>();
  /** Uids by namespace. The namespace whose turn it is comes first. */
  readonly #namespaces = new Map<string, Set<string>>();

  get size(): number {
    return this.#entries.size;
  }

  /** Replaces the status of the same object. */
  set(entry: StatusEntry): void {
    const { namespace, uid } = entry.object;
    this.#entries.set(uid, entry);
    this.#namespaces.set(namespace, (this.#namespaces.get(namespace) ?? new Set()).add(uid));
  }

  delete(uid: string): void {
    const entry = this.#entries.get(uid);
    if (entry === undefined) return;
    const { namespace } = entry.object;
    const uids = this.#namespaces.get(namespace)!;
    this.#entries.delete(uid);
    uids.delete(uid);
    if (uids.size === 0) this.#namespaces.delete(namespace);
  }

  clear(): void {
    this.#entries.clear();
    this.#namespaces.clear();
  }

  /** Removes and returns the next status, and ends the turn of its namespace. */
  take(): StatusEntry {
    const [namespace, uids] = this.#namespaces.entries().next().value!;
    const [uid] = uids;
    const entry = this.#entries.get(uid!)!;
    this.#namespaces.delete(namespace);
    this.#namespaces.set(namespace, uids);
    this.delete(entry.object.uid);
    return entry;
  }
}

/**
 * A queue of statuses to write, with one budget for all. First come objects whose status wrongly shows that they are ready, then
 * those of new generations, then the others. Among equals, namespaces take turns, so that many changes in one namespace delay no other
 * one. An object is in the queue once, with its newest status. While one of its statuses is being written, it waits, so that no older
 * status is ever written last.
 */
export class StatusQueue {
  readonly #budget: PacingTokenBucket;
  /** Waiting statuses by rank. */
  readonly #waiting = Object.values(Rank).map(() => new Turns());
  /** Statuses that are being written, by uid. */
  readonly #inFlight = new Map<string, StatusEntry>();
  /** Statuses by uid that were offered while another one was being written. */
  readonly #held = new Map<string, StatusEntry>();

  constructor({ writesPerSecond }: { writesPerSecond: number }) {
    const burst = Math.max(1, Math.floor(writesPerSecond * burstPart));
    this.#budget = new PacingTokenBucket({ burst, perSecond: writesPerSecond });
  }

  /** The number of waiting statuses, without those that are being written. */
  get size(): number {
    return this.#waitingCount + this.#held.size;
  }

  get #waitingCount(): number {
    return this.#waiting.reduce((sum, { size }) => sum + size, 0);
  }

  /** Replaces a waiting status of the same object. `object` has the status that this one replaces. */
  offer(object: ConfigObject, status: ConfigStatus): void {
    const { uid } = object;
    const entry = { object, status };
    if (this.#inFlight.has(uid)) {
      this.#held.set(uid, entry);
      return;
    }
    const rank = rankOf(entry);
    for (const [other, waiting] of this.#waiting.entries()) if (other !== rank) waiting.delete(uid);
    this.#waiting[rank]!.set(entry);
  }

  /** Removes the waiting status of the object. */
  withdraw(uid: string): void {
    for (const waiting of [...this.#waiting, this.#held]) waiting.delete(uid);
  }

  /** Clears the queue when this process no longer leads. Running writes continue. */
  clear(): void {
    for (const waiting of [...this.#waiting, this.#held]) waiting.clear();
  }

  /**
   * Returns the next status to write. Undefined if nothing waits or the budget is used up. Call `done` after the write or its
   * failure.
   */
  next(nowMs: number): StatusEntry | undefined {
    const waiting = this.#waiting.find(({ size }) => size > 0);
    if (waiting === undefined || !this.#budget.take(nowMs)) return undefined;
    const entry = waiting.take();
    this.#inFlight.set(entry.object.uid, entry);
    return entry;
  }

  /** `now`: the object after the write. Statuses that were offered meanwhile follow from it. */
  done(uid: string, now?: ConfigObject): void {
    this.#inFlight.delete(uid);
    const held = this.#held.get(uid);
    this.#held.delete(uid);
    if (held !== undefined) this.offer(now ?? held.object, held.status);
  }

  spared(): void {
    this.#budget.putBack();
  }

  /** The status that is being written for the object. */
  inFlight(uid: string): ConfigStatus | undefined {
    return this.#inFlight.get(uid)?.status;
  }

  /** Returns the milliseconds until `next` returns a status. Undefined if none waits, except those that are being written. */
  nextDueMs(nowMs: number): number | undefined {
    return this.#waitingCount === 0 ? undefined : this.#budget.waitMs(nowMs);
  }
}

function rankOf({ object: { generation, status: before }, status }: StatusEntry): number {
  if (before === undefined || before.observedGeneration < generation) return Rank.changed;
  const saysReady = findCondition(before, 'Ready')?.status === 'True';
  return saysReady && findCondition(status, 'Ready')?.status !== 'True' ? Rank.wrong : Rank.other;
}
