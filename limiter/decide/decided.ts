/** What a decision says, for the protocols that answer it. */
import type { JsonObject } from '../../rules/model.ts';
import type { LimitPlan } from './limit-plan.ts';
import type { Code, CurrentLimit, Header } from './messages.ts';

export interface RateLimitResponse {
  overallCode: Code;
  statuses: DescriptorStatus[];
  responseHeadersToAdd: Header[];
  requestHeadersToAdd: Header[];
  dynamicMetadata: JsonObject | undefined;
  /** RESPONSE_RULE_IDENTITY: the status whose limit the dynamic metadata names. */
  decidedBy?: DescriptorStatus | undefined;
}

/** A limit of a descriptor that has reached a mark of `warn_at`. */
export interface LimitWarning {
  /** The highest that is reached, in percent. */
  readonly mark: number;
  readonly plan: LimitPlan;
  readonly used: number;
  readonly left: number;
}

export interface DescriptorStatus {
  code: Code;
  currentLimit: CurrentLimit | undefined;
  /** 0 to 2^53 - 1. */
  limitRemaining: number;
  durationUntilResetSeconds: number | undefined;
  /** Of a counted limit, where answers report more of it than the protocol has room for. */
  plan?: LimitPlan | undefined;
  /** Hits in its counter; of one that the local cache knows to be full what fits in. */
  used?: number;
  /** What of `used` is held by open reservations, where answers say that. */
  reserved?: number;
  /** It was refused more than any of its limits lets pass at once: to wait is of no use. */
  neverFits?: true;
  /** Of all its limits; undefined: none has reached a mark. */
  warnings?: readonly LimitWarning[];
}
