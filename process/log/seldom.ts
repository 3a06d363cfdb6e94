import type { Clock, Timers } from '../time/clock.ts';

/** Chosen: how often, at most, a line repeats what others can make happen. */
const defaultIntervalMs = 60_000;

/** Chosen: kinds that are told apart, as many as webhooks have endpoints and reasons; what comes beyond shares one time. */
const mostKinds = 128;

interface Kind<Detail> {
  /** Not told yet. */
  times: number;
  last: Detail;
  toldMs: number;
  callOff: (() => void) | undefined;
}

/**
 * The one throttle of log lines, for what others can make happen: told at once, then at most once an interval, with how often
 * it happened since. Each kind has its own time: a frequent one does not hide a rare one.
 */
export class Seldom<Detail> {
  readonly #pace: Clock | Timers;
  readonly #intervalMs: number;
  readonly #tell: (detail: Detail, times: number) => void;
  readonly #kinds = new Map<string, Kind<Detail>>();

  /** By a clock, what came since the last line is told with what happens next; by timers, when the interval is over. */
  constructor(
    pace: Clock | Timers,
    tell: (detail: Detail, times: number) => void,
    intervalMs = defaultIntervalMs,
  ) {
    this.#pace = pace;
    this.#intervalMs = intervalMs;
    this.#tell = tell;
  }

  /** The line has the last detail of its interval. */
  note(detail: Detail, kind = '', times = 1): void {
    const noted = this.#noted(kind, detail);
    noted.times += times;
    noted.last = detail;
    if ('after' in this.#pace) {
      if (noted.callOff === undefined) this.#tellEachInterval(noted, this.#pace);
      return;
    }
    const nowMs = this.#pace.monotonicMs();
    if (nowMs - noted.toldMs < this.#intervalMs) return;
    this.#tellNow(noted);
    noted.toldMs = nowMs;
  }

  /** Tells what is left. */
  close(): void {
    for (const kind of this.#kinds.values()) {
      kind.callOff?.();
      this.#tellNow(kind);
    }
  }

  #noted(name: string, last: Detail): Kind<Detail> {
    const key = this.#kinds.has(name) || this.#kinds.size < mostKinds ? name : 'others';
    let kind = this.#kinds.get(key);
    if (kind === undefined) {
      kind = { times: 0, last, toldMs: Number.NEGATIVE_INFINITY, callOff: undefined };
      this.#kinds.set(key, kind);
    }
    return kind;
  }

  #tellEachInterval(kind: Kind<Detail>, timers: Timers): void {
    kind.callOff = undefined;
    if (!this.#tellNow(kind)) return;
    kind.callOff = timers.after(this.#intervalMs, () => this.#tellEachInterval(kind, timers));
  }

  #tellNow(kind: Kind<Detail>): boolean {
    if (kind.times === 0) return false;
    const { last, times } = kind;
    kind.times = 0;
    this.#tell(last, times);
    return true;
  }
}
