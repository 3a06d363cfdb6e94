import type { RequestLimits } from '../limiter/decide/request-bounds.ts';
import { requestBounds } from '../limiter/settings/counting-settings.ts';
import type { LimiterSettings } from '../limiter/settings/settings.ts';
import { type Algorithm, defaultAlgorithm } from '../rules/algorithms/registry.ts';
import { type Limit, type Rule, type RuleSource, Unit } from '../rules/model.ts';
import { compileRules } from '../rules/table/compile-rules.ts';
import { RuleTable } from '../rules/table/rule-table.ts';
import { secondsOfLimit } from '../rules/window.ts';
import { type RecordedRequest, RecordingError, readRecordedRequest } from './recorded-request.ts';
import { BadLines } from './replay-report.ts';
import { type ReplayDecision, ReplayedRules, RuleSetsDifference } from './replayed-rules.ts';
import { newTimes, note } from './rule-tallies.ts';

/**
 * Puts what comes nearly in order into order. An access log is written when requests end, so that a slow one stands
 * behind faster ones that began later; the same when the logs of several proxies are joined. Elements of equal times keep
 * their order.
 */
export class SortWindow<T extends { readonly timeMs: number }> {
  readonly #size: number;
  readonly #take: (element: T) => void;
  #held: T[] = [];
  #takenMs = Number.NEGATIVE_INFINITY;

  /** `size`: how many elements later an element may come than its place, at least. */
  constructor(size: number, take: (element: T) => void) {
    this.#size = size;
    this.#take = take;
  }

  /** By how many milliseconds the element comes too late; it is then left out. Undefined when it does not. */
  add(element: T): number | undefined {
    if (element.timeMs < this.#takenMs) return this.#takenMs - element.timeMs;
    this.#held.push(element);
    // Sorting is cheap for what is nearly sorted, but not so cheap as to do it for each.
    if (this.#held.length > 2 * this.#size) this.#release(this.#size);
    return undefined;
  }

  /** Hands over all that is left. */
  finish(): void {
    this.#release(0);
  }

  #release(kept: number): void {
    const sorted = this.#held.sort((a, b) => a.timeMs - b.timeMs);
    const count = sorted.length - kept;
    this.#held = sorted.slice(count);
    for (let index = 0; index < count; index++) {
      const element = sorted[index]!;
      this.#takenMs = element.timeMs;
      this.#take(element);
    }
  }
}

export interface ReplayOptions {
  /** Checked ones. */
  rules: readonly RuleSource[];
  /** What the rules are held against. */
  against?: readonly RuleSource[] | undefined;
  /** Those of a limiter with BACKEND_TYPE=memory. */
  settings: LimiterSettings;
  /** How many lines later than its place a line may come, at least. */
  sortWindow: number;
  maxBadLines: number;
  /** Notified of every decision by the rules, in the order of the times. */
  onDecision?: ((line: number, decision: ReplayDecision) => void) | undefined;
}

interface UnsortedRequest extends RecordedRequest {
  line: number;
}

/** A recording, line by line, through one set of rules, or through two side by side. */
export class Replay {
  readonly rules: ReplayedRules;
  readonly against: ReplayedRules | undefined;
  readonly difference = new RuleSetsDifference();
  readonly badLines: BadLines;
  /** Requests decided, with the times of the first and the last. */
  readonly requests = newTimes();
  /** Lines without a descriptor, for which a proxy asks nothing. */
  askedNothing = 0;
  readonly #window: SortWindow<UnsortedRequest>;
  readonly #options: ReplayOptions;
  readonly #limits: RequestLimits;

  constructor(options: ReplayOptions) {
    const { rules, against, settings, sortWindow, maxBadLines } = options;
    this.#options = options;
    this.#limits = requestBounds(settings).limits;
    this.rules = new ReplayedRules({ table: tableOf(rules), settings });
    this.against = against && new ReplayedRules({ table: tableOf(against), settings });
    this.badLines = new BadLines(maxBadLines);
    this.#window = new SortWindow(sortWindow, (held) => this.#decide(held));
  }

  /** Empty lines are none. Throws TooManyBadLines. */
  addLine(text: string, line: number): void {
    if (text === '' || /^\s*$/.test(text)) return;
    let recorded: RecordedRequest | undefined;
    try {
      recorded = readRecordedRequest(text, this.#limits);
    } catch (error) {
      if (!(error instanceof RecordingError)) throw error;
      this.badLines.add(line, error.message);
      return;
    }
    if (recorded === undefined) {
      this.askedNothing++;
      return;
    }
    const lateMs = this.#window.add({ timeMs: recorded.timeMs, request: recorded.request, line });
    if (lateMs !== undefined) {
      this.badLines.add(line, `is ${lateMs / 1000} s earlier than a request that was replayed before it`);
    }
  }

  /** Decides what was held back to be sorted. Throws TooManyBadLines. */
  finish(): void {
    this.#window.finish();
  }

  #decide({ timeMs, request, line }: UnsortedRequest): void {
    const decision = this.rules.decide(timeMs, request);
    const other = this.against?.decide(timeMs, request);
    this.#options.onDecision?.(line, decision);
    const failed = [decision, other].find((made) => made !== undefined && 'error' in made);
    if (failed !== undefined && 'error' in failed) {
      this.badLines.add(line, failed.error.message);
      return;
    }
    note(this.requests, timeMs);
    if (this.against !== undefined) this.difference.compare(timeMs, this.rules, this.against);
  }
}

/**
 * The same rules with an algorithm in the place of fixed windows: all those that a limiter could count by it. Left as they
 * are: windows of a calendar, and what the rule has by that algorithm already, for as long a window.
 */
export function rulesCountedAs(
  rules: readonly Rule[],
  algorithm: Algorithm,
  options: { calendarMonths: boolean },
): Rule[] {
  return rules.map((rule) => {
    const lengths = new Set(rule.limits.filter((limit) => limit.algorithm === algorithm).map(secondsOfLimit));
    const limits = rule.limits.map((limit): Limit => {
      const isMonth = limit.calendar !== undefined || (options.calendarMonths && limit.unit === Unit.MONTH);
      const isFixed = limit.algorithm === defaultAlgorithm && !limit.unlimited;
      return isFixed && !isMonth && !lengths.has(secondsOfLimit(limit)) ? { ...limit, algorithm } : limit;
    });
    return { ...rule, limits, descriptors: rulesCountedAs(rule.descriptors, algorithm, options) };
  });
}

function tableOf(sources: readonly RuleSource[]): RuleTable {
  return new RuleTable(compileRules(sources));
}
