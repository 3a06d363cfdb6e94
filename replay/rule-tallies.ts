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

/** How often something happened, and when first and last. */
export interface Times {
  count: number;
  /** Undefined while it never happened. */
  firstMs: number | undefined;
  lastMs: number | undefined;
}

export function newTimes(): Times {
  return { count: 0, firstMs: undefined, lastMs: undefined };
}

/** Times come in order. */
export function note(times: Times, nowMs: number): void {
  times.count++;
  times.firstMs ??= nowMs;
  times.lastMs = nowMs;
}

/** What one rule did. */
export interface RuleTally {
  /** As `/rlconfig` writes it; of a limit that came with a request the domain and "(limit of the request)". */
  readonly path: string;
  /** Undefined for limits that came with requests. */
  readonly rule: MatchedRule | undefined;
  /** One for each of its limits, and one for limits that came with requests. */
  readonly limits: readonly LimitTally[];
  /** Requests that were refused and over one of its limits. */
  readonly limited: Times;
}

/** What one limit of a rule did. */
export interface LimitTally {
  readonly rule: RuleTally;
  /** What distinguishes it from the other limits of its rule; empty for one alone. */
  readonly label: string;
  /** Its metric's. */
  readonly slot: number;
  /** Descriptors that it decided. */
  decisions: number;
  /** By `RuleStat`. */
  readonly stats: Float64Array;
  /** Requests that were refused and over this limit. */
  readonly limited: Times;
}

const statCount = ruleStatNames.length;
/** Before a number, so that it is no metric key. */
const numberMark = '\0';

/**
 * The service's statistics, by limit of a rule instead of by metric key: a recording of a day may have any number of those.
 * The matcher names each rule to the service by its number here, as if it were the metric key; the service puts the label of
 * a limit behind it where there are several.
 */
export class RuleTallies implements RuleMatcher, RuleStats {
  /** In the order in which they were first found. */
  readonly tallies: RuleTally[] = [];
  /** Descriptors of domains without rules, by domain. */
  readonly unknownDomains = new Map<string, number>();
  /** The domain of the request under way. */
  domain = '';
  readonly #table: RuleTable;
  readonly #limits: LimitTally[] = [];
  /** Numbers of tallies. */
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
    // Those of limits that come with requests are any number.
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
  /** As `/top` names it: the counter's key without its window. */
  counter: string;
  /** Path of the rule. */
  rule: string;
  /** Requests refused. */
  limited: Times;
}

/** Chosen: about 100 MB when all are in use. */
export const mostOffenders = 250_000;

/** Who was limited: the counters that refused requests, exactly, up to a bound on their number. */
export class Offenders {
  /** Refusals by counters that came when there was no more room. */
  missed = 0;
  readonly #most: number;
  readonly #byCounter = new Map<string, Offender>();

  constructor(most: number = mostOffenders) {
    this.#most = most;
  }

  get count(): number {
    return this.#byCounter.size;
  }

  note(counter: string, rule: string, nowMs: number): void {
    let offender = this.#byCounter.get(counter);
    if (offender === undefined) {
      if (this.#byCounter.size >= this.#most) {
        this.missed++;
        return;
      }
      // Cut from a longer text, it would keep all of that alive.
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
