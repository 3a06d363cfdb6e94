import { Code, type RateLimitRequest } from '../limiter/decide/messages.ts';
import type { RateLimitResponse } from '../limiter/decide/response-message.ts';
import type { CountedHit } from '../limiter/service/decision.ts';
import type { LimiterSettings } from '../limiter/settings/settings.ts';
import type { RuleTable } from '../rules/table/rule-table.ts';
import {
  type LimitTally,
  newTimes,
  note,
  Offenders,
  RuleTallies,
  type RuleTally,
  type Times,
} from './rule-tallies.ts';
import { VirtualLimiter } from './virtual-limiter.ts';

/** The domain's requests, and those that were rejected. */
export interface DomainTally {
  requests: number;
  readonly limited: Times;
}

/** A counter that was over its limit in the request decided last, and its rule did not let that pass. */
interface LimitingHit {
  /** The same as `Offender.counter`. */
  readonly counter: string;
  readonly tally: LimitTally;
}

export interface ReplayedAnswer {
  readonly response: RateLimitResponse;
  /** The code of the whole request is OVER_LIMIT. */
  readonly isLimited: boolean;
}

export type ReplayDecision = ReplayedAnswer | { readonly error: Error };

export interface ReplayedRulesOptions {
  table: RuleTable;
  /** The settings of a limiter with BACKEND_TYPE=memory. */
  settings: LimiterSettings;
  maxOffenders?: number | undefined;
}

/** One set of rules in a replay. It uses the limiter's service and memory store, on a clock that the recording moves. */
export class ReplayedRules {
  readonly limited: Times = newTimes();
  readonly domains = new Map<string, DomainTally>();
  readonly offenders: Offenders;
  /** The number of descriptors without a limit. */
  unlimitedDescriptors = 0;
  /** The hits that caused the rejection of the last decided request, if it was rate-limited. */
  rejecting: LimitingHit[] = [];
  readonly #tallies: RuleTallies;
  readonly #limiter: VirtualLimiter;

  constructor({ table, settings, maxOffenders }: ReplayedRulesOptions) {
    this.offenders = new Offenders(maxOffenders);
    this.#tallies = new RuleTallies(table);
    this.#limiter = new VirtualLimiter({
      rules: this.#tallies,
      stats: this.#tallies,
      settings,
      onOverLimit: (_domain, hit) => this.#noteOver(hit),
    });
  }

  /** Rules that decided a request. */
  get rules(): readonly RuleTally[] {
    return this.#tallies.tallies.filter(({ limits }) => limits.some(({ decisions }) => decisions > 0));
  }

  get unknownDomains(): ReadonlyMap<string, number> {
    return this.#tallies.unknownDomains;
  }

  /** The number of counters that were evicted before their end because the store was full. Their hits are missing. */
  get evicted(): number {
    return this.#limiter.evicted;
  }

  /** Decides a request. `timeMs` must not go backwards. An error means that the service rejected the request, with nothing counted. */
  decide(timeMs: number, request: RateLimitRequest): ReplayDecision {
    this.#tallies.domain = request.domain;
    this.rejecting = [];
    const made = this.#limiter.decide(timeMs, request);
    if ('error' in made) return made;
    const { response } = made;
    const decision = { response, isLimited: response.overallCode === Code.OVER_LIMIT };
    this.#count(timeMs, request.domain, decision);
    return decision;
  }

  #noteOver({ key, counter: plan }: CountedHit): void {
    if (plan.rule.shadowMode) return;
    const tally = this.#tallies.tallyOf(plan.metric);
    this.rejecting.push({ counter: key.slice(0, plan.counterStem.length), tally });
  }

  #count(timeMs: number, domainName: string, { response, isLimited }: ReplayedAnswer): void {
    for (const { currentLimit } of response.statuses) {
      if (currentLimit === undefined) this.unlimitedDescriptors++;
    }
    let domain = this.domains.get(domainName);
    if (domain === undefined) {
      domain = { requests: 0, limited: newTimes() };
      this.domains.set(domainName, domain);
    }
    domain.requests++;
    if (!isLimited) {
      this.rejecting = [];
      return;
    }
    note(this.limited, timeMs);
    note(domain.limited, timeMs);
    this.#countLimiting(timeMs);
  }

  /** A rule, a limit, or a counter, that several descriptors of a request have is counted once. */
  #countLimiting(timeMs: number): void {
    this.rejecting.forEach(({ counter, tally }, index) => {
      const before = this.rejecting.slice(0, index);
      const { rule } = tally;
      if (!before.some((hit) => hit.tally === tally)) note(tally.limited, timeMs);
      if (!before.some((hit) => hit.tally.rule === rule)) note(rule.limited, timeMs);
      if (!before.some((hit) => hit.counter === counter)) this.offenders.note(counter, rule.path, timeMs);
    });
  }
}

/** Requests on one side of the difference. */
export interface ChangedRequests {
  readonly requests: Times;
  /** Requests by the path of a rule that rejected them. */
  readonly byRule: Map<string, number>;
  readonly offenders: Offenders;
}

/** A comparison of two rule sets: requests that only one of them rejects. */
export class RuleSetsDifference {
  /** Requests that the rules reject and the other rules allow. */
  readonly newlyLimited = noChangedRequests();
  /** The other way round. */
  readonly noLongerLimited = noChangedRequests();

  /** Compares the decisions after both rule sets decided the same request. */
  compare(timeMs: number, rules: ReplayedRules, against: ReplayedRules): void {
    const [now, before] = [rules.rejecting.length > 0, against.rejecting.length > 0];
    if (now && !before) noteChanged(this.newlyLimited, rules.rejecting, timeMs);
    if (before && !now) noteChanged(this.noLongerLimited, against.rejecting, timeMs);
  }
}

function noChangedRequests(): ChangedRequests {
  return { requests: newTimes(), byRule: new Map(), offenders: new Offenders() };
}

function noteChanged(changed: ChangedRequests, rejecting: readonly LimitingHit[], timeMs: number): void {
  note(changed.requests, timeMs);
  for (const path of new Set(rejecting.map(({ tally }) => tally.rule.path))) {
    changed.byRule.set(path, (changed.byRule.get(path) ?? 0) + 1);
  }
  const rules = new Map(rejecting.map(({ counter, tally }) => [counter, tally.rule.path]));
  for (const [counter, rule] of rules) changed.offenders.note(counter, rule, timeMs);
}
