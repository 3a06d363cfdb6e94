import type { CounterOp } from '../counter-store.ts';
import type { FoldedRun } from '../folded-run.ts';
import type { StoreError } from '../store-error.ts';
import { inParallel } from './in-parallel.ts';
import type { KeyedCommands } from './keyed-commands.ts';
import { applyPlainly, totalHeld } from './plain-run.ts';
import { PlainStop } from './plain-stop.ts';

export interface PlainCountingOptions {
  commands: KeyedCommands;
  /** Applies and answers a run with refunds, where a script of one key may run. Defaults to GET, then DECRBY. */
  clamp?: (run: FoldedRun) => Promise<void>;
  /** Servers that are asked at a time for one batch. Defaults to all. */
  parallelism?: number;
  /** What still waits for its turn so long after the batch went out is given up. */
  timeoutMs: number;
  timedOut: () => StoreError;
  monotonicMs: () => number;
}

/** Counts by commands of one key each. None of its promises rejects: errors go into the ops. */
export class PlainCounting {
  readonly #options: PlainCountingOptions;

  constructor(options: PlainCountingOptions) {
    this.#options = options;
  }

  /** Runs of different keys. */
  async count(runs: readonly FoldedRun[]): Promise<void> {
    const { commands, clamp } = this.#options;
    await this.#byPlace({
      items: runs,
      keyOf: (run) => run.key,
      work: (run) =>
        clamp === undefined || run.isAddition || run.isLook ? applyPlainly(commands, run) : clamp(run),
      fail: (run, error) => run.fail(error),
    });
  }

  /**
   * Whole requests with stop-when-over: GET of every key, then INCRBY of what may count. Between the two others may
   * count, as in the Go service.
   */
  async countWhole(requests: readonly (readonly CounterOp[])[]): Promise<void> {
    const stop = new PlainStop(requests);
    await this.#byPlace({
      items: [...stop.totals.keys()],
      keyOf: (key) => key,
      work: async (key) => void stop.totals.set(key, await totalHeld(this.#options.commands, key)),
      fail: (key, error) => void stop.totals.set(key, error.marked(true)),
    });
    await this.count(stop.judge());
    stop.answer();
  }

  /** Server by server, all items of one together. */
  async #byPlace<T>(given: {
    items: readonly T[];
    keyOf: (item: T) => string;
    work: (item: T) => Promise<void>;
    fail: (item: T, error: StoreError) => void;
  }): Promise<void> {
    const {
      commands,
      parallelism = Number.POSITIVE_INFINITY,
      timeoutMs,
      timedOut,
      monotonicMs,
    } = this.#options;
    const { keyOf, work, fail } = given;
    const groups = Map.groupBy(given.items, (item) => commands.placeOf(keyOf(item)));
    const endMs = monotonicMs() + timeoutMs;
    await inParallel([...groups.values()], parallelism, async (group) => {
      if (monotonicMs() >= endMs) {
        for (const item of group) fail(item, timedOut().marked(true));
        return;
      }
      await Promise.all(
        group.map((item) => work(item).catch((error: unknown) => fail(item, commands.translate(error)))),
      );
    });
  }
}
