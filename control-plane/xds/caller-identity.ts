/** Identifies a caller of the xDS port by its certificate, or else by a token, and decides which fleets it may request. */
import { createHash } from 'node:crypto';
import type { PeerCertificate } from 'node:tls';
import type { Metadata, ServerDuplexStream } from '@grpc/grpc-js';
import { GrpcCode, type GrpcStatus } from '../../process/grpc/handlers.ts';
import { bearerToken, shortestToken, tokenProblem } from '../../process/net/bearer-token.ts';
import type { TokenOutcome, TokenReviews } from './token-reviews.ts';

export interface Identity {
  /** Undefined if the caller has no credentials and needs none. */
  caller: XdsClient | undefined;
  /** The UID of the pod that its token is bound to. */
  podUid?: string;
  /** The time when its token expires, in milliseconds since 1970. */
  expiresMs?: number;
  /** The SHA-256 of a token that is valid as long as it is in the file. */
  tokenHash?: string;
}

export interface CallerIdentityOptions {
  /** Whether certificates of clients are verified, see `tlsServer`. */
  certificates: boolean;
  /** Undefined if there is no file of tokens. */
  tokens: TokenNames | undefined;
  /** Undefined if service accounts are not supported. */
  reviews: TokenReviews | undefined;
  /** Whether callers without credentials are served, too. */
  allowAnonymous: boolean;
}

/** Names of tokens by the token's SHA-256. */
export type TokenNames = ReadonlyMap<string, string>;

export class CallerIdentity {
  readonly #options: CallerIdentityOptions;
  #tokens: TokenNames | undefined;

  constructor(options: CallerIdentityOptions) {
    this.#options = options;
    this.#tokens = options.tokens;
  }

  useTokens(tokens: TokenNames): void {
    this.#tokens = tokens;
  }

  /** A certificate takes precedence over a token. A wrong token never counts as a missing one. */
  async of(call: ServerDuplexStream<Buffer, Buffer>): Promise<Identity | GrpcStatus> {
    const { certificates, reviews, allowAnonymous } = this.#options;
    const certificate = certificates ? call.getAuthContext().sslPeerCertificate : undefined;
    if (certificate !== undefined && Object.keys(certificate).length > 0) {
      return { caller: certificateClient(certificate) };
    }
    const header = authorizationOf(call.metadata);
    if (header === undefined || (this.#tokens === undefined && reviews === undefined)) {
      return allowAnonymous ? { caller: undefined } : unauthenticated(this.#whatToShow());
    }
    const token = bearerToken(header);
    if (token === undefined) return unauthenticated('the authorization is not of the form "Bearer <token>"');
    const hash = hashOf(token);
    const name = this.#tokens?.get(hash);
    if (name !== undefined) return { caller: tokenClient(name), tokenHash: hash };
    if (reviews === undefined) return unauthenticated('the token is not known');
    return identityBy(await reviews.outcome(token, hash, addressOf(call.getPeer())));
  }

  /** Returns the reason why a stream must end. Undefined while it may continue. */
  staleness({ tokenHash }: Identity): GrpcStatus | undefined {
    const isGone = tokenHash !== undefined && this.#tokens?.has(tokenHash) !== true;
    return isGone ? unauthenticated('the token of this stream is no longer known') : undefined;
  }

  #whatToShow(): string {
    const { certificates, reviews } = this.#options;
    const ways = [
      ...(certificates ? ['a client certificate'] : []),
      ...(this.#tokens === undefined && reviews === undefined ? [] : ['a token (authorization: Bearer ...)']),
    ];
    return `the client does not prove its identity: send ${ways.join(' or ')}`;
  }
}

export function unauthenticated(message: string): GrpcStatus {
  return { code: GrpcCode.UNAUTHENTICATED, message };
}

function identityBy(outcome: TokenOutcome): Identity | GrpcStatus {
  if (outcome.is === 'unknown') return unauthenticated(outcome.reason);
  if (outcome.is === 'open') return { code: GrpcCode.UNAVAILABLE, message: outcome.reason };
  const { user, podUid, expiresMs } = outcome;
  const pod = podUid === undefined ? {} : { podUid };
  return { caller: { kind: 'service account', names: [user] }, expiresMs, ...pod };
}

/** Returns the header's value. Several values count as none, because it is unclear which of them is right. */
function authorizationOf(metadata: Metadata): string | undefined {
  const values = metadata.get('authorization');
  return values.length === 0 ? undefined : values.join(', ');
}

/** Returns the address without the port. */
export function addressOf(peer: string): string {
  return peer.replace(/:\d+$/, '');
}

function hashOf(token: string): string {
  return createHash('sha256').update(token).digest('base64');
}

/**
 * Reads XDS_TOKENS_FILE: each line contains a name and its token, separated by blanks. A name may have several tokens. Empty lines, and
 * lines that begin with `#`, are ignored. Throws an Error that names the line and shows no token.
 */
export function parseTokens(text: string): TokenNames {
  const names = new Map<string, string>();
  for (const [index, line] of text.split('\n').entries()) {
    const parts = line.trim().split(/\s+/);
    if (parts[0] === '' || line.trimStart().startsWith('#')) continue;
    const problem = lineProblem(parts);
    if (problem !== undefined) throw new Error(`line ${index + 1}: ${problem}`);
    const [name, token] = parts as [string, string];
    const other = names.get(hashOf(token));
    if (other !== undefined && other !== name) {
      throw new Error(`line ${index + 1}: another name has the same token`);
    }
    names.set(hashOf(token), name);
  }
  if (names.size === 0) throw new Error('the file has no token');
  return names;
}

function lineProblem([name = '', token, ...rest]: readonly string[]): string | undefined {
  if (token === undefined || rest.length > 0) return 'expected a name and a token, separated by blanks';
  if (!isTokenName(name)) return 'the name must have up to 63 letters, digits and inner "-", "_" and "."';
  return tokenProblem(token, shortestToken);
}

/** The fleets that a client may request, by the name of the client. */
export type FleetsOfClients = ReadonlyMap<string, readonly string[]>;

export type ClientKind = 'certificate' | 'service account' | 'token';

export interface XdsClient {
  kind: ClientKind;
  /** The names in the form of XDS_CLIENT_FLEETS. */
  names: readonly string[];
}

const accountPrefix = 'system:serviceaccount:';
const tokenPrefix = 'token:';
const accountPattern =
  /^system:serviceaccount:[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?:[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$/;
const tokenNamePattern = /^[A-Za-z0-9]([-\w.]{0,61}[A-Za-z0-9])?$/;

/** Returns the kind of a name in XDS_CLIENT_FLEETS. */
export function kindOfClient(name: string): ClientKind {
  if (name.startsWith(accountPrefix)) return 'service account';
  return name.startsWith(tokenPrefix) ? 'token' : 'certificate';
}

/** Returns whether a client could have this name. */
export function isClientName(name: string): boolean {
  const kind = kindOfClient(name);
  if (kind === 'certificate') return name !== '';
  if (kind === 'service account') return accountPattern.test(name);
  return isTokenName(name.slice(tokenPrefix.length));
}

/** Returns whether the text has up to 63 letters, digits and inner `-`, `_` and `.`. */
export function isTokenName(name: string): boolean {
  return tokenNamePattern.test(name);
}

export function tokenClient(name: string): XdsClient {
  return { kind: 'token', names: [`${tokenPrefix}${name}`] };
}

/** Returns the client of a verified certificate. A name that looks like a name of another kind does not count. */
export function certificateClient(
  certificate: Pick<PeerCertificate, 'subject' | 'subjectaltname'>,
): XdsClient {
  const names = certificateNames(certificate).filter((name) => kindOfClient(name) === 'certificate');
  return { kind: 'certificate', names };
}

/** Returns the reason why a caller may not have the rules of `fleet`. Undefined if it may. */
export function fleetRejection(
  allowed: FleetsOfClients,
  { kind, names }: XdsClient,
  fleet: string,
): string | undefined {
  const fleets = names.flatMap((name) => allowed.get(name) ?? []);
  if (fleets.includes(fleet)) return undefined;
  if (names.length === 0) return 'the certificate has no name that XDS_CLIENT_FLEETS could bind to a fleet';
  const listed = names.map((name) => JSON.stringify(name)).join(', ');
  const who = kind === 'certificate' ? `the certificate of ${listed}` : `the client ${listed}`;
  return fleets.length === 0
    ? `${who} has no fleet: add it to XDS_CLIENT_FLEETS`
    : `${who} is not bound to the fleet "${fleet}"`;
}

/**
 * Returns DNS names and URIs of the subject's alternative names. If there are none, returns its common names. RFC 5280, section
 * 4.2.1.6, in Node's form.
 */
export function certificateNames(certificate: Pick<PeerCertificate, 'subject' | 'subjectaltname'>): string[] {
  const alternatives = splitAlternativeNames(certificate.subjectaltname ?? '').flatMap((entry) => {
    const match = /^(?:DNS|URI):(.*)$/s.exec(entry);
    return match === null ? [] : [unquoted(match[1] as string)];
  });
  if (alternatives.length > 0) return alternatives;
  // Node's types have one common name, but a subject may have several.
  const commonName = certificate.subject?.CN as string | string[] | undefined;
  return commonName === undefined ? [] : [commonName].flat();
}

/** Splits the names. Node quotes a name, as JSON does, if it contains a comma or a quote that could be taken for a separator. */
function splitAlternativeNames(names: string): string[] {
  return names.match(/(?:[^,"]|"(?:[^"\\]|\\.)*")+/gs)?.map((entry) => entry.trimStart()) ?? [];
}

function unquoted(name: string): string {
  return name.startsWith('"') ? (JSON.parse(name) as string) : name;
}
