/** What a route of `/v1` is, on whichever listener: who asks, what is asked, and an answer that becomes JSON. Knows no paths. */

/** Who asks, as audit lines name it. */
export interface Actor {
  /** Of CALLERS_FILE, `debug token`, or `anyone` where nobody is asked who he is. */
  readonly name: string;
  /** Of the peer. */
  readonly address: string;
  /** What the client says of its user, unverified; empty where it says nothing. */
  readonly claims: string;
  /** Of one domain. */
  mayRead(domain: string): boolean;
  mayChange(domain: string): boolean;
}

export interface ApiCall {
  readonly query: URLSearchParams;
  /** The JSON that came; undefined without a body. */
  readonly body: unknown;
  readonly actor: Actor;
}

export interface ApiAnswer {
  /** Defaults to 200. */
  readonly status?: number;
  /** Becomes JSON; undefined leaves it out. */
  readonly body?: unknown;
  /** In its place, for what is large: the lines of one JSON text, without newlines, read bit by bit while the answer is written. */
  readonly lines?: Iterable<string>;
}

export type ApiMethod = 'GET' | 'POST' | 'PUT' | 'DELETE';

export interface ApiRoute {
  readonly method: ApiMethod;
  /** Whole: `/v1/counters`. */
  readonly path: string;
  /** What the caller needs before anything is looked at; `admin` for what changes something. */
  readonly right: 'read' | 'admin';
  /** Those of the query that it knows; any other is refused by its name before `answer` is called. */
  readonly parameters: readonly string[];
  /** Rejects with an `ApiProblem` for what is wrong with the question; anything else is a fault of ours. */
  answer(call: ApiCall): Promise<ApiAnswer>;
}

/** An answer in the form of RFC 9457. */
export class ApiProblem extends Error {
  override readonly name = 'ApiProblem';
  readonly status: number;
  /** Further members of the object, camelCase. */
  readonly members: Readonly<Record<string, unknown>>;

  /** `detail`: a sentence that names the thing, the bound and what came. */
  constructor(status: number, detail: string, members: Readonly<Record<string, unknown>> = {}) {
    super(detail);
    this.status = status;
    this.members = members;
  }
}

/** The domain that a question is about. Throws an `ApiProblem` without one, or where the caller may not use it. */
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
    `caller ${actor.name} does not have the right ${right} for the domain ${shown(domain)}: CALLERS_FILE gives rights and domains`,
  );
}

/** A parameter that is true or false, which it is where it is missing. Throws an `ApiProblem`. */
export function flagOf(query: URLSearchParams, name: string): boolean {
  const text = query.get(name) ?? 'false';
  if (text !== 'true' && text !== 'false') throw new ApiProblem(400, `${name} must be true or false`);
  return text === 'true';
}

/** What a parameter `entry` says, `key=value`. Throws an `ApiProblem`. */
export function entryOf(text: string): { key: string; value: string } {
  const at = text.indexOf('=');
  if (at < 1) throw new ApiProblem(400, `entry must be key=value, not ${shown(text)}`);
  return { key: text.slice(0, at), value: text.slice(at + 1) };
}

/** As problems show what came from outside: between quotes, and bounded. */
export function shown(text: string): string {
  return JSON.stringify(text.length > 100 ? `${text.slice(0, 100)}...` : text);
}

/** One change that somebody made of a running process: a log line and a statistic. */
export interface OperatorChange {
  readonly actor: Actor;
  readonly what: 'counters-reset' | 'override-set' | 'override-removed' | 'grant-given';
  readonly domain: string;
  /** The counter, the override or the entries, for people. */
  readonly target: string;
  readonly before: string;
  readonly after: string;
}

export type ReportChange = (change: OperatorChange) => void;
