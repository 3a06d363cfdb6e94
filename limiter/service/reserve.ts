/** The phase of a decision that reserves what its marked descriptors ask for. The others are in decision.ts. */

import type { DescriptorStatus } from '../decide/decided.ts';
import type { Plan } from '../decide/limit-plan.ts';
import { Code } from '../decide/messages.ts';
import type { ResponseOptions } from '../decide/response.ts';
import { holdingsById, inTurn, reservedAmount } from './commit.ts';
import type { Decision } from './decision.ts';
import type { Held, Reserving } from './reserving.ts';

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

  /** All or nothing, of one id. `statuses`: of the others. `done` is called once. */
  reserve(
    decision: Decision,
    statuses: readonly DescriptorStatus[],
    done: (held: readonly Held[]) => void,
  ): void {
    const otherQuotaPasses = decision.plans.length > 1 && this.#otherQuotaPasses(decision, statuses);
    const calls = holdingsById(decision.marked!.reserving, decision, reservedAmount, this.#options.isQuota);
    inTurn(calls, done, (id, holdings, each) => {
      const { domain } = decision.request;
      const terms = { domain, id, isMarker: true, note: undefined, otherQuotaPasses };
      this.#options.reserving.reserve(holdings, terms, decision.asker, ({ call, held, error }) => {
        if (calls.length > 1 && call.outcome === 'refused' && error === undefined) refuseOthers(held);
        each(held);
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

  /** Others refuse the request. */
  refuse(decision: Decision): void {
    const calls = holdingsById(decision.marked!.reserving, decision, reservedAmount, this.#options.isQuota);
    for (const [id, holdings] of calls) this.#options.reserving.refuse(holdings, id, decision.asker);
  }

  /** Whether nothing refuses the request but what it reserves. `statuses`: of the others. */
  letsReserve({ plans, marked }: Decision, statuses: readonly DescriptorStatus[]): boolean {
    const { isQuota, response } = this.#options;
    const { shadowMode } = response;
    if (marked!.reserving.length === 0) return false;
    let quotas = 0;
    let quotasOver = 0;
    for (const [index, { code }] of statuses.entries()) {
      const isOver = code === Code.OVER_LIMIT;
      if (!isQuota(plans[index]!)) {
        if (isOver && !shadowMode) return false;
      } else {
        quotas += 1;
        // One that is yet to be reserved is not over.
        if (isOver) quotasOver += 1;
      }
    }
    return shadowMode || quotas === 0 || quotasOver < quotas;
  }
}

/**
 * Quotas alone refused these, of one id. One of another id may let the request pass, and what else of these was to be held is not:
 * that refuses it.
 */
function refuseOthers(held: readonly Held[]): void {
  const others = held.flatMap(({ isQuota, hits }) => (isQuota ? [] : hits));
  if (others.some(({ over, full }) => over || full)) return;
  for (const hit of others) hit.over = true;
}
