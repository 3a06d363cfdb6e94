/** The first phase of a decision: plans, and the hits for the store. decision.ts lists the phases. */
import type { Clock } from '../../process/time/clock.ts';
import type { Plan } from '../decide/limit-plan.ts';
import type { RateLimitRequest } from '../decide/messages.ts';
import type { Caller } from '../stores/operation.ts';
import type { CountedHit, CountingOptions, Decision, Marked } from './decision.ts';
import { added, addendOf, type HitMaker } from './hit-maker.ts';
import type { PlansInForce } from './plans-in-force.ts';

export interface PrepareOptions {
  readonly clock: Clock;
  readonly plans: PlansInForce;
  readonly hits: HitMaker;
  readonly counting: Pick<CountingOptions, 'stopCacheKeyIncrementWhenOverLimit'>;
  /** True for all limits with QUOTA_MODE. */
  readonly isQuota: (plan: Plan) => boolean;
}

const noOps: CountedHit[] = [];

export class Prepare {
  readonly #options: PrepareOptions;
  readonly #plans: PlansInForce;
  readonly #hits: HitMaker;

  constructor(options: PrepareOptions) {
    this.#options = options;
    this.#plans = options.plans;
    this.#hits = options.hits;
  }

  /** Throws a `ServiceError` for a request that cannot be decided; nothing is counted then. */
  prepare(request: RateLimitRequest, asker: Caller): Decision {
    const nowMs = this.#options.clock.nowMs();
    const plans = this.#plans.plan(request, nowMs);
    return this.#gatherHits(request, plans, nowMs, asker);
  }

  /** Counts the requested hits in the rules' statistics, whatever the outcome, and selects the hits for the store. */
  #gatherHits(request: RateLimitRequest, plans: readonly Plan[], nowMs: number, asker: Caller): Decision {
    let hits: (CountedHit | undefined)[] | undefined;
    let ops: CountedHit[] | undefined;
    let marked: Marked | undefined;
    for (let index = 0; index < plans.length; index++) {
      const plan = plans[index]!;
      if (plan.kind !== 'limited') {
        if (plan.kind === 'domain-not-found') this.#plans.noteNoDomain(request.domain);
        else if (plan.kind === 'unlimited' && plan.metrics !== undefined)
          this.#hits.countUnlimited(plan.metrics, request, index);
        hits = added(hits, undefined);
        continue;
      }
      const descriptor = request.descriptors[index]!;
      const { limits, marker } = plan;
      if (marker !== undefined && !descriptor.isNegativeHits) {
        marked ??= { settling: [], reserving: [] };
        (marker.settles ? marked.settling : marked.reserving).push(index);
        hits = added(hits, undefined);
        continue;
      }
      const addend = addendOf(descriptor, request);
      const verb = descriptor.isNegativeHits ? 'refund' : 'add';
      const hit = this.#hits.hit(limits[0]!, addend, verb, nowMs);
      hits = added(hits, hit);
      if (limits.length > 1) {
        ops ??= [];
        this.#hits.addGroup(hit, limits, nowMs, ops);
      } else if (!hit.remembered) ops = added(ops, hit);
    }
    const { counting, isQuota } = this.#options;
    if (counting.stopCacheKeyIncrementWhenOverLimit && plans.length > 1)
      planStopWhenOver(plans, hits!, isQuota);
    return { request, epoch: this.#plans.epoch, plans, hits: hits!, ops: ops ?? noOps, marked, asker };
  }
}

/**
 * Stop-when-over: sets for each hit what it does to the others. They are held back exactly when the totals before the request would
 * refuse the request as a whole (`overallCode`, regardless of SHADOW_MODE). If the local cache knows that a limit refuses it, the
 * other counters are only read. There is one hit per plan, the first of its group, or undefined if nothing is counted.
 */
function planStopWhenOver(
  plans: readonly Plan[],
  hits: readonly (CountedHit | undefined)[],
  isQuota: (plan: Plan) => boolean,
): void {
  let isRefused = false;
  let quotaIsNeverOver = false;
  let quotasRemembered = 0;
  let quotasAsked = 0;
  for (let index = 0; index < plans.length; index++) {
    const hit = hits[index];
    const canRefuse = hit !== undefined && hit.verb !== 'refund' && !hit.counter.rule.shadowMode;
    if (isQuota(plans[index]!)) {
      if (!canRefuse) quotaIsNeverOver = true;
      else if (hit.remembered) quotasRemembered++;
      else quotasAsked++;
      if (hit !== undefined) hit.holdsBack = 'together';
    } else if (canRefuse && hit.remembered) {
      isRefused = true;
    }
    if (hit !== undefined && !canRefuse) hit.holdsBack = 'never';
  }
  if (!quotaIsNeverOver && quotasRemembered > 0 && quotasAsked === 0) isRefused = true;
  for (const hit of hits) {
    if (hit === undefined) continue;
    if (quotaIsNeverOver && hit.holdsBack === 'together') hit.holdsBack = 'never';
    if (isRefused && hit.verb !== 'refund') hit.verb = 'peek';
    if (hit.group === undefined) continue;
    for (const other of hit.group) {
      other.holdsBack = hit.holdsBack;
      other.verb = hit.verb;
    }
  }
}
