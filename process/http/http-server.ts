/**
 * An HTTP/1.1 listener, with or without TLS: opening, timeouts, and an end that lets requests in flight finish. It checks only the form
 * of paths.
 */
import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import { createServer as createTlsServer, type ServerOptions, type Server as TlsServer } from 'node:https';
import type { Socket } from 'node:net';
import type { SecureContextOptions, TLSSocket } from 'node:tls';
import { bind, closeOrCut, type ListenAddress } from '../net/bind.ts';
import { peerName } from '../net/peer.ts';
import { listenerCredentials } from '../net/tls-credentials.ts';
import { handshakeProblem, handshakeTimeoutMs } from '../net/tls-handshake.ts';
import { maxHeadBytes, type RequestMemory, unwatched } from './http-connection.ts';
import { HttpConnections, type HttpConnectionsOptions } from './http-connections.ts';
import { createServer, STATUS_CODES } from './node-http.ts';
import { foreignPath, type RequestPath, requestPath, sendError, sendRedirect } from './text-response.ts';

export interface HttpListener {
  /** Rejects with a BindError. */
  listen(address: ListenAddress): Promise<{ port: number }>;
  /** Accepts no more requests. Resolves when the last one is answered, or was cut after the grace period. */
  close(): Promise<void>;
}

/** One request with a complete and normalized path. */
export interface HttpCall {
  target: RequestPath;
  request: IncomingMessage;
  response: ServerResponse;
  /** The memory of the request until it is complete. */
  memory: RequestMemory;
}

export interface HttpServerOptions {
  /** Called before the path is checked. Returns false after it has answered. Defaults to admitting every request. */
  admit?(request: IncomingMessage, response: ServerResponse): boolean;
  /**
   * Whether a path is served as sent, because its end is the path of another request, which is neither changed nor rejected here. Then
   * `path` and `clean` are the text that was sent.
   */
  isForeign?(url: string): boolean;
  /** If it throws or rejects, the answer is 500, and the error goes to `onFault`. */
  serve(call: HttpCall): void | Promise<void>;
  /** The time that requests have at the end before they are cut. */
  closeGraceMs: number;
  onFault(error: unknown): void;
  /** Bounds its connections. Undefined: no bounds. */
  connections?: HttpConnectionsOptions | undefined;
  /**
   * Certificate and key: callers use TLS 1.2 or newer. With authorities (`ca`), they are asked for a certificate. Callers without a
   * valid one are served nevertheless: `SocketPeer` reports only valid certificates.
   */
  tls?: SecureContextOptions;
  /** Called when a handshake failed. */
  onHandshakeFailed?(peer: string, problem: string): void;
}

/** Chosen: slow senders are cut, and idle connections outlive the keep-alive of common proxies (60 s). */
const bounds = {
  maxHeaderSize: maxHeadBytes,
  headersTimeout: 15_000,
  requestTimeout: 60_000,
  keepAliveTimeout: 120_000,
  connectionsCheckingInterval: 5_000,
};

/** The status by the code of the error, as in Node's own answer. */
const statusOfUnread: Record<string, number> = {
  HPE_HEADER_OVERFLOW: 431,
  HPE_CHUNK_EXTENSIONS_OVERFLOW: 413,
  ERR_HTTP_REQUEST_TIMEOUT: 408,
};
/** Chosen: the time for which the rest of a damaged header is received. */
const lingerMs = 2_000;

export class HttpServer implements HttpListener {
  readonly #server: Server | TlsServer;
  readonly #options: HttpServerOptions;
  readonly #connections: HttpConnections | undefined;
  /** The last response of each connection, until it is complete. */
  readonly #responses = new Map<Socket, ServerResponse>();
  readonly #rejected = new WeakSet<Socket>();
  #closed: Promise<void> | undefined;
  #isEnding = false;

  constructor(options: HttpServerOptions) {
    this.#options = options;
    const answer = (request: IncomingMessage, response: ServerResponse): void => {
      const { socket } = request;
      this.#responses.set(socket, response);
      response.once('close', () => {
        if (this.#responses.get(socket) === response) this.#responses.delete(socket);
      });
      if (this.#isEnding) response.setHeader('Connection', 'close');
      const serve = (memory: RequestMemory): void => void this.#serve(request, response, memory);
      if (this.#connections === undefined) serve(unwatched());
      else this.#connections.begin(request, response, serve);
    };
    const { tls } = options;
    this.#server =
      tls === undefined
        ? createServer(bounds, answer)
        : createTlsServer({ ...bounds, ...tlsOptions(tls), handshakeTimeout: handshakeTimeoutMs }, answer);
    // Node silently drops headers after the 2,000th. Here the number of bytes bounds them.
    this.#server.maxHeadersCount = 0;
    // An unknown expectation may belong to the request that a proxy asks about, and Node would answer it with 417.
    this.#server.on('checkExpectation', answer);
    this.#server.on('clientError', (error: NodeJS.ErrnoException, socket: Socket) =>
      this.#rejectUnread(error, socket),
    );
    this.#server.on('tlsClientError', (error: Error, socket: TLSSocket) =>
      options.onHandshakeFailed?.(peerName(socket) ?? 'unknown', handshakeProblem(error, socket)),
    );
    if (options.connections === undefined) return;
    this.#connections = new HttpConnections(options.connections);
    this.#connections.watch(this.#server);
  }

  /** Sets the credentials of new connections; open ones keep theirs. Only for a server with TLS. */
  useTls(tls: SecureContextOptions): void {
    if (!('setSecureContext' in this.#server)) throw new Error('this server does not speak TLS');
    this.#server.setSecureContext(listenerCredentials(tls));
  }

  listen(address: ListenAddress): Promise<{ port: number }> {
    return bind(this.#server, address);
  }

  /**
   * From now on, each response ends its connection, so that callers open their next one elsewhere. Otherwise, they would send their next
   * request on a connection that `close` is about to end, and get a reset.
   */
  announceEnd(): void {
    this.#isEnding = true;
    for (const response of this.#responses.values()) {
      if (!response.headersSent) response.setHeader('Connection', 'close');
    }
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
   * Answers a request that Node cannot read as Node does. The rest of a damaged header is received for a while. Otherwise, a proxy that
   * is still sending it would see a reset instead of the answer, and may let its client pass, as if there were no limiter.
   */
  #rejectUnread(error: NodeJS.ErrnoException, socket: Socket): void {
    if (this.#rejected.has(socket)) return;
    this.#rejected.add(socket);
    const status = statusOfUnread[error.code ?? ''] ?? 400;
    const response = this.#responses.get(socket);
    const isAnswering = response?.headersSent === true && !response.writableFinished;
    if (!socket.writable || isAnswering) {
      socket.destroy(error);
      return;
    }
    const text = `HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\nConnection: close\r\n\r\n`;
    if (status === 431)
      this.#options.connections?.rejected('too_many_header_bytes', peerName(socket) ?? 'unknown');
    if (response?.writableFinished === false) {
      // Its body is damaged. What waits for the body ends with the connection.
      socket.write(text);
      socket.destroy(error);
      return;
    }
    socket.end(text);
    setTimeout(() => socket.destroy(), lingerMs).unref();
  }

  #stop(): Promise<void> {
    this.announceEnd();
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
