/** `/v1`: from a request to its route, and back as JSON or as the description of a problem (RFC 9457). Knows no paths beyond the prefix. */
import { type ServerResponse, STATUS_CODES } from 'node:http';
import { bearerChallenge } from '../net/bearer-token.ts';
import type { ApiGuard } from './api-guard.ts';
import { type ApiAnswer, ApiProblem, type ApiRoute, shown } from './api-route.ts';
import { bytesOfPiece, freePieces } from './http-connection.ts';
import type { HttpCall } from './http-server.ts';
import { discardBody, readBody } from './request-body.ts';
import { sendLines } from './text-response.ts';

export interface ApiRouterOptions {
  guard: ApiGuard;
  routes: readonly ApiRoute[];
  maxBodyBytes: { readonly bytes: number; readonly setting: string };
  /** Called when a request was answered with 500 because something threw. */
  onFault(error: unknown): void;
}

/** Chosen: how long the rest of a body that is not wanted is taken in. */
const discardMs = 2_000;
/** The one parameter that may come several times. */
const repeatable = 'entry';

/** Whether a path is of the API, be it one that there is or not. */
export function isApiPath(path: string | undefined): boolean {
  return path === '/v1' || path?.startsWith('/v1/') === true;
}

export class ApiRouter {
  readonly #options: ApiRouterOptions;
  /** By path, then by method. */
  readonly #routes = new Map<string, Map<string, ApiRoute>>();

  constructor(options: ApiRouterOptions) {
    this.#options = options;
    for (const route of options.routes) {
      const methods = this.#routes.get(route.path) ?? new Map<string, ApiRoute>();
      if (methods.has(route.method)) throw new Error(`two routes for ${route.method} ${route.path}`);
      this.#routes.set(route.path, methods.set(route.method, route));
    }
  }

  get guard(): ApiGuard {
    return this.#options.guard;
  }

  get paths(): string[] {
    return [...this.#routes.keys()].sort();
  }

  async answer(call: HttpCall): Promise<void> {
    const { response } = call;
    response.setHeader('Cache-Control', 'no-store');
    response.setHeader('X-Content-Type-Options', 'nosniff');
    try {
      await send(response, await this.#answerOf(call));
    } catch (error) {
      if (response.headersSent) throw error;
      await this.#sendProblem(call, error);
    }
  }

  async #answerOf(call: HttpCall): Promise<ApiAnswer> {
    const { guard } = this.#options;
    const { request, response, target } = call;
    guard.checkSite(request);
    const methods = this.#routes.get(target.path);
    const route = methods?.get(request.method === 'HEAD' ? 'GET' : (request.method ?? ''));
    // Before it is said what there is.
    const actor = guard.actorOf(request, route?.right ?? 'read');
    if (methods === undefined) {
      throw new ApiProblem(404, `there is no ${shown(target.path)}, there are ${this.paths.join(', ')}`);
    }
    if (route === undefined) {
      const known = [...methods.keys()].flatMap((method) => (method === 'GET' ? ['GET', 'HEAD'] : [method]));
      response.setHeader('Allow', known.join(', '));
      throw new ApiProblem(
        405,
        `${target.path} takes ${known.join(', ')}, not ${shown(request.method ?? '')}`,
      );
    }
    checkParameters(target.query, route.parameters);
    const takesBody = route.method === 'POST' || route.method === 'PUT';
    const body = takesBody ? await this.#bodyOf(call) : undefined;
    return route.answer({ query: target.query, body, actor });
  }

  async #bodyOf({ request, holding }: HttpCall): Promise<unknown> {
    const type = request.headers['content-type'] ?? '';
    if (!/^application\/json\s*(;|$)/i.test(type)) {
      throw new ApiProblem(415, `the body must be application/json (Content-Type), not ${shown(type)}`);
    }
    const { bytes: maxBytes, setting } = this.#options.maxBodyBytes;
    const body = await readBody(request, { maxBytes, keptBytes: maxBytes, holding });
    if (body.kind === 'whole') return parsed(body.bytes);
    switch (body.kind) {
      case 'tooManyPieces':
        throw new ApiProblem(
          400,
          `the body comes in more than ${freePieces} pieces and one for every ${bytesOfPiece} bytes`,
        );
      case 'givenUp':
        throw new ApiProblem(503, 'unfinished requests hold as much as they may (CONNECTIONS_MAX_BYTES)');
      case 'aborted':
        throw new ApiProblem(400, 'the body ended before its end');
      default:
        throw new ApiProblem(413, `the body is longer than ${maxBytes} bytes (${setting})`);
    }
  }

  async #sendProblem({ request, response, holding }: HttpCall, error: unknown): Promise<void> {
    if (response.destroyed) return;
    const isOurs = error instanceof ApiProblem;
    if (!isOurs) this.#options.onFault(error);
    const problem = isOurs ? error : new ApiProblem(500, 'a fault of the server, which its log tells of');
    const { status, message: detail, members } = problem;
    if (status === 401)
      response.setHeader('WWW-Authenticate', bearerChallenge(request.headers.authorization));
    if (status === 415) response.setHeader('Accept', 'application/json');
    const { retryAfterSeconds } = members;
    if (retryAfterSeconds !== undefined) response.setHeader('Retry-After', `${retryAfterSeconds}`);
    const title = STATUS_CODES[status] ?? 'Error';
    const body = `${JSON.stringify({ type: 'about:blank', title, status, detail, ...members })}\n`;
    // What was not read yet would be taken for the next request.
    if (!request.complete) response.setHeader('Connection', 'close');
    response.writeHead(status, {
      'Content-Type': 'application/problem+json',
      'Content-Length': Buffer.byteLength(body),
    });
    if (!request.complete) {
      response.write(body);
      await discardBody(request, { longestMs: discardMs, holding });
      response.end();
    } else response.end(body);
  }
}

async function send(response: ServerResponse, { status = 200, body, lines }: ApiAnswer): Promise<void> {
  response.statusCode = status;
  if (lines !== undefined) return sendLines(response, lines, 'application/json');
  if (body === undefined) {
    response.end();
    return;
  }
  const text = `${JSON.stringify(body)}\n`;
  response.setHeader('Content-Type', 'application/json');
  response.setHeader('Content-Length', Buffer.byteLength(text));
  response.end(text);
}

function checkParameters(query: URLSearchParams, known: readonly string[]): void {
  const seen = new Set<string>();
  for (const name of query.keys()) {
    if (!known.includes(name)) {
      const those = known.length === 0 ? 'none is known here' : `expected ${known.join(', ')}`;
      throw new ApiProblem(400, `unknown parameter ${shown(name)}: ${those}`);
    }
    if (seen.has(name) && name !== repeatable)
      throw new ApiProblem(400, `the parameter ${name} comes more than once`);
    seen.add(name);
  }
}

function parsed(bytes: Uint8Array): unknown {
  try {
    return JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(bytes));
  } catch (error) {
    throw new ApiProblem(400, `the body is not JSON: ${(error as Error).message}`);
  }
}
