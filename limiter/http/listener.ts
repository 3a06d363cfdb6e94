/** The HTTP listener: `/json`, `/healthcheck` and `/livez`, for any method. */
import type { ServerResponse } from 'node:http';
import type { HealthView } from '../../process/health.ts';
import type { HttpConnectionsOptions } from '../../process/http/http-connections.ts';
import { type HttpCall, type HttpListener, HttpServer } from '../../process/http/http-server.ts';
import { sendNotFound, sendText } from '../../process/http/text-response.ts';
import { answerJson, type JsonEndpointOptions, loadJsonCodec } from './json-endpoint.ts';

export interface HttpListenerOptions extends JsonEndpointOptions {
  health: HealthView;
  /** Bounds its connections. Undefined: they are not. */
  connections?: HttpConnectionsOptions | undefined;
  /** How long requests may take at the end before they are cut. */
  closeGraceMs: number;
  /** Called for every request of /json. */
  onJsonRequest(): void;
  /** Called when a request was answered with 500 because something threw. */
  onFault(error: unknown): void;
}

export function createHttpListener(options: HttpListenerOptions): HttpListener {
  const server = new HttpServer({
    serve: (call) => route(call, options),
    closeGraceMs: options.closeGraceMs,
    connections: options.connections,
    onFault: (error) => options.onFault(error),
  });
  return {
    listen: async (address) => {
      const bound = await server.listen(address);
      // Before anybody asks, and after the caller heard of the port. What goes wrong comes up again with the first request.
      setImmediate(() => loadJsonCodec().catch(() => {}));
      return bound;
    },
    close: () => server.close(),
  };
}

async function route(call: HttpCall, options: HttpListenerOptions): Promise<void> {
  const { target, response } = call;
  if (target.path === '/json') {
    options.onJsonRequest();
    await answerJson(call, options);
  } else if (target.path === '/healthcheck') answerHealth(response, options.health);
  else if (target.path === '/livez') sendText(response, 200, 'OK');
  else sendNotFound(response);
}

function answerHealth(response: ServerResponse, health: HealthView): void {
  if (health.healthy) sendText(response, 200, 'OK');
  else response.writeHead(500, { 'Content-Length': 0 }).end();
}
