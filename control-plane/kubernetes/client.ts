/**
 * Requests and watches of the Kubernetes API over connections that stay open. The library provides credentials anew for every
 * request, because tokens and certificates are replaced while the process runs. The library's own clients open a connection for
 * every request, and its watch ignores lines that it cannot parse.
 */
import { once } from 'node:events';
import type { Agent, IncomingMessage, OutgoingHttpHeaders } from 'node:http';
import { Agent as HttpsAgent, request as httpsRequest, type RequestOptions } from 'node:https';
import type { Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import type { KubeConfig } from '@kubernetes/client-node';
import { Agent as HttpAgent, request as httpRequest } from '../../process/http/node-http.ts';
import {
  errorText,
  isSystemError,
  systemErrorCode,
  systemErrorReason,
} from '../../process/log/error-text.ts';
import { systemTimers } from '../../process/time/clock.ts';
import {
  ApiError,
  type ApiRequest,
  type KubernetesApi,
  rejection,
  unreachable,
  unreadable,
  type WatchStream,
} from './api.ts';

export interface KubernetesClientOptions {
  config: KubeConfig;
  /** The `User-Agent`. Audit logs show it, and it is the field manager of writes that specify none. */
  userAgent: string;
  /** The timeout of one request. Defaults to 30,000. */
  timeoutMs?: number;
  denied?: KubernetesApi['denied'];
}

/** Chosen: how long a connection may be silent before TCP probes the other side. */
const keepAliveProbeMs = 15_000;

export class KubernetesClient implements KubernetesApi {
  readonly denied: KubernetesApi['denied'];
  readonly #config: KubeConfig;
  readonly #userAgent: string;
  readonly #timeoutMs: number;
  readonly #server: URL;
  readonly #agent: Agent;

  constructor({ config, userAgent, timeoutMs = 30_000, denied }: KubernetesClientOptions) {
    this.denied = denied;
    this.#config = config;
    this.#userAgent = userAgent;
    this.#timeoutMs = timeoutMs;
    this.#server = new URL(config.getCurrentCluster()?.server ?? '');
    const AgentOf = this.#server.protocol === 'http:' ? HttpAgent : HttpsAgent;
    this.#agent = new AgentOf({ keepAlive: true, keepAliveMsecs: keepAliveProbeMs });
  }

  /** The server for messages: `https://10.0.0.1:443`. */
  get server(): string {
    return this.#server.origin;
  }

  /** The namespace of the current context, or of the pod. Undefined if there is none. */
  get namespace(): string | undefined {
    return this.#config.getContextObject(this.#config.currentContext)?.namespace;
  }

  request<T = unknown>(request: ApiRequest): Promise<T> {
    return this.#inTime(request, async (signal) => {
      const response = await this.#open(request, signal);
      return parse(await text(response), describe(request)) as T;
    });
  }

  stream(request: ApiRequest): Promise<WatchStream> {
    return this.#inTime(request, async (signal) => {
      const response = await this.#open(request, signal);
      response.socket.setKeepAlive(true, keepAliveProbeMs);
      const asked = { server: this.server, request: `watch of ${request.path}`, signal: request.signal };
      return new HttpWatchStream(response, asked);
    });
  }

  close(): void {
    this.#agent.destroy();
  }

  /** Runs a request until its timeout, or until its caller ends it. A signal that the caller gave also ends a stream later. */
  async #inTime<T>(request: ApiRequest, run: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const { signal: caller, timeoutMs = this.#timeoutMs } = request;
    const timeout = new AbortController();
    const callOff = systemTimers.after(timeoutMs, () => timeout.abort());
    try {
      return await run(AbortSignal.any(caller === undefined ? [timeout.signal] : [timeout.signal, caller]));
    } catch (error) {
      if (error instanceof ApiError) throw error;
      if (timeout.signal.aborted) throw this.#failure('Timeout', `no answer within ${timeoutMs} ms`);
      if (caller?.aborted) throw this.#failure('Aborted', 'the request was canceled');
      throw unreachable(this.server, error);
    } finally {
      callOff();
    }
  }

  #failure(reason: string, problem: string): ApiError {
    return new ApiError({ status: 0, reason, message: `${this.server}: ${problem}` });
  }

  /** Waits for the start of a successful answer. Reads a rejection and throws it. */
  async #open(request: ApiRequest, signal: AbortSignal): Promise<IncomingMessage> {
    const body = request.body === undefined ? undefined : JSON.stringify(request.body);
    const options = { ...(await this.#options(request, body)), signal };
    const response = await send(options, body);
    const status = response.statusCode ?? 0;
    if (status >= 200 && status < 300) return response;
    throw rejection({
      status,
      body: await text(response),
      request: describe(request),
      retryAfter: response.headers['retry-after'],
    });
  }

  async #options(request: ApiRequest, body: string | undefined): Promise<RequestOptions> {
    const login = await this.#login();
    const headers = { ...(login.headers as OutgoingHttpHeaders | undefined) };
    // A token's file may end with a line break.
    if (typeof headers['Authorization'] === 'string')
      headers['Authorization'] = headers['Authorization'].trim();
    const url = this.#url(request);
    return {
      protocol: url.protocol,
      hostname: url.hostname.replace(/^\[|\]$/g, ''),
      port: url.port,
      path: `${url.pathname}${url.search}`,
      method: request.method ?? 'GET',
      ...login,
      // The library's own agent is needed only for a proxy. It does not reuse connections.
      agent: this.#config.getCurrentCluster()?.proxyUrl ? login.agent : this.#agent,
      headers: {
        ...headers,
        'User-Agent': this.#userAgent,
        Accept: 'application/json',
        ...(body === undefined ? {} : bodyHeaders(request, body)),
      },
    };
  }

  async #login(): Promise<RequestOptions> {
    const login: RequestOptions = {};
    try {
      await this.#config.applyToHTTPSOptions(login);
      return login;
    } catch (error) {
      // The parser may quote the output of a login plugin that it could not parse.
      const reason = isSystemError(error)
        ? `${systemErrorReason(error)} (${(error as NodeJS.ErrnoException).path ?? ''})`
        : error instanceof SyntaxError
          ? 'the log-in plugin printed something other than JSON'
          : errorText(error);
      const message = `cannot log in to ${this.server}: ${reason}`;
      throw new ApiError({ status: 0, reason: 'Credentials', message });
    }
  }

  #url({ path, query = {} }: ApiRequest): URL {
    const url = new URL(this.#server);
    url.pathname = `${url.pathname.replace(/\/$/, '')}${path}`;
    for (const [key, value] of Object.entries(query)) {
      if (value !== undefined) url.searchParams.set(key, String(value));
    }
    return url;
  }
}

/** Sends a request, and once more if the server ended an idle connection just then. Requests that create objects are never repeated. */
async function send(
  options: RequestOptions,
  body: string | undefined,
  isSecondAttempt = false,
): Promise<IncomingMessage> {
  const request = options.protocol === 'http:' ? httpRequest(options) : httpsRequest(options);
  // Node also reports here that a connection was reset within the answer. The reader of the answer notices this as well.
  request.on('error', () => {});
  request.end(body);
  try {
    const [response] = await once(request, 'response');
    return response;
  } catch (error) {
    const code = systemErrorCode(error);
    const wasEnded = request.reusedSocket && (code === 'ECONNRESET' || code === 'EPIPE');
    if (isSecondAttempt || !wasEnded || options.method === 'POST') throw error;
    return send(options, body, true);
  }
}

/**
 * Returns headers with the length. Node sends no length for the body of a DELETE, and the server then reads the body as the next request.
 */
function bodyHeaders({ contentType = 'application/json' }: ApiRequest, body: string): OutgoingHttpHeaders {
  return { 'Content-Type': contentType, 'Content-Length': Buffer.byteLength(body) };
}

function describe({ method = 'GET', path }: ApiRequest): string {
  return `${method} ${path}`;
}

function parse(body: string, request: string): unknown {
  try {
    return JSON.parse(body);
  } catch (error) {
    throw unreadable(`${request}: the answer is not JSON`, error);
  }
}

/** Splits the answer of a watch into lines of JSON. A line may arrive in many pieces, and a piece may contain many lines. */
export class WatchLines {
  readonly #maxBytes: number;
  #pieces: Buffer[] = [];
  #bytes = 0;

  /** The `maxBytes` of one line defaults to 64 MiB: far above the limit of etcd, and far below a size that would end the process. */
  constructor(maxBytes = 64 * 1024 * 1024) {
    this.#maxBytes = maxBytes;
  }

  /** Returns the values of the lines that `chunk` completes. Throws a SyntaxError or a RangeError. */
  *push(chunk: Buffer): Generator<unknown> {
    let start = 0;
    for (let end = chunk.indexOf(10); end !== -1; end = chunk.indexOf(10, start)) {
      this.#add(chunk.subarray(start, end));
      start = end + 1;
      const line = Buffer.concat(this.#pieces).toString('utf8');
      this.#pieces = [];
      this.#bytes = 0;
      if (line.trim() !== '') yield JSON.parse(line);
    }
    if (start < chunk.length) this.#add(chunk.subarray(start));
  }

  #add(piece: Buffer): void {
    this.#bytes += piece.length;
    if (this.#bytes > this.#maxBytes) throw new RangeError(`a line holds more than ${this.#maxBytes} bytes`);
    this.#pieces.push(piece);
  }
}

/** The server and the request, for messages, and the signal with which its reader can end the watch. */
interface Asked {
  server: string;
  request: string;
  signal?: AbortSignal | undefined;
}

export class HttpWatchStream implements WatchStream {
  readonly #stream: Readable;
  readonly #asked: Asked;
  #isEnded = false;

  constructor(stream: Readable, asked: Asked) {
    this.#stream = stream;
    this.#asked = asked;
  }

  async follow(receive: (values: readonly unknown[]) => void): Promise<ApiError | undefined> {
    const { server, request, signal } = this.#asked;
    const lines = new WatchLines();
    try {
      for await (const chunk of this.#stream) {
        const values: unknown[] = [];
        try {
          for (const value of lines.push(chunk)) values.push(value);
        } finally {
          receive(values);
        }
      }
      return undefined;
    } catch (error) {
      if (this.#isEnded || signal?.aborted) return undefined;
      if (error instanceof RangeError) return unreadable(`${request}: ${error.message}`, error);
      if (error instanceof SyntaxError) return unreadable(`${request}: an event is not JSON`, error);
      return unreachable(server, error);
    }
  }

  end(): void {
    this.#isEnded = true;
    this.#stream.destroy();
  }
}
