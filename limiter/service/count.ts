/** Counts the hits in the store. decision.ts lists the phases of a decision. */
import type { BoundedLocalCache } from '../stores/local-cache.ts';
import { callAbandoned, wasLeftOut } from '../stores/operation.ts';
import { countAll, type ReservationStore, type Store, type SubmitOptions } from '../stores/store.ts';
import type { CountedHit, CountingOptions, Decision } from './decision.ts';
import type { HitStatuses } from './hit-statuses.ts';

export interface CountOptions {
  readonly store: Store;
  readonly reservations?: ReservationStore | undefined;
  readonly localCache: BoundedLocalCache | undefined;
  readonly hitStatuses: HitStatuses;
  readonly counting: Pick<CountingOptions, 'stopCacheKeyIncrementWhenOverLimit'>;
}

const stopWhenOver = { stopWhenOver: true } as const;

export class Count {
  readonly #options: CountOptions;

  constructor(options: CountOptions) {
    this.#options = options;
  }

  /** `done` is called once, possibly before it returns. */
  submit({ ops, asker }: Decision, done: () => void): void {
    if (ops.length === 0) {
      done();
      return;
    }
    for (const op of ops) op.caller = asker;
    const { store, counting } = this.#options;
    store.submit(ops, counting.stopCacheKeyIncrementWhenOverLimit ? stopOptions(ops) : countAll, done);
  }

  /** Call it after a `check` that returned false. `done` is called as in `submit`. */
  giveBack({ ops }: Decision, done: () => void): void {
    const { reservations, counting } = this.#options;
    const options = counting.stopCacheKeyIncrementWhenOverLimit ? stopOptions(ops) : countAll;
    reservations!.giveBack(ops, options, done);
  }

  /**
   * Call it after `done`. Returns false if hits were rejected because of reservations that have expired. Throws the `StoreError` of the
   * first failed counter, unless STORE_FAILURE_MODE defines an answer for it.
   */
  check({ ops }: Decision): boolean {
    const { localCache, hitStatuses, reservations } = this.#options;
    let anyFailed = false;
    let anyExpired = false;
    for (const op of ops) {
      if (op.error !== undefined) anyFailed = true;
      if (op.hasExpired) anyExpired = true;
    }
    if (anyExpired && reservations !== undefined) return false;
    if (anyFailed && wasLeftOut(ops)) throw callAbandoned;
    // Do this even if another counter fails the request. Hits were given back, or may have been, so the cached rejection is stale.
    if (localCache !== undefined) {
      for (const { verb, key } of ops) if (verb === 'refund') localCache.forget(key);
    }
    if (anyFailed) hitStatuses.acceptFailures(ops);
    return true;
  }
}

/** A single operation is not held back by others. */
function stopOptions(ops: readonly CountedHit[]): SubmitOptions {
  return ops.length > ops[0]!.groupSize ? stopWhenOver : countAll;
}
