import type { Clock, Timers } from '../time/clock.ts';
import type { Logger } from './logger.ts';

/** Chosen: the shortest interval of lines about events that others can cause. */
const defaultIntervalMs = 60_000;

/** Chosen: the number of separate kinds, enough for the endpoints and reasons of webhooks. Further kinds share one interval. */
const maxKinds = 128;

interface Kind<Detail> {
  /** The number of events that were not reported yet. */
  times: number;
  last: Detail;
  reportedMs: number;
  callOff: (() => void) | undefined;
}

/**
 * The throttle for log lines about events that others can cause. An event is reported at once, and then at most once an interval, with
 * the number of events since. Each kind has its own interval, so that a frequent one does not hide a rare one.
 */
export class LogThrottle<Detail> {
  readonly #pace: Clock | Timers;
  readonly #intervalMs: number;
  readonly #report: (detail: Detail, times: number) => void;
  readonly #kinds = new Map<string, Kind<Detail>>();

  /** With a clock, events since the last line are reported with the next event; with timers, when the interval is over. */
  constructor(
    pace: Clock | Timers,
    report: (detail: Detail, times: number) => void,
    intervalMs = defaultIntervalMs,
  ) {
    this.#pace = pace;
    this.#intervalMs = intervalMs;
    this.#report = report;
  }

  /** The line has the last detail of its interval. */
  note(detail: Detail, kind = '', times = 1): void {
    const noted = this.#noted(kind, detail);
    noted.times += times;
    noted.last = detail;
    if ('after' in this.#pace) {
      if (noted.callOff === undefined) this.#reportEachInterval(noted, this.#pace);
      return;
    }
    const nowMs = this.#pace.monotonicMs();
    if (nowMs - noted.reportedMs < this.#intervalMs) return;
    this.#reportNow(noted);
    noted.reportedMs = nowMs;
  }

  /** Reports the remaining events. */
  close(): void {
    for (const kind of this.#kinds.values()) {
      kind.callOff?.();
      this.#reportNow(kind);
    }
  }

  #noted(name: string, last: Detail): Kind<Detail> {
    const key = this.#kinds.has(name) || this.#kinds.size < maxKinds ? name : 'others';
    let kind = this.#kinds.get(key);
    if (kind === undefined) {
      kind = { times: 0, last, reportedMs: Number.NEGATIVE_INFINITY, callOff: undefined };
      this.#kinds.set(key, kind);
    }
    return kind;
  }

  #reportEachInterval(kind: Kind<Detail>, timers: Timers): void {
    kind.callOff = undefined;
    if (!this.#reportNow(kind)) return;
    kind.callOff = timers.after(this.#intervalMs, () => this.#reportEachInterval(kind, timers));
  }

  #reportNow(kind: Kind<Detail>): boolean {
    if (kind.times === 0) return false;
    const { last, times } = kind;
    kind.times = 0;
    this.#report(last, times);
    return true;
  }
}

/** Logs a line at most once an interval. `kind` has an interval of its own. */
export type ThrottledLine<Fields> = (fields: Omit<Fields, 'times'>, kind?: string) => void;

/** Returns a function that logs a line as a `LogThrottle` does, with a clock. `times` becomes the number of events. */
export function throttledLine<Fields extends { times: number }>(
  { log, clock }: { log: Logger; clock: Clock },
  line: (log: Logger, fields: Fields) => void,
): ThrottledLine<Fields> {
  const throttle = new LogThrottle<Omit<Fields, 'times'>>(clock, (fields, times) =>
    line(log, { ...fields, times } as Fields),
  );
  return (fields, kind) => throttle.note(fields, kind);
}
