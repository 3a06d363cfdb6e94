/** An HTTP/1.1 listener, with or without TLS: opening, timeouts, and an end that lets requests in flight finish. Knows no paths, only their form. */
import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import { createServer as createTlsServer, type ServerOptions, type Server as TlsServer } from 'node:https';
import type { Socket } from 'node:net';
import type { SecureContextOptions, TLSSocket } from 'node:tls';
import { bind, closeOrCut, type ListenAddress } from '../net/bind.ts';
import { peerName } from '../net/peer.ts';
import { listenerCredentials } from '../net/tls-credentials.ts';
import { handshakeProblem, handshakeTimeoutMs } from '../net/tls-handshake.ts';
import { mostHeadBytes, type RequestMemory, unwatched } from './http-connection.ts';
import { HttpConnections, type HttpConnectionsOptions } from './http-connections.ts';
import { createServer, STATUS_CODES } from './node-http.ts';
import { foreignPath, type RequestPath, requestPath, sendError, sendRedirect } from './text-response.ts';

export interface HttpListener {
  /** Rejects with a BindError. */
  listen(address: ListenAddress): Promise<{ port: number }>;
  /** Takes no more requests; settles when the last one is answered, or was cut after the grace. */
  close(): Promise<void>;
}

/** One request, whose path is whole and clean. */
export interface HttpCall {
  target: RequestPath;
  request: IncomingMessage;
  response: ServerResponse;
  /** What it keeps of the request before that is complete. */
  memory: RequestMemory;
}

export interface HttpServerOptions {
  /** Asked first, before the path is looked at; false when it has answered. Without it every request goes on. */
  admit?(request: IncomingMessage, response: ServerResponse): boolean;
  /**
   * Paths that are served as they came: what stands behind is another request's, which is neither changed nor rejected here.
   * `path` and `clean` of their targets are what was sent.
   */
  isForeign?(url: string): boolean;
  /** What it throws, or rejects with, is answered with 500 and reported to `onFault`. */
  serve(call: HttpCall): void | Promise<void>;
  /** How long requests may take at the end before they are cut. */
  closeGraceMs: number;
  onFault(error: unknown): void;
  /** Bounds its connections. Undefined: they are not. */
  connections?: HttpConnectionsOptions | undefined;
  /**
   * Certificate and key: callers speak TLS 1.2 or newer. With authorities (`ca`) they are asked for a certificate; who shows
   * none, or another one, is served all the same: `SocketPeer` reports those alone that are good.
   */
  tls?: SecureContextOptions;
  /** A handshake failed. */
  onHandshakeFailed?(peer: string, problem: string): void;
}

/** Chosen: slow senders are cut, and idle connections outlive the keep-alive of common proxies (60 s). */
const bounds = {
  maxHeaderSize: mostHeadBytes,
  headersTimeout: 15_000,
  requestTimeout: 60_000,
  keepAliveTimeout: 120_000,
  connectionsCheckingInterval: 5_000,
};

/** By the code of the error, as Node itself answers. */
const statusOfUnread: Record<string, number> = {
  HPE_HEADER_OVERFLOW: 431,
  HPE_CHUNK_EXTENSIONS_OVERFLOW: 413,
  ERR_HTTP_REQUEST_TIMEOUT: 408,
};
/** Chosen: how long the rest of a header that is too long is taken in. */
const lingerMs = 2_000;

export class HttpServer implements HttpListener {
  readonly #server: Server | TlsServer;
  readonly #options: HttpServerOptions;
  readonly #connections: HttpConnections | undefined;
  /** The last of each connection. */
  readonly #responses = new WeakMap<Socket, ServerResponse>();
  readonly #refused = new WeakSet<Socket>();
  #closed: Promise<void> | undefined;

  constructor(options: HttpServerOptions) {
    this.#options = options;
    const answer = (request: IncomingMessage, response: ServerResponse): void => {
      this.#responses.set(request.socket, response);
      if (this.#closed !== undefined) response.setHeader('Connection', 'close');
      const serve = (memory: RequestMemory): void => void this.#serve(request, response, memory);
      if (this.#connections === undefined) serve(unwatched());
      else this.#connections.begin(request, response, serve);
    };
    const { tls } = options;
    this.#server =
      tls === undefined
        ? createServer(bounds, answer)
        : createTlsServer({ ...bounds, ...tlsOptions(tls), handshakeTimeout: handshakeTimeoutMs }, answer);
    // Node drops what comes behind the 2,000th header without a word. They are bounded by their bytes.
    this.#server.maxHeadersCount = 0;
    // An expectation that nobody knows may be another request's, which a proxy asks about: Node would answer with 417.
    this.#server.on('checkExpectation', answer);
    this.#server.on('clientError', (error: NodeJS.ErrnoException, socket: Socket) =>
      this.#refuseUnread(error, socket),
    );
    this.#server.on('tlsClientError', (error: Error, socket: TLSSocket) =>
      options.onHandshakeFailed?.(peerName(socket) ?? 'unknown', handshakeProblem(error, socket)),
    );
    if (options.connections === undefined) return;
    this.#connections = new HttpConnections(options.connections);
    this.#connections.watch(this.#server);
  }

  /** New connections get these; those that are open keep what they had. Only for a server that speaks TLS. */
  useTls(tls: SecureContextOptions): void {
    if (!('setSecureContext' in this.#server)) throw new Error('this server does not speak TLS');
    this.#server.setSecureContext(listenerCredentials(tls));
  }

  listen(address: ListenAddress): Promise<{ port: number }> {
    return bind(this.#server, address);
  }

  close(): Promise<void> {
    this.#closed ??= this.#stop();
    return this.#closed;
  }

  async #serve(request: IncomingMessage, response: ServerResponse, memory: RequestMemory): Promise<void> {
    response.on('finish', () => {
      if (this.#closed !== undefined) setImmediate(() => this.#server.closeIdleConnections());
    });
    try {
      if (this.#options.admit?.(request, response) === false) return;
      await this.#route(request, response, memory);
    } catch (error) {
      this.#options.onFault(error);
      if (response.headersSent) response.destroy();
      else sendError(response, 500, 'Internal Server Error');
    }
  }

  async #route(request: IncomingMessage, response: ServerResponse, memory: RequestMemory): Promise<void> {
    const url = request.url ?? '/';
    const target = this.#options.isForeign?.(url) === true ? foreignPath(url) : requestPath(url);
    if (target === undefined) sendError(response, 400, 'Bad Request', 'damaged request target');
    else if (target.path !== target.clean) sendRedirect(response, target.location);
    else await this.#options.serve({ target, request, response, memory });
  }

  /**
   * What Node cannot read gets Node's answer. Too long a header is taken in for a while: a proxy that still sends it would
   * see a reset, and not that it was refused.
   */
  #refuseUnread(error: NodeJS.ErrnoException, socket: Socket): void {
    if (this.#refused.has(socket)) return;
    this.#refused.add(socket);
    const status = statusOfUnread[error.code ?? ''] ?? 400;
    const response = this.#responses.get(socket);
    const isAnswering = response?.headersSent === true && !response.writableFinished;
    if (!socket.writable || isAnswering) {
      socket.destroy(error);
      return;
    }
    const text = `HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\nConnection: close\r\n\r\n`;
    if (status === 431) {
      this.#options.connections?.refused('too_many_header_bytes', peerName(socket) ?? 'unknown');
      socket.end(text);
      setTimeout(() => socket.destroy(), lingerMs).unref();
      return;
    }
    socket.write(text);
    socket.destroy(error);
  }

  #stop(): Promise<void> {
    return closeOrCut({
      close: (closed) => {
        this.#server.close(() => closed());
        this.#connections?.close();
      },
      cut: () => {
        this.#server.closeAllConnections();
        this.#connections?.cut();
      },
      graceMs: this.#options.closeGraceMs,
    });
  }
}

function tlsOptions(tls: SecureContextOptions): ServerOptions {
  return { ...listenerCredentials(tls), requestCert: tls.ca !== undefined, rejectUnauthorized: false };
}
