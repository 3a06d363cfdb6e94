/** The control plane's own listener: probes, metrics, and what is served to whom. For operators and Kubernetes. */
import { type HttpCall, type HttpListener, HttpServer } from '../../process/http/http-server.ts';
import { sendError, sendNotFound, sendText } from '../../process/http/text-response.ts';
import type { ControlPlaneView } from './control-plane-view.ts';
import type { ReadinessView } from './readiness.ts';
import { answerSnapshot } from './snapshot-endpoint.ts';

/** The part of prom-client's registry that is needed. */
export interface MetricsText {
  readonly contentType: string;
  metrics(): Promise<string>;
}

export interface ControlPlaneListenerOptions {
  readiness: ReadinessView;
  metrics: MetricsText;
  view: ControlPlaneView;
  /** How long requests may take at the end before they are cut. */
  closeGraceMs: number;
  /** Called when a request was answered with 500, or cut, because something threw. */
  onFault(error: unknown): void;
}

const index = `/healthz: 200 while the process answers at all
/readyz: 200 when limiters can be served, else 503 and what is missing
/metrics: metrics in the text format of Prometheus
/snapshot: what is served to which fleet, and which limiter acknowledged what; ?fleet=<name>, ?format=json
`;

export function createControlPlaneListener(options: ControlPlaneListenerOptions): HttpListener {
  return new HttpServer({
    serve: (call) => route(call, options),
    closeGraceMs: options.closeGraceMs,
    onFault: (error) => options.onFault(error),
  });
}

async function route(call: HttpCall, options: ControlPlaneListenerOptions): Promise<void> {
  const { target, request, response } = call;
  const page = pages.get(target.path);
  if (page === undefined) sendNotFound(response);
  else if (request.method === 'GET' || request.method === 'HEAD') await page(call, options);
  else {
    response.setHeader('Allow', 'GET, HEAD');
    sendError(response, 405, 'Method Not Allowed');
  }
}

type Page = (call: HttpCall, options: ControlPlaneListenerOptions) => void | Promise<void>;

const pages: ReadonlyMap<string, Page> = new Map<string, Page>([
  ['/', ({ response }) => sendText(response, 200, index)],
  ['/healthz', ({ response }) => sendText(response, 200, 'ok\n')],
  ['/readyz', answerReady],
  ['/metrics', answerMetrics],
  ['/snapshot', (call, { view }) => answerSnapshot(call, view)],
]);

function answerReady({ response }: HttpCall, { readiness }: ControlPlaneListenerOptions): void {
  const { missing } = readiness;
  if (missing.length === 0) sendText(response, 200, 'ok\n');
  else sendText(response, 503, `not ready: ${missing.join('; ')}\n`);
}

async function answerMetrics(
  { response }: HttpCall,
  { metrics }: ControlPlaneListenerOptions,
): Promise<void> {
  const text = await metrics.metrics();
  response.setHeader('Content-Type', metrics.contentType);
  response.end(text);
}
