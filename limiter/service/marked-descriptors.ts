/** Descriptors with marker entries: what they settle and what they reserve, in the order in which that is asked of the store. */
import { Code, type DescriptorStatus, type RateLimitRequest } from '../decide/messages.ts';
import type { LimitedPlan, Plan } from '../decide/plan.ts';
import { isQuota } from '../decide/plan.ts';
import type { Caller } from '../stores/counter-store.ts';
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
      const terms = { id, isMarker: true, unknown: 'charge' } as const;
      this.#reserving.settle(holdings, terms, marked.asker, ({ held }) => each(held));
    });
  }

  /** All or nothing, of one id. `statuses`: of the others. `done` is called once. */
  reserve(
    marked: Marked,
    statuses: readonly DescriptorStatus[],
    done: (held: readonly Held[]) => void,
  ): void {
    const { quotaMode } = this.#options.response;
    const otherQuotaPasses = marked.plans.some(
      (plan, index) =>
        !marked.reserving.includes(index) &&
        isQuota(plan, quotaMode) &&
        statuses[index]!.code !== Code.OVER_LIMIT,
    );
    const calls = this.#byId(marked.reserving, marked, reservedAmount);
    inTurn(calls, done, (id, holdings, each) => {
      const terms = { id, isMarker: true, note: undefined, otherQuotaPasses };
      this.#reserving.reserve(holdings, terms, marked.asker, ({ held }) => each(held));
    });
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

  #byId(
    indexes: readonly number[],
    { plans, request }: Pick<Marked, 'plans' | 'request'>,
    amountOf: (request: RateLimitRequest, index: number, plan: LimitedPlan) => number | undefined,
  ): Map<string, Holding[]> {
    const { quotaMode } = this.#options.response;
    const calls = new Map<string, Holding[]>();
    for (const index of indexes) {
      const plan = plans[index] as LimitedPlan;
      const { id } = plan.marker!;
      const { ttlSeconds, onExpiry } = plan.rule.reserve!;
      const holding = {
        index,
        plan,
        isQuota: isQuota(plan, quotaMode),
        amount: amountOf(request, index, plan),
        ttlMs: ttlSeconds * 1000,
        onExpiry,
      };
      const others = calls.get(id);
      if (others === undefined) calls.set(id, [holding]);
      else others.push(holding);
    }
    return calls;
  }
}

/** `done` is called with the answers of all calls; most requests have one id. */
function inTurn(
  calls: ReadonlyMap<string, readonly Holding[]>,
  done: (held: readonly Held[]) => void,
  ask: (id: string, holdings: readonly Holding[], each: (held: readonly Held[]) => void) => void,
): void {
  const all: Held[] = [];
  let left = calls.size;
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
function reservedAmount(request: RateLimitRequest, index: number, { rule }: LimitedPlan): number {
  const said = settledAmount(request, index);
  return said ?? rule.reserve!.estimate ?? addendOf(request.descriptors[index]!, request);
}
