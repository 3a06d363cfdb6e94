/**
 * All overrides of this process from all sources. It decides which of two overrides with the same place is in force, publishes
 * them to the serving threads, and reports their status. Threads end overrides by themselves. A timer here puts Conflicted
 * overrides in force afterward.
 */
import type { Clock, Timers } from '../../process/time/clock.ts';
import { overrideWords } from '../../rules/describe.ts';
import type { Entry, Limit } from '../../rules/model.ts';
import {
  byAge,
  effectWords,
  type Override,
  type OverrideState,
  overridePlace,
  overrideStateByTime,
} from '../../rules/override.ts';
import {
  effectNote,
  limitsOf,
  type OverriddenRules,
  ruleProblem,
} from '../../rules/review/review-override.ts';
import { OverrideIndex, type OverridesFound } from '../decide/override-index.ts';

export interface OverridesInForceOptions {
  /** Makes every thread of this process decide with these overrides. */
  publish(overrides: readonly Override[]): Promise<void>;
  /** Returns the rules in force. Undefined if there are none yet. */
  rules(): OverriddenRules | undefined;
  clock: Clock;
  timers: Timers;
}

/** Chosen: ends and arrivals that no caller waits for are combined into one change if they follow each other faster. */
const minGapMs = 100;
/** The longest wait of a timer. */
const maxWaitMs = 2 ** 31 - 1;

export class OverridesInForce {
  readonly #options: OverridesInForceOptions;
  readonly #bySource = new Map<Override['source'], readonly Override[]>();
  /** The text of an override's place, which is stored because computing it takes long. */
  readonly #places = new WeakMap<Override, string>();
  #winning: readonly Override[] = [];
  #conflicts = new Map<Override, Override>();
  #index = new OverrideIndex([]);
  #last: Promise<void> = Promise.resolve();
  /** A change that has not begun. */
  #next: Promise<void> | undefined;
  #callOff = (): void => {};
  /** A change that will begin later. */
  #later: { callOff: () => void } | undefined;
  #decidedAtMs = Number.NEGATIVE_INFINITY;
  #isClosed = false;

  constructor(options: OverridesInForceOptions) {
    this.#options = options;
  }

  /** The number of overrides that are in force and have not ended. */
  get count(): number {
    const nowMs = this.#options.clock.nowMs();
    return this.#winning.filter(({ endsMs }) => endsMs === undefined || endsMs > nowMs).length;
  }

  get conflicted(): number {
    return this.#conflicts.size;
  }

  /** Replaces all overrides of this source. Settles when every thread decides with them. */
  use(source: Override['source'], overrides: readonly Override[]): Promise<void> {
    this.#bySource.set(source, overrides);
    return this.#settle();
  }

  /** Does the same as `use`, but no caller waits for it: the first change applies at once, and further changes every `minGapMs`. */
  useSoon(source: Override['source'], overrides: readonly Override[]): void {
    this.#bySource.set(source, overrides);
    const waitMs = this.#decidedAtMs + minGapMs - this.#options.clock.monotonicMs();
    if (waitMs <= 0) void this.#settle().catch(() => {});
    else this.#later ??= { callOff: this.#options.timers.after(waitMs, () => void this.#settle()) };
  }

  all(): Override[] {
    return [...this.#bySource.values()].flat();
  }

  /** Returns the override that holds a place, regardless of its source. */
  holderOf(override: Override): Override | undefined {
    const place = overridePlace(override);
    const nowMs = this.#options.clock.nowMs();
    return this.#winning.find(
      (one) => this.#placeOf(one) === place && (one.endsMs === undefined || one.endsMs > nowMs),
    );
  }

  find(domain: string, entries: readonly Entry[]): OverridesFound | undefined {
    return this.#index.find(domain, entries, this.#options.clock.nowMs());
  }

  stateOf(override: Override): OverrideState {
    const rules = this.#options.rules();
    const limits = rules && limitsOf(override, rules);
    return { ...this.#stateOf(override, rules, limits ?? []), words: overrideWords(override, limits) };
  }

  /** `limits`: the limits that it replaces, according to these rules. */
  #stateOf(override: Override, rules: OverriddenRules | undefined, limits: readonly Limit[]): OverrideState {
    const byTime = overrideStateByTime(override, this.#options.clock.nowMs());
    if (byTime.state === 'Ended') return byTime;
    const older = this.#conflicts.get(override);
    if (older !== undefined) {
      const message = `${older.source} ${older.name} has the same match and is older: ${effectWords(older.effect)}`;
      return { state: 'Conflicted', message };
    }
    const problem = rules && ruleProblem(override, rules, limits);
    if (problem !== undefined) return { state: 'NoRule', message: problem };
    if (rules === undefined) return byTime;
    return { ...byTime, message: effectNote(override, rules, limits) };
  }

  close(): void {
    this.#isClosed = true;
    this.#callOff();
    this.#later?.callOff();
  }

  /** Applies one change at a time. Changes that arrive meanwhile become the next change. */
  #settle(): Promise<void> {
    this.#next ??= this.#last
      .catch(() => {})
      .then(() => {
        this.#next = undefined;
        return this.#isClosed ? undefined : this.#decide();
      });
    this.#last = this.#next;
    return this.#next;
  }

  async #decide(): Promise<void> {
    const { clock, publish } = this.#options;
    this.#decidedAtMs = clock.monotonicMs();
    this.#later?.callOff();
    this.#later = undefined;
    const nowMs = clock.nowMs();
    const living = this.all().filter(({ endsMs }) => endsMs === undefined || endsMs > nowMs);
    const holders = new Map<string, Override>();
    this.#conflicts = new Map();
    for (const override of living.sort(byAge)) {
      const place = this.#placeOf(override);
      const older = holders.get(place);
      if (older === undefined) holders.set(place, override);
      else this.#conflicts.set(override, older);
    }
    const overrides = [...holders.values()];
    this.#wake(nowMs);
    // The threads already know which overrides have only ended.
    const known = new Set(this.#winning);
    const isNews = overrides.some((one) => !known.has(one)) || this.#hasLost(holders, nowMs);
    this.#winning = overrides;
    if (!isNews) return;
    this.#index = new OverrideIndex(overrides);
    await publish(overrides);
  }

  /** Returns whether an override that was in force was removed before its end. */
  #hasLost(holders: ReadonlyMap<string, Override>, nowMs: number): boolean {
    return this.#winning.some(
      (one) => (one.endsMs === undefined || one.endsMs > nowMs) && holders.get(this.#placeOf(one)) !== one,
    );
  }

  /** Sets a timer for the next end of an override that others wait for. */
  #wake(nowMs: number): void {
    this.#callOff();
    let endsMs = Number.POSITIVE_INFINITY;
    for (const older of this.#conflicts.values())
      if (older.endsMs !== undefined) endsMs = Math.min(endsMs, older.endsMs);
    if (endsMs === Number.POSITIVE_INFINITY) return;
    const waitMs = Math.min(maxWaitMs, Math.max(minGapMs, endsMs - nowMs));
    this.#callOff = this.#options.timers.after(waitMs, () => void this.#settle());
  }

  #placeOf(override: Override): string {
    let place = this.#places.get(override);
    if (place === undefined) {
      place = overridePlace(override);
      this.#places.set(override, place);
    }
    return place;
  }
}
