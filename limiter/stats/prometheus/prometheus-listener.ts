/** The listener for Prometheus, and the answers, each of which all concurrent scrapes share. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { promisify } from 'node:util';
import { constants, createGzip } from 'node:zlib';
import type { HttpConnectionsOptions } from '../../../process/http/http-connections.ts';
import { type HttpCall, type HttpListener, HttpServer } from '../../../process/http/http-server.ts';
import { sendError, sendNotFound, sendText } from '../../../process/http/text-response.ts';
import type { Timers } from '../../../process/time/clock.ts';
import { contentType } from './exposition.ts';

export interface PrometheusListenerOptions {
  path: string;
  bodies: ScrapeBodies;
  timers: Timers;
  closeGraceMs: number;
  /** Bounds its connections. Undefined: no bounds. */
  connections?: HttpConnectionsOptions | undefined;
  onFault(error: unknown): void;
}

/** Chosen: each scrape may hold an answer in memory while its client reads slowly. */
const maxScrapes = 16;
/** Chosen: the longest common scrape interval. */
const slowestReadMs = 60_000;
/**
 * The same path as on the debug listener, which may not be reachable from outside a pod. It responds before the store and the rules are
 * available.
 */
const livezPath = '/livez';

/** Serves one path, GET and HEAD. Kubernetes can use it as a liveness probe. */
export function createPrometheusListener(options: PrometheusListenerOptions): HttpListener {
  const { path, onFault, closeGraceMs, connections } = options;
  let scrapes = 0;
  return new HttpServer({
    closeGraceMs,
    connections,
    onFault,
    async serve({ target, request, response }: HttpCall) {
      if (target.path !== path && target.path !== livezPath) return sendNotFound(response);
      const { method } = request;
      if (method !== 'GET' && method !== 'HEAD') return rejectMethod(response);
      if (target.path !== path) return sendText(response, 200, 'OK');
      if (method === 'HEAD') return void writeHead(request, response).end();
      if (scrapes === maxScrapes) return rejectScrape(response);
      scrapes += 1;
      try {
        await answer(request, response, options);
      } finally {
        scrapes -= 1;
      }
    },
  });
}

async function answer(
  request: IncomingMessage,
  response: ServerResponse,
  { bodies, timers }: PrometheusListenerOptions,
): Promise<void> {
  const body = await bodies.next();
  const chunks = await body.chunks(encodingFor(request));
  if (response.destroyed) return;
  const length = chunks.reduce((sum, chunk) => sum + chunk.length, 0);
  response.setHeader('Content-Length', length);
  writeHead(request, response);
  const callOff = timers.after(slowestReadMs, () => response.destroy());
  await new Promise<void>((resolve) => {
    response.once('close', resolve);
    for (const chunk of chunks) response.write(chunk);
    response.end();
  });
  callOff();
}

function writeHead(request: IncomingMessage, response: ServerResponse): ServerResponse {
  response.setHeader('Content-Type', contentType);
  response.setHeader('Vary', 'Accept-Encoding');
  if (encodingFor(request) === 'gzip') response.setHeader('Content-Encoding', 'gzip');
  return response;
}

/** RFC 9110, section 12.5.3: gzip if it or `*` is named with a weight other than 0. */
function encodingFor(request: IncomingMessage): Encoding {
  const weights = new Map<string, number>();
  for (const item of String(request.headers['accept-encoding'] ?? '').split(',')) {
    const [coding = '', ...parameters] = item
      .toLowerCase()
      .split(';')
      .map((part) => part.trim());
    const weight = parameters.find((parameter) => parameter.startsWith('q='));
    weights.set(coding, weight === undefined ? 1 : Number(weight.slice(2)) || 0);
  }
  return (weights.get('gzip') ?? weights.get('*') ?? 0) > 0 ? 'gzip' : 'identity';
}

function rejectMethod(response: ServerResponse): void {
  response.setHeader('Allow', 'GET, HEAD');
  sendError(response, 405, 'Method Not Allowed');
}

function rejectScrape(response: ServerResponse): void {
  response.setHeader('Retry-After', '1');
  sendError(response, 503, 'Service Unavailable', `${maxScrapes} scrapes are being answered`);
}

// Complete answers for scrapes. Only one is built at a time, in slices between which other work runs. Scrapes that arrive meanwhile share
// it, so that many scrapes at once cost as much as one.

type Encoding = 'identity' | 'gzip';

export class ScrapeBody {
  readonly #slices: readonly Buffer[];
  #gzipped: Promise<readonly Buffer[]> | undefined;

  constructor(slices: readonly Buffer[]) {
    this.#slices = slices;
  }

  /** Compresses the answer once for all scrapes. */
  chunks(encoding: Encoding): Promise<readonly Buffer[]> {
    if (encoding === 'identity') return Promise.resolve(this.#slices);
    this.#gzipped ??= gzipped(this.#slices);
    return this.#gzipped;
  }
}

export class ScrapeBodies {
  readonly #compose: () => AsyncIterable<string>;
  #underWay: Promise<ScrapeBody> | undefined;

  constructor(compose: () => AsyncIterable<string>) {
    this.#compose = compose;
  }

  next(): Promise<ScrapeBody> {
    this.#underWay ??= this.#composed().finally(() => {
      this.#underWay = undefined;
    });
    return this.#underWay;
  }

  async #composed(): Promise<ScrapeBody> {
    const slices: Buffer[] = [];
    for await (const slice of this.#compose()) {
      if (slice !== '') slices.push(Buffer.from(slice));
      await nextTurn();
    }
    return new ScrapeBody(slices);
  }
}

/** Compresses at the fastest level. zlib works in a thread of its own, one slice at a time. */
async function gzipped(slices: readonly Buffer[]): Promise<Buffer[]> {
  const gzip = createGzip({ level: constants.Z_BEST_SPEED, chunkSize: 64 * 1024 });
  const chunks: Buffer[] = [];
  const ended = new Promise<void>((resolve, reject) => {
    gzip.on('data', (chunk: Buffer) => chunks.push(chunk));
    gzip.on('end', resolve);
    gzip.on('error', reject);
  });
  const write = promisify<Buffer, void>((slice, done) => gzip.write(slice, () => done(null)));
  for (const slice of slices) await write(slice);
  gzip.end();
  await ended;
  return chunks;
}
