/** The debug listener: loaded rules, statistics and profiles. It is for operators, not for callers. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { type ApiRouter, isApiPath, isStrayApiPath } from '../../process/http/api-router.ts';
import { ConsoleFiles, isOfConsole } from '../../process/http/console-files.ts';
import type { HttpConnectionsOptions } from '../../process/http/http-connections.ts';
import { type HttpCall, type HttpListener, HttpServer } from '../../process/http/http-server.ts';
import { requestPath, sendLines, sendRedirect, sendText } from '../../process/http/text-response.ts';
import type { ListenAddress } from '../../process/net/bind.ts';
import type { DebugPages } from './debug-pages.ts';

export interface DebugListenerOptions {
  /** The lines of `/rlconfig`, without newlines. They are read gradually while the answer is sent. */
  rlconfigLines(): Iterable<string>;
  /** The same rules with all their fields, as the lines of one JSON text. */
  ruleFileLines(): Iterable<string>;
  /** The lines of `/stats`, in the same form. */
  statsLines(): Iterable<string> | Promise<Iterable<string>>;
  /** `/v1`. Its guard also decides who may see the other pages, except `/livez` and the console. Undefined: no guard. */
  api?: ApiRouter | undefined;
  /** Pages of capabilities. */
  pages: readonly DebugPages[];
  /** How long requests may continue at shutdown before they are cut. */
  closeGraceMs: number;
  /** Bounds its connections. Undefined: no bounds. */
  connections?: HttpConnectionsOptions | undefined;
  /** Called when a request was answered with 500, or cut, because of an exception. */
  onFault(error: unknown): void;
}

/** The descriptions of pages, by path. */
const ownPages: Readonly<Record<string, string>> = {
  '/console': 'a page that shows rules, counters and overrides, and changes them',
  '/livez': '200 while the process can answer, even if it is unhealthy',
  '/rlconfig': 'print out the currently loaded configuration for debugging; parameters: format=json',
  '/stats': 'print out stats',
  '/v1': 'the admin API, which /v1/openapi.json describes',
};

export class DebugListener implements HttpListener {
  readonly #options: DebugListenerOptions;
  readonly #index: string;
  readonly #console = new ConsoleFiles('limiter.html');
  readonly #server: HttpServer;

  constructor(options: DebugListenerOptions) {
    this.#options = options;
    const described = options.pages.map((pages) => pages.described);
    const all: [string, string][] = Object.entries(Object.assign({}, ownPages, ...described));
    this.#index = all
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .map(([path, text]) => `${path}: ${text}\n`)
      .join('');
    this.#server = new HttpServer({
      admit: (request, response) => this.#admit(request, response),
      isForeign: isStrayApiPath,
      serve: (call) => this.#route(call),
      closeGraceMs: options.closeGraceMs,
      connections: options.connections,
      onFault: (error) => options.onFault(error),
    });
  }

  async listen(address: ListenAddress): Promise<{ port: number }> {
    const bound = await this.#server.listen(address);
    for (const pages of this.#options.pages) await pages.opened?.();
    return bound;
  }

  async close(): Promise<void> {
    for (const pages of this.#options.pages) pages.closing?.();
    await this.#server.close();
    for (const pages of this.#options.pages) pages.closed?.();
  }

  #admit(request: IncomingMessage, response: ServerResponse): boolean {
    const url = request.url ?? '/';
    const path = requestPath(url)?.path ?? '';
    // The API reports problems in its own form. The console contains no data.
    if (path === '/livez' || isApiPath(path) || isStrayApiPath(url) || isOfConsole(path)) return true;
    return (
      this.#options.api?.guard.admitsToPage(request, response, this.#pagesAt(path)?.kindOf(path) ?? 'page') ??
      true
    );
  }

  #sendRules(response: ServerResponse, query: URLSearchParams): Promise<void> {
    if (query.get('format') !== 'json') return sendLines(response, this.#options.rlconfigLines());
    return sendLines(response, this.#options.ruleFileLines(), 'application/json');
  }

  async #route(call: HttpCall): Promise<void> {
    const { target, response } = call;
    const { api } = this.#options;
    if (api !== undefined && isApiPath(target.path)) return api.answer(call);
    if (target.path === '/livez') sendText(response, 200, 'OK');
    else if (isOfConsole(target.path)) await this.#console.answer(call);
    else if (target.path === '/rlconfig') await this.#sendRules(response, target.query);
    else if (target.path === '/stats') await sendLines(response, await this.#options.statsLines());
    else await this.#answerFurther(call);
  }

  #answerFurther(call: HttpCall): Promise<void> | void {
    const { target, response } = call;
    const pages = this.#pagesAt(target.path);
    if (pages !== undefined) return pages.answer(call);
    const folder = `${target.path}/`;
    if (this.#options.pages.some(({ root }) => root === folder)) sendRedirect(response, folder);
    else sendText(response, 200, this.#index);
  }

  #pagesAt(path: string): DebugPages | undefined {
    return this.#options.pages.find(({ root }) =>
      root.endsWith('/') ? path.startsWith(root) : path === root,
    );
  }
}
