import type { Operation } from '../../operation.ts';
import { KeyOver, noteKeyOver } from '../lua/reserved-keys-over.ts';
import type { ReservationNames } from '../reservation-keys.ts';
import type { KeyedCommands } from '../wire/redis-connection.ts';

export interface ClusterKeysOverOptions {
  readonly commands: KeyedCommands;
  readonly names: ReservationNames;
  readonly monotonicMs: () => number;
}

/** Chosen: how often a counter that is over is asked about. */
const pauseMs = 1_000;
/** Chosen: counters that were asked about lately. When there are more, the first of them may be asked about again. */
const mostPaused = 10_000;

/**
 * Says of plain counters in a cluster, which no script counts, what `luaReportOver` says of others: whether reservations on those
 * that are over may have expired. An HLEN at most once a second for each; in between nobody knows.
 */
export class ClusterKeysOver {
  readonly #options: ClusterKeysOverOptions;
  /** When counters may be asked about again, in the order of that. */
  readonly #paused = new Map<string, number>();

  constructor(options: ClusterKeysOverOptions) {
    this.#options = options;
  }

  /** Writes it into the ops of one request that were answered. `done` is called once, possibly before it returns. */
  note(ops: readonly Operation[], done: () => void): void {
    let asked: Map<string, Operation[]> | undefined;
    for (const op of ops) {
      if (!isPlainOver(op)) continue;
      asked ??= new Map();
      const known = asked.get(op.key);
      if (known !== undefined) known.push(op);
      else if (this.#mayAsk(op.key)) asked.set(op.key, [op]);
      else op.mayReturn = true;
    }
    if (asked === undefined || asked.size === 0) done();
    else void Promise.all(asked.values().map((same) => this.#ask(same))).then(done);
  }

  async #ask(same: readonly Operation[]): Promise<void> {
    const { commands, names } = this.#options;
    const { hash } = names.placeOf(same[0]!.key);
    try {
      const records = Number(await commands.send(hash, 'hlen', [hash]));
      if (records > 0) for (const op of same) noteKeyOver(op, KeyOver.expired);
    } catch (error) {
      // Nobody reserves where nobody may read it.
      if (commands.translate(error).transient) for (const op of same) noteKeyOver(op, KeyOver.open);
    }
  }

  #mayAsk(key: string): boolean {
    const nowMs = this.#options.monotonicMs();
    const paused = this.#paused;
    if ((paused.get(key) ?? 0) > nowMs) return false;
    paused.delete(key);
    for (const [first, untilMs] of paused) {
      if (untilMs > nowMs && paused.size < mostPaused) break;
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
