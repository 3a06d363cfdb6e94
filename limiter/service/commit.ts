/** Commits reservations that marker entries name. decision.ts lists the phases of a decision. */

import type { LimitedPlan, Plan } from '../decide/limit-plan.ts';
import type { RateLimitRequest } from '../decide/messages.ts';
import type { Decision } from './decision.ts';
import { addendOf } from './prepare.ts';
import type { HoldRequest, HoldWithHits, Reserving } from './reserving.ts';

export class Commit {
  readonly #reserving: Reserving;
  readonly #isQuota: (plan: Plan) => boolean;

  constructor(reserving: Reserving, isQuota: (plan: Plan) => boolean) {
    this.#reserving = reserving;
    this.#isQuota = isQuota;
  }

  /** Commits them regardless of the outcome of the request. `done` is called once. */
  commit(decision: Decision, done: (held: readonly HoldWithHits[]) => void): void {
    const calls = holdsById(decision.marked!.committing, decision, committedAmount, this.#isQuota);
    callInTurn(calls, done, (id, holds, each) => {
      const { domain } = decision.request;
      const terms = { domain, id, isMarker: true, descriptors: 0, unknown: 'charge' } as const;
      this.#reserving.commit(holds, terms, decision.asker, ({ held }) => each(held));
    });
  }
}

/** Groups the amounts of descriptors by reservation id. */
export function holdsById(
  indexes: readonly number[],
  decision: Decision,
  amountOf: AmountOf,
  isQuota: (plan: Plan) => boolean,
): HoldsById {
  const holdOf = (index: number): HoldRequest => {
    const plan = decision.plans[index] as LimitedPlan;
    const { ttlSeconds, onExpiry } = plan.rule.reserve!;
    const amount = amountOf(decision.request, index, plan);
    return { index, plan, isQuota: isQuota(plan), amount, ttlMs: ttlSeconds * 1000, onExpiry };
  };
  // Most requests have one id.
  if (indexes.length === 1) return [[idOf(indexes[0]!, decision), [holdOf(indexes[0]!)]]];
  const calls = new Map<string, HoldRequest[]>();
  for (const index of indexes) {
    const id = idOf(index, decision);
    const others = calls.get(id);
    if (others === undefined) calls.set(id, [holdOf(index)]);
    else others.push(holdOf(index));
  }
  return [...calls];
}

export type AmountOf = (request: RateLimitRequest, index: number, plan: LimitedPlan) => number | undefined;
export type HoldsById = readonly (readonly [id: string, holds: readonly HoldRequest[]])[];

function idOf(index: number, { plans }: Decision): string {
  return (plans[index] as LimitedPlan).marker!.id;
}

/** Makes all calls, and calls `done` with all of their answers. */
export function callInTurn(
  calls: HoldsById,
  done: (held: readonly HoldWithHits[]) => void,
  ask: (id: string, holds: readonly HoldRequest[], each: (held: readonly HoldWithHits[]) => void) => void,
): void {
  // Most requests have one id.
  if (calls.length === 1) {
    ask(...calls[0]!, done);
    return;
  }
  const all: HoldWithHits[] = [];
  let left = calls.length;
  if (left === 0) done(all);
  for (const [id, holds] of calls) {
    ask(id, holds, (held) => {
      all.push(...held);
      left -= 1;
      if (left === 0) done(all);
    });
  }
}

/** Returns undefined if the request has no amount. In that case, the reserved amount is charged. */
function committedAmount({ descriptors, hitsAddend }: RateLimitRequest, index: number): number | undefined {
  return descriptors[index]!.hitsAddend ?? (hitsAddend > 0 ? hitsAddend : undefined);
}

/** Returns the amount of the request. Without one, returns the estimate of the rule, or one hit if there is no estimate. */
export function reservedAmount(request: RateLimitRequest, index: number, { rule }: LimitedPlan): number {
  const committed = committedAmount(request, index);
  return committed ?? rule.reserve!.estimate ?? addendOf(request.descriptors[index]!, request);
}
