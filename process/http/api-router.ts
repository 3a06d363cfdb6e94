/**
 * `/v1`: finds the route of a request, and answers with JSON or the description of a problem (RFC 9457). Independent of paths except for
 * the prefix.
 */
import type { ServerResponse } from 'node:http';
import { packageFile } from '../files/package-file.ts';
import type { ApiGuard } from './api-guard.ts';
import { type ApiAnswer, type ApiMethod, ApiProblem, type ApiRoute, shown } from './api-route.ts';
import type { HttpCall } from './http-server.ts';
import { parseJson, readJsonBody, sendProblem } from './json-exchange.ts';
import { requestPath, sendLines } from './text-response.ts';

export interface ApiRouterOptions {
  guard: ApiGuard;
  routes: readonly ApiRoute[];
  maxBodyBytes: { readonly bytes: number; readonly setting: string };
  /** Called when a request was answered with 500 because something threw. */
  onFault(error: unknown): void;
}

/** The only parameter that may occur several times. */
const repeatable = 'entry';

/** The description of the API, on every listener: docs/openapi.json. */
export const openApiPath = '/v1/openapi.json';

let openApi: string | undefined;

/** Returns the description as JSON. */
export function openApiText(): string {
  openApi ??= packageFile('docs/openapi.json');
  return openApi;
}

const openApiRoute: ApiRoute = {
  method: 'GET',
  path: openApiPath,
  right: 'read',
  parameters: [],
  answer: async () => ({ lines: [openApiText().trimEnd()] }),
};

/** Whether a path belongs to the API, even if no route has it. */
export function isApiPath(path: string | undefined): boolean {
  return path === '/v1' || path?.startsWith('/v1/') === true;
}

/**
 * Whether a path belongs to the API but is damaged, or has an empty, `.` or `..` segment. It is served unchanged as an unknown path,
 * with a problem as the answer: a redirect would turn a POST into a GET.
 */
export function isStrayApiPath(url: string): boolean {
  const [path] = url.split('?', 1);
  if (!isApiPath(path)) return false;
  const target = requestPath(url);
  return target === undefined || target.path !== target.clean;
}

export class ApiRouter {
  readonly #options: ApiRouterOptions;
  /** Routes by path, then by method. */
  readonly #routes = new Map<string, Map<string, ApiRoute>>();

  constructor(options: ApiRouterOptions) {
    this.#options = options;
    for (const route of [...options.routes, openApiRoute]) {
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
      await sendProblem(call, this.#problemOf(error));
    }
  }

  async #answerOf(call: HttpCall): Promise<ApiAnswer> {
    const { guard } = this.#options;
    const { request, target } = call;
    guard.checkSite(request);
    const methods = this.#routes.get(target.path);
    const route = methods?.get(request.method === 'HEAD' ? 'GET' : (request.method ?? ''));
    // The caller is checked before the answer reveals which routes there are.
    const actor = guard.actorOf(request, route?.right ?? 'read');
    if (methods === undefined) {
      throw new ApiProblem(404, `there is no ${shown(target.path)}, there are ${this.paths.join(', ')}`);
    }
    if (route === undefined) throw otherMethod(call, [...methods.keys()]);
    checkParameters(target.query, route.parameters);
    const takesBody = route.method === 'POST' || route.method === 'PUT';
    const bytes = takesBody ? await readJsonBody(call, this.#options.maxBodyBytes) : undefined;
    const body = bytes instanceof Uint8Array ? parseJson(bytes) : undefined;
    return route.answer({ query: target.query, body, actor });
  }

  #problemOf(error: unknown): ApiProblem {
    if (error instanceof ApiProblem) return error;
    this.#options.onFault(error);
    return new ApiProblem(500, 'an internal error: see the log of the server');
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

/** @throws ApiProblem if the path takes another method, or has no such parameters */
export function checkQuestion(call: HttpCall, method: ApiMethod, parameters: readonly string[]): void {
  const { request, target } = call;
  const isIt = request.method === method || (method === 'GET' && request.method === 'HEAD');
  if (!isIt) throw otherMethod(call, [method]);
  checkParameters(target.query, parameters);
}

function otherMethod({ request, response, target }: HttpCall, methods: readonly string[]): ApiProblem {
  const known = methods.flatMap((method) => (method === 'GET' ? ['GET', 'HEAD'] : [method])).join(', ');
  response.setHeader('Allow', known);
  return new ApiProblem(405, `${target.path} takes ${known}, not ${shown(request.method ?? '')}`);
}

/** @throws ApiProblem if a parameter is unknown, or occurs twice */
function checkParameters(query: URLSearchParams, known: readonly string[]): void {
  const seen = new Set<string>();
  for (const name of query.keys()) {
    if (!known.includes(name)) {
      const those = known.length === 0 ? 'this path has no parameters' : `expected ${known.join(', ')}`;
      throw new ApiProblem(400, `unknown parameter ${shown(name)}: ${those}`);
    }
    if (seen.has(name) && name !== repeatable)
      throw new ApiProblem(400, `the parameter ${name} comes more than once`);
    seen.add(name);
  }
}
