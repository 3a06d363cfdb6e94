/**
 * Which limits have reached a mark of `warn_at`: answers carry it, and each mark of a window is reported once in the whole
 * fleet, by anyone who claims it first in the store.
 */
import type { Clock } from '../../process/time/clock.ts';
import { marksReached } from '../decide/assess.ts';
import type { DescriptorStatus, LimitWarning } from '../decide/decided.ts';
import type { LimitPlan } from '../decide/limit-plan.ts';
import { lengthOf } from '../decide/windows.ts';
import type { Claims } from '../stores/store.ts';
import type { CountedHit } from './decision.ts';
import { usedOf } from './hit-statuses.ts';

export interface LimitWarningsOptions {
  /** Undefined where nothing is shared: each limiter reports for itself. */
  claims: Claims | undefined;
  clock: Pick<Clock, 'nowMs'>;
  /** A mark of a window was reached, and nobody has reported so before. While the store is away each limiter reports it. */
  onReached(plan: LimitPlan, mark: number, used: number): void;
}

/** Chosen: counters of which is remembered what was reported. Of one that is forgotten the store is asked once more. */
const mostCounters = 10_000;
/** Chosen: claims on their way to the store. A mark that finds no room is claimed by a later hit. */
const mostClaims = 128;
/** Chosen: as far apart as clocks of limiters may be that share a window. */
const slackSeconds = 60;

/** How many marks of a counter are reported, or about to be. */
interface Counter {
  reported: number;
  readonly untilMs: number;
}

export class LimitWarnings {
  readonly #options: LimitWarningsOptions;
  /** By key. Those of fixed windows have their window in it. */
  readonly #counters = new Map<string, Counter>();
  #claimsUnderWay = 0;

  constructor(options: LimitWarningsOptions) {
    this.#options = options;
  }

  /** Writes the marks that the counters of the hit have reached into its status. `hit`: the first of its group. */
  report(hit: CountedHit, status: DescriptorStatus): void {
    const { group } = hit;
    if (group === undefined) {
      const warning = hit.error === undefined ? this.#warningOf(hit) : undefined;
      if (warning !== undefined) status.warnings = [warning];
      return;
    }
    for (const { error } of group) if (error !== undefined) return;
    // Of those that the store was not asked for only the full ones are known.
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

  /** The highest mark that is reached, undefined for none. `windowEndSeconds`: 0 where there is no window's end. */
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
    while (counter.reported < reached && this.#claimsUnderWay < mostClaims) {
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
    if (this.#counters.size > mostCounters) {
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
