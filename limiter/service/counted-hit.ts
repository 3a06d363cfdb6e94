import { Unit } from '../../rules/model.ts';
import type { LimitedPlan, Plan } from '../decide/plan.ts';
import { isQuota } from '../decide/response.ts';
import type { Caller, CounterOp, HoldsBack, StoreError } from '../stores/counter-store.ts';

/** What is known of a hit before it is counted; the rest follows from its plan. */
type CountedHitFields = Pick<
  CountedHit,
  'plan' | 'key' | 'hits' | 'negative' | 'ttlSeconds' | 'secondsToReset' | 'windowEndSeconds' | 'remembered'
>;

/** The hits of one limited descriptor, on their way to the store and back. One object a descriptor. */
export class CountedHit implements CounterOp {
  readonly plan: LimitedPlan;
  readonly key: string;
  readonly hits: number;
  readonly negative: boolean;
  readonly ttlSeconds: number;
  readonly limit: number;
  readonly secondsToReset: number;
  readonly windowEndSeconds: number;
  /** The local cache knows the counter to be over its limit: the store is not asked. */
  readonly remembered: boolean;
  readonly perSecond: boolean;
  caller: Caller | undefined = undefined;
  lookOnly = false;
  holdsBack: HoldsBack = 'alone';
  applied = 0;
  after = 0;
  error: StoreError | undefined = undefined;

  constructor(fields: CountedHitFields) {
    this.plan = fields.plan;
    this.key = fields.key;
    this.hits = fields.hits;
    this.negative = fields.negative;
    this.ttlSeconds = fields.ttlSeconds;
    this.limit = fields.plan.rule.requestsPerUnit;
    this.secondsToReset = fields.secondsToReset;
    this.windowEndSeconds = fields.windowEndSeconds;
    this.remembered = fields.remembered;
    this.perSecond = fields.plan.rule.unit === Unit.SECOND;
  }
}

/**
 * Stop-when-over: says of every hit what it does to the others, so that they are held back just when the request as a
 * whole would be refused by the totals before it (`overallCode`, whatever SHADOW_MODE makes of that). Where what the
 * local cache remembers refuses it, the others are only looked at. Hits are one a plan, undefined where nothing is counted.
 */
export function planHoldingBack(
  plans: readonly Plan[],
  hits: readonly (CountedHit | undefined)[],
  quotaModeForAll: boolean,
): void {
  let isRefused = false;
  let quotaIsNeverOver = false;
  let quotasRemembered = 0;
  let quotasAsked = 0;
  for (let index = 0; index < plans.length; index++) {
    const hit = hits[index];
    const canRefuse = hit !== undefined && !hit.negative && !hit.plan.rule.shadowMode;
    if (isQuota(plans[index]!, quotaModeForAll)) {
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
    if (isRefused) hit.lookOnly = !hit.negative;
  }
}
