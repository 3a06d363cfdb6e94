import { Unit } from '../../rules/model.ts';
import type { LimitedPlan } from '../decide/plan.ts';
import type { Caller, CounterOp } from '../stores/counter-store.ts';
import type { StoreError } from '../stores/store-error.ts';

export interface CountedHitFields {
  plan: LimitedPlan;
  key: string;
  hits: number;
  negative: boolean;
  ttlSeconds: number;
  secondsToReset: number;
  windowEndSeconds: number;
  remembered: boolean;
}

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
