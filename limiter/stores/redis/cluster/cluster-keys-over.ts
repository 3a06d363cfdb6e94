import type { Operation } from '../../operation.ts';
import { noteKeyOver, ReservationsOnKey } from '../lua/reserved-keys-over.ts';
import { reservationPlaceOf } from '../reservation-keys.ts';
import type { KeyedCommands } from '../wire/redis-connection.ts';

export interface ClusterKeysOverOptions {
  readonly commands: KeyedCommands;
  readonly monotonicMs: () => number;
}

/** Chosen: the interval of questions about a counter that is over its limit. */
const pauseMs = 1_000;
/** Chosen: the number of counters whose last question is remembered. Beyond it, the first of them may be asked about again. */
const maxPaused = 10_000;

/** A question in progress, and the ops that wait for its answer. */
interface Question {
  readonly ops: Operation[];
  readonly answered: Promise<void>;
}

/**
 * Reports for plain counters in a cluster, which no script counts, what `luaReportOver` reports for others: whether reservations on
 * counters that are over may have expired. It sends an HLEN at most once a second for each counter. In between, this is unknown.
 */
export class ClusterKeysOver {
  readonly #options: ClusterKeysOverOptions;
  /** The time from which counters may be asked about again, in this order. */
  readonly #paused = new Map<string, number>();
  /** The questions in progress, by their counters. */
  readonly #asking = new Map<string, Question>();

  constructor(options: ClusterKeysOverOptions) {
    this.#options = options;
  }

  /** Writes the report into the answered ops of one request. Calls `done` once, possibly before it returns. */
  note(ops: readonly Operation[], done: () => void): void {
    let asked: Set<Promise<void>> | undefined;
    for (const op of ops) {
      if (!isPlainOver(op)) continue;
      const question = this.#asking.get(op.key) ?? (this.#mayAsk(op.key) ? this.#begin(op.key) : undefined);
      if (question === undefined) {
        op.mayReturn = true;
        continue;
      }
      question.ops.push(op);
      asked ??= new Set();
      asked.add(question.answered);
    }
    if (asked === undefined) done();
    else void Promise.all(asked).then(done);
  }

  /** Asks about a counter, for all ops on it that are rejected before there is an answer. */
  #begin(key: string): Question {
    const ops: Operation[] = [];
    const answered = Promise.resolve()
      .then(() => this.#ask(ops))
      .finally(() => this.#asking.delete(key));
    const question = { ops, answered };
    this.#asking.set(key, question);
    return question;
  }

  async #ask(same: readonly Operation[]): Promise<void> {
    const { commands } = this.#options;
    const { hash } = reservationPlaceOf(same[0]!);
    try {
      const records = Number(await commands.send(hash, 'hlen', [hash]));
      if (records > 0) for (const op of same) noteKeyOver(op, ReservationsOnKey.expired);
    } catch (error) {
      // If reading the reservations is not permitted, there are none.
      if (commands.translate(error).transient) for (const op of same) noteKeyOver(op, ReservationsOnKey.open);
    }
  }

  #mayAsk(key: string): boolean {
    const nowMs = this.#options.monotonicMs();
    const paused = this.#paused;
    if ((paused.get(key) ?? 0) > nowMs) return false;
    paused.delete(key);
    for (const [first, untilMs] of paused) {
      if (untilMs > nowMs && paused.size < maxPaused) break;
      paused.delete(first);
    }
    paused.set(key, nowMs + pauseMs);
    return true;
  }
}

function isPlainOver({ counter, verb, error, after }: Operation): boolean {
  const { bound, capacity } = counter;
  return bound === undefined && verb !== 'refund' && error === undefined && capacity > 0 && after > capacity;
}
