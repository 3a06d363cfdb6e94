import type { Operation, ReachedReservationBound } from './operation.ts';
import { submitSpread } from './spread-reservations.ts';
import { readThenCount } from './stop-when-over.ts';
import { countAll, type Note, type Notes, type OnceClaims, type Store, type SubmitOptions } from './store.ts';

/** Combines two stores (REDIS_PERSECOND). A request with counters in both is answered when both have answered. */
export class PerSecondStore implements Store {
  readonly #main: Store;
  readonly #perSecond: Store;

  /** `perSecond` holds the counters of limits per second, `main` all others. */
  constructor({ main, perSecond }: { main: Store; perSecond: Store }) {
    this.#main = main;
    this.#perSecond = perSecond;
  }

  /** Notes are in the store of the first counter of a call. Claims are in the main store. */
  get notes(): Notes | undefined {
    const main = this.#main.notes;
    const perSecond = this.#perSecond.notes;
    if (main === undefined || perSecond === undefined) return undefined;
    const recall = async (id: string): Promise<string | undefined> => {
      const notes = await Promise.all([main.recall(id), perSecond.recall(id)]);
      return notes.find((note) => note !== undefined);
    };
    const note = async (one: Note): Promise<string | ReachedReservationBound | undefined> =>
      (await recall(one.id)) ?? main.note(one);
    return { recall, note, share: main.share };
  }

  get claims(): OnceClaims | undefined {
    return this.#main.claims;
  }

  /** Neither store knows the totals of the other. So stop-when-over across both first reads and then counts, as the Go service does. */
  submit(ops: Operation[], options: SubmitOptions, done: () => void): void {
    const store = this.#onlyStoreOf(ops);
    if (store !== undefined) store.submit(ops, options, done);
    else if (ops[0]!.hold !== undefined) this.#spread(ops, done);
    else if (options.stopWhenOver)
      readThenCount([ops], (part, each) => this.submit(part, countAll, each), done);
    else this.#split(ops, done);
  }

  async ping(): Promise<void> {
    await Promise.all([this.#main.ping(), this.#perSecond.ping()]);
  }

  async close(): Promise<void> {
    await Promise.all([this.#main.close(), this.#perSecond.close()]);
  }

  /** Returns the store of all counters of the request; undefined if it has counters in both. */
  #onlyStoreOf(ops: readonly Operation[]): Store | undefined {
    const perSecond = ops[0]?.counter.perSecond ?? false;
    for (const op of ops) if (op.counter.perSecond !== perSecond) return undefined;
    return this.#storeOf(perSecond);
  }

  #storeOf(perSecond: boolean): Store {
    return perSecond ? this.#perSecond : this.#main;
  }

  #spread(ops: readonly Operation[], done: () => void): void {
    const placeOf = ({ counter }: Operation): boolean => counter.perSecond;
    submitSpread(
      ops,
      { placeOf, submit: (part, each) => this.#storeOf(placeOf(part[0]!)).submit(part, countAll, each) },
      done,
    );
  }

  #split(ops: readonly Operation[], done: () => void): void {
    let left = 2;
    const oneDone = () => {
      left -= 1;
      if (left === 0) done();
    };
    for (const [store, isPerSecond] of [
      [this.#main, false],
      [this.#perSecond, true],
    ] as const) {
      const own = ops.filter(({ counter }) => counter.perSecond === isPerSecond);
      store.submit(own, countAll, oneDone);
    }
  }
}
