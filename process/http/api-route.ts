/** A route of `/v1` on any listener: the actor, the question, and an answer that becomes JSON. Independent of paths. */

/** The actor of a request, as named in audit lines. */
export interface Actor {
  /** The name in CALLERS_FILE, `debug token`, or `anyone` if no authentication is required. */
  readonly name: string;
  /** The address of the peer. */
  readonly address: string;
  /** The user that the client claims to act for, unverified; empty if it claims none. */
  readonly claims: string;
  /** Whether it may read this domain. */
  mayRead(domain: string): boolean;
  mayChange(domain: string): boolean;
}

export interface ApiCall {
  readonly query: URLSearchParams;
  /** The JSON of the request; undefined without a body. */
  readonly body: unknown;
  readonly actor: Actor;
}

export interface ApiAnswer {
  /** Defaults to 200. */
  readonly status?: number;
  /** Becomes JSON; undefined leaves the body out. */
  readonly body?: unknown;
  /**
   * Replaces `body` for large answers: the lines of one JSON text, without newlines, which are read gradually while the answer is
   * written.
   */
  readonly lines?: Iterable<string>;
}

export type ApiMethod = 'GET' | 'POST' | 'PUT' | 'DELETE';

export interface ApiRoute {
  readonly method: ApiMethod;
  /** The whole path: `/v1/counters`. */
  readonly path: string;
  /** The right that the caller needs before anything else is checked; `admin` for changes. */
  readonly right: 'read' | 'admin';
  /** The known parameters of the query. Others are rejected by name before `answer` is called. */
  readonly parameters: readonly string[];
  /** Rejects with an `ApiProblem` if the question is invalid. Any other error is a defect. */
  answer(call: ApiCall): Promise<ApiAnswer>;
}

/** An answer in the form of RFC 9457. */
export class ApiProblem extends Error {
  override readonly name = 'ApiProblem';
  readonly status: number;
  /** Further members of the object, in camelCase. */
  readonly members: Readonly<Record<string, unknown>>;

  /** `detail`: a sentence that names the item, the bound and the received value. */
  constructor(status: number, detail: string, members: Readonly<Record<string, unknown>> = {}) {
    super(detail);
    this.status = status;
    this.members = members;
  }
}

/** Returns the domain of a question. @throws ApiProblem if it is missing, or if the caller may not use it */
export function domainOf({ query, actor }: ApiCall, right: ApiRoute['right']): string {
  const domain = query.get('domain') ?? '';
  if (domain === '') throw new ApiProblem(400, 'domain is missing: expected ?domain=<domain>');
  checkDomain(actor, domain, right);
  return domain;
}

export function checkDomain(actor: Actor, domain: string, right: ApiRoute['right']): void {
  if (right === 'admin' ? actor.mayChange(domain) : actor.mayRead(domain)) return;
  throw new ApiProblem(
    403,
    `caller ${actor.name} does not have the right ${right} for the domain ${shown(domain)}: CALLERS_FILE grants rights and domains`,
  );
}

/** Returns a Boolean parameter; a missing one is false. @throws ApiProblem */
export function flagOf(query: URLSearchParams, name: string): boolean {
  const text = query.get(name) ?? 'false';
  if (text !== 'true' && text !== 'false') throw new ApiProblem(400, `${name} must be true or false`);
  return text === 'true';
}

const defaultRows = 100;
const maxRows = 1_000;

/** Returns how many rows a parameter `limit` asks for. @throws ApiProblem */
export function rowsOf(query: URLSearchParams): number {
  const text = query.get('limit');
  if (text === null) return defaultRows;
  const rows = Number(text);
  if (Number.isInteger(rows) && rows >= 1 && rows <= maxRows) return rows;
  throw new ApiProblem(400, `limit must be a whole number from 1 to ${maxRows}, not ${shown(text)}`);
}

/** Reads a parameter `entry` of the form `key=value`. @throws ApiProblem */
export function entryOf(text: string): { key: string; value: string } {
  const at = text.indexOf('=');
  if (at < 1) throw new ApiProblem(400, `entry must be key=value, not ${shown(text)}`);
  return { key: text.slice(0, at), value: text.slice(at + 1) };
}

/** Returns external text in the form that problems show: quoted, and bounded. */
export function shown(text: string): string {
  return JSON.stringify(text.length > 100 ? `${text.slice(0, 100)}...` : text);
}

/** A change that an operator made to a running process, for a log line and a statistic. */
export interface OperatorChange {
  readonly actor: Actor;
  readonly what: 'counters-reset' | 'override-set' | 'override-removed' | 'grant-given';
  readonly domain: string;
  /** The counter, the override or the entries, as text for people. */
  readonly target: string;
  readonly before: string;
  readonly after: string;
}

export type ReportChange = (change: OperatorChange) => void;
