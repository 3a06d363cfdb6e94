import type { CounterOp, CounterStore, SubmitOptions } from '../counter-store.ts';
import { maxTotal } from '../folded-run.ts';
import type { LookCall, ReservationStore, ReservedCounter } from './reservation-store.ts';

export interface ExpiringStoreOptions {
  /** Counts. */
  readonly store: CounterStore;
  /** What is reserved on the same counters. */
  readonly reservations: ReservationStore;
  /** The counter of an op that was refused as a look asks for it; undefined where a look has nothing to give back. */
  readonly counterOf: (op: CounterOp) => ReservedCounter | undefined;
  /** Whether what expired on the counter of an op was charged, so that some of it returns if it is settled later. */
  readonly chargesExpired: (op: CounterOp) => boolean;
  /** `store` calls `done` before `submit` returns: then nothing has to be kept meanwhile. */
  readonly answersAtOnce: boolean;
}

/**
 * Before hits are refused, reservations on their counters whose time has passed are given back. The store is asked once where
 * there are none.
 */
export class ExpiringStore implements CounterStore {
  readonly #options: ExpiringStoreOptions;
  readonly #store: CounterStore;

  constructor(options: ExpiringStoreOptions) {
    this.#options = options;
    this.#store = options.store;
  }

  get connected(): boolean {
    return this.#store.connected ?? true;
  }

  submit(ops: CounterOp[], options: SubmitOptions, done: () => void): void {
    if (this.#options.answersAtOnce) {
      this.#store.submit(ops, options, nothing);
      this.#answered(ops, options, done);
    } else {
      this.#store.submit(ops, options, () => this.#answered(ops, options, done));
    }
  }

  ping(patienceMs?: number): Promise<void> {
    return this.#store.ping(patienceMs);
  }

  close(): Promise<void> {
    return this.#store.close();
  }

  #answered(ops: CounterOp[], options: SubmitOptions, done: () => void): void {
    let looked: Map<string, ReservedCounter> | undefined;
    for (const op of ops) {
      if (!isRefused(op)) continue;
      if (this.#options.chargesExpired(op)) op.mayReturn = true;
      if (looked?.has(op.key) === true) continue;
      const counter = this.#options.counterOf(op);
      if (counter === undefined) continue;
      looked ??= new Map();
      looked.set(op.key, counter);
    }
    if (looked === undefined) done();
    else this.#look(ops, looked, options, done);
  }

  #look(
    ops: CounterOp[],
    looked: ReadonlyMap<string, ReservedCounter>,
    options: SubmitOptions,
    done: () => void,
  ): void {
    const caller = ops[0]!.caller;
    const call: LookCall = { kind: 'look', counters: [...looked.values()], caller, error: undefined };
    this.#options.reservations.submit(call, () => {
      if (call.error === undefined) {
        this.#correct(ops, looked, options, done);
        return;
      }
      // The hits are refused as they were. Nothing is reserved where nobody may: no scripts, or an ACL.
      if (call.error.transient) for (const op of ops) if (looked.has(op.key)) op.mayReturn = true;
      done();
    });
  }

  /**
   * A fixed window alone has counted the hits, unless its total stopped before them; all others were refused, and are counted once
   * more.
   */
  #correct(
    ops: CounterOp[],
    looked: ReadonlyMap<string, ReservedCounter>,
    options: SubmitOptions,
    done: () => void,
  ): void {
    let returned = false;
    for (const op of ops) {
      const counter = looked.get(op.key);
      if (counter === undefined || !isRefused(op)) continue;
      if (counter.open > 0) op.mayReturn = true;
      if (counter.givenBack === 0) continue;
      returned = true;
      if (isCounted(op)) op.after = Math.max(0, op.after - counter.givenBack);
    }
    const again = returned ? uncounted(ops, looked, options) : [];
    if (again.length === 0) done();
    else this.#store.submit(again, options, done);
  }
}

function nothing(): void {}

function isRefused(op: CounterOp): boolean {
  if (op.negative || op.error !== undefined) return false;
  return op.bound === undefined ? op.after > op.limit : op.over;
}

function isCounted({ bound, after }: CounterOp): boolean {
  return bound === undefined && after <= maxTotal;
}

/**
 * The groups of ops that are worth counting again. Where those that are over hold others back these are counted too, once no
 * fixed window is over; as nothing but that window was counted, nothing is counted twice.
 */
function uncounted(
  ops: readonly CounterOp[],
  looked: ReadonlyMap<string, ReservedCounter>,
  { stopWhenOver }: SubmitOptions,
): CounterOp[] {
  if (stopWhenOver) {
    if (ops.some((op) => op.bound === undefined && isRefused(op))) return [];
    return ops.filter((op) => !op.negative && !op.lookOnly && op.applied < op.hits);
  }
  const again: CounterOp[] = [];
  for (let first = 0; first < ops.length; first += ops[first]!.groupSize) {
    const group = ops.slice(first, first + ops[first]!.groupSize);
    const isOver = group.some((op) => !isCounted(op) && isRefused(op));
    if (isOver && group.some(({ key }) => (looked.get(key)?.givenBack ?? 0) > 0)) again.push(...group);
  }
  return again;
}
