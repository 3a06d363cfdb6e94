/** Commits reservations that marker entries name. decision.ts lists the phases of a decision. */

import type { LimitedPlan, Plan } from '../decide/limit-plan.ts';
import type { RateLimitRequest } from '../decide/messages.ts';
import { newReservation } from '../stores/operation.ts';
import type { Decision } from './decision.ts';
import { addendOf } from './prepare.ts';
import { type DescriptorHold, newDescriptorHold, ownerOf, type Reserving } from './reserving.ts';

export class Commit {
  readonly #reserving: Reserving;
  readonly #isQuota: (plan: Plan) => boolean;

  constructor(reserving: Reserving, isQuota: (plan: Plan) => boolean) {
    this.#reserving = reserving;
    this.#isQuota = isQuota;
  }

  /** Commits them regardless of the outcome of the request. `done` is called once. */
  commit(decision: Decision, done: (held: readonly DescriptorHold[]) => void): void {
    const { request, asker, marked } = decision;
    const calls = holdsById(marked!.committing, decision, committedAmount, this.#isQuota);
    const owner = ownerOf(request.domain, asker);
    askForEach(calls, done, (holds, each) => {
      const call = newReservation({ id: idOf(holds), owner, isMarker: true, unknown: 'charge', width: 0 });
      this.#reserving.commit(holds, call, asker, each);
    });
  }
}

/** Returns the id of holds that have the same. */
export function idOf(holds: readonly DescriptorHold[]): string {
  return holds[0]!.plan.marker!.id;
}

/** Returns the amounts of descriptors by their reservation ids. */
export function holdsById(
  indexes: readonly number[],
  decision: Decision,
  amountOf: AmountOf,
  isQuota: (plan: Plan) => boolean,
): HoldsById {
  // Most requests have one id.
  if (indexes.length === 1) return [[markerHold(indexes[0]!, decision, amountOf, isQuota)]];
  const holds = indexes.map((index) => markerHold(index, decision, amountOf, isQuota));
  return [...Map.groupBy(holds, ({ plan }) => plan.marker!.id).values()];
}

export type AmountOf = (request: RateLimitRequest, index: number, plan: LimitedPlan) => number | undefined;
export type HoldsById = readonly (readonly DescriptorHold[])[];

function markerHold(
  index: number,
  { plans, request }: Decision,
  amountOf: AmountOf,
  isQuota: (plan: Plan) => boolean,
): DescriptorHold {
  const plan = plans[index] as LimitedPlan;
  const { ttlSeconds, onExpiry } = plan.rule.reserve!;
  const amount = amountOf(request, index, plan);
  return newDescriptorHold({
    index,
    plan,
    isQuota: isQuota(plan),
    amount,
    ttlMs: ttlSeconds * 1000,
    onExpiry,
  });
}

/** Makes a call for each id, and calls `done` once with all holds, when all calls are answered. */
export function askForEach(
  calls: HoldsById,
  done: (held: readonly DescriptorHold[]) => void,
  ask: (holds: readonly DescriptorHold[], each: () => void) => void,
): void {
  let left = calls.length;
  const each = (): void => {
    left -= 1;
    if (left <= 0) done(calls.length === 1 ? calls[0]! : calls.flat());
  };
  if (left === 0) each();
  for (const holds of calls) ask(holds, each);
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
