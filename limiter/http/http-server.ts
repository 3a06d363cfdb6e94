/** An HTTP/1.1 listener: opening, timeouts, and an end that lets requests in flight finish. Knows no paths. */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { bind, type ListenAddress } from '../../process/bind.ts';
import { sendError } from './text-response.ts';

export interface HttpListener {
  /** Rejects with a BindError. */
  listen(address: ListenAddress): Promise<{ port: number }>;
  /** Takes no more requests; settles when the last one is answered, or was cut after the grace. */
  close(): Promise<void>;
}

export interface HttpServerOptions {
  /** What it throws, or rejects with, is answered with 500 and reported to `onFault`. */
  serve(request: IncomingMessage, response: ServerResponse): void | Promise<void>;
  /** How long requests may take at the end before they are cut. */
  closeGraceMs: number;
  onFault: ((error: unknown) => void) | undefined;
}

/** Ours: slow senders are cut, and idle connections outlive the keep-alive of common proxies (60 s). */
const timeouts = {
  headersTimeout: 15_000,
  requestTimeout: 60_000,
  keepAliveTimeout: 120_000,
  connectionsCheckingInterval: 5_000,
};

export class HttpServer implements HttpListener {
  readonly #server: Server;
  readonly #options: HttpServerOptions;
  #closed: Promise<void> | undefined;

  constructor(options: HttpServerOptions) {
    this.#options = options;
    this.#server = createServer(timeouts, (request, response) => {
      if (this.#closed !== undefined) response.setHeader('Connection', 'close');
      void this.#serve(request, response);
    });
  }

  listen(address: ListenAddress): Promise<{ port: number }> {
    return bind(this.#server, address);
  }

  close(): Promise<void> {
    this.#closed ??= this.#stop();
    return this.#closed;
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    response.on('finish', () => {
      if (this.#closed !== undefined) setImmediate(() => this.#server.closeIdleConnections());
    });
    try {
      await this.#options.serve(request, response);
    } catch (error) {
      this.#options.onFault?.(error);
      if (response.headersSent) response.destroy();
      else sendError(response, 500, 'Internal Server Error');
    }
  }

  async #stop(): Promise<void> {
    const closed = new Promise<void>((resolve) => {
      this.#server.close(() => resolve());
    });
    const cut = setTimeout(() => this.#server.closeAllConnections(), this.#options.closeGraceMs);
    await closed;
    clearTimeout(cut);
  }
}
