/** The last phase of a decision: the statuses of its descriptors, and the answer. decision.ts lists the phases. */
import type { DescriptorStatus, RateLimitResponse } from '../decide/decided.ts';
import { assembleResponse, okStatus, type ResponseOptions, unlimitedStatus } from '../decide/response.ts';
import type { AnsweredHits } from './answered-hits.ts';
import type { Decision, ServiceEvents } from './decision.ts';
import { added } from './hit-maker.ts';
import type { HitStatuses } from './hit-statuses.ts';
import type { LimitWarnings } from './limit-warnings.ts';

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
    let statuses: DescriptorStatus[] | undefined;
    for (let index = 0; index < plans.length; index++) {
      const hit = hits[index];
      const other = plans[index]!.kind === 'unlimited' ? unlimitedStatus : okStatus;
      const status = hit !== undefined ? hitStatuses.statusOf(hit, decision, index, reports) : other;
      if (hit?.counter.warns === true) warnings?.report(hit, status);
      statuses = added(statuses, status);
    }
    return statuses!;
  }

  /** Creates the answer, and counts the request's hits by its code. `own` replaces the service's response options. */
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
