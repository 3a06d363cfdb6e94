import { maxTotal } from '../folded-run.ts';
import {
  answerAll,
  isRejected,
  newHold,
  newOperation,
  newReservation,
  type Operation,
  type ReservationHold,
} from '../operation.ts';
import {
  countAll,
  type Notes,
  type ReservationStore,
  type Store,
  StoreDecorator,
  type SubmitOptions,
} from '../store.ts';
import type { OwnerBounds } from './owner-bounds.ts';

export interface ReservingStoreOptions {
  /** The store that counts. It has reservations on the same counters. */
  readonly store: Store;
  /** The bounds on domains and callers. */
  readonly bounds: OwnerBounds;
  /** Returns what happens to expired reservations on the counter of a rejected op; undefined if a look has nothing to give back. */
  readonly looksFor: (op: Operation) => ReservationHold['onExpiry'] | undefined;
  /** Called when ops got other answers without being counted again. */
  readonly onCorrected?: ((ops: readonly Operation[]) => void) | undefined;
}

/** One call that looks at counters, and the functions to call when it is answered. */
interface LookCall {
  readonly looks: Operation[];
  readonly waiting: (() => void)[];
}

/**
 * Adds to any store what reservations need: bounds on their owners, and the return of expired amounts before hits on their counters are
 * rejected. The answers of the store report where amounts may have expired.
 */
export class ReservingStore extends StoreDecorator implements ReservationStore {
  readonly #options: ReservingStoreOptions;
  /** The calls in progress that look at counters, by their keys. */
  readonly #looking = new Map<string, LookCall>();

  constructor(options: ReservingStoreOptions) {
    super(options.store);
    this.#options = options;
  }

  override get notes(): Notes | undefined {
    const { notes } = this.store;
    return (
      notes && {
        recall: (id) => notes.recall(id),
        note: (note) => this.#options.bounds.note(notes, note),
        share: notes.share,
      }
    );
  }

  override submit(ops: Operation[], options: SubmitOptions, done: () => void): void {
    if (ops[0]?.hold === undefined) this.store.submit(ops, options, done);
    else this.#options.bounds.submit(this.store, ops, done);
  }

  giveBack(ops: Operation[], options: SubmitOptions, done: () => void): void {
    const looked = new Map<string, Operation>();
    const own: LookCall = { looks: [], waiting: [] };
    const calls = new Set<LookCall>();
    for (const op of ops) {
      if (!op.hasExpired || !isRejected(op) || looked.has(op.key)) continue;
      const onExpiry = this.#options.looksFor(op);
      if (onExpiry === undefined) continue;
      const inProgress = this.#joinable(op.key);
      if (inProgress === undefined) {
        own.looks.push(lookAt(op, onExpiry));
        this.#looking.set(op.key, own);
      }
      const call = inProgress ?? own;
      calls.add(call);
      looked.set(op.key, call.looks.find(({ key }) => key === op.key)!);
    }
    const end = (): void => {
      for (const op of ops) op.hasExpired = false;
      done();
    };
    if (calls.size === 0) {
      end();
      return;
    }
    let left = calls.size;
    const answered = (): void => {
      left -= 1;
      if (left === 0) this.#looked(ops, looked, options, end);
    };
    for (const { waiting } of calls) waiting.push(answered);
    if (own.looks.length > 0) this.#send(own);
  }

  /**
   * Returns a call in progress that looks at a counter, if a hit that was just rejected was counted before it: then the call returns to
   * the hit what it gives back. A call that needs another step may have given back some amounts before the hit was counted.
   */
  #joinable(key: string): LookCall | undefined {
    const call = this.#looking.get(key);
    const hasBegun = call?.looks.some(({ hold }) => hold!.reservation.hasMore) ?? false;
    return hasBegun ? undefined : call;
  }

  #send(call: LookCall): void {
    this.store.submit(call.looks, countAll, () => {
      for (const { key } of call.looks) if (this.#looking.get(key) === call) this.#looking.delete(key);
      answerAll(call.waiting, (answered) => answered());
    });
  }

  #looked(
    ops: Operation[],
    looked: ReadonlyMap<string, Operation>,
    options: SubmitOptions,
    done: () => void,
  ): void {
    const error = looked.values().find((look) => look.error !== undefined)?.error;
    if (error === undefined) {
      this.#correct(ops, looked, options, done);
      return;
    }
    // The hits stay rejected. If reservations are not permitted, for lack of scripts or because of an ACL, nothing is reserved.
    if (error.transient) for (const op of ops) if (looked.has(op.key)) op.mayReturn = true;
    done();
  }

  /**
   * Corrects the answers. A single fixed window has counted the hits, unless its total reached the maximum before. All other hits were
   * rejected, and are counted again.
   */
  #correct(
    ops: Operation[],
    looked: ReadonlyMap<string, Operation>,
    options: SubmitOptions,
    done: () => void,
  ): void {
    const corrected: Operation[] = [];
    let returned = false;
    for (const op of ops) {
      const look = looked.get(op.key);
      if (look === undefined || !isRejected(op)) continue;
      if (look.hold!.open > 0) op.mayReturn = true;
      if (!hasReturned(look, op, ops)) continue;
      returned = true;
      if (!isCounted(op)) continue;
      op.after = Math.max(0, Math.min(op.after - look.hold!.givenBack, look.after));
      corrected.push(op);
    }
    if (corrected.length > 0) this.#options.onCorrected?.(corrected);
    const again = returned ? uncounted(ops, looked, options) : [];
    if (again.length === 0) done();
    else this.store.submit(again, options, done);
  }
}

/**
 * Whether a look found that amounts have returned to the counter of a rejected op. Another limiter may have given them back just before
 * the look. The counter then holds less than when it rejected the op, although it includes all hits since. Refunds of the same request
 * make no room for an earlier op.
 */
function hasReturned({ hold, after }: Operation, op: Operation, request: readonly Operation[]): boolean {
  if (hold!.givenBack > 0) return true;
  if (request.some(({ verb, key }) => verb === 'refund' && key === op.key)) return false;
  return isCounted(op) ? after < op.after : after + op.hits <= op.counter.capacity;
}

function isCounted({ counter, after }: Operation): boolean {
  return counter.bound === undefined && after <= maxTotal;
}

/** Returns a look without a caller, because several requests may wait for it. */
function lookAt(op: Operation, onExpiry: ReservationHold['onExpiry']): Operation {
  const look = newOperation(op.counter, op.key, 'look', 0, op.ttlSeconds);
  const reservation = newReservation({ id: '', width: 1 });
  const terms = { isShadow: false, isQuota: false, group: 0, amount: undefined, ttlMs: 0, onExpiry };
  look.hold = newHold({ reservation, ...terms });
  return look;
}

/**
 * Returns the groups of ops that are worth counting again. If ops that are over limit hold back others, these are counted too, once
 * no fixed window is over. Only that window has counted, so nothing is counted twice.
 */
function uncounted(
  ops: readonly Operation[],
  looked: ReadonlyMap<string, Operation>,
  { stopWhenOver }: SubmitOptions,
): Operation[] {
  if (stopWhenOver) {
    if (ops.some((op) => op.counter.bound === undefined && isRejected(op))) return [];
    return ops.filter((op) => op.verb === 'add' && op.applied < op.hits);
  }
  const again: Operation[] = [];
  for (let first = 0; first < ops.length; first += ops[first]!.groupSize) {
    const group = ops.slice(first, first + ops[first]!.groupSize);
    const isOver = group.some((op) => !isCounted(op) && isRejected(op));
    if (isOver && group.some((op) => looked.has(op.key) && hasReturned(looked.get(op.key)!, op, ops)))
      again.push(...group);
  }
  return again;
}
