/** A decision for /v1/check or for another proxy, with all details of the answer. */
import { GrpcCode, type GrpcStatus } from '../../process/grpc/handlers.ts';
import { shown } from '../../process/http/api-route.ts';
import type { Entry, Limit } from '../../rules/model.ts';
import { similarName } from '../../rules/rule-error.ts';
import { policyName, shownLimit, shownPath } from '../decide/extra-headers.ts';
import type { Plan } from '../decide/limit-plan.ts';
import { Code } from '../decide/messages.ts';
import type { DescriptorStatus, RateLimitResponse } from '../decide/response-message.ts';
import { encodeRateLimitRequest } from '../decide/wire-codec.ts';
import { mixedUnits } from '../service/mixed-units.ts';
import type { WholeReply } from '../service/should-rate-limit.ts';
import { type HttpAsker, replyTo } from './http-asker.ts';

export interface HttpDecisionRequest {
  domain: string;
  /** Lists of entries, in their order. */
  descriptors: readonly (readonly Entry[])[];
  /** The hits of each descriptor: 0 to 2^53 - 1. 0 only reads. */
  hits: number;
}

/** The decision about one descriptor. */
export interface DescriptorAnswer {
  code: 'OK' | 'OVER_LIMIT';
  /** The place of the rule, in the same form as elsewhere in /v1. Undefined if no rule matches, or if the rule hides its identity. */
  rule: string | undefined;
  /** The limit that decided. Undefined if no limit did: no rule matches, the rule is unlimited, or its counter failed. */
  limit: Limit | undefined;
  used: number | undefined;
  left: number | undefined;
  /** Seconds until the window ends, or a token is available. */
  resetSeconds: number | undefined;
  /** Its limits that have reached a mark of `warn_at`, and the highest mark of each. */
  warnings: readonly { mark: number; policy: string; left: number }[];
}

export interface HttpDecision {
  code: 'OK' | 'OVER_LIMIT';
  /** The results of the descriptors, in their order. */
  descriptors: DescriptorAnswer[];
  /** The limit headers of the tightest limit, independent of the settings for RLS answers. On a rejection, they include Retry-After. */
  headers: (readonly [name: string, value: string])[];
  /** Undefined: the request is within the bounds. */
  tooLarge?: string;
  /** Undefined if nothing in the request looks like a mistake. */
  warnings?: readonly string[];
}

/**
 * Asks the service as any other caller does: it applies rights in the domain, counts, statistics, and the local cache. A failure is
 * NOT_FOUND for a domain without rules, and UNAVAILABLE if the store fails or no rules are loaded yet.
 */
export type DecideForHttp = (
  question: HttpDecisionRequest,
  asker: HttpAsker,
) => Promise<HttpDecision | { failure: GrpcStatus }>;

export interface DecideForHttpOptions {
  ask(request: Uint8Array, reply: WholeReply): void;
  /** The domains that have rules. */
  domains(): readonly string[];
}

export function createDecideForHttp({ ask, domains }: DecideForHttpOptions): DecideForHttp {
  return ({ domain, descriptors, hits }, asker) =>
    new Promise((resolve) => {
      const reply = replyTo(asker, {
        answer: (response: RateLimitResponse, plans: readonly Plan[]) => {
          if (plans.some(({ kind }) => kind !== 'domain-not-found'))
            resolve({ ...decisionOf(response, plans), ...warningsOf(plans, hits) });
          else resolve({ failure: noDomain(domain, domains(), asker) });
        },
        answerTooLarge: (response: RateLimitResponse, reason: string) =>
          resolve({ ...decisionOf(response, []), tooLarge: reason }),
        fail: (failure: GrpcStatus) => resolve({ failure }),
      });
      // The request is encoded so that the cache of entries and the bounds of requests apply.
      ask(encodeRateLimitRequest(domain, descriptors, hits), reply);
    });
}

function decisionOf(
  { overallCode, statuses, responseHeadersToAdd }: RateLimitResponse,
  plans: readonly Plan[],
): HttpDecision {
  return {
    code: codeName(overallCode),
    descriptors: statuses.map((status, index) => descriptorAnswer(plans[index], status)),
    headers: responseHeadersToAdd.map(({ key, value }) => [key, value] as const),
  };
}

/**
 * Returns warnings about hits above 1, which every rule counts. They are often tokens or money, and the same number cannot be right for
 * rules with different units.
 */
function warningsOf(plans: readonly Plan[], hits: number): Pick<HttpDecision, 'warnings'> {
  const mixed = hits > 1 ? mixedUnits(plans.filter((plan) => plan.kind === 'limited')) : undefined;
  if (mixed === undefined) return {};
  const words = `${hits} hits are counted by rules of different hits_unit: ${mixed.words}`;
  return { warnings: [mixed.isOneRule ? words : `${words}; send a separate call for each`] };
}

function descriptorAnswer(plan: Plan | undefined, status: DescriptorStatus): DescriptorAnswer {
  const rule = plan?.rule;
  const limits = plan?.kind === 'limited' ? plan.limits : [];
  const limit = limits.find(({ currentLimit }) => currentLimit === status.currentLimit)?.limit;
  const isKnown = limit !== undefined;
  return {
    code: codeName(status.code),
    rule: rule && shownPath(rule),
    limit: rule && limit && shownLimit(rule, limit),
    used: status.used,
    left: isKnown ? status.limitRemaining : undefined,
    resetSeconds: isKnown ? status.durationUntilResetSeconds : undefined,
    warnings: (status.warnings ?? []).map(({ mark, plan, left }) => ({
      mark,
      policy: policyName(plan),
      left,
    })),
  };
}

function codeName(code: Code): 'OK' | 'OVER_LIMIT' {
  return code === Code.OVER_LIMIT ? 'OVER_LIMIT' : 'OK';
}

/** The message names only other domains that the caller may use. */
function noDomain(domain: string, domains: readonly string[], { caller }: HttpAsker): GrpcStatus {
  const usable = domains.filter((one) => caller === undefined || caller.hasDomain(one));
  const meant = similarName(domain, usable);
  const hint = meant === undefined ? '' : `; did you mean ${shown(meant)}?`;
  return { code: GrpcCode.NOT_FOUND, message: `there are no rules for the domain ${shown(domain)}${hint}` };
}
