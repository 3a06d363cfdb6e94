/**
 * When to load: after changes have been quiet for a while, but not later than `maxDelayMs` after the first of them;
 * never two loads at once; changes during a load make exactly one more.
 *
 *            changed            due              ended, nothing changed
 *     idle ──────────> waiting ─────> loading ─────────────────────────> idle
 *                        ^   started              │
 *                        └────────────────────────┘ ended, changed meanwhile
 *
 * Pure: times are milliseconds of a clock that never jumps, and the owner sets the timer.
 */
export class ReloadSchedule {
  readonly #quietMs: number;
  readonly #maxDelayMs: number;
  #loading = false;
  /** Of the changes not yet loaded; undefined when there are none. */
  #firstChangeMs: number | undefined;
  #lastChangeMs = 0;

  constructor(options: { quietMs: number; maxDelayMs: number }) {
    this.#quietMs = options.quietMs;
    this.#maxDelayMs = options.maxDelayMs;
  }

  /** When the next load has to start; undefined while nothing changed or a load runs. */
  get dueMs(): number | undefined {
    if (this.#loading || this.#firstChangeMs === undefined) return undefined;
    return Math.min(this.#lastChangeMs + this.#quietMs, this.#firstChangeMs + this.#maxDelayMs);
  }

  changed(nowMs: number): void {
    this.#firstChangeMs ??= nowMs;
    this.#lastChangeMs = nowMs;
  }

  /** The changes until here are those this load sees. */
  started(): void {
    this.#loading = true;
    this.#firstChangeMs = undefined;
  }

  ended(): void {
    this.#loading = false;
  }
}
