/**
 * Identifies the caller of a connection, and decides whether it may send requests now. The result stays with the connection until
 * other callers come into force. So a typical request costs a comparison of its token, a lookup of its domain and, if its caller
 * has a rate, the time.
 */
import { hash } from 'node:crypto';
import {
  type AdmittedCaller,
  type CallerConnection,
  type CallerGate,
  type CallerRejection,
  GrpcCode,
  type GrpcStatus,
  Right,
} from '../../process/grpc/handlers.ts';
import { bearerToken, isSameToken } from '../../process/net/bearer-token.ts';
import type { Clock } from '../../process/time/clock.ts';
import { patternMatches } from '../../rules/model.ts';
import { type CallerEntry, rightsByName, unknownCaller } from './callers-file.ts';
import { type CertificateNames, certificateMatches, namesOf, noNames } from './certificate-patterns.ts';
import { type RequestRates, takeRequest } from './request-rates.ts';

/** Callers that come into force together. Posted to every thread. `rates` has a bucket for each entry. */
export interface CallersInForce {
  entries: readonly CallerEntry[];
  rates: RequestRates;
}

export type CallerRejectionReason = 'unauthenticated' | 'permission_denied' | 'over_rate';

/** A rejected request. */
export interface RejectedRequest {
  /** The caller's name in the file, or `unknown`. */
  caller: string;
  reason: CallerRejectionReason;
  /** The address of the peer. */
  address: string;
  /** The reason in words, without any part of a token. */
  problem: string;
}

export interface CallersOptions {
  /** The same for all threads that share the rates. */
  clock: Clock;
  onRejected(rejected: RejectedRequest): void;
  /**
   * No entry has this token. Called once while a connection sends it, regardless of whether its requests are rejected or count as
   * anonymous.
   */
  onUnknownToken(): void;
}

/** Chosen: the number of domains that are stored as matches of a caller's patterns, and their maximum length. */
const rememberedDomains = 1_024;
const longestRemembered = 256;
/** Chosen: the number of verified tokens on one connection, for a proxy with several tokens, or one whose token changed. */
const rememberedTokens = 16;
/** Chosen: tokens that Weir creates are shorter, and a longer one is not worth hashing. */
const longestToken = 512;
/** Stored in place of a value that is too long. */
const tooLong = '(too long)';

export class Callers implements CallerGate {
  readonly #options: CallersOptions;
  /** The number of times that callers came into force. Results with another number are invalid. */
  #generation = 0;
  #rates: RequestRates | undefined;
  #callers: readonly KnownCaller[] = [];
  #byName = new Map<string, KnownCaller>();
  #anonymous: KnownCaller | undefined;

  /** No caller is known before `use`. */
  constructor(options: CallersOptions) {
    this.#options = options;
  }

  /** Puts callers into force for all further requests, also on open connections. */
  use({ entries, rates }: CallersInForce): void {
    this.#generation += 1;
    this.#rates = rates;
    this.#callers = entries.map((entry, index) => new KnownCaller(entry, index));
    this.#byName = new Map(this.#callers.map((caller) => [caller.name, caller]));
    this.#anonymous = this.#callers.find(({ entry }) => entry.anonymous);
  }

  admit(connection: CallerConnection, authorization: string): CallerOnConnection | CallerRejection {
    const memo = this.#memoOf(connection);
    if (memo.authorization !== authorization) this.#lookAt(memo, authorization);
    const { found } = memo;
    if (found.rejected !== undefined) {
      const { address } = memo.connection.peer;
      const problem = found.rejected.message;
      this.#options.onRejected({ caller: unknownCaller, reason: 'unauthenticated', address, problem });
      return found;
    }
    const { perSecond, index } = found.caller;
    if (perSecond === 0 || takeRequest(this.#rates!, index, perSecond, this.#options.clock.monotonicMs()))
      return found;
    return found.overRate();
  }

  #memoOf(connection: CallerConnection): ConnectionMemo {
    const known = connection.callerMemo as ConnectionMemo | undefined;
    if (known?.generation === this.#generation) return known;
    const memo = known ?? new ConnectionMemo(connection);
    connection.callerMemo = memo;
    memo.generation = this.#generation;
    memo.verified.clear();
    memo.byCertificate = this.#byCertificate(memo);
    memo.authorization = '';
    memo.found = memo.byCertificate ?? this.#unidentified(memo, '');
    return memo;
  }

  #byCertificate(memo: ConnectionMemo): CallerOnConnection | undefined {
    const { names } = memo;
    if (names === noNames) return undefined;
    const caller = this.#callers.find(({ entry }) =>
      entry.certificates.some((pattern) => certificateMatches(pattern, names)),
    );
    return caller && new CallerOnConnection(caller, memo.connection, this.#options);
  }

  /** Looks up a value that differs from that of the previous request. A caller that its certificate identifies needs no value. */
  #lookAt(memo: ConnectionMemo, authorization: string): void {
    memo.authorization = authorization.length > longestToken ? tooLong : authorization;
    memo.found = memo.byCertificate ?? memo.verified.get(authorization) ?? this.#byToken(memo, authorization);
  }

  #byToken(memo: ConnectionMemo, authorization: string): CallerOnConnection | CallerRejection {
    const caller = this.#ownerOf(authorization);
    if (caller === undefined) {
      if (authorization !== '') this.#options.onUnknownToken();
      return this.#unidentified(memo, authorization);
    }
    const found = new CallerOnConnection(caller, memo.connection, this.#options);
    if (memo.verified.size >= rememberedTokens) memo.verified.clear();
    memo.verified.set(authorization, found);
    return found;
  }

  #ownerOf(authorization: string): KnownCaller | undefined {
    if (authorization.length > longestToken) return undefined;
    const token = bearerToken(authorization);
    const dot = token?.indexOf('.') ?? -1;
    if (token === undefined || dot === -1) return undefined;
    const caller = this.#byName.get(token.slice(0, dot));
    if (caller === undefined) return undefined;
    const digest = hash('sha256', token.slice(dot + 1));
    // Compares with all values, so that the time does not show which one matches.
    let isOne = false;
    for (const wanted of caller.entry.tokenHashes) if (isSameToken(digest, wanted)) isOne = true;
    return isOne ? caller : undefined;
  }

  #unidentified(memo: ConnectionMemo, authorization: string): CallerOnConnection | CallerRejection {
    if (this.#anonymous !== undefined) {
      const note = authorization === '' ? '' : ' (its token does not belong to a caller)';
      return new CallerOnConnection(this.#anonymous, memo.connection, this.#options, note);
    }
    if (authorization !== '') return unknownToken;
    return memo.names === noNames ? noProof : unknownCertificate;
  }
}

function unauthenticated(message: string): CallerRejection {
  return { rejected: { code: GrpcCode.UNAUTHENTICATED, message } };
}

const noProof = unauthenticated('the request has neither a token nor a client certificate of a caller');
const unknownToken = unauthenticated('the token does not belong to a caller');
const unknownCertificate = unauthenticated('the client certificate does not belong to a caller');

/** The results for one connection. */
class ConnectionMemo {
  readonly connection: CallerConnection;
  readonly names: CertificateNames;
  generation = 0;
  byCertificate: CallerOnConnection | undefined = undefined;
  /** The value of the previous request, and its caller. */
  authorization = '';
  found: CallerOnConnection | CallerRejection = noProof;
  /** Callers by verified values. */
  readonly verified = new Map<string, CallerOnConnection>();

  constructor(connection: CallerConnection) {
    this.connection = connection;
    const certificate = connection.peer.certificate();
    this.names = certificate === undefined ? noNames : namesOf(certificate);
  }
}

class KnownCaller {
  readonly entry: CallerEntry;
  readonly name: string;
  readonly index: number;
  /** The rate; 0 if there is no bound. */
  readonly perSecond: number;
  readonly overRate: GrpcStatus;
  readonly #domains: ReadonlySet<string>;
  readonly #patterns: readonly string[];
  readonly #remembered = new Set<string>();

  constructor(entry: CallerEntry, index: number) {
    this.entry = entry;
    this.name = entry.name;
    this.index = index;
    this.perSecond = entry.requestsPerSecond ?? 0;
    const message = `caller ${entry.name} asks more than ${this.perSecond} times a second (requests_per_second)`;
    this.overRate = { code: GrpcCode.RESOURCE_EXHAUSTED, message };
    this.#domains = new Set(entry.domains.filter((domain) => !domain.includes('*')));
    this.#patterns = entry.domains.filter((domain) => domain.includes('*'));
  }

  hasDomain(domain: string): boolean {
    if (this.#domains.has(domain) || this.#remembered.has(domain)) return true;
    if (!this.#patterns.some((pattern) => patternMatches(pattern, domain))) return false;
    if (domain.length > longestRemembered) return true;
    if (this.#remembered.size >= rememberedDomains) this.#remembered.clear();
    this.#remembered.add(domain);
    return true;
  }
}

class CallerOnConnection implements AdmittedCaller {
  readonly rejected = undefined;
  readonly name: string;
  readonly caller: KnownCaller;
  readonly #connection: CallerConnection;
  readonly #options: CallersOptions;
  readonly #note: string;

  /** `note`: a text to append to the message of a rejection. */
  constructor(caller: KnownCaller, connection: CallerConnection, options: CallersOptions, note = '') {
    this.name = caller.name;
    this.caller = caller;
    this.#note = note;
    this.#connection = connection;
    this.#options = options;
  }

  get rights(): number {
    return this.caller.entry.rights;
  }

  hasDomain(domain: string): boolean {
    return this.caller.hasDomain(domain);
  }

  rejection(domain: string | undefined, rights: number): GrpcStatus | undefined {
    const { caller } = this;
    const missing = rights & ~caller.entry.rights;
    if (missing === 0 && (domain === undefined || caller.hasDomain(domain))) return undefined;
    const message = `caller ${caller.name} ${missing === 0 ? `may not use the domain ${shown(domain ?? '')}` : lacks(missing)}${this.#note}`;
    this.#report('permission_denied', message);
    return { code: GrpcCode.PERMISSION_DENIED, message };
  }

  overRate(): CallerRejection {
    const { overRate, entry } = this.caller;
    const message = overRate.message + this.#note;
    this.#report('over_rate', message);
    return {
      rejected: this.#note === '' ? overRate : { code: overRate.code, message },
      asOverLimit: entry.onExcess === 'over_limit' ? this : undefined,
    };
  }

  #report(reason: CallerRejectionReason, problem: string): void {
    const { address } = this.#connection.peer;
    this.#options.onRejected({ caller: this.caller.name, reason, address, problem });
  }
}

function lacks(missing: number): string {
  const names = Object.entries(rightsByName).flatMap(([name, bit]) => ((missing & bit) === 0 ? [] : [name]));
  const what = (missing & Right.ASK) !== 0 ? 'ask' : names.join(' and ');
  return `does not have the right ${what}`;
}

/** Returns a bounded text, because the domain comes from the caller. */
function shown(domain: string): string {
  return JSON.stringify(domain.length > 100 ? `${domain.slice(0, 100)}...` : domain);
}
