/** The HTTP listener: `/json`, `/healthcheck` and `/livez`, for any method, and `/v1` for callers, plain or over TLS. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { Right } from '../../process/grpc/handlers.ts';
import type { HealthView } from '../../process/grpc/health.ts';
import { ApiProblem, shown } from '../../process/http/api-route.ts';
import {
  checkQuestion,
  isApiPath,
  isStrayApiPath,
  openApiPath,
  openApiText,
} from '../../process/http/api-router.ts';
import type { HttpConnectionsOptions } from '../../process/http/http-connections.ts';
import { type HttpCall, type HttpListener, HttpServer } from '../../process/http/http-server.ts';
import { sendProblem } from '../../process/http/json-exchange.ts';
import { hostProblem, type OwnHosts } from '../../process/http/site-check.ts';
import { sendNotFound, sendText } from '../../process/http/text-response.ts';
import type { ListenAddress } from '../../process/net/bind.ts';
import { isOfName, peerName, SocketPeer } from '../../process/net/peer.ts';
import {
  type CertificateListener,
  type TlsFileSettings,
  type TlsFiles,
  watchCertificate,
} from '../../process/net/tls-credentials.ts';
import type { Timers } from '../../process/time/clock.ts';
import type { CallerRoute } from './caller-route.ts';
import { answerCheck, answerExcessCheck, type CheckEndpointOptions } from './check-endpoint.ts';
import { admitted, fault, problemOf } from './http-asker.ts';
import { answerJson, type JsonEndpointOptions, loadJsonCodec, rejectAtOnce } from './json-endpoint.ts';

export interface HttpListenerOptions extends JsonEndpointOptions, CheckEndpointOptions {
  health: HealthView;
  /** Bounds its connections. Undefined: no bounds. */
  connections?: HttpConnectionsOptions | undefined;
  /** Defaults to plain text. */
  tls?: HttpTls | undefined;
  /** The host names that requests may use. Undefined: requests may name any host. Probes always may. */
  hosts?: CheckedHosts | undefined;
  /** How long requests may continue at shutdown before they are ended. */
  closeGraceMs: number;
  /** Further routes for callers, by path below `/v1`. */
  routes: ReadonlyMap<string, CallerRoute>;
  /** Called for every request of /json. */
  onJsonRequest(): void;
  /** Called for every request of /v1. */
  onApiRequest(): void;
  /** Called when a request was answered with 500 because something threw. */
  onFault(error: unknown): void;
}

export interface CheckedHosts {
  readonly own: OwnHosts;
  /** Called when a request was rejected because of its Host header. */
  rejected(rejected: { peer: string; problem: string }): void;
}

/** With authorities (`clientCaFile`), callers of /json must present a certificate of one of them. */
export interface HttpTls extends TlsFiles {
  /** The DNS name or IP address that the certificate must contain. */
  clientName?: string;
  /** The names of the settings, which messages show in addition to the paths of the files. */
  fileSettings: TlsFileSettings;
  timers: Timers;
  listener: HttpTlsListener;
}

export type HttpTlsRejection = 'tls_handshake' | 'tls_client_certificate';

export interface HttpTlsListener extends CertificateListener {
  /** Called when a handshake failed, or a request of /json had no valid certificate. */
  rejected(rejected: { reason: HttpTlsRejection; peer: string; problem: string }): void;
}

export class ApiListener implements HttpListener {
  readonly #options: HttpListenerOptions;
  readonly #routes: ReadonlyMap<string, CallerRoute>;
  /** The routes that end with a name, by the path before it. */
  readonly #above: ReadonlyMap<string, string>;
  #server: HttpServer | undefined;
  #endWatch = (): void => {};
  #isClosed = false;

  constructor(options: HttpListenerOptions) {
    this.#options = options;
    this.#routes = new Map<string, CallerRoute>([
      ...options.routes,
      ['/v1/check', checkRoute(options)],
      [openApiPath, openApiRoute],
    ]);
    const above = [...this.#routes.keys()].filter((place) => place.endsWith('}'));
    this.#above = new Map(above.map((place) => [place.slice(0, place.lastIndexOf('{')), place]));
  }

  /** Also rejects with a WatchedFilesError of the TLS files. */
  async listen(address: ListenAddress): Promise<{ port: number }> {
    const { closeGraceMs, connections, onFault, tls } = this.#options;
    const server = new HttpServer({
      serve: (call) => this.#route(call),
      isForeign: (url) => this.#hasPathBelow(url) || isStrayApiPath(url),
      closeGraceMs,
      connections,
      onFault: (error) => onFault(error),
      ...(tls === undefined ? {} : await this.#openTls(tls)),
    });
    this.#server = server;
    try {
      const bound = await server.listen(address);
      // Starts to load the codec after the port is open, and before the first request. If loading fails, the error occurs again with that
      // request.
      setImmediate(() =>
        loadJsonCodec()
          .then(({ warmJsonCodec }) => warmJsonCodec())
          .catch(() => {}),
      );
      if (this.#isClosed) await this.close();
      return bound;
    } catch (error) {
      this.#endWatch();
      throw error;
    }
  }

  /** From now on, each response ends its connection. */
  announceEnd(): void {
    this.#server?.announceEnd();
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    this.#endWatch();
    await this.#server?.close();
  }

  async #openTls(tls: HttpTls): Promise<Partial<ConstructorParameters<typeof HttpServer>[0]>> {
    const { listener, fileSettings: settings, timers, certFile, keyFile, clientCaFile } = tls;
    const files = { certFile, keyFile, ...(clientCaFile === undefined ? {} : { clientCaFile }) };
    const { first, close } = await watchCertificate({ files, settings, timers }, listener, (credentials) =>
      this.#server?.useTls(credentials),
    );
    this.#endWatch = close;
    return {
      tls: first,
      onHandshakeFailed: (peer, problem) => listener.rejected({ reason: 'tls_handshake', peer, problem }),
    };
  }

  async #route(call: HttpCall): Promise<void> {
    const { target, request, response } = call;
    if (target.path === '/json') {
      this.#options.onJsonRequest();
      const detail = this.#hostProblem(request) ?? this.#certificateProblem(request);
      if (detail === undefined) await answerJson(call, this.#options);
      else {
        const rejection = { status: 403, text: 'Forbidden', detail };
        await rejectAtOnce(call, rejection, this.#options.maxBodyBytes);
      }
    } else if (isApiPath(target.path)) await this.#answerApi(call);
    else if (target.path === '/healthcheck') answerHealth(response, this.#options.health);
    else if (target.path === '/livez') sendText(response, 200, 'OK');
    else sendNotFound(response);
  }

  async #answerApi(call: HttpCall): Promise<void> {
    const { response } = call;
    response.setHeader('Cache-Control', 'no-store');
    response.setHeader('X-Content-Type-Options', 'nosniff');
    this.#options.onApiRequest();
    try {
      await this.#answerCaller(call);
    } catch (error) {
      if (response.headersSent) throw error;
      const isReported = error instanceof ApiProblem;
      if (!isReported) this.#options.onFault(error);
      await sendProblem(call, isReported ? error : new ApiProblem(500, fault));
    }
  }

  /** The caller is identified before anything else is answered. */
  async #answerCaller(call: HttpCall): Promise<void> {
    const { target, request } = call;
    const detail = this.#hostProblem(request) ?? this.#certificateProblem(request);
    if (detail !== undefined) throw new ApiProblem(403, detail);
    const place = this.#placeOf(target.path);
    const route = place === undefined ? undefined : this.#routes.get(place);
    // Spans have the name of a known route, not the path of the request.
    const asker = admitted(call, place ?? '/v1', this.#options);
    if ('rejected' in asker) {
      const { rejected, asOverLimit: caller } = asker;
      if (caller === undefined || route?.answerExcess === undefined) throw problemOf(rejected);
      return route.answerExcess(call, caller, rejected.message);
    }
    const rejection = asker.caller?.rejection(undefined, route?.right ?? Right.ASK);
    if (rejection !== undefined) throw problemOf(rejection);
    if (route !== undefined) {
      if (route.takes !== undefined) checkQuestion(call, route.takes.method, route.takes.parameters);
      return route.answer(call, asker);
    }
    const places = [...this.#routes.keys()].sort();
    throw new ApiProblem(404, `there is no ${shown(target.path)}, there are ${places.join(', ')}`);
  }

  /** Returns the path under which a route is registered. */
  #placeOf(path: string): string | undefined {
    if (this.#routes.has(path)) return path;
    for (const [before, place] of this.#above) if (path.startsWith(before)) return place;
    return undefined;
  }

  /** Whether there is more behind the name at the end of a route, which may be the path of another request. */
  #hasPathBelow(url: string): boolean {
    for (const before of this.#above.keys())
      if (url.startsWith(before) && url.includes('/', before.length)) return true;
    return false;
  }

  /** Returns the reason why the requested host is not served. */
  #hostProblem({ headers, socket }: IncomingMessage): string | undefined {
    const { hosts } = this.#options;
    const problem = hosts && hostProblem(headers.host, hosts.own);
    if (problem !== undefined) hosts?.rejected({ peer: peerName(socket) ?? 'unknown', problem });
    return problem;
  }

  /** Returns the problem with the certificate of a caller, including a missing certificate. */
  #certificateProblem({ socket }: IncomingMessage): string | undefined {
    const { tls } = this.#options;
    if (tls?.clientCaFile === undefined) return undefined;
    const peer = peerName(socket) ?? 'unknown';
    const certificate = new SocketPeer(socket, peer).certificate();
    const { clientName } = tls;
    if (certificate !== undefined && (clientName === undefined || isOfName(certificate, clientName)))
      return undefined;
    const problem =
      certificate === undefined
        ? 'the caller has no certificate of a trusted authority'
        : `the caller's certificate does not contain ${clientName}`;
    tls.listener.rejected({ reason: 'tls_client_certificate', peer, problem });
    return problem;
  }
}

function checkRoute(options: CheckEndpointOptions): CallerRoute {
  return {
    right: Right.ASK,
    takes: { method: 'POST', parameters: [] },
    answer: (call, asker) => answerCheck(call, asker, options),
    answerExcess: (call, _, reason) => answerExcessCheck(call, options.excess, reason),
  };
}

const openApiRoute: CallerRoute = {
  right: 0,
  takes: { method: 'GET', parameters: [] },
  answer: async ({ response }) => {
    const text = openApiText();
    const headers = { 'Content-Type': 'application/json', 'Content-Length': Buffer.byteLength(text) };
    response.writeHead(200, headers).end(text);
  },
};

function answerHealth(response: ServerResponse, health: HealthView): void {
  if (health.healthy) sendText(response, 200, 'OK');
  else response.writeHead(500, { 'Content-Length': 0 }).end();
}
