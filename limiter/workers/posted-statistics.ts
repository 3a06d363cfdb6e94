/** Posts the statistics and the log lines of a worker to the main thread. */
import {
  type LogFields,
  type Logger,
  type LogLevel,
  type LogLevelName,
  loggerOf,
} from '../../process/log/logger.ts';
import type { Timers } from '../../process/time/clock.ts';
import type { SlotName } from '../stats/registry/slot-table.ts';
import { StatsRegistry } from '../stats/registry/stats-registry.ts';
import type { WorkerMessage } from './messages.ts';

/** A worker that crashes loses at most what it counted in this time. */
const postIntervalMs = 1_000;

interface PostedStatisticsOptions {
  post(news: WorkerMessage): void;
  /** Whether durations are wanted. */
  durations: boolean;
  /** STATS_MAX_DETAILED_METRICS. */
  maxDetailedMetrics: number;
  countsLeases?: boolean;
  /** A metric with values of requests is idle if it is not used for this time. */
  idlePeriodMs: number;
  timers: Timers;
}

/**
 * A worker's side of the statistics of the process. Values are in memory that the main thread reads. Names of new slots, and durations,
 * are posted in bulk, after at most a second.
 */
export class PostedStatistics {
  readonly registry: StatsRegistry;
  readonly #post: (news: WorkerMessage) => void;
  readonly #callOffs: (() => void)[];
  #reused: number[] = [];
  #left: number[] = [];
  #postedSlots = 0;
  #postedTimers = 0;

  constructor({
    post,
    durations,
    maxDetailedMetrics,
    countsLeases = false,
    idlePeriodMs,
    timers,
  }: PostedStatisticsOptions) {
    this.#post = post;
    this.registry = new StatsRegistry({
      maxDetailedMetrics,
      countsLeases,
      shared: {
        onValues: (values) => post({ is: 'values', values }),
        onReuse: (slot) => this.#reused.push(slot),
      },
    });
    this.registry.onLeave((first) => this.#left.push(first));
    if (durations) this.registry.onDurations((pairs) => this.#postDurations(pairs));
    this.#callOffs = [
      timers.every(postIntervalMs, () => this.#postNew()),
      timers.every(idlePeriodMs, () => this.registry.nextPeriod()),
    ];
  }

  /** Posts what the main thread needs to read everything counted so far. */
  show(): void {
    this.registry.refresh();
    this.#postNew();
  }

  /** Posts the rest. */
  end(): void {
    for (const callOff of this.#callOffs) callOff();
    this.show();
  }

  #postNew(): void {
    const { registry } = this;
    if (registry.slotCount > this.#postedSlots) {
      this.#post({ is: 'names', names: registry.slotNames(this.#postedSlots) });
      this.#postedSlots = registry.slotCount;
    }
    this.#postChanges();
    registry.passDurations();
  }

  /**
   * Posts changes of slots. A slot is taken again only after the main thread has forgotten its metric, so no slot is left and taken
   * between two posts.
   */
  #postChanges(): void {
    const { registry } = this;
    if (this.#reused.length > 0) {
      const slots = this.#reused.map((slot) => ({ slot, name: registry.slotNameAt(slot) as SlotName }));
      this.#post({ is: 'reused', slots });
      this.#reused = [];
    }
    if (this.#left.length > 0) this.#post({ is: 'left', slots: this.#left });
    this.#left = [];
  }

  #postDurations(pairs: Float64Array): void {
    const names = this.registry.timerNames(this.#postedTimers);
    this.#postedTimers += names.length;
    this.#post({ is: 'durations', names, pairs: pairs.slice() });
  }
}

/** Levels, from the least important. LOG_LEVEL silences all levels before it. */
const ranks: Readonly<Record<LogLevel | 'announce', number>> = {
  trace: 0,
  debug: 1,
  info: 2,
  announce: 3,
  warn: 3,
  warning: 3,
  error: 4,
  fatal: 5,
  panic: 5,
};

/** A log whose lines another thread writes. Lines below the level do not leave this thread. */
export function createPostedLog(
  level: LogLevel,
  post: (level: LogLevelName, message: string, fields: LogFields | undefined) => void,
): Logger {
  const isEnabled = (one: LogLevelName): boolean => ranks[one] >= ranks[level];
  return loggerOf((one, message, fields) => {
    if (isEnabled(one)) post(one, message, fields && plainFields(fields));
  }, isEnabled);
}

/** Replaces errors, which would lose their class on the way, and values that may not be cloneable. */
function plainFields(fields: LogFields): LogFields {
  const plain: LogFields = {};
  for (const [key, value] of Object.entries(fields)) {
    if (value === undefined) continue;
    if (value instanceof Error) plain[key] = value.message;
    else plain[key] = typeof value === 'object' || typeof value === 'function' ? plainValue(value) : value;
  }
  return plain;
}

/** Returns the value as JSON represents it. */
function plainValue(value: unknown): unknown {
  try {
    return JSON.parse(JSON.stringify(value));
  } catch {
    return String(value);
  }
}
