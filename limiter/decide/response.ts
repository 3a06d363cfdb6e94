/** From the statuses of the descriptors to the answer. Reference section 5. */
import { maxUint32 } from '../../rules/model.ts';
import { dynamicMetadata } from './dynamic-metadata.ts';
import { type LimitHeaderNames, limitHeaders, perUnitHeaders, statusForHeaders } from './limit-headers.ts';
import {
  Code,
  type DescriptorStatus,
  type Header,
  type RateLimitRequest,
  type RateLimitResponse,
} from './messages.ts';
import { overallCode } from './overall-code.ts';
import type { Plan } from './plan.ts';

export interface ResponseOptions {
  /** SHADOW_MODE: the overall code is always OK. */
  shadowMode: boolean;
  /** QUOTA_MODE: every descriptor that is not unlimited is a quota. */
  quotaMode: boolean;
  /** RESPONSE_DYNAMIC_METADATA. */
  dynamicMetadata: boolean;
  /** LIMIT_RESPONSE_HEADERS_ENABLED and its names; undefined is off. */
  responseHeaders: LimitHeaderNames | undefined;
  /** LIMIT_REQUEST_HEADERS_ENABLED and its names; undefined is off. */
  requestHeaders: LimitHeaderNames | undefined;
  /** LIMIT_PER_UNIT_HEADERS_ENABLED. */
  perUnitHeaders: boolean;
}

/** One plan and one status for each descriptor of the request. */
export interface DecidedRequest {
  readonly request: RateLimitRequest;
  readonly plans: readonly Plan[];
  readonly statuses: DescriptorStatus[];
}

/** Status of a descriptor that no limit applies to. */
export const okStatus: DescriptorStatus = Object.freeze({
  code: Code.OK,
  currentLimit: undefined,
  limitRemaining: 0,
  durationUntilResetSeconds: undefined,
});

/** Status of a descriptor whose rule is unlimited. */
export const unlimitedStatus: DescriptorStatus = Object.freeze({ ...okStatus, limitRemaining: maxUint32 });

export function assembleResponse(
  decided: DecidedRequest,
  options: ResponseOptions,
  events: { onGlobalShadow(): void },
): RateLimitResponse {
  const { plans, statuses } = decided;
  let code = overallCode(plans, statuses, options.quotaMode);
  if (code === Code.OVER_LIMIT && options.shadowMode) {
    code = Code.OK;
    events.onGlobalShadow();
  }
  const response: RateLimitResponse = {
    overallCode: code,
    statuses,
    responseHeadersToAdd: noHeaders,
    requestHeadersToAdd: noHeaders,
    dynamicMetadata: undefined,
  };
  if (
    options.perUnitHeaders ||
    options.responseHeaders !== undefined ||
    options.requestHeaders !== undefined
  ) {
    addHeaders(response, plans, options);
  }
  if (options.dynamicMetadata) response.dynamicMetadata = dynamicMetadata(decided.request, plans, statuses);
  return response;
}

/** Shared by all answers without headers. */
const noHeaders: Header[] = [];
Object.freeze(noHeaders);

function addHeaders(response: RateLimitResponse, plans: readonly Plan[], options: ResponseOptions): void {
  const { statuses } = response;
  if (options.perUnitHeaders) response.responseHeadersToAdd = perUnitHeaders(statuses);
  const chosen = statusForHeaders(plans, statuses, options.quotaMode);
  if (chosen === undefined) return;
  if (options.responseHeaders !== undefined) {
    const standard = limitHeaders(chosen, options.responseHeaders);
    response.responseHeadersToAdd = response.responseHeadersToAdd.concat(standard);
  }
  if (options.requestHeaders !== undefined) {
    response.requestHeadersToAdd = limitHeaders(chosen, options.requestHeaders);
  }
}
