/** Reserves the amounts of marked descriptors. decision.ts lists the phases of a decision. */

import type { Plan } from '../decide/limit-plan.ts';
import { Code } from '../decide/messages.ts';
import type { ResponseOptions } from '../decide/response.ts';
import type { DescriptorStatus } from '../decide/response-message.ts';
import { newReservation } from '../stores/operation.ts';
import { askForEach, holdsById, idOf, reservedAmount } from './commit.ts';
import type { Decision } from './decision.ts';
import { type DescriptorHold, ownerOf, type Reserving } from './reserving.ts';

export interface ReserveOptions {
  readonly reserving: Reserving;
  readonly isQuota: (plan: Plan) => boolean;
  readonly response: Pick<ResponseOptions, 'shadowMode'>;
}

export class Reserve {
  readonly #options: ReserveOptions;

  constructor(options: ReserveOptions) {
    this.#options = options;
  }

  /** Reserves all or nothing for each id. `statuses` are those of the unmarked descriptors. `done` is called once. */
  reserve(
    decision: Decision,
    statuses: readonly DescriptorStatus[],
    done: (held: readonly DescriptorHold[]) => void,
  ): void {
    const otherQuotaPasses = decision.plans.length > 1 && this.#otherQuotaPasses(decision, statuses);
    const { request, asker, marked } = decision;
    const calls = holdsById(marked!.reserving, decision, reservedAmount, this.#options.isQuota);
    const owner = ownerOf(request.domain, asker);
    askForEach(calls, done, (holds, each) => {
      const call = newReservation({ id: idOf(holds), owner, isMarker: true, otherQuotaPasses, width: 0 });
      this.#options.reserving.reserve(holds, call, asker, (error) => {
        if (calls.length > 1 && call.outcome === 'refused' && error === undefined) holdBackOthers(holds);
        each();
      });
    });
  }

  #otherQuotaPasses({ plans, marked }: Decision, statuses: readonly DescriptorStatus[]): boolean {
    const { isQuota } = this.#options;
    return plans.some(
      (plan, index) =>
        !marked!.reserving.includes(index) && isQuota(plan) && statuses[index]!.code !== Code.OVER_LIMIT,
    );
  }

  /** Records that unmarked descriptors limit the request. */
  reject(decision: Decision): void {
    const { reserving } = decision.marked!;
    // Most requests that reserve nothing commit.
    if (reserving.length === 0) return;
    const calls = holdsById(reserving, decision, reservedAmount, this.#options.isQuota);
    for (const holds of calls) this.#options.reserving.reject(holds, idOf(holds), decision.asker);
  }

  /** Whether the unmarked descriptors, with these statuses, let the request pass. */
  letsReserve({ plans, marked }: Decision, statuses: readonly DescriptorStatus[]): boolean {
    const { isQuota, response } = this.#options;
    const { shadowMode } = response;
    if (marked!.reserving.length === 0) return false;
    let quotas = 0;
    let quotasOver = 0;
    for (let index = 0; index < statuses.length; index++) {
      const isOver = statuses[index]!.code === Code.OVER_LIMIT;
      if (!isQuota(plans[index]!)) {
        if (isOver && !shadowMode) return false;
      } else {
        quotas += 1;
        // A quota that is still to be reserved is not over its limit.
        if (isOver) quotasOver += 1;
      }
    }
    return shadowMode || quotas === 0 || quotasOver < quotas;
  }
}

/**
 * Only quotas are over limit for this id. A quota of another id may let the request pass, although the other amounts of this id are not
 * reserved. For this reason, these amounts also limit the request.
 */
function holdBackOthers(held: readonly DescriptorHold[]): void {
  const others = held.flatMap(({ isQuota, hits }) => (isQuota ? [] : hits));
  if (others.some(({ over, full }) => over || full)) return;
  for (const hit of others) hit.over = true;
}
