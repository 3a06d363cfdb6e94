/**
 * Decides when to load: after changes have been quiet for a while, but not later than `maxDelayMs` after the first of them.
 * There are never two loads at once, and changes during a load cause exactly one more:
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
  /** The time of the first change that is not loaded yet; undefined if there is none. */
  #firstChangeMs: number | undefined;
  #lastChangeMs = 0;

  constructor(options: { quietMs: number; maxDelayMs: number }) {
    this.#quietMs = options.quietMs;
    this.#maxDelayMs = options.maxDelayMs;
  }

  /** The time at which the next load has to start; undefined if nothing changed or a load is running. */
  get dueMs(): number | undefined {
    if (this.#loading || this.#firstChangeMs === undefined) return undefined;
    return Math.min(this.#lastChangeMs + this.#quietMs, this.#firstChangeMs + this.#maxDelayMs);
  }

  changed(nowMs: number): void {
    this.#firstChangeMs ??= nowMs;
    this.#lastChangeMs = nowMs;
  }

  /** Called at the start of a load, which covers all changes so far. */
  started(): void {
    this.#loading = true;
    this.#firstChangeMs = undefined;
  }

  ended(): void {
    this.#loading = false;
  }
}
