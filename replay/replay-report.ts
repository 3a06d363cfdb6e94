/** The result of a replay, as plain data. `--output json` prints it unchanged. */
import { RuleStat } from '../limiter/stats/registry/rule-stats.ts';
import { type LimitInReplay, limitOfReplay } from '../rules/describe.ts';
import type { BadLine } from './recorded-request.ts';
import type { Replay } from './replay.ts';
import type { ChangedRequests, ReplayedRules } from './replayed-rules.ts';
import type { LimitTally, Offenders, RuleTally, Times } from './rule-tallies.ts';

export interface ReplayReport {
  requests: number;
  /** A time in RFC 3339. Null if there are no requests. */
  from: string | null;
  to: string | null;
  /** Lines without a descriptor, for which a proxy sends no request. */
  askedNothing: number;
  badLines: { count: number; first: BadLine[] };
  rules: RuleSetReport;
  /** The report of the other rules, with `--against`. */
  against?: RuleSetReport;
  difference?: { newlyLimited: ChangeReport; noLongerLimited: ChangeReport };
}

export interface LimitedReport {
  requests: number;
  /** The share of all requests, from 0 to 1. For a rule, the share of its decisions. */
  share: number;
  first: string | null;
  last: string | null;
}

export interface RuleSetReport {
  limited: LimitedReport;
  domains: { domain: string; requests: number; limited: LimitedReport }[];
  rules: RuleReport[];
  offenders: OffendersReport;
  /** Descriptors without a limit, including unlimited ones. */
  descriptorsWithoutLimit: number;
  /** Descriptors of domains that the rules do not have. */
  unknownDomains: { domain: string; descriptors: number }[];
  /** Counters that were evicted to free memory. If there are any, the decisions are too lenient. */
  countersEvicted: number;
}

/** The figures of a rule. A rule with one limit has the figures of that limit itself; otherwise each of its `limits` has them. */
export interface RuleReport extends Partial<LimitFigures> {
  rule: string;
  /** Null for a rule with several limits, and for limits that came with requests, because they may differ. */
  limit: LimitInReplay | null;
  /** The limits of a rule with several. */
  limits?: (LimitFigures & { label: string; limit: LimitInReplay; limited: LimitedReport })[];
  shadowMode: boolean;
  decisions: number;
  hits: number;
  negativeHits: number;
  limited: LimitedReport;
}

export interface LimitFigures {
  withinLimit: number;
  nearLimit: number;
  overLimit: number;
  /** Hits over the limit that shadow mode allowed. */
  shadowed: number;
}

export interface OffendersReport {
  /** The number of counters that rejected a request. */
  count: number;
  /** Rejections by counters beyond the bound, which are not distinguished. */
  missed: number;
  top: { counter: string; rule: string; requests: number; first: string | null; last: string | null }[];
}

export interface ChangeReport {
  limited: LimitedReport;
  rules: { rule: string; requests: number }[];
  offenders: OffendersReport;
}

/** `top`: the number of counters to list. */
export function reportOf(replay: Replay, top: number): ReplayReport {
  const { requests, askedNothing, badLines, rules, against, difference } = replay;
  const total = requests.count;
  const change = (changed: ChangedRequests): ChangeReport => ({
    limited: limitedOf(changed.requests, total),
    rules: byCount([...changed.byRule].map(([rule, count]) => ({ rule, requests: count }))),
    offenders: offendersOf(changed.offenders, top),
  });
  return {
    requests: total,
    from: timeText(requests.firstMs),
    to: timeText(requests.lastMs),
    askedNothing,
    badLines: { count: badLines.count, first: badLines.first },
    rules: ruleSetOf(rules, total, top),
    ...(against && {
      against: ruleSetOf(against, total, top),
      difference: {
        newlyLimited: change(difference.newlyLimited),
        noLongerLimited: change(difference.noLongerLimited),
      },
    }),
  };
}

function ruleSetOf(set: ReplayedRules, total: number, top: number): RuleSetReport {
  const domains = [...set.domains].map(([domain, { requests, limited }]) => ({
    domain,
    requests,
    limited: limitedOf(limited, requests),
  }));
  const unknown = [...set.unknownDomains].map(([domain, descriptors]) => ({ domain, descriptors }));
  return {
    limited: limitedOf(set.limited, total),
    domains: domains.sort((a, b) => b.limited.requests - a.limited.requests || b.requests - a.requests),
    rules: set.rules
      .map(ruleOf)
      .sort((a, b) => b.limited.requests - a.limited.requests || b.decisions - a.decisions),
    offenders: offendersOf(set.offenders, top),
    descriptorsWithoutLimit: set.unlimitedDescriptors,
    unknownDomains: unknown.sort((a, b) => b.descriptors - a.descriptors),
    countersEvicted: set.evicted,
  };
}

function ruleOf({ path, rule, limits, limited }: RuleTally): RuleReport {
  const maxOf = (pick: (limit: LimitTally) => number): number => Math.max(...limits.map(pick));
  const decisions = maxOf((limit) => limit.decisions);
  const matched = rule?.limits ?? [];
  const whole = {
    rule: path,
    limit: matched.length === 1 ? limitOfReplay(matched[0]!) : null,
    shadowMode: rule?.shadowMode ?? false,
    // Limits of one rule count alike, except those that are replaced at times.
    decisions,
    hits: maxOf(({ stats }) => stats[RuleStat.totalHits]!),
    negativeHits: maxOf(({ stats }) => stats[RuleStat.totalNegativeHits]!),
  };
  if (limits.length === 1)
    return { ...whole, ...figuresOf(limits[0]!), limited: limitedOf(limited, decisions) };
  const each = limits.map((tally, index) => ({
    label: tally.label,
    limit: limitOfReplay(matched[index]!),
    ...figuresOf(tally),
    limited: limitedOf(tally.limited, tally.decisions),
  }));
  return { ...whole, limits: each, limited: limitedOf(limited, decisions) };
}

function figuresOf({ stats }: LimitTally): LimitFigures {
  return {
    withinLimit: stats[RuleStat.withinLimit]!,
    nearLimit: stats[RuleStat.nearLimit]!,
    overLimit: stats[RuleStat.overLimit]!,
    shadowed: stats[RuleStat.shadowMode]!,
  };
}

function offendersOf(offenders: Offenders, top: number): OffendersReport {
  return {
    count: offenders.count,
    missed: offenders.missed,
    top: offenders.top(top).map(({ counter, rule, limited }) => ({
      counter,
      rule,
      requests: limited.count,
      first: timeText(limited.firstMs),
      last: timeText(limited.lastMs),
    })),
  };
}

function limitedOf({ count, firstMs, lastMs }: Times, of: number): LimitedReport {
  return {
    requests: count,
    share: of === 0 ? 0 : count / of,
    first: timeText(firstMs),
    last: timeText(lastMs),
  };
}

function byCount<T extends { requests: number }>(list: T[]): T[] {
  return list.sort((a, b) => b.requests - a.requests);
}

function timeText(ms: number | undefined): string | null {
  return ms === undefined ? null : new Date(ms).toISOString();
}
