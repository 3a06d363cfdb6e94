import type { Clock, Timers } from '../time/clock.ts';

/** Chosen: how often, at most, a line repeats what others can make happen. */
const defaultIntervalMs = 60_000;

/** Chosen: kinds that are distinguished, as many as webhooks have endpoints and reasons; what comes beyond shares one time. */
const mostKinds = 128;

interface Kind<Detail> {
  /** Not reported yet. */
  times: number;
  last: Detail;
  reportedMs: number;
  callOff: (() => void) | undefined;
}

/**
 * The one throttle of log lines, for what others can make happen: reported at once, then at most once an interval, with how often
 * it happened since. Each kind has its own time: a frequent one does not hide a rare one.
 */
export class LogThrottle<Detail> {
  readonly #pace: Clock | Timers;
  readonly #intervalMs: number;
  readonly #report: (detail: Detail, times: number) => void;
  readonly #kinds = new Map<string, Kind<Detail>>();

  /** By a clock, what came since the last line is reported with what happens next; by timers, when the interval is over. */
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

  /** Says what is left. */
  close(): void {
    for (const kind of this.#kinds.values()) {
      kind.callOff?.();
      this.#reportNow(kind);
    }
  }

  #noted(name: string, last: Detail): Kind<Detail> {
    const key = this.#kinds.has(name) || this.#kinds.size < mostKinds ? name : 'others';
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
