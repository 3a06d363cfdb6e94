/** Descriptors with marker entries: what they settle and what they reserve, in the order in which that is asked of the store. */
import { Code, type DescriptorStatus, type RateLimitRequest } from '../decide/messages.ts';
import type { LimitedPlan, Plan } from '../decide/plan.ts';
import { isQuota } from '../decide/plan.ts';
import type { Caller } from '../stores/operation.ts';
import { addendOf } from './counted-hit.ts';
import type { RateLimitServiceOptions } from './rate-limit-service.ts';
import type { Held, Holding, Reserving } from './reserving.ts';

/** Those of one request. */
export interface Marked {
  readonly request: RateLimitRequest;
  readonly plans: readonly Plan[];
  readonly asker: Caller;
  /** Indexes of descriptors: those that settle, and those that reserve. */
  readonly settling: number[];
  readonly reserving: number[];
}

export class MarkedDescriptors {
  readonly #reserving: Reserving;
  readonly #options: RateLimitServiceOptions;

  constructor(reserving: Reserving, options: RateLimitServiceOptions) {
    this.#reserving = reserving;
    this.#options = options;
  }

  /** Whatever becomes of the request. `done` is called once. */
  settle(marked: Marked, done: (held: readonly Held[]) => void): void {
    const calls = this.#byId(marked.settling, marked, settledAmount);
    inTurn(calls, done, (id, holdings, each) => {
      const { domain } = marked.request;
      const terms = { domain, id, isMarker: true, unknown: 'charge' } as const;
      this.#reserving.settle(holdings, terms, marked.asker, ({ held }) => each(held));
    });
  }

  /** All or nothing, of one id. `statuses`: of the others. `done` is called once. */
  reserve(
    marked: Marked,
    statuses: readonly DescriptorStatus[],
    done: (held: readonly Held[]) => void,
  ): void {
    const otherQuotaPasses = marked.plans.length > 1 && this.#otherQuotaPasses(marked, statuses);
    const calls = this.#byId(marked.reserving, marked, reservedAmount);
    inTurn(calls, done, (id, holdings, each) => {
      const { domain } = marked.request;
      const terms = { domain, id, isMarker: true, note: undefined, otherQuotaPasses };
      this.#reserving.reserve(holdings, terms, marked.asker, ({ call, held, error }) => {
        if (calls.length > 1 && call.outcome === 'refused' && error === undefined) refuseOthers(held);
        each(held);
      });
    });
  }

  #otherQuotaPasses({ plans, reserving }: Marked, statuses: readonly DescriptorStatus[]): boolean {
    const { quotaMode } = this.#options.response;
    return plans.some(
      (plan, index) =>
        !reserving.includes(index) && isQuota(plan, quotaMode) && statuses[index]!.code !== Code.OVER_LIMIT,
    );
  }

  /** Others refuse the request. */
  refuse(marked: Marked): void {
    for (const [id, holdings] of this.#byId(marked.reserving, marked, reservedAmount))
      this.#reserving.refuse(holdings, id, marked.asker);
  }

  /** Whether nothing refuses the request but what it reserves. `statuses`: of the others. */
  letsReserve({ plans, reserving }: Marked, statuses: readonly DescriptorStatus[]): boolean {
    const { quotaMode, shadowMode } = this.#options.response;
    if (reserving.length === 0) return false;
    let quotas = 0;
    let quotasOver = 0;
    for (const [index, { code }] of statuses.entries()) {
      const isOver = code === Code.OVER_LIMIT;
      if (!isQuota(plans[index]!, quotaMode)) {
        if (isOver && !shadowMode) return false;
      } else {
        quotas += 1;
        // One that is yet to be reserved is not over.
        if (isOver) quotasOver += 1;
      }
    }
    return shadowMode || quotas === 0 || quotasOver < quotas;
  }

  #byId(indexes: readonly number[], marked: Marked, amountOf: AmountOf): ById {
    // Most requests have one.
    if (indexes.length === 1)
      return [[idOf(indexes[0]!, marked), [this.#holding(indexes[0]!, marked, amountOf)]]];
    const calls = new Map<string, Holding[]>();
    for (const index of indexes) {
      const holding = this.#holding(index, marked, amountOf);
      const id = idOf(index, marked);
      const others = calls.get(id);
      if (others === undefined) calls.set(id, [holding]);
      else others.push(holding);
    }
    return [...calls];
  }

  #holding(index: number, { plans, request }: Marked, amountOf: AmountOf): Holding {
    const plan = plans[index] as LimitedPlan;
    const { ttlSeconds, onExpiry } = plan.rule.reserve!;
    return {
      index,
      plan,
      isQuota: isQuota(plan, this.#options.response.quotaMode),
      amount: amountOf(request, index, plan),
      ttlMs: ttlSeconds * 1000,
      onExpiry,
    };
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

type AmountOf = (request: RateLimitRequest, index: number, plan: LimitedPlan) => number | undefined;
type ById = readonly (readonly [id: string, holdings: readonly Holding[]])[];

function idOf(index: number, { plans }: Marked): string {
  return (plans[index] as LimitedPlan).marker!.id;
}

/** `done` is called with the answers of all calls. */
function inTurn(
  calls: ById,
  done: (held: readonly Held[]) => void,
  ask: (id: string, holdings: readonly Holding[], each: (held: readonly Held[]) => void) => void,
): void {
  const all: Held[] = [];
  let left = calls.length;
  if (left === 0) done(all);
  for (const [id, holdings] of calls) {
    ask(id, holdings, (held) => {
      all.push(...held);
      left -= 1;
      if (left === 0) done(all);
    });
  }
}

/** Undefined where the request does not say: what was reserved. */
function settledAmount({ descriptors, hitsAddend }: RateLimitRequest, index: number): number | undefined {
  return descriptors[index]!.hitsAddend ?? (hitsAddend > 0 ? hitsAddend : undefined);
}

/** What the request says, else the estimate of the rule, else one hit. */
export function reservedAmount(request: RateLimitRequest, index: number, { rule }: LimitedPlan): number {
  const said = settledAmount(request, index);
  return said ?? rule.reserve!.estimate ?? addendOf(request.descriptors[index]!, request);
}
