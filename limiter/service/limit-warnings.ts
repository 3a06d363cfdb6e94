/**
 * Finds limits that have reached a threshold of `warn_at`. Answers contain these thresholds. The fleet reports each threshold once per
 * window: the first limiter that claims it in the store reports it.
 */
import type { Clock } from '../../process/time/clock.ts';
import type { LimitPlan } from '../decide/limit-plan.ts';
import type { DescriptorStatus, LimitWarning } from '../decide/response-message.ts';
import { marksReached } from '../decide/thresholds.ts';
import { lengthOf } from '../decide/windows.ts';
import type { OnceClaims } from '../stores/store.ts';
import type { CountedHit } from './decision.ts';
import { usedOf } from './hit-statuses.ts';

export interface LimitWarningsOptions {
  /** Undefined if limiters share no store: each limiter reports for itself. */
  claims: OnceClaims | undefined;
  clock: Pick<Clock, 'nowMs'>;
  /** A threshold was reached that no limiter has reported for this window. While the store fails, each limiter reports it. */
  onReached(plan: LimitPlan, mark: number, used: number): void;
}

/** The number of counters whose reports are remembered. For a forgotten counter, the store is asked again. */
const maxCounters = 10_000;
/** The maximum number of claims on their way to the store. A threshold beyond this number is claimed by a later hit. */
const maxClaims = 128;
/** The maximum difference between the clocks of limiters that share a window. */
const slackSeconds = 60;

/** The number of thresholds of a counter that were reported or are about to be. */
interface Counter {
  reported: number;
  readonly untilMs: number;
}

export class LimitWarnings {
  readonly #options: LimitWarningsOptions;
  /** The keys are counter keys. Those of fixed windows contain the window. */
  readonly #counters = new Map<string, Counter>();
  #claimsUnderWay = 0;

  constructor(options: LimitWarningsOptions) {
    this.#options = options;
  }

  /** Writes the marks that the counters of the hit have reached into its status. `hit` is the first of its group. */
  report(hit: CountedHit, status: DescriptorStatus): void {
    const { group } = hit;
    if (group === undefined) {
      const warning = hit.error === undefined ? this.#warningOf(hit) : undefined;
      if (warning !== undefined) status.warnings = [warning];
      return;
    }
    for (const { error } of group) if (error !== undefined) return;
    // If the store was not asked, only full counters are known.
    const known = hit.remembered ? group.filter(({ full }) => full) : group;
    const warnings = known.map((one) => this.#warningOf(one)).filter((one) => one !== undefined);
    if (warnings.length > 0) status.warnings = warnings;
  }

  #warningOf(hit: CountedHit): LimitWarning | undefined {
    const { counter: plan, key, windowEndSeconds } = hit;
    const used = usedOf(hit);
    const mark = this.note(plan, key, windowEndSeconds, used);
    if (mark === undefined) return undefined;
    return { mark, plan, used, left: Math.max(0, plan.capacity - used) };
  }

  /** Returns the highest mark that is reached, or undefined if there is none. `windowEndSeconds`: 0 if the window has no end. */
  note(plan: LimitPlan, key: string, windowEndSeconds: number, used: number): number | undefined {
    const { marks } = plan;
    if (marks === undefined) return undefined;
    const reached = marksReached(marks, used);
    if (reached === 0) return undefined;
    const nowMs = this.#options.clock.nowMs();
    const counter = this.#counterOf(plan, key, windowEndSeconds, nowMs);
    const seconds =
      windowEndSeconds === 0
        ? lengthOf(plan.limit)
        : Math.max(1, windowEndSeconds - Math.floor(nowMs / 1000)) + slackSeconds;
    while (counter.reported < reached && this.#claimsUnderWay < maxClaims) {
      const mark = marks.percents[counter.reported]!;
      counter.reported += 1;
      this.#claim(`${key}~warned:${mark}%`, seconds, () => this.#options.onReached(plan, mark, used));
    }
    return marks.percents[reached - 1];
  }

  #counterOf(plan: LimitPlan, key: string, windowEndSeconds: number, nowMs: number): Counter {
    const known = this.#counters.get(key);
    if (known !== undefined && nowMs < known.untilMs) return known;
    this.#counters.delete(key);
    const untilMs = windowEndSeconds === 0 ? nowMs + lengthOf(plan.limit) * 1000 : windowEndSeconds * 1000;
    const counter = { reported: 0, untilMs };
    this.#counters.set(key, counter);
    if (this.#counters.size > maxCounters) {
      for (const oldest of this.#counters.keys()) {
        this.#counters.delete(oldest);
        break;
      }
    }
    return counter;
  }

  #claim(name: string, seconds: number, onFirst: () => void): void {
    const { claims } = this.#options;
    if (claims === undefined) {
      onFirst();
      return;
    }
    this.#claimsUnderWay += 1;
    const settle = (isFirst: boolean): void => {
      this.#claimsUnderWay -= 1;
      if (isFirst) onFirst();
    };
    claims.claim(name, seconds).then(settle, () => settle(true));
  }
}
