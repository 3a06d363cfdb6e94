/**
 * Who asks `/v1`, and whether a browser was talked into asking. Whoever has the debug token may everything; the callers of
 * CALLERS_FILE what their rights say; where there are neither, everybody may read, and who is on the same machine change.
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { isIP } from 'node:net';
import { AddressThrottle } from '../net/address-throttle.ts';
import { bearerChallenge, bearerToken, isSameToken } from '../net/bearer-token.ts';
import { peerName } from '../net/peer.ts';
import type { Clock } from '../time/clock.ts';
import { type Actor, ApiProblem, type ApiRoute, shown } from './api-route.ts';
import { sendError } from './text-response.ts';

type RightName = ApiRoute['right'];

/** Somebody of CALLERS_FILE. */
export interface ApiCaller {
  readonly name: string;
  hasRight(right: RightName): boolean;
  hasDomain(domain: string): boolean;
}

export interface ApiGuardOptions {
  /** The debug token of now; undefined: there is none. */
  token(): string | undefined;
  /**
   * Of CALLERS_FILE, by the whole field `Authorization`, which may be empty; undefined: nobody there has it, or asks too often, in
   * words. Without it there is no such file.
   */
  caller?:
    | ((
        request: IncomingMessage,
        authorization: string,
      ) => ApiCaller | { refused: 401 | 429; detail: string })
    | undefined;
  /** Names besides addresses and `localhost` that browsers may know this listener by, in lower case. DEBUG_ALLOWED_HOSTS. */
  allowedHosts: readonly string[];
  /** Why nobody may change anything while neither token nor callers are set: a sentence that names what to set. Undefined: everybody may. */
  noChanges: string | undefined;
  clock: Clock;
  /** A request was turned away. `detail` holds nothing of a token. */
  onRefused(refused: ApiRefusal): void;
}

export type ApiRefusalReason = 'foreign' | 'unauthenticated' | 'slowed' | 'permission_denied';

export interface ApiRefusal {
  readonly reason: ApiRefusalReason;
  readonly address: string;
  readonly detail: string;
}

/** Chosen: `user@host` and a little. */
const longestClaims = 128;

export class ApiGuard {
  readonly #options: ApiGuardOptions;
  readonly #throttle = new AddressThrottle();

  constructor(options: ApiGuardOptions) {
    this.#options = options;
  }

  /** Why a page of another place sent this request; undefined: none did. */
  foreignOrigin({ headers: { origin, host } }: IncomingMessage): string | undefined {
    if (origin === undefined) return undefined;
    const from = URL.canParse(origin) ? new URL(origin) : undefined;
    const isOwn =
      from !== undefined &&
      (from.host === host?.toLowerCase() || this.#options.allowedHosts.includes(from.hostname));
    return isOwn ? undefined : `the request comes from a page of ${shown(origin)} (Origin)`;
  }

  /** For pages beside the API, which take the debug token alone. False: it has answered. */
  admitsToPage(request: IncomingMessage, response: ServerResponse): boolean {
    const foreign = this.foreignOrigin(request);
    if (foreign !== undefined) {
      sendError(response, 403, 'Forbidden', foreign);
      return false;
    }
    const token = this.#options.token();
    const { authorization } = request.headers;
    const given = bearerToken(authorization);
    if (token === undefined || (given !== undefined && isSameToken(given, token))) return true;
    response.setHeader('WWW-Authenticate', bearerChallenge(authorization));
    sendError(response, 401, 'Unauthorized');
    return false;
  }

  /** Throws an `ApiProblem` for what a browser was made to send, from a foreign page or to a name that only pretends to be ours. */
  checkSite(request: IncomingMessage): void {
    const { host = '', 'sec-fetch-site': site = 'none' } = request.headers;
    const name = hostName(host);
    const { allowedHosts } = this.#options;
    let problem = this.foreignOrigin(request);
    if (isIP(name) === 0 && name !== 'localhost' && !allowedHosts.includes(name)) {
      problem ??= `the host ${shown(host)} is no IP address, not localhost and not one of DEBUG_ALLOWED_HOSTS`;
    } else if (site !== 'none' && site !== 'same-origin' && request.headers.origin === undefined) {
      problem ??= `the request comes from a page of another place (Sec-Fetch-Site: ${shown(`${site}`)})`;
    }
    if (problem !== undefined) this.#refuse(request, 403, 'foreign', problem);
  }

  /** Who asks; throws an `ApiProblem` when that is nobody who may. */
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
      return this.#unknown(request, authorization, 'the debug token (DEBUG_TOKEN_FILE) is asked for');
    const { noChanges } = this.#options;
    if (right === 'admin' && noChanges !== undefined)
      return this.#refuse(request, 403, 'permission_denied', noChanges);
    return actor(request, 'anyone', { read: () => true, admin: () => noChanges === undefined });
  }

  #callerOf(request: IncomingMessage, right: RightName, authorization: string): Actor {
    const found = this.#options.caller!(request, authorization);
    if ('refused' in found) {
      if (found.refused === 401) return this.#unknown(request, authorization, found.detail);
      return this.#refuse(request, found.refused, 'slowed', found.detail);
    }
    if (!found.hasRight(right)) {
      const detail = `caller ${found.name} does not have the right ${right}: CALLERS_FILE gives rights`;
      if (authorization === '') return this.#unknown(request, authorization, detail);
      return this.#refuse(request, 403, 'permission_denied', detail);
    }
    const may = (one: RightName) => (domain: string) => found.hasRight(one) && found.hasDomain(domain);
    return actor(request, found.name, { read: may('read'), admin: may('admin') });
  }

  /** Whoever guesses has to wait longer and longer; the right token is never slowed. */
  #unknown(request: IncomingMessage, authorization: string, detail: string): never {
    const { remoteAddress = 'unknown' } = request.socket;
    const nowMs = this.#options.clock.monotonicMs();
    const waitMs = authorization === '' ? 0 : this.#throttle.waitMs(remoteAddress, nowMs);
    if (waitMs > 0) {
      const seconds = Math.ceil(waitMs / 1000);
      const text = `too many wrong tokens came from this address: try again in ${seconds} s`;
      return this.#refuse(request, 429, 'slowed', text, { retryAfterSeconds: seconds });
    }
    if (authorization !== '') this.#throttle.wrong(remoteAddress, nowMs);
    return this.#refuse(request, 401, 'unauthenticated', detail);
  }

  #refuse(
    request: IncomingMessage,
    status: number,
    reason: ApiRefusalReason,
    detail: string,
    members: Readonly<Record<string, unknown>> = {},
  ): never {
    this.#options.onRefused({ reason, address: peerName(request.socket) ?? 'unknown', detail });
    throw new ApiProblem(status, detail, members);
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

/** Without the port, of IPv6 without brackets, in lower case and without the dot at its end. */
function hostName(host: string): string {
  const name = /^(?:\[([^\]]*)\]|([^:]*))(?::\d*)?$/.exec(host);
  return (name?.[1] ?? name?.[2] ?? '').toLowerCase().replace(/\.$/, '');
}
