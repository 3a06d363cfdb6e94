/**
 * `/v1/forward-auth/<profile>`: answers another proxy whether a request may pass. The question consists only of headers. It serves
 * nginx's auth_request, Traefik's ForwardAuth, Caddy's forward_auth, Envoy's ext_authz, and similar clients.
 */
import type { IncomingMessage } from 'node:http';
import {
  type AdmittedCaller,
  GrpcCode,
  type GrpcStatus,
  Right,
  retryAfterSeconds,
} from '../../process/grpc/handlers.ts';
import { ApiProblem, shown } from '../../process/http/api-route.ts';
import type { HttpCall } from '../../process/http/http-server.ts';
import { endAnswer, sendProblem } from '../../process/http/json-exchange.ts';
import type { DescriptorMaker } from '../../rules/proxy/make-descriptors.ts';
import type { Profile } from '../../rules/proxy/read-profiles.ts';
import { Code } from '../decide/messages.ts';
import type { CallerRoute } from '../http/caller-route.ts';
import { type HttpAsker, originOf, problemOf } from '../http/http-asker.ts';
import type { DecideForHttp, HttpDecision } from '../http/http-decision.ts';
import type { ExcessResponses } from '../service/over-without-limit.ts';
import type { ForwardAnswer } from './stats.ts';

const forwardAuthPath = '/v1/forward-auth/';
/** `/v1/forward-auth/shop/a//b`: Envoy's ext_authz over HTTP appends the path of the client to the configured one. */
export const forwardAuthRoute = `${forwardAuthPath}{profile}`;

/** A profile, and the function that makes its descriptors. */
export interface ReadyProfile {
  profile: Profile;
  make: DescriptorMaker;
}

export interface ForwardAuthOptions {
  decide: DecideForHttp;
  excess: ExcessResponses;
  onAnswer(answer: ForwardAnswer): void;
  /** Called if a header that a descriptor needs is missing or empty. */
  onMissingHeader(missingHeader: { profile: string; header: string; peer: string }): void;
  /** Called if the caller has no such profile. Most proxies let the request pass in this case. */
  onUnknown(unknown: { peer: string; reason: string }): void;
  /** Called if `onError` decided. */
  onUndecided(undecided: { profile: string; answer: Profile['onError']; reason: string }): void;
}

/** Marks a request that a limit rejected. nginx cannot distinguish it from other rejections by the status. */
const overLimitHeader = 'X-Weir-Refused';
/** The maximum length of a text in a header. Names of rules may be longer. */
const longestRule = 200;
/** The maximum number of profiles to list if a profile is missing. */
const maxNamed = 20;

export class ForwardAuth implements CallerRoute {
  readonly right = Right.ASK;
  readonly #options: ForwardAuthOptions;
  #profiles: ReadonlyMap<string, ReadyProfile> | undefined = new Map();

  constructor(options: ForwardAuthOptions) {
    this.#options = options;
  }

  /** Uses these profiles from the next request on. Undefined: there is a file, but it could not be loaded. */
  use(profiles: readonly ReadyProfile[] | undefined): void {
    this.#profiles = profiles && new Map(profiles.map((one) => [one.profile.name, one]));
  }

  /** Rejects with an `ApiProblem` if there is no such profile, or the caller may not use it. */
  async answer(call: HttpCall, asker: HttpAsker): Promise<void> {
    const { request, target } = call;
    const [name = '', ...rest] = pathBelow(target.path);
    const { profile, make } = this.#profileOf(name, call, asker.caller);
    const { onAnswer, onMissingHeader, decide } = this.#options;
    const takesPath = profile.originalRequest === 'ext-authz';
    if (rest.length > 0 && !takesPath) {
      const known = `its originalRequest is ${profile.originalRequest}, and only ext-authz may have a path here`;
      throw this.#unknown(call, 404, `there is no path below the profile ${profile.name}: ${known}`);
    }
    const { descriptors, missing } = make(takesPath ? headersAndLine(request) : request.rawHeaders);
    for (const header of missing)
      onMissingHeader({ profile: profile.name, header, peer: originOf(request).peer });
    if (descriptors.length === 0) {
      onAnswer('undescribed');
      return endAnswer(call, 200, {});
    }
    const decision = await decide({ domain: profile.domain, descriptors, hits: 1 }, asker);
    if ('failure' in decision) return this.#answerFailure(call, profile, decision.failure);
    for (const [name, value] of decision.headers) call.response.setHeader(name, value);
    if (decision.code === 'OK') {
      onAnswer('allowed');
      return endAnswer(call, 200, {});
    }
    const { tooLarge } = decision;
    const by = ruleOverLimit(decision, profile);
    if (tooLarge === undefined) return this.#reject(call, profile, { by, answer: 'refused' });
    return this.#reject(call, profile, { by, answer: 'too_large', reason: tooLarge });
  }

  #reject(
    call: HttpCall,
    { refusedStatus }: Profile,
    {
      by,
      answer,
      reason = 'a rate limit is exceeded',
    }: { by: string; answer: ForwardAnswer; reason?: string },
  ): Promise<void> {
    this.#options.onAnswer(answer);
    call.response.setHeader(overLimitHeader, by);
    return sendProblem(call, new ApiProblem(refusedStatus, reason));
  }

  async answerExcess(call: HttpCall, caller: AdmittedCaller): Promise<void> {
    const { profile } = this.#profileOf(pathBelow(call.target.path)[0]!, call, caller);
    if (this.#options.excess.code() === Code.OK) {
      this.#options.onAnswer('allowed');
      return endAnswer(call, 200, {});
    }
    call.response.setHeader('Retry-After', retryAfterSeconds);
    return this.#reject(call, profile, { by: 'requests_per_second', answer: 'refused' });
  }

  /**
   * Returns a profile. If the caller may not use all profiles, an unknown name gets the same answer as a forbidden one. Otherwise the
   * answers would reveal names.
   */
  #profileOf(name: string, call: HttpCall, caller: AdmittedCaller | undefined): ReadyProfile {
    if (this.#profiles === undefined) {
      const reason = 'the profiles file cannot be used (PROFILES_FILE): see the log';
      throw this.#unknown(call, 503, reason);
    }
    const found = this.#profiles.get(name);
    // The text of the rejection contains the domain, so it is only for the log.
    const isRejected =
      found !== undefined && caller?.rejection(found.profile.domain, Right.ASK) !== undefined;
    if (found !== undefined && !isRejected) return found;
    const others = [...this.#profiles.values()]
      .filter(({ profile }) => caller === undefined || caller.hasDomain(profile.domain))
      .map(({ profile }) => profile.name);
    const named = others.slice(0, maxNamed).join(', ') + (others.length > maxNamed ? ', ...' : '');
    if (others.length < this.#profiles.size) {
      const those = others.length === 0 ? 'none' : named;
      throw this.#unknown(call, 403, `the caller may not use a profile ${shown(name)}, but ${those}`);
    }
    const there = others.length === 0 ? 'there are none (PROFILES_FILE)' : `there are ${named}`;
    throw this.#unknown(call, 404, `there is no profile ${shown(name)}, ${there}`);
  }

  #unknown({ request }: HttpCall, status: number, reason: string): ApiProblem {
    this.#options.onAnswer('unknown_profile');
    this.#options.onUnknown({ peer: originOf(request).peer, reason });
    return new ApiProblem(status, reason);
  }

  async #answerFailure(call: HttpCall, profile: Profile, failure: GrpcStatus): Promise<void> {
    const { onAnswer, onUndecided } = this.#options;
    switch (failure.code) {
      case GrpcCode.UNAUTHENTICATED:
      case GrpcCode.PERMISSION_DENIED:
        throw problemOf(failure);
      case GrpcCode.INVALID_ARGUMENT:
        // With REQUEST_TOO_LARGE=error, onError does not decide. Otherwise a client could evade a limit by the size of its request.
        onAnswer('too_large');
        throw new ApiProblem(403, failure.message);
      default:
    }
    onUndecided({ profile: profile.name, answer: profile.onError, reason: failure.message });
    if (profile.onError === 'allow') {
      onAnswer('failed_allowed');
      return endAnswer(call, 200, {});
    }
    onAnswer('failed_denied');
    throw new ApiProblem(503, 'the request cannot be decided, and onError of the profile denies it');
  }
}

/** The name of the profile, and the path of the client behind it. */
function pathBelow(path: string): string[] {
  return path.slice(forwardAuthPath.length).split('/');
}

/** The client's request line, which the proxy repeats, and its headers. */
function headersAndLine({ rawHeaders, method = '', url = '' }: IncomingMessage): string[] {
  const path = url.indexOf('/', forwardAuthPath.length);
  return [...rawHeaders, ':method', method, ...(path === -1 ? [] : [':path', url.slice(path)])];
}

/** The rule of the first exceeded limit, or the domain if the rule hides its identity. */
function ruleOverLimit({ descriptors }: HttpDecision, { domain }: Profile): string {
  const rule = descriptors.find(({ code }) => code === 'OVER_LIMIT')?.rule ?? domain;
  const text = rule.length > longestRule ? rule.slice(0, longestRule) : rule;
  return text.toWellFormed().replace(/[^!-~]/g, (other) => encodeURIComponent(other));
}
