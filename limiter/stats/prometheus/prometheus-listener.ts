/** The listener that Prometheus scrapes: one path, GET and HEAD. Kubernetes can ask it whether the process lives. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { HttpConnectionsOptions } from '../../../process/http/http-connections.ts';
import { type HttpCall, type HttpListener, HttpServer } from '../../../process/http/http-server.ts';
import { sendError, sendNotFound, sendText } from '../../../process/http/text-response.ts';
import type { Timers } from '../../../process/time/clock.ts';
import { contentType } from './exposition.ts';
import type { Encoding, ScrapeBodies } from './scrape-bodies.ts';

export interface PrometheusListenerOptions {
  path: string;
  bodies: ScrapeBodies;
  timers: Timers;
  closeGraceMs: number;
  /** Bounds its connections. Undefined: they are not. */
  connections?: HttpConnectionsOptions | undefined;
  onFault(error: unknown): void;
}

/** Ours: each may hold an answer in memory while its reader is slow. */
const maxScrapes = 16;
/** Ours: as long as the longest usual scrape interval. */
const slowestReadMs = 60_000;
/** As on the debug listener, which a pod may keep to itself. It is there before the store and the rules are. */
const livezPath = '/livez';

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
      if (method !== 'GET' && method !== 'HEAD') return refuseMethod(response);
      if (target.path !== path) return sendText(response, 200, 'OK');
      if (method === 'HEAD') return void writeHead(request, response).end();
      if (scrapes === maxScrapes) return refuseScrape(response);
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

/** RFC 9110, section 12.5.3: gzip where it is named, or `*`, and not with a weight of 0. */
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

function refuseMethod(response: ServerResponse): void {
  response.setHeader('Allow', 'GET, HEAD');
  sendError(response, 405, 'Method Not Allowed');
}

function refuseScrape(response: ServerResponse): void {
  response.setHeader('Retry-After', '1');
  sendError(response, 503, 'Service Unavailable', `${maxScrapes} scrapes are being answered`);
}
