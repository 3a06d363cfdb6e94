import {
  type RuleMetric,
  RuleStat,
  type RuleStats,
  ruleStatNames,
} from '../limiter/stats/registry/rule-stats.ts';
import { limitLabel } from '../rules/describe.ts';
import type { MatchedRule, NameForm, RuleMatch, RuleMatcher } from '../rules/match-result.ts';
import type { Entry } from '../rules/model.ts';
import type { RuleTable } from '../rules/table/rule-table.ts';

/** How often something happened, and the first and last time. */
export interface Times {
  count: number;
  /** Undefined until it happened. */
  firstMs: number | undefined;
  lastMs: number | undefined;
}

export function newTimes(): Times {
  return { count: 0, firstMs: undefined, lastMs: undefined };
}

/** Records an event. Times must be in order. */
export function note(times: Times, nowMs: number): void {
  times.count++;
  times.firstMs ??= nowMs;
  times.lastMs = nowMs;
}

/** Figures of one rule. */
export interface RuleTally {
  /** The path as `/rlconfig` writes it. For a limit that came with a request, the domain and "(limit of the request)". */
  readonly path: string;
  /** Undefined for limits that came with requests. */
  readonly rule: MatchedRule | undefined;
  /** One tally for each of its limits, and one for limits that came with requests. */
  readonly limits: readonly LimitTally[];
  /** Requests that were rejected and over one of its limits. */
  readonly limited: Times;
}

/** Figures of one limit of a rule. */
export interface LimitTally {
  readonly rule: RuleTally;
  /** The label that distinguishes it from the other limits of its rule. Empty for a single limit. */
  readonly label: string;
  /** The slot of its metric. */
  readonly slot: number;
  /** The number of descriptors that it decided. */
  decisions: number;
  /** Statistics by `RuleStat`. */
  readonly stats: Float64Array;
  /** Requests that were rejected and over this limit. */
  readonly limited: Times;
}

const statCount = ruleStatNames.length;
/** The mark before a number, so that it cannot equal a metric key. */
const numberMark = '\0';

/**
 * The service's statistics, by limit of a rule instead of by metric key, because a recording of a day may have any number of
 * metric keys. The matcher names each rule to the service by its number here, as if it were the metric key. If there are several
 * limits, the service appends the label of the limit.
 */
export class RuleTallies implements RuleMatcher, RuleStats {
  /** Tallies in the order in which their rules were first found. */
  readonly tallies: RuleTally[] = [];
  /** Descriptors of domains without rules, by domain. */
  readonly unknownDomains = new Map<string, number>();
  /** The domain of the request under way. */
  domain = '';
  readonly #table: RuleTable;
  readonly #limits: LimitTally[] = [];
  /** Numbers of tallies by rule, or by the path of a limit that came with requests. */
  readonly #numbers = new Map<MatchedRule | string, number>();
  readonly #metrics = new Map<string, RuleMetric>();

  constructor(table: RuleTable) {
    this.#table = table;
  }

  hasDomain(domain: string): boolean {
    return this.#table.hasDomain(domain);
  }

  hasLevel(domain: string, level: number): boolean {
    return this.#table.hasLevel(domain, level);
  }

  match(domain: string, entries: readonly Entry[], names?: NameForm): RuleMatch | undefined {
    const match = this.#table.match(domain, entries, names);
    if (match === undefined || match.rule.unlimited) return match;
    const metricKey = `${numberMark}${this.#numberOf(match.rule, match.rule)}`;
    return { ...match, metricKey, metricPerValue: false };
  }

  /** The tally of a plan's metric. */
  tallyOf({ slot }: RuleMetric): LimitTally {
    return this.#limits[slot / statCount]!;
  }

  ruleMetric(metricKey: string): RuleMetric {
    const known = this.#metrics.get(metricKey);
    if (known !== undefined) return known;
    const isOfRule = metricKey.startsWith(numberMark);
    const [, number, label = ''] = isOfRule ? /^.(\d+)\.?(.*)$/s.exec(metricKey)! : [];
    const tally = this.tallies[isOfRule ? Number(number) : this.#numberOf(this.domain, undefined)]!;
    const { slot } = tally.limits.find((one) => one.label === label)!;
    const metric = { key: metricKey, slot, lastUse: Number.POSITIVE_INFINITY };
    // There may be any number of limits that come with requests.
    if (isOfRule) this.#metrics.set(metricKey, metric);
    return metric;
  }

  slotOf({ slot }: RuleMetric): number {
    return slot;
  }

  domainNotFound(domain: string): void {
    this.unknownDomains.set(domain, (this.unknownDomains.get(domain) ?? 0) + 1);
  }

  add(slot: number, amount: number): void {
    const stat = slot % statCount;
    const tally = this.#limits[(slot - stat) / statCount]!;
    tally.stats[stat]! += amount;
    // One of the two is counted for each descriptor, also for no hits.
    if (stat === RuleStat.totalHits || stat === RuleStat.totalNegativeHits) tally.decisions++;
  }

  #numberOf(of: MatchedRule | string, rule: MatchedRule | undefined): number {
    const known = this.#numbers.get(of);
    if (known !== undefined) return known;
    const number = this.tallies.length;
    const path = rule === undefined ? `${of} (limit of the request)` : rule.path;
    const limits: LimitTally[] = [];
    const tally: RuleTally = { path, rule, limits, limited: newTimes() };
    const several = rule !== undefined && rule.limits.length > 1 ? rule.limits : [];
    for (const label of several.length === 0 ? [''] : several.map((limit) => limitLabel(several, limit))) {
      const slot = this.#limits.length * statCount;
      const stats = new Float64Array(statCount);
      const limit = { rule: tally, label, slot, decisions: 0, stats, limited: newTimes() };
      limits.push(limit);
      this.#limits.push(limit);
    }
    this.tallies.push(tally);
    this.#numbers.set(of, number);
    return number;
  }
}

export interface Offender {
  /** The counter's key without its window, as `/top` shows it. */
  counter: string;
  /** The path of the rule. */
  rule: string;
  /** Requests that were rejected. */
  limited: Times;
}

/** Chosen: about 100 MB if all are in use. */
export const maxOffenders = 250_000;

/** The counters that rejected requests. Their numbers are exact, up to a bound on the number of counters. */
export class Offenders {
  /** Rejections by counters beyond the bound. */
  missed = 0;
  readonly #max: number;
  readonly #byCounter = new Map<string, Offender>();

  constructor(max: number = maxOffenders) {
    this.#max = max;
  }

  get count(): number {
    return this.#byCounter.size;
  }

  note(counter: string, rule: string, nowMs: number): void {
    let offender = this.#byCounter.get(counter);
    if (offender === undefined) {
      if (this.#byCounter.size >= this.#max) {
        this.missed++;
        return;
      }
      // Copied, because a slice of a longer text would keep all of it in memory.
      offender = { counter: Buffer.from(counter).toString(), rule, limited: newTimes() };
      this.#byCounter.set(offender.counter, offender);
    }
    note(offender.limited, nowMs);
  }

  /** The most often limited first; equal ones in the order in which they were first limited. */
  top(number: number): Offender[] {
    const all = [...this.#byCounter.values()].sort((a, b) => b.limited.count - a.limited.count);
    return all.slice(0, number);
  }
}
