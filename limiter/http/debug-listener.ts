/** The debug listener: what is loaded, what is counted, where the time goes. For operators, not for callers. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { type ApiRouter, isApiPath, isStrayApiPath } from '../../process/http/api-router.ts';
import { ConsoleFiles, isOfConsole } from '../../process/http/console-files.ts';
import type { HttpConnectionsOptions } from '../../process/http/http-connections.ts';
import { type HttpCall, type HttpListener, HttpServer } from '../../process/http/http-server.ts';
import type { PageKind } from '../../process/http/site-check.ts';
import { requestPath, sendLines, sendRedirect, sendText } from '../../process/http/text-response.ts';
import type { ListenAddress } from '../../process/net/bind.ts';
import type { Clock } from '../../process/time/clock.ts';
import { PprofPages, pprofRoot, type WorkerProfiles } from './pprof-pages.ts';

export interface DebugListenerOptions {
  /** The lines of `/rlconfig`, without newlines; read bit by bit while the answer is written. */
  rlconfigLines(): Iterable<string>;
  /** The same rules with all they say, as the lines of one JSON text. */
  ruleFileLines(): Iterable<string>;
  /** The lines of `/stats`, likewise. */
  statsLines(): Iterable<string> | Promise<Iterable<string>>;
  /** `/top`, whose parameters are none of this listener's business. */
  topPage(query: URLSearchParams): Promise<DebugPage>;
  clock: Clock;
  /** `/v1`, whose guard says who may see the other pages as well: all but `/livez` and the console. Undefined: everybody may. */
  api?: ApiRouter | undefined;
  /** Undefined where this thread answers callers itself. */
  workers?: WorkerProfiles | undefined;
  /** How long requests may take at the end before they are cut. */
  closeGraceMs: number;
  /** Bounds its connections. Undefined: they are not. */
  connections?: HttpConnectionsOptions | undefined;
  /** Called when a request was answered with 500, or cut, because something threw. */
  onFault(error: unknown): void;
}

export interface DebugPage {
  status: number;
  contentType: string;
  lines: Iterable<string>;
}

const index = `/console: a page that shows and changes what is here
/debug/pprof/: root of various pprof endpoints. hit for help.
/debug/pprof/heap: memory profiling endpoint
/debug/pprof/profile: CPU profiling endpoint
/livez: 200 while the process answers at all, whatever its health
/rlconfig: print out the currently loaded configuration for debugging; parameters: format=json
/stats: print out stats
/top: keys most often over their limit, by domain; parameters: domain, n, format=json
/v1: the admin API, which /v1/openapi.json describes
`;

export class DebugListener implements HttpListener {
  readonly #options: DebugListenerOptions;
  readonly #pprof: PprofPages;
  readonly #console = new ConsoleFiles('limiter.html');
  readonly #server: HttpServer;

  constructor(options: DebugListenerOptions) {
    this.#options = options;
    this.#pprof = new PprofPages(options.clock, options.workers);
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
    await this.#pprof.start();
    return bound;
  }

  async close(): Promise<void> {
    this.#pprof.endProfiles();
    await this.#server.close();
    this.#pprof.stop();
  }

  #admit(request: IncomingMessage, response: ServerResponse): boolean {
    const url = request.url ?? '/';
    const path = requestPath(url)?.path;
    // The API says itself what is wrong, in its own form; the console holds no data.
    if (path === '/livez' || isApiPath(path) || isStrayApiPath(url) || isOfConsole(path)) return true;
    return this.#options.api?.guard.admitsToPage(request, response, pageKind(path)) ?? true;
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
    else if (target.path === '/top') await sendPage(response, await this.#options.topPage(target.query));
    else if (target.path.startsWith(pprofRoot)) {
      await this.#pprof.answer(response, target.path.slice(pprofRoot.length), target.query);
    } else if (`${target.path}/` === pprofRoot) sendRedirect(response, pprofRoot);
    else sendText(response, 200, index);
  }
}

function pageKind(path = ''): PageKind {
  if (path === pprofRoot) return 'profile-index';
  return path.startsWith(pprofRoot) ? 'profile' : 'page';
}

async function sendPage(response: ServerResponse, { status, contentType, lines }: DebugPage): Promise<void> {
  response.statusCode = status;
  response.setHeader('X-Content-Type-Options', 'nosniff');
  await sendLines(response, lines, contentType);
}
