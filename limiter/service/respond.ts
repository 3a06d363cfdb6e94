/** Creates the statuses of a request's descriptors, and its answer. decision.ts lists the phases of a decision. */

import type { LimitPlan } from '../decide/limit-plan.ts';
import { Code } from '../decide/messages.ts';
import { assembleResponse, okStatus, type ResponseOptions, unlimitedStatus } from '../decide/response.ts';
import type { DescriptorStatus, RateLimitResponse } from '../decide/response-message.ts';
import { RuleStat, type RuleStats } from '../stats/registry/rule-stats.ts';
import { reservedAmount } from './commit.ts';
import type { CountedHit, Decision, ServiceEvents } from './decision.ts';
import type { HitStatuses } from './hit-statuses.ts';
import type { LimitWarnings } from './limit-warnings.ts';
import { addendOf } from './prepare.ts';

export interface RespondOptions {
  readonly hitStatuses: HitStatuses;
  readonly answered: AnsweredHits;
  readonly response: ResponseOptions;
  readonly warnings: LimitWarnings | undefined;
  readonly events: Pick<ServiceEvents, 'onGlobalShadow'>;
}

export class Respond {
  readonly #options: RespondOptions;

  constructor(options: RespondOptions) {
    this.#options = options;
  }

  /** The statuses of counted descriptors. With `reports`, they include the limit and how much of it is used. */
  statuses(decision: Decision, reports: boolean): DescriptorStatus[] {
    const { plans, hits } = decision;
    const { hitStatuses, warnings } = this.#options;
    // An array that is created with its length reserves no space for further elements.
    const statuses = new Array<DescriptorStatus>(plans.length);
    for (let index = 0; index < plans.length; index++) {
      const hit = hits[index];
      const other = plans[index]!.kind === 'unlimited' ? unlimitedStatus : okStatus;
      const status = hit !== undefined ? hitStatuses.statusOf(hit, decision, index, reports) : other;
      if (hit?.counter.warns === true) warnings?.report(hit, status);
      statuses[index] = status;
    }
    return statuses;
  }

  /** Creates the answer, and counts the request's hits by its code. `own` replaces the response options of the service. */
  answer(
    decision: Decision,
    statuses: DescriptorStatus[],
    own: ResponseOptions | undefined,
  ): RateLimitResponse {
    const { request, plans } = decision;
    const { response, events, answered } = this.#options;
    const answer = assembleResponse({ request, plans, statuses }, own ?? response, events);
    answered.count(decision, answer.overallCode);
    return answer;
  }
}

/** Counts the hits of whole requests by their answer, as `passed` or `limited` of each limit. */
export class AnsweredHits {
  readonly #stats: RuleStats;

  constructor(stats: RuleStats) {
    this.#stats = stats;
  }

  /**
   * Call it once for each answer. Refunded hits are not counted. Committed amounts are not counted here either, because they count where
   * they are charged.
   */
  count(answered: Decision, code: Code): void {
    const stat = code === Code.OVER_LIMIT ? RuleStat.limited : RuleStat.passed;
    const { hits, marked } = answered;
    for (let index = 0; index < hits.length; index++) {
      const hit = hits[index];
      if (hit === undefined) this.#countUncounted(answered, index, stat);
      else if (hit.group !== undefined) this.#countGroup(hit.group, stat);
      else if (hit.verb !== 'refund')
        this.#stats.add(this.#stats.slotOf(hit.counter.metric) + stat, hit.hits);
    }
    if (marked !== undefined) this.#countReserved(answered, marked.reserving, stat);
  }

  /** Counts the hits of one reservation. */
  countHeld(hits: readonly CountedHit[], allowed: boolean): void {
    this.#countGroup(hits, allowed ? RuleStat.passed : RuleStat.limited);
  }

  /** Counts descriptors without a limit. They have metrics only if an override made them unlimited. */
  countUnlimited({ plans, request }: Pick<Decision, 'plans' | 'request'>, allowed: boolean): void {
    const stat = allowed ? RuleStat.passed : RuleStat.limited;
    for (let index = 0; index < plans.length; index++) this.#countUncounted({ plans, request }, index, stat);
  }

  #countUncounted(
    { plans, request }: Pick<Decision, 'plans' | 'request'>,
    index: number,
    stat: number,
  ): void {
    const plan = plans[index]!;
    if (plan.kind !== 'unlimited' || plan.metrics === undefined) return;
    const descriptor = request.descriptors[index]!;
    if (descriptor.isNegativeHits) return;
    const addend = addendOf(descriptor, request);
    for (const metric of plan.metrics) this.#stats.add(this.#stats.slotOf(metric) + stat, addend);
  }

  #countGroup(group: readonly CountedHit[], stat: number): void {
    for (const hit of group) if (hit.verb !== 'refund') this.#add(hit.counter, stat, hit.hits);
  }

  #countReserved({ request, plans }: Decision, reserving: readonly number[], stat: number): void {
    for (const index of reserving) {
      const plan = plans[index]!;
      if (plan.kind !== 'limited') continue;
      const amount = reservedAmount(request, index, plan);
      for (const limit of plan.limits) this.#add(limit, stat, amount);
    }
  }

  #add({ metric }: LimitPlan, stat: number, hits: number): void {
    this.#stats.add(this.#stats.slotOf(metric) + stat, hits);
  }
}
