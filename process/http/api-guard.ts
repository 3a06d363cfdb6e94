/**
 * Determines who asks `/v1` and the pages beside it, and whether a foreign page made a browser ask (`site-check.ts`). The debug token
 * grants everything. Callers of CALLERS_FILE have the rights that it lists. Without either, everybody may read, and clients on the same
 * machine may change.
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { AddressThrottle } from '../net/address-throttle.ts';
import { bearerChallenge, bearerToken, isSameToken } from '../net/bearer-token.ts';
import { peerName } from '../net/peer.ts';
import type { Clock } from '../time/clock.ts';
import { type Actor, ApiProblem, type ApiRoute } from './api-route.ts';
import { isUnprovenBrowser, type OwnHosts, type PageKind, siteProblem } from './site-check.ts';
import { sendError } from './text-response.ts';

type RightName = ApiRoute['right'];

/** A caller of CALLERS_FILE. */
export interface ApiCaller {
  readonly name: string;
  hasRight(right: RightName): boolean;
  hasDomain(domain: string): boolean;
}

export interface ApiGuardOptions {
  /** Returns the current debug token; undefined: there is none. */
  token(): string | undefined;
  /**
   * Finds a caller of CALLERS_FILE by the whole field `Authorization`, which may be empty. Returns a rejection if no caller has it, or if
   * the caller asks too often. Undefined: there is no such file.
   */
  caller?:
    | ((
        request: IncomingMessage,
        authorization: string,
      ) => ApiCaller | { rejected: 401 | 429; detail: string })
    | undefined;
  hosts: OwnHosts;
  /**
   * Why changes are forbidden while neither token nor callers are set: a sentence that names what to set. Undefined: everybody may
   * change.
   */
  noChanges: string | undefined;
  clock: Clock;
  /** Called when a request was rejected. `detail` contains nothing of a token. */
  onRejected(rejected: ApiRejection): void;
}

export type ApiRejectionReason = 'foreign' | 'unauthenticated' | 'slowed' | 'permission_denied';

export interface ApiRejection {
  readonly reason: ApiRejectionReason;
  readonly address: string;
  readonly detail: string;
}

const profilesNeedToken =
  'profiles cost CPU, and a browser cannot prove which page asks for one at an address other than loopback: use another client, or set DEBUG_TOKEN_FILE and send the token';

/** Chosen: enough for `user@host` with a margin. */
const longestClaims = 128;

export class ApiGuard {
  readonly #options: ApiGuardOptions;
  readonly #throttle = new AddressThrottle();

  constructor(options: ApiGuardOptions) {
    this.#options = options;
  }

  /** Admits a request to pages beside the API, which accept only the debug token. Returns false after it has answered. */
  admitsToPage(request: IncomingMessage, response: ServerResponse, page: PageKind): boolean {
    if (!this.admitsSite(request, response, page)) return false;
    const token = this.#options.token();
    if (token === undefined) return page === 'page' || this.#admitsProfiling(request, response);
    const { authorization } = request.headers;
    const given = bearerToken(authorization);
    if (given !== undefined && isSameToken(given, token)) return true;
    response.setHeader('WWW-Authenticate', bearerChallenge(authorization));
    sendError(response, 401, 'Unauthorized');
    return false;
  }

  /** The same without asking for a token. */
  admitsSite(request: IncomingMessage, response: ServerResponse, page: PageKind): boolean {
    // For plain requests it is unknown whether a navigation comes from a frame. None of our pages belongs in one.
    response.setHeader('X-Frame-Options', 'DENY');
    const problem = siteProblem(request, { page, own: this.#options.hosts });
    return problem === undefined || this.#forbid(request, response, problem);
  }

  #admitsProfiling(request: IncomingMessage, response: ServerResponse): boolean {
    return !isUnprovenBrowser(request) || this.#forbid(request, response, profilesNeedToken);
  }

  #forbid(request: IncomingMessage, response: ServerResponse, problem: string): false {
    this.#note(request, 'foreign', problem);
    sendError(response, 403, `Forbidden: ${problem}`, problem);
    return false;
  }

  /** @throws ApiProblem if a browser sent the request for a foreign page, or to a name that only resolves to this machine */
  checkSite(request: IncomingMessage): void {
    const problem = siteProblem(request, { page: 'api', own: this.#options.hosts });
    if (problem !== undefined) this.#reject(request, 403, 'foreign', problem);
  }

  /** Returns the actor; @throws ApiProblem if it may not ask */
  actorOf(request: IncomingMessage, right: RightName): Actor {
    const { authorization: fields = [] } = request.headersDistinct;
    const [authorization = ''] = fields;
    const { token, caller } = this.#options;
    const wanted = token();
    const given = fields.length > 1 ? undefined : bearerToken(authorization);
    if (wanted !== undefined && given !== undefined && isSameToken(given, wanted))
      return actor(request, 'debug token');
    if (caller !== undefined)
      return this.#callerOf(request, right, fields.length > 1 ? '(several)' : authorization);
    if (wanted !== undefined)
      return this.#unknown(request, authorization, 'the debug token (DEBUG_TOKEN_FILE) is required');
    const { noChanges } = this.#options;
    if (right === 'admin' && noChanges !== undefined)
      return this.#reject(request, 403, 'permission_denied', noChanges);
    return actor(request, 'anyone', { read: () => true, admin: () => noChanges === undefined });
  }

  #callerOf(request: IncomingMessage, right: RightName, authorization: string): Actor {
    const found = this.#options.caller!(request, authorization);
    if ('rejected' in found) {
      if (found.rejected === 401) return this.#unknown(request, authorization, found.detail);
      return this.#reject(request, found.rejected, 'slowed', found.detail);
    }
    if (!found.hasRight(right)) {
      const detail = `caller ${found.name} does not have the right ${right}: CALLERS_FILE grants rights`;
      if (authorization === '') return this.#unknown(request, authorization, detail);
      return this.#reject(request, 403, 'permission_denied', detail);
    }
    const may = (one: RightName) => (domain: string) => found.hasRight(one) && found.hasDomain(domain);
    return actor(request, found.name, { read: may('read'), admin: may('admin') });
  }

  /** Rejects an unknown caller. Each wrong token increases the delay of the next answer. The right token is never delayed. */
  #unknown(request: IncomingMessage, authorization: string, detail: string): never {
    const { remoteAddress = 'unknown' } = request.socket;
    const nowMs = this.#options.clock.monotonicMs();
    const waitMs = authorization === '' ? 0 : this.#throttle.waitMs(remoteAddress, nowMs);
    if (waitMs > 0) {
      const seconds = Math.ceil(waitMs / 1000);
      const text = `too many wrong tokens came from this address: try again in ${seconds} s`;
      return this.#reject(request, 429, 'slowed', text, { retryAfterSeconds: seconds });
    }
    if (authorization !== '') this.#throttle.wrong(remoteAddress, nowMs);
    return this.#reject(request, 401, 'unauthenticated', detail);
  }

  #reject(
    request: IncomingMessage,
    status: number,
    reason: ApiRejectionReason,
    detail: string,
    members: Readonly<Record<string, unknown>> = {},
  ): never {
    this.#note(request, reason, detail);
    throw new ApiProblem(status, detail, members);
  }

  #note(request: IncomingMessage, reason: ApiRejectionReason, detail: string): void {
    this.#options.onRejected({ reason, address: peerName(request.socket) ?? 'unknown', detail });
  }
}

const everything = { read: () => true, admin: () => true };

function actor(
  request: IncomingMessage,
  name: string,
  may: Record<RightName, (domain: string) => boolean> = everything,
): Actor {
  const { 'x-weir-user': claims = '' } = request.headers;
  return {
    name,
    address: peerName(request.socket) ?? 'unknown',
    claims: `${claims}`.replace(/[^ -~]/g, '?').slice(0, longestClaims),
    mayRead: may.read,
    mayChange: may.admin,
  };
}
