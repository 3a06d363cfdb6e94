/**
 * A worker's side of the statistics of the whole. Values lie in memory that the main thread reads; names of new slots,
 * and durations, are posted: in bulk, at the latest after a second.
 */
import type { Timers } from '../../process/timers.ts';
import { StatsRegistry, type Timer } from '../stats/stats-registry.ts';
import type { WorkerNews } from './messages.ts';

/** A worker that crashes takes at most what it did not post for so long. */
const postIntervalMs = 1_000;
/** Durations that are posted together at most: 64 KiB. */
const durationsPerPost = 4_096;

export interface PostedStatisticsOptions {
  post(news: WorkerNews): void;
  /** Whether anybody wants durations. */
  durations: boolean;
  timers: Timers;
}

export class PostedStatistics {
  readonly registry: StatsRegistry;
  readonly #post: (news: WorkerNews) => void;
  readonly #callOff: () => void;
  #postedSlots = 0;
  #pairs = new Float64Array(2 * durationsPerPost);
  #pairWords = 0;
  #postedTimers = 0;

  constructor({ post, durations, timers }: PostedStatisticsOptions) {
    this.#post = post;
    this.registry = new StatsRegistry({ onSharedValues: (values) => post({ is: 'values', values }) });
    if (durations) this.registry.onTimer((timer, value) => this.#record(timer, value));
    this.#callOff = timers.every(postIntervalMs, () => this.#postNew());
  }

  /** Everything counted so far can be read by the main thread once it has what this posts. */
  show(): void {
    this.registry.refresh();
    this.#postNew();
  }

  /** Posts what is left. */
  end(): void {
    this.#callOff();
    this.show();
  }

  #postNew(): void {
    const { registry } = this;
    if (registry.slotCount > this.#postedSlots) {
      this.#post({ is: 'names', names: registry.slotNames(this.#postedSlots) });
      this.#postedSlots = registry.slotCount;
    }
    this.#postDurations();
  }

  #record(timer: Timer, value: number): void {
    this.#pairs[this.#pairWords++] = timer.index;
    this.#pairs[this.#pairWords++] = value;
    if (this.#pairWords === this.#pairs.length) this.#postDurations();
  }

  #postDurations(): void {
    if (this.#pairWords === 0) return;
    const names = this.registry.timerNames(this.#postedTimers);
    this.#postedTimers += names.length;
    this.#post({ is: 'durations', names, pairs: this.#pairs.slice(0, this.#pairWords) });
    this.#pairWords = 0;
  }
}
