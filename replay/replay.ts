import type { RequestLimits } from '../limiter/decide/request-bounds.ts';
import { requestLimits } from '../limiter/settings/counting-settings.ts';
import type { LimiterSettings } from '../limiter/settings/settings.ts';
import { type Algorithm, defaultAlgorithm } from '../rules/algorithms/registry.ts';
import { type Limit, type Rule, type RuleSource, Unit } from '../rules/model.ts';
import { compileRules } from '../rules/table/compile-rules.ts';
import { RuleTable } from '../rules/table/rule-table.ts';
import { secondsOfLimit } from '../rules/window.ts';
import { BadLines, type RecordedRequest, RecordingError, readRecordedRequest } from './recorded-request.ts';
import { type ReplayDecision, ReplayedRules, RuleSetsDifference } from './replayed-rules.ts';
import { newTimes, note } from './rule-tallies.ts';

/**
 * Sorts elements that arrive nearly in order. An access log is written when requests end, so a slow request comes after faster
 * ones that began later. The same happens if the logs of several proxies are joined. Elements of equal times keep their order.
 */
export class SortWindow<T extends { readonly timeMs: number }> {
  readonly #size: number;
  readonly #take: (element: T) => void;
  #held: T[] = [];
  #takenMs = Number.NEGATIVE_INFINITY;

  /** `size`: an element may arrive at least this many elements after its place. */
  constructor(size: number, take: (element: T) => void) {
    this.#size = size;
    this.#take = take;
  }

  /** Adds an element. If it arrives too late, leaves it out and returns by how many milliseconds. Otherwise returns undefined. */
  add(element: T): number | undefined {
    if (element.timeMs < this.#takenMs) return this.#takenMs - element.timeMs;
    this.#held.push(element);
    // Sorting is cheap for a nearly sorted list, but too expensive to do for each element.
    if (this.#held.length > 2 * this.#size) this.#release(this.#size);
    return undefined;
  }

  /** Passes on all remaining elements. */
  finish(): void {
    this.#release(0);
  }

  #release(remaining: number): void {
    const sorted = this.#held.sort((a, b) => a.timeMs - b.timeMs);
    const count = sorted.length - remaining;
    this.#held = sorted.slice(count);
    for (let index = 0; index < count; index++) {
      const element = sorted[index]!;
      this.#takenMs = element.timeMs;
      this.#take(element);
    }
  }
}

export interface ReplayOptions {
  /** The rules, which were checked. */
  rules: readonly RuleSource[];
  /** The rules to compare with. */
  against?: readonly RuleSource[] | undefined;
  /** The settings of a limiter with BACKEND_TYPE=memory. */
  settings: LimiterSettings;
  /** A line may come at least this many lines after its place. */
  sortWindow: number;
  maxBadLines: number;
  /** Called with every decision by the rules, in the order of the times. */
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
  /** Decided requests, with the times of the first and the last. */
  readonly requests = newTimes();
  /** Lines without a descriptor, for which a proxy sends no request. */
  askedNothing = 0;
  readonly #window: SortWindow<UnsortedRequest>;
  readonly #options: ReplayOptions;
  readonly #limits: RequestLimits;

  constructor(options: ReplayOptions) {
    const { rules, against, settings, sortWindow, maxBadLines } = options;
    this.#options = options;
    this.#limits = requestLimits(settings);
    this.rules = new ReplayedRules({ table: tableOf(rules), settings });
    this.against = against && new ReplayedRules({ table: tableOf(against), settings });
    this.badLines = new BadLines(maxBadLines);
    this.#window = new SortWindow(sortWindow, (held) => this.#decide(held));
  }

  /** Adds a line. Ignores empty lines. Throws TooManyBadLines. */
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

  /** Decides the requests that were held back for sorting. Throws TooManyBadLines. */
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
 * Returns the same rules with an algorithm in place of fixed windows, for all limits that a limiter could count with it. Windows
 * of a calendar stay unchanged, and so do windows for which the rule already has a limit with that algorithm.
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
