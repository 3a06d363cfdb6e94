import { maxTotal } from '../folded-run.ts';
import { type Hold, newHold, newOperation, newReservation, type Operation } from '../operation.ts';
import { countAll, type Notes, type Store, StoreDecorator, type SubmitOptions } from '../store.ts';
import type { OwnerBounds } from './owner-bounds.ts';

export interface ReservingStoreOptions {
  /** Counts, and keeps reservations on the same counters. */
  readonly store: Store;
  /** Of domains and callers. */
  readonly bounds: OwnerBounds;
  /** What becomes of reservations on the counter of an op that was refused; undefined where a look has nothing to give back. */
  readonly looksFor: (op: Operation) => Hold['onExpiry'] | undefined;
  /** Whether what expired on the counter of an op was charged, so that some of it returns if it is settled later. */
  readonly chargesExpired: (op: Operation) => boolean;
  /** `store` calls `done` before `submit` returns: then nothing has to be kept meanwhile. */
  readonly answersAtOnce: boolean;
}

/**
 * What reservations need of any store: bounds on their owners, and that those whose time has passed are given back before
 * hits on their counters are refused. The store is asked once where there are none.
 */
export class ReservingStore extends StoreDecorator {
  readonly #options: ReservingStoreOptions;

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
    if (ops[0]?.hold !== undefined) {
      this.#options.bounds.submit(this.store, ops, done);
    } else if (this.#options.answersAtOnce) {
      this.store.submit(ops, options, nothing);
      this.#answered(ops, options, done);
    } else {
      this.store.submit(ops, options, () => this.#answered(ops, options, done));
    }
  }

  #answered(ops: Operation[], options: SubmitOptions, done: () => void): void {
    let looked: Map<string, Operation> | undefined;
    for (const op of ops) {
      if (!isRefused(op)) continue;
      if (this.#options.chargesExpired(op)) op.mayReturn = true;
      if (looked?.has(op.key) === true) continue;
      const onExpiry = this.#options.looksFor(op);
      if (onExpiry === undefined) continue;
      looked ??= new Map();
      looked.set(op.key, lookAt(op, onExpiry));
    }
    if (looked === undefined) done();
    else this.#look(ops, looked, options, done);
  }

  #look(
    ops: Operation[],
    looked: ReadonlyMap<string, Operation>,
    options: SubmitOptions,
    done: () => void,
  ): void {
    const looks = [...looked.values()];
    this.store.submit(looks, countAll, () => {
      const error = looks.find((look) => look.error !== undefined)?.error;
      if (error === undefined) {
        this.#correct(ops, looked, options, done);
        return;
      }
      // The hits are refused as they were. Nothing is reserved where nobody may: no scripts, or an ACL.
      if (error.transient) for (const op of ops) if (looked.has(op.key)) op.mayReturn = true;
      done();
    });
  }

  /**
   * A fixed window alone has counted the hits, unless its total stopped before them; all others were refused, and are counted once
   * more.
   */
  #correct(
    ops: Operation[],
    looked: ReadonlyMap<string, Operation>,
    options: SubmitOptions,
    done: () => void,
  ): void {
    let returned = false;
    for (const op of ops) {
      const hold = looked.get(op.key)?.hold;
      if (hold === undefined || !isRefused(op)) continue;
      if (hold.open > 0) op.mayReturn = true;
      if (hold.givenBack === 0) continue;
      returned = true;
      if (isCounted(op)) op.after = Math.max(0, op.after - hold.givenBack);
    }
    const again = returned ? uncounted(ops, looked, options) : [];
    if (again.length === 0) done();
    else this.store.submit(again, options, done);
  }
}

function nothing(): void {}

function isRefused(op: Operation): boolean {
  if (op.verb === 'refund' || op.error !== undefined) return false;
  return op.counter.bound === undefined ? op.after > op.counter.capacity : op.over;
}

function isCounted({ counter, after }: Operation): boolean {
  return counter.bound === undefined && after <= maxTotal;
}

function lookAt(op: Operation, onExpiry: Hold['onExpiry']): Operation {
  const look = newOperation(op.counter, op.key, 'look', 0, op.ttlSeconds);
  const reservation = newReservation({ id: '', width: 1 });
  const terms = { isShadow: false, isQuota: false, group: 0, amount: undefined, ttlMs: 0, onExpiry };
  look.hold = newHold({ reservation, ...terms });
  look.caller = op.caller;
  return look;
}

/**
 * The groups of ops that are worth counting again. Where those that are over hold others back these are counted too, once no
 * fixed window is over; as nothing but that window was counted, nothing is counted twice.
 */
function uncounted(
  ops: readonly Operation[],
  looked: ReadonlyMap<string, Operation>,
  { stopWhenOver }: SubmitOptions,
): Operation[] {
  if (stopWhenOver) {
    if (ops.some((op) => op.counter.bound === undefined && isRefused(op))) return [];
    return ops.filter((op) => op.verb === 'add' && op.applied < op.hits);
  }
  const again: Operation[] = [];
  for (let first = 0; first < ops.length; first += ops[first]!.groupSize) {
    const group = ops.slice(first, first + ops[first]!.groupSize);
    const isOver = group.some((op) => !isCounted(op) && isRefused(op));
    if (isOver && group.some(({ key }) => (looked.get(key)?.hold?.givenBack ?? 0) > 0)) again.push(...group);
  }
  return again;
}
