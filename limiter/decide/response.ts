/** Creates the answer to a request from the decisions about its descriptors: overall code, headers and dynamic metadata. */
import { maxUint32, Unit } from '../../rules/model.ts';
import { asksForHits, type Verb } from '../stores/operation.ts';
import { type DecidedRequest, dynamicMetadata } from './dynamic-metadata.ts';
import {
  fieldInteger,
  identityHeaderForm,
  ietfHeaders,
  isNamed,
  warningHeader,
  warningMetadata,
} from './extra-headers.ts';
import type { LimitPlan, Plan } from './limit-plan.ts';
import { Code, type Header, HeaderForm } from './messages.ts';
import { isQuota } from './plan.ts';
import type { DescriptorStatus, RateLimitResponse } from './response-message.ts';

/**
 * Returns OVER_LIMIT if a descriptor that is not a quota is over, or if there are quotas and all of them are over. With `quotaModeForAll`
 * (QUOTA_MODE), descriptors without a limit are quotas too, and keep the request OK.
 */
function overallCode(
  plans: readonly Plan[],
  statuses: readonly DescriptorStatus[],
  quotaModeForAll: boolean,
): Code {
  let quotas = 0;
  let quotasOver = 0;
  for (let index = 0; index < statuses.length; index++) {
    const over = statuses[index]!.code === Code.OVER_LIMIT;
    if (isQuota(plans[index]!, quotaModeForAll)) {
      quotas++;
      if (over) quotasOver++;
    } else if (over) {
      return Code.OVER_LIMIT;
    }
  }
  return quotas > 0 && quotas === quotasOver ? Code.OVER_LIMIT : Code.OK;
}

/** The headers that show a client how close it is to a limit. */
interface LimitHeaderNames {
  limit: string;
  remaining: string;
  reset: string;
}

/**
 * Returns the status that headers describe in the Go service: the first with the least remaining. A status over its limit that is not a
 * quota takes precedence; of several such statuses, the last one does. Returns undefined if no status has a limit.
 */
function statusOfGoService(
  plans: readonly Plan[],
  statuses: readonly DescriptorStatus[],
  quotaModeForAll: boolean,
): DescriptorStatus | undefined {
  let chosen: DescriptorStatus | undefined;
  for (let index = 0; index < statuses.length; index++) {
    const status = statuses[index]!;
    if (status.currentLimit === undefined) continue;
    const over = status.code === Code.OVER_LIMIT && !isQuota(plans[index]!, quotaModeForAll);
    if (over || chosen === undefined || status.limitRemaining < chosen.limitRemaining) chosen = status;
  }
  return chosen;
}

/**
 * Returns the status that rejects the request longest, so that reset and Retry-After agree. If no status rejects it, returns the first
 * with the least remaining. Returns undefined if no status has a limit.
 */
function decidingStatus(
  plans: readonly Plan[],
  statuses: readonly DescriptorStatus[],
  quotaModeForAll: boolean,
): DescriptorStatus | undefined {
  const rejecting = longestWait(plans, statuses, quotaModeForAll)?.status;
  if (rejecting?.currentLimit !== undefined) return rejecting;
  let tightest: DescriptorStatus | undefined;
  for (const status of statuses) {
    if (status.currentLimit === undefined) continue;
    if (tightest === undefined || status.limitRemaining < tightest.limitRemaining) tightest = status;
  }
  return tightest;
}

/** Returns limit, remaining and reset, in this order. The limit has the form of `policy` unless a number and a unit describe it. */
function limitHeaders(status: DescriptorStatus, names: LimitHeaderNames): Header[] {
  const limit = status.currentLimit;
  return [
    { key: names.limit, value: limit?.policy ?? String(limit?.requestsPerUnit ?? 0) },
    { key: names.remaining, value: String(status.limitRemaining) },
    { key: names.reset, value: String(status.durationUntilResetSeconds ?? 0) },
  ];
}

/** The per-unit headers, from the shortest unit to the longest. The settings that rename the standard headers do not rename these. */
const unitHeaders: readonly { unit: Unit; limit: string; remaining: string }[] = [
  { unit: Unit.SECOND, limit: 'RateLimit-Limit-Seconds', remaining: 'RateLimit-Remaining-Seconds' },
  { unit: Unit.MINUTE, limit: 'RateLimit-Limit-Minutes', remaining: 'RateLimit-Remaining-Minutes' },
  { unit: Unit.HOUR, limit: 'RateLimit-Limit-Hours', remaining: 'RateLimit-Remaining-Hours' },
  { unit: Unit.DAY, limit: 'RateLimit-Limit-Days', remaining: 'RateLimit-Remaining-Days' },
  { unit: Unit.WEEK, limit: 'RateLimit-Limit-Weeks', remaining: 'RateLimit-Remaining-Weeks' },
  { unit: Unit.MONTH, limit: 'RateLimit-Limit-Months', remaining: 'RateLimit-Remaining-Months' },
  { unit: Unit.YEAR, limit: 'RateLimit-Limit-Years', remaining: 'RateLimit-Remaining-Years' },
];

/** Returns, for each unit present, limit and remaining of the first status with the least remaining. */
function perUnitHeaders(statuses: readonly DescriptorStatus[]): Header[] {
  const headers: Header[] = [];
  for (const names of unitHeaders) {
    let tightest: DescriptorStatus | undefined;
    for (const status of statuses) {
      if (status.currentLimit?.unit !== names.unit) continue;
      if (tightest === undefined || status.limitRemaining < tightest.limitRemaining) tightest = status;
    }
    if (tightest?.currentLimit === undefined) continue;
    headers.push({ key: names.limit, value: String(tightest.currentLimit.requestsPerUnit) });
    headers.push({ key: names.remaining, value: String(tightest.limitRemaining) });
  }
  addWindowHeaders(statuses, headers);
  return headers;
}

/** Adds the same headers for other windows, in the order in which they occur: `RateLimit-Limit-5m`. */
function addWindowHeaders(statuses: readonly DescriptorStatus[], headers: Header[]): void {
  const minByWindow = new Map<string, DescriptorStatus>();
  for (const status of statuses) {
    const { unit, window } = status.currentLimit ?? {};
    if (window === undefined || unit !== Unit.UNKNOWN) continue;
    const tightest = minByWindow.get(window);
    if (tightest === undefined || status.limitRemaining < tightest.limitRemaining)
      minByWindow.set(window, status);
  }
  for (const [window, { currentLimit, limitRemaining }] of minByWindow) {
    headers.push({ key: `RateLimit-Limit-${window}`, value: String(currentLimit!.requestsPerUnit) });
    headers.push({ key: `RateLimit-Remaining-${window}`, value: String(limitRemaining) });
  }
}

export interface ResponseOptions {
  /** SHADOW_MODE: the overall code is always OK. */
  shadowMode: boolean;
  /** QUOTA_MODE: every descriptor that is not unlimited is a quota. */
  quotaMode: boolean;
  /** RESPONSE_DYNAMIC_METADATA. */
  dynamicMetadata: boolean;
  /** RESPONSE_RULE_IDENTITY: whether the dynamic metadata names the rule. */
  identityMetadata: boolean;
  /** RESPONSE_RULE_IDENTITY: the name of the header; undefined is off. */
  identityHeader: string | undefined;
  /** LIMIT_RESPONSE_HEADERS_ENABLED and its names; undefined is off. */
  responseHeaders: LimitHeaderNames | undefined;
  /** LIMIT_RESPONSE_HEADERS_STYLE=ietf, which replaces `responseHeaders`: the unit of quotas; undefined is off. */
  ietfUnit: string | undefined;
  /** LIMIT_RETRY_AFTER_HEADER_ENABLED. */
  retryAfter: boolean;
  /** Whether headers describe the limit that stays over longest, instead of the limit that the Go service chooses. */
  describesLongestWait: boolean;
  /** LIMIT_REQUEST_HEADERS_ENABLED and its names; undefined is off. */
  requestHeaders: LimitHeaderNames | undefined;
  /** LIMIT_PER_UNIT_HEADERS_ENABLED. */
  perUnitHeaders: boolean;
  /** LIMIT_WARNING_HEADER; undefined is off. */
  warningHeader: string | undefined;
}

/** Whether statuses must name their limit. */
export function reportsLimits({ identityMetadata, identityHeader, ietfUnit }: ResponseOptions): boolean {
  return identityMetadata || identityHeader !== undefined || ietfUnit !== undefined;
}

/** The status of a descriptor that no limit applies to. */
export const okStatus: DescriptorStatus = Object.freeze({
  code: Code.OK,
  currentLimit: undefined,
  limitRemaining: 0,
  durationUntilResetSeconds: undefined,
});

/** The status of a descriptor whose rule is unlimited. */
export const unlimitedStatus: DescriptorStatus = Object.freeze({ ...okStatus, limitRemaining: maxUint32 });

export function assembleResponse(
  decided: DecidedRequest,
  options: ResponseOptions,
  events: { onGlobalShadow(): void },
): RateLimitResponse {
  const { plans, statuses } = decided;
  let anyOver = false;
  let anyWarned = false;
  for (const status of statuses) {
    if (status.code === Code.OVER_LIMIT) anyOver = true;
    if (status.warnings !== undefined) anyWarned = true;
  }
  let code: Code = anyOver ? overallCode(plans, statuses, options.quotaMode) : Code.OK;
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
    options.requestHeaders !== undefined ||
    options.retryAfter ||
    options.identityMetadata ||
    options.identityHeader !== undefined ||
    options.ietfUnit !== undefined
  ) {
    addHeaders(response, plans, options);
  }
  if (options.dynamicMetadata) response.dynamicMetadata = dynamicMetadata(decided, options.quotaMode);
  if (anyWarned) addWarnings(response, options);
  return response;
}

/** The list of all answers without headers. */
const noHeaders: Header[] = [];
Object.freeze(noHeaders);

function addHeaders(response: RateLimitResponse, plans: readonly Plan[], options: ResponseOptions): void {
  const { statuses } = response;
  let headers = options.perUnitHeaders ? perUnitHeaders(statuses) : noHeaders;
  const choose = options.describesLongestWait ? decidingStatus : statusOfGoService;
  const chosen = choose(plans, statuses, options.quotaMode);
  if (chosen !== undefined) {
    const { identityHeader, responseHeaders, requestHeaders } = options;
    if (responseHeaders !== undefined) headers = joined(headers, limitHeaders(chosen, responseHeaders));
    if (requestHeaders !== undefined) response.requestHeadersToAdd = limitHeaders(chosen, requestHeaders);
    const { plan } = chosen;
    if (plan !== undefined && isNamed(plan)) {
      if (options.identityMetadata) response.decidedBy = chosen;
      if (identityHeader !== undefined)
        headers = joined(headers, [
          identityHeaderForm(plan, identityHeader).header(fieldInteger(chosen.used!)),
        ]);
    }
    if (options.ietfUnit !== undefined)
      headers = joined(headers, ietfHeaders(plans, statuses, options.ietfUnit));
  }
  if (options.retryAfter && response.overallCode === Code.OVER_LIMIT) {
    const { seconds } = longestWait(plans, statuses, options.quotaMode)!;
    if (Number.isFinite(seconds)) headers = joined(headers, [retryAfter.header(Math.max(1, seconds))]);
  }
  response.responseHeadersToAdd = headers;
}

function addWarnings(response: RateLimitResponse, options: ResponseOptions): void {
  const warnings = response.statuses.flatMap((status) => status.warnings ?? []);
  if (options.warningHeader !== undefined) {
    const header = warningHeader(options.warningHeader, warnings);
    response.responseHeadersToAdd = joined(response.responseHeadersToAdd, [header]);
  }
  if (!options.dynamicMetadata && !options.identityMetadata) return;
  response.dynamicMetadata = { ...response.dynamicMetadata, warnings: warnings.map(warningMetadata) };
}

/** Returns both lists as one. Most answers have one of them, which is reused, because growing a list reserves room for further items. */
function joined(headers: Header[], more: Header[]): Header[] {
  return headers.length === 0 ? more : headers.concat(more);
}

const retryAfter = new HeaderForm('Retry-After', '');

/** The limit that rejects a request, and for how long it does. */
interface ExceededLimit {
  status: DescriptorStatus;
  /** The waiting time; infinity if waiting does not help. */
  seconds: number;
}

/**
 * Returns the status that determines when the request can pass. Any single limit can reject the request, so the longest wait decides.
 * Quotas reject it only together, so the quota that ends first decides. Returns undefined if nothing rejects the request.
 */
function longestWait(
  plans: readonly Plan[],
  statuses: readonly DescriptorStatus[],
  quotaModeForAll: boolean,
): ExceededLimit | undefined {
  let longest: ExceededLimit | undefined;
  let firstQuota: ExceededLimit | undefined;
  let anyQuotaPasses = false;
  for (let index = 0; index < statuses.length; index++) {
    const status = statuses[index]!;
    const quota = isQuota(plans[index]!, quotaModeForAll);
    if (status.code !== Code.OVER_LIMIT) {
      if (quota) anyQuotaPasses = true;
      continue;
    }
    const seconds =
      status.neverPasses === true ? Number.POSITIVE_INFINITY : (status.durationUntilResetSeconds ?? 0);
    if (!quota) {
      if (longest === undefined || seconds > longest.seconds) longest = { status, seconds };
    } else if (firstQuota === undefined || seconds < firstQuota.seconds) firstQuota = { status, seconds };
  }
  if (firstQuota === undefined || anyQuotaPasses) return longest;
  return longest === undefined || firstQuota.seconds > longest.seconds ? firstQuota : longest;
}

/**
 * Returns the status that headers describe if they describe the longest rejection, and how long a rejection lasts: infinity if waiting
 * does not help.
 */
export function decisive(
  plans: readonly Plan[],
  statuses: readonly DescriptorStatus[],
  { quotaMode }: ResponseOptions,
): { status: DescriptorStatus | undefined; retrySeconds: number | undefined } {
  return {
    status: decidingStatus(plans, statuses, quotaMode),
    retrySeconds: longestWait(plans, statuses, quotaMode)?.seconds,
  };
}

/**
 * Returns the answer for a descriptor whose counter failed (STORE_FAILURE_MODE). It does not claim a count. `error`: there is no answer,
 * and the request fails.
 */
export type StoreFailureAnswer = 'error' | 'allow' | 'deny';

export interface UncountedHit {
  readonly counter: Pick<LimitPlan, 'rule' | 'currentLimit'>;
  readonly verb: Verb;
  readonly secondsToReset: number;
}

/**
 * Returns the status of hits that were not counted. If they are allowed, it looks as if no limit applied, because the remaining hits are
 * unknown. If they are denied, it is over its limit with nothing left. Refunds and rules in shadow mode are never denied.
 */
export function uncountedStatus(hit: UncountedHit, answer: StoreFailureAnswer): DescriptorStatus {
  if (answer !== 'deny' || !asksForHits(hit.verb) || hit.counter.rule.shadowMode) return okStatus;
  return {
    code: Code.OVER_LIMIT,
    currentLimit: hit.counter.currentLimit,
    limitRemaining: 0,
    durationUntilResetSeconds: hit.secondsToReset,
  };
}
