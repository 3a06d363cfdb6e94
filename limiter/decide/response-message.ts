/** The content of a decision, for the protocols that send it to the caller. */
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
  /** The highest reached mark, in percent. */
  readonly mark: number;
  readonly plan: LimitPlan;
  readonly used: number;
  readonly left: number;
}

export interface DescriptorStatus {
  code: Code;
  currentLimit: CurrentLimit | undefined;
  /** The remaining hits, 0 to 2^53 - 1. */
  limitRemaining: number;
  durationUntilResetSeconds: number | undefined;
  /** The counted limit, if answers report more than the protocol can express. */
  plan?: LimitPlan | undefined;
  /** The hits in the counter. If the local cache knows the counter to be full, this is its capacity. */
  used?: number;
  /** The part of `used` that pending reservations hold, if answers report it. */
  reserved?: number;
  /** Waiting does not help: the request exceeds the amount that a limit lets pass at once, or an override without an end blocks it. */
  neverPasses?: true;
  /** The thresholds that its limits have reached. Undefined: none. */
  warnings?: readonly LimitWarning[];
}
