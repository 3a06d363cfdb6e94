/** The limiters that a command queries: all at once, with a timeout, and with a message about those that did not answer. */

import { lookup } from 'node:dns/promises';
import { isIP } from 'node:net';
import { hostname, userInfo } from 'node:os';
import type { Duplex } from 'node:stream';
import { request } from '../../process/http/node-http.ts';
import { isSystemError, systemErrorCode, systemErrorReason } from '../../process/log/error-text.ts';
import { tokenProblem } from '../../process/net/bearer-token.ts';
import { isLoopback } from '../../process/net/bind.ts';
import { type Entry, isObject } from '../../rules/model.ts';
import {
  CommandError,
  type ParsedFlags,
  printProblem,
  readArgumentFile,
  timeoutMs,
  tokenHint,
  UsageError,
} from '../shared/flags.ts';
import { io } from '../shared/io.ts';
import type { AskingUrl } from '../shared/read-input.ts';

export const limiterHelp = `  --limiter <host[:port]>     the debug listener of a limiter (default port: 6070). If a name has several addresses, each is a limiter. Repeat the flag for several (default: the variable WEIR_LIMITERS, separated by commas, else the limiters of the cluster)
  --token-file <path>         a file with the token, for limiters that require one (default: the file that WEIR_TOKEN_FILE names)
  --timeout <t>               how long to wait for each answer (default: 5s for limiters, 30s for the API server)
  -n, --namespace <name>      the namespace of the limiters' pods (default: as for the RateLimitFleet, else the namespace of the context)
  --fleet <name>              the fleet whose pods to ask, if there are several
  -l, --selector <labels>     ask the pods with these labels instead of those of a fleet
  --context <name>, --kubeconfig <file>   as for kubectl. Pods are reached through the API server, which requires the right to create pods/portforward
`;

/** The debug listener of one limiter. */
export interface LimiterTarget {
  /** The address for people: `10.0.0.1:6070`, or the name of a pod. */
  readonly address: string;
  /** The name on the command line. Several limiters may share one name. */
  readonly of: string;
  readonly host: string;
  readonly port: number;
  /** `namespace/name` of its fleet, if it was found through the fleet. */
  readonly fleet?: string;
  /** Opens a connection other than TCP. */
  readonly connect?: () => Promise<Duplex>;
  /** Why it cannot be queried at all. */
  readonly problem?: string;
}

export interface Question {
  method?: 'GET' | 'POST' | 'PUT' | 'DELETE';
  /** The path, for example `/v1/status`. */
  path: string;
  /** An array becomes a parameter for each value. Undefined values are left out. */
  query?: Readonly<Record<string, string | readonly string[] | undefined>>;
  body?: unknown;
}

// biome-ignore lint/suspicious/noExplicitAny: answers of the API, which docs/openapi describes
export type Json = any;

/** The answer to a question; `status` is 0 if none arrived. */
export type LimiterAnswer =
  | { ok: true; status: number; body: Json }
  | { ok: false; status: number; problem: string };

/** A limiter that answered. `state` is the answer of `/v1/status`. */
export interface AnsweringLimiter {
  limiter: LimiterTarget;
  name: string;
  state: Json;
}

export interface FailedLimiter {
  address: string;
  problem: string;
  /** The limiter rejected the caller: the token is missing, wrong or lacks the right. */
  refused?: true;
}

/** Flags that say where in a cluster the limiters or objects are. */
const ofCluster = ['namespace', 'all-namespaces', 'context', 'kubeconfig', 'class', 'fleet', 'selector'];

/** Returns the names of limiters of the command line or of WEIR_LIMITERS; undefined if they are in a cluster. @throws UsageError */
export function namedLimiters(flags: ParsedFlags): string[] | undefined {
  const ofFlags = flags.list('limiter');
  const given = ofCluster.find((name) => flags.text(name) !== undefined);
  if (given === undefined) return ofFlags.length > 0 ? ofFlags : limitersOfEnvironment();
  if (ofFlags.length > 0) throw new UsageError(`--limiter and --${given} exclude each other`);
  return undefined;
}

/** Returns the names of WEIR_LIMITERS; undefined without any. */
export function limitersOfEnvironment(): string[] | undefined {
  const parts = (io().env['WEIR_LIMITERS'] ?? '').split(',');
  const names = parts.map((part) => part.trim()).filter((part) => part !== '');
  return names.length === 0 ? undefined : names;
}

/** Returns the flags that name the same limiters in another command. */
export function limiterWords(flags: ParsedFlags): string[] {
  const token = flags.text('token-file');
  return [
    ...flags.list('limiter').flatMap((limiter) => ['--limiter', limiter]),
    ...(token === undefined ? [] : ['--token-file', token]),
  ];
}

/** Chosen: a page of 1,000 counters is smaller. */
const longestAnswerBytes = 64 * 2 ** 20;
/** The statuses of a caller that is unknown, lacks the right, or failed too often. */
const rejectingStatuses: readonly number[] = [401, 403, 429];

/** Sends questions to limiters, all at once. */
export class LimitersClient {
  readonly #limiters: readonly LimiterTarget[];
  readonly #headers: Record<string, string>;
  readonly #timeoutMs: number;

  constructor(limiters: readonly LimiterTarget[], { token, timeoutMs }: AskingUrl) {
    this.#limiters = limiters;
    this.#timeoutMs = timeoutMs;
    this.#headers = {
      'X-Weir-User': userName(),
      ...(token !== undefined && { Authorization: `Bearer ${token}` }),
    };
  }

  /** Queries the status of each limiter. A limiter that answers at several addresses is listed once. */
  async found(query: Question['query'] = {}): Promise<FoundLimiters> {
    const answers = await Promise.all(
      this.#limiters.map(async (limiter) => ({
        limiter,
        answer: stateOf(await this.ask(limiter, { path: '/v1/status', query })),
      })),
    );
    const members = new Map<string, AnsweringLimiter>();
    for (const { limiter, answer } of answers) {
      if (!answer.ok) continue;
      const { instance = limiter.address, name = '' } = answer.body.limiter ?? {};
      if (!members.has(instance))
        members.set(instance, { limiter, name: name || limiter.address, state: answer.body });
    }
    const answering = new Set(Array.from(members.values(), ({ limiter }) => limiter.of));
    const silent = answers.flatMap(({ limiter, answer }) => {
      // "localhost" has two addresses, and a limiter may listen at only one of them.
      if (answer.ok || (isLoopback(limiter.host) && answering.has(limiter.of))) return [];
      const refused = rejectingStatuses.includes(answer.status) && { refused: true as const };
      return [{ address: limiter.address, problem: answer.problem, ...refused }];
    });
    return new FoundLimiters(this, [...members.values()], silent);
  }

  /** Sends one question to one limiter. Never rejects. */
  async ask(
    limiter: LimiterTarget,
    { method = 'GET', path, query = {}, body }: Question,
  ): Promise<LimiterAnswer> {
    if (limiter.problem !== undefined) return { ok: false, status: 0, problem: limiter.problem };
    const url = new URL(`http://${endpoint(limiter.host, limiter.port)}${path}`);
    for (const [name, value] of Object.entries(query)) {
      for (const one of typeof value === 'string' ? [value] : (value ?? []))
        url.searchParams.append(name, one);
    }
    try {
      const text = body === undefined ? undefined : JSON.stringify(body);
      return answerOf(await this.#exchange(limiter, { method, url, text }), `${method} ${path}`);
    } catch (error) {
      const isLate = error instanceof Error && error.name === 'TimeoutError';
      const problem = isLate
        ? `no answer within ${this.#timeoutMs} ms (--timeout)`
        : (otherProtocol(error) ?? systemErrorReason(error));
      return { ok: false, status: 0, problem };
    }
  }

  async #exchange(
    limiter: LimiterTarget,
    { method, url, text }: { method: string; url: URL; text: string | undefined },
  ): Promise<{ status: number; contentType: string; text: string }> {
    const signal = AbortSignal.timeout(this.#timeoutMs);
    const { promise, resolve, reject } = Promise.withResolvers<{
      status: number;
      contentType: string;
      text: string;
    }>();
    signal.addEventListener('abort', () => reject(signal.reason));
    const connecting = limiter.connect?.();
    // A connection that opens too late would keep the process alive.
    connecting?.then(
      (late) => signal.aborted && late.destroy(),
      () => undefined,
    );
    const stream = await Promise.race([connecting, promise as Promise<never>]);
    const sent = request(url, {
      method,
      signal,
      headers: { ...this.#headers, ...(text !== undefined && { 'Content-Type': 'application/json' }) },
      // With an agent, Node would ignore the stream.
      ...(stream === undefined ? { agent: false } : { createConnection: () => stream }),
    });
    sent.on('error', reject);
    sent.on('response', (response) => {
      const chunks: Buffer[] = [];
      let bytes = 0;
      response.on('data', (chunk: Buffer) => {
        bytes += chunk.length;
        if (bytes > longestAnswerBytes)
          response.destroy(new Error(`the answer has more than ${longestAnswerBytes} bytes`));
        chunks.push(chunk);
      });
      response.on('error', reject);
      response.on('end', () => {
        const contentType = response.headers['content-type'] ?? '';
        resolve({ status: response.statusCode ?? 0, contentType, text: Buffer.concat(chunks).toString() });
      });
    });
    sent.end(text);
    return promise.finally(() => stream?.destroy());
  }
}

export interface MemberAnswer {
  member: AnsweringLimiter;
  body: Json;
}

/** The limiters that answered, for further questions. A limiter that then fails is named on standard error, and is silent, too. */
export class FoundLimiters {
  readonly members: readonly AnsweringLimiter[];
  readonly silent: FailedLimiter[];
  readonly #client: LimitersClient;

  constructor(client: LimitersClient, members: readonly AnsweringLimiter[], silent: FailedLimiter[]) {
    this.#client = client;
    this.members = members;
    this.silent = silent;
  }

  /** Names the silent limiters on standard error. @throws CommandError if no limiter answers */
  rejectIfNone(): void {
    const [first] = this.silent;
    if (this.members.length > 0) for (const one of this.silent) printFailed(one);
    else if (this.silent.length > 1)
      throw new CommandError(
        `none of ${this.silent.length} limiters answers; ${first!.address}: ${first!.problem}`,
      );
    else throw new CommandError(`${first!.address}: ${first!.problem}`);
  }

  ask({ limiter }: AnsweringLimiter, question: Question): Promise<LimiterAnswer> {
    return this.#client.ask(limiter, question);
  }

  /** Notes that a limiter rejected a question or did not answer it. */
  fail({ limiter: { address } }: AnsweringLimiter, problem: string): void {
    if (this.silent.some((one) => one.address === address)) return;
    this.silent.push({ address, problem });
    printFailed({ address, problem });
  }

  /**
   * Queries every limiter. Rejects if none answers, because nothing is known then. `ifUnknown` is the problem of limiters that do not have
   * the path.
   */
  async each(question: Question, ifUnknown?: string): Promise<MemberAnswer[]> {
    const all = this.members.map(async (member) => {
      const answer = await this.ask(member, question);
      const isUnknown = ifUnknown !== undefined && !answer.ok && answer.status === 404;
      return { member, answer: isUnknown ? { ...answer, problem: ifUnknown } : answer };
    });
    return this.#answersOf(await Promise.all(all));
  }

  /** Queries one limiter of each group that holds counters. Rejects if no group answers. */
  async holders(question: Question): Promise<MemberAnswer[]> {
    const all = this.counterHolders().map((group) => this.askOne(group, question));
    return this.#answersOf(await Promise.all(all));
  }

  /**
   * Groups limiters by the counters they hold. Limiters that share a store form one group, and any of them can answer for it. A limiter
   * that counts in memory forms its own group.
   */
  counterHolders(): AnsweringLimiter[][] {
    const ofMemory = this.members.filter(countsInMemory);
    const shared = this.members.filter((member) => !ofMemory.includes(member));
    return [...(shared.length > 0 ? [shared] : []), ...ofMemory.map((member) => [member])];
  }

  /** Returns the first answer of a group. Another limiter is queried only if no answer arrived. */
  async askOne(
    group: readonly AnsweringLimiter[],
    question: Question,
  ): Promise<{ member: AnsweringLimiter; answer: LimiterAnswer }> {
    for (const [index, member] of group.entries()) {
      const answer = await this.ask(member, question);
      if (answer.ok || answer.status !== 0 || index === group.length - 1) return { member, answer };
    }
    throw new CommandError('there is no limiter to ask');
  }

  /** Returns the domain or the key that a limiter thinks is misspelled; undefined if there is none or the limiter cannot say. */
  async misspelled(domain: string, entries: readonly Entry[]): Promise<string | undefined> {
    const [member] = this.members;
    if (member === undefined) return undefined;
    const asked = entries.length === 0 ? [{ key: '*', value: '' }] : entries;
    const question: Question = { method: 'POST', path: '/v1/explain', body: { domain, entries: asked } };
    const answer = await this.ask(member, question);
    if (!answer.ok || (entries.length === 0 && answer.body.hasDomain)) return undefined;
    return answer.body.hint ?? undefined;
  }

  #answersOf(all: readonly { member: AnsweringLimiter; answer: LimiterAnswer }[]): MemberAnswer[] {
    const answers = all.flatMap(({ member, answer }) => (answer.ok ? [{ member, body: answer.body }] : []));
    const failed = all.flatMap(({ member, answer }) =>
      answer.ok ? [] : [{ member, problem: answer.problem }],
    );
    const [first] = failed;
    if (answers.length === 0 && first !== undefined)
      throw new CommandError(`${first.member.limiter.address}: ${first.problem}`);
    for (const { member, problem } of failed) this.fail(member, problem);
    return answers;
  }
}

function countsInMemory({ state }: AnsweringLimiter): boolean {
  return state.store?.type === 'memory';
}

/** Adds the name of the limiter to counters that it does not share with others. */
export function withLimiter(member: AnsweringLimiter, counters: readonly Json[]): Json[] {
  return countsInMemory(member) ? counters.map((one) => ({ ...one, limiter: member.name })) : [...counters];
}

function printFailed({ address, problem }: FailedLimiter): void {
  printProblem(`${address}: ${problem}`);
}

const notOfLimiter = 'it is not a debug listener, or has an older version';

/** Returns the problem of a server that does not speak HTTP/1.1, such as the gRPC listener; undefined for other errors. */
function otherProtocol(error: unknown): string | undefined {
  const code = systemErrorCode(error);
  if (code?.startsWith('HPE_') === true) return `the answer is not HTTP/1.1: ${notOfLimiter}`;
  // An error of the system has a number.
  if (code !== 'ECONNRESET' || isSystemError(error)) return undefined;
  return 'it closed the connection before the end of its answer: it is not a debug listener, or it is ending';
}

/** Returns the answer if it is the state of a limiter. Other services may answer the same path. */
function stateOf(answer: LimiterAnswer): LimiterAnswer {
  if (!answer.ok && answer.status === 404 && !answer.problem.endsWith(notOfLimiter))
    return { ...answer, problem: `${answer.problem}: ${notOfLimiter}` };
  if (!answer.ok || isObject(answer.body?.limiter)) return answer;
  return { ok: false, status: answer.status, problem: `the answer has no limiter: ${notOfLimiter}` };
}

function answerOf(
  { status, contentType, text }: { status: number; contentType: string; text: string },
  asked: string,
): LimiterAnswer {
  const isJson = /^application\/(?:problem\+)?json\b/.test(contentType);
  let body: Json;
  try {
    body = isJson && text !== '' ? JSON.parse(text) : undefined;
  } catch {
    return { ok: false, status, problem: `the answer to ${asked} is not JSON` };
  }
  if (status >= 200 && status < 300 && (body !== undefined || text === '')) return { ok: true, status, body };
  if (status === 401)
    return {
      ok: false,
      status,
      problem: `it ${tokenHint}`,
    };
  if (typeof body?.detail === 'string') return { ok: false, status, problem: body.detail };
  return {
    ok: false,
    status,
    problem: `${[asked, 'was answered with', status, contentType].filter(Boolean).join(' ')}: ${notOfLimiter}`,
  };
}

export function endpoint(host: string, port: number): string {
  return `${isIP(host) === 6 ? `[${host}]` : host}:${port}`;
}

/** Returns the limiters of these names. Rejects with a UsageError. */
export async function limitersAt(names: readonly string[], timeoutMs: number): Promise<LimiterTarget[]> {
  const found = await Promise.all(names.map((name) => addressesOf(name.trim(), timeoutMs)));
  return found.flat();
}

/** Resolves `host`, `host:port` or `[::1]:6070`, also with `http://`, to every address of the name, IPv4 and IPv6. @throws UsageError */
async function addressesOf(name: string, timeoutMs: number): Promise<LimiterTarget[]> {
  if (isIP(name) === 6) return [{ address: endpoint(name, 6070), of: name, host: name, port: 6070 }];
  const match = /^(?:http:\/\/)?(?:\[([0-9a-f:.]+)\]|([^:/[\]@?#]+))(?::(\d{1,5}))?\/?$/i.exec(name);
  const port = Number(match?.[3] ?? 6070);
  const host = match?.[1] ?? match?.[2];
  if (host === undefined || port < 1 || port > 65_535)
    throw new UsageError(`--limiter is host:port of a debug listener, not "${name}"`);
  if (isIP(host) !== 0) return [{ address: endpoint(host, port), of: name, host, port }];
  try {
    const late = Promise.withResolvers<never>();
    const timer = setTimeout(
      () => late.reject(new Error(`DNS did not answer within ${timeoutMs} ms`)),
      timeoutMs,
    );
    const found = await Promise.race([lookup(host, { all: true }), late.promise]).finally(() =>
      clearTimeout(timer),
    );
    return [...new Set(found.map(({ address }) => address))].map((address) => {
      return { address: endpoint(address, port), of: name, host: address, port };
    });
  } catch (error) {
    return [{ address: name, of: name, host, port, problem: systemErrorReason(error) }];
  }
}

/** How the flags say to ask the URL of a limiter. @throws UsageError */
export function askingOf(flags: ParsedFlags): AskingUrl {
  return { token: tokenOf(flags.text('token-file')), timeoutMs: timeoutMs(flags) };
}

/** Returns the token of --token-file, or of WEIR_TOKEN_FILE. It is never printed. @throws UsageError */
export function tokenOf(flag: string | undefined): string | undefined {
  const path = flag ?? io().env['WEIR_TOKEN_FILE'];
  if (path === undefined || path === '') return undefined;
  const name = flag === undefined ? 'WEIR_TOKEN_FILE' : '--token-file';
  const token = readArgumentFile(`${name} ${path}`, path).toString().trim();
  const problem = tokenProblem(token, 1);
  if (problem !== undefined) throw new UsageError(`${name} ${path}: ${problem}`);
  return token;
}

/** Returns for example `ada@laptop` in printable ASCII. Limiters log it without verifying it. */
function userName(): string {
  let user = io().env['USER'] ?? 'unknown';
  try {
    user = userInfo().username;
  } catch {
    // The user has no entry in /etc/passwd, as in containers.
  }
  return `${user}@${hostname()}`.replace(/[^\x21-\x7e]/g, '?').slice(0, 128);
}
