import type { CounterOp, CounterStore, SubmitOptions } from './counter-store.ts';
import { lookThenCount } from './stop-when-over.ts';

const countAll: SubmitOptions = { stopWhenOver: false };

/** Two stores as one (REDIS_PERSECOND). A request with counters in both is answered when both have answered. */
export class PerSecondStore implements CounterStore {
  readonly #main: CounterStore;
  readonly #perSecond: CounterStore;

  /** `perSecond` holds the counters of limits per second, `main` all others. */
  constructor({ main, perSecond }: { main: CounterStore; perSecond: CounterStore }) {
    this.#main = main;
    this.#perSecond = perSecond;
  }

  /** Neither store sees the other's totals: stop-when-over over both looks first and counts then, as the Go service. */
  submit(ops: CounterOp[], options: SubmitOptions, done: () => void): void {
    const store = this.#onlyStoreOf(ops);
    if (store !== undefined) store.submit(ops, options, done);
    else if (options.stopWhenOver) lookThenCount(this, ops, done);
    else this.#split(ops, done);
  }

  async ping(): Promise<void> {
    await Promise.all([this.#main.ping(), this.#perSecond.ping()]);
  }

  async close(): Promise<void> {
    await Promise.all([this.#main.close(), this.#perSecond.close()]);
  }

  /** Undefined when the request has counters in both. */
  #onlyStoreOf(ops: readonly CounterOp[]): CounterStore | undefined {
    const perSecond = ops[0]?.perSecond ?? false;
    for (const op of ops) if (op.perSecond !== perSecond) return undefined;
    return perSecond ? this.#perSecond : this.#main;
  }

  #split(ops: readonly CounterOp[], done: () => void): void {
    let left = 2;
    const oneDone = () => {
      left -= 1;
      if (left === 0) done();
    };
    this.#main.submit(
      ops.filter((op) => !op.perSecond),
      countAll,
      oneDone,
    );
    this.#perSecond.submit(
      ops.filter((op) => op.perSecond),
      countAll,
      oneDone,
    );
  }
}
