/** The control plane's own listener for operators and Kubernetes: probes, metrics, and the rules that are served to limiters. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { type ApiRouter, isApiPath, isStrayApiPath } from '../../process/http/api-router.ts';
import { ConsoleFiles, isOfConsole } from '../../process/http/console-files.ts';
import type { HttpConnectionsOptions } from '../../process/http/http-connections.ts';
import { type HttpCall, type HttpListener, HttpServer } from '../../process/http/http-server.ts';
import { requestPath, sendError, sendNotFound, sendText } from '../../process/http/text-response.ts';
import type { ConfigObject, ConfigStatus } from '../model/config-object.ts';
import type { ClusterDecision } from '../model/decision.ts';
import type { ReplicaReport } from '../model/fleet-snapshot.ts';
import { answerSnapshot } from './snapshot-page.ts';

/** The part of prom-client's registry that the listener needs. */
export interface MetricsText {
  readonly contentType: string;
  metrics(): Promise<string>;
}

export interface ControlPlaneListenerOptions {
  readiness: ReadinessView;
  metrics: MetricsText;
  view: ControlPlaneView;
  /** The routes of `/v1`. Their guard also decides who may see `/snapshot`. Undefined if all callers may. */
  api?: ApiRouter | undefined;
  /** Bounds on its connections. Undefined if they are not bounded. */
  connections?: HttpConnectionsOptions | undefined;
  /** How long requests may continue at shutdown before they are cut. */
  closeGraceMs: number;
  /** Called when a request was answered with 500, or cut, because of an exception. */
  onFault(error: unknown): void;
}

const index = `/console: a page that shows fleets, limiters and objects
/healthz: 200 while the process answers at all
/readyz: 200 when limiters can get rules, otherwise 503 and what is missing
/metrics: metrics in the text format of Prometheus
/snapshot: the snapshot of each fleet, and which limiters have acknowledged it; ?fleet=<name>, ?format=json
/v1/status, /v1/rules, /v1/overrides, /v1/refusals: the same as JSON for programs, see docs/admin-api.md
`;

export function createControlPlaneListener(options: ControlPlaneListenerOptions): HttpListener {
  return new HttpServer({
    admit: (request, response) => admit(request, response, options),
    isForeign: isStrayApiPath,
    serve: (call) => route(call, options),
    connections: options.connections,
    closeGraceMs: options.closeGraceMs,
    onFault: (error) => options.onFault(error),
  });
}

/** Paths for programs that may use any name for the listener: probes and metrics. The API and the console check the name themselves. */
const openPaths: readonly (string | undefined)[] = ['/healthz', '/readyz', '/metrics'];

function admit(
  request: IncomingMessage,
  response: ServerResponse,
  { api }: ControlPlaneListenerOptions,
): boolean {
  const url = request.url ?? '/';
  const path = requestPath(url)?.path;
  if (openPaths.includes(path) || isApiPath(path) || isStrayApiPath(url) || isOfConsole(path)) return true;
  if (api === undefined) return true;
  if (path === '/snapshot') return api.guard.admitsToPage(request, response, 'page');
  return api.guard.admitsSite(request, response, 'page');
}

const consoleFiles = new ConsoleFiles('control-plane.html');

async function route(call: HttpCall, options: ControlPlaneListenerOptions): Promise<void> {
  const { target, request, response } = call;
  if (options.api !== undefined && isApiPath(target.path)) return options.api.answer(call);
  if (isOfConsole(target.path)) return consoleFiles.answer(call);
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

/** The parts that must be complete before limiters are sent to this replica, and the words that explain what is missing. */
const parts = {
  source: 'the first complete list of RateLimitConfigs is not read yet',
  xds: 'the xDS listener is not open',
} as const;

export type ReadinessPart = keyof typeof parts;

interface ReadinessView {
  /** The reasons why the replica is not ready, as sentences. Empty if it is ready. */
  readonly missing: readonly string[];
}

/**
 * Whether the replica is ready. A part that was ready once stays ready. If a source becomes unreachable later, the replica remains ready,
 * because it serves the known rules.
 */
export class Readiness implements ReadinessView {
  readonly #unread: () => readonly string[];
  readonly #waitingFor = new Set(Object.keys(parts) as ReadinessPart[]);
  #isDraining = false;

  /** `unread`: returns the problems of the complete list of objects. */
  constructor(unread: () => readonly string[] = () => []) {
    this.#unread = unread;
  }

  get missing(): readonly string[] {
    const unread = this.#unread();
    const missing = [...this.#waitingFor].map((part) =>
      part === 'source' && unread.length > 0
        ? `limiters get no new rules until you correct these files or move them out of the folder: ${unread.join('; ')}`
        : parts[part],
    );
    return this.#isDraining ? [...missing, 'this replica is shutting down'] : missing;
  }

  reached(part: ReadinessPart): void {
    this.#waitingFor.delete(part);
  }

  /** Makes the replica unready permanently, because the process is ending. */
  drain(): void {
    this.#isDraining = true;
  }
}

/** The data of `/snapshot`, read at every request. The returned values never change. */
export interface ControlPlaneView {
  /** The name of this replica. */
  readonly replica: string;
  /** The class of the objects that are served. */
  readonly className: string;
  /** The controller name in statuses. Undefined if statuses stay in memory. */
  readonly controllerName: string | undefined;
  /** The replica that leads, as far as this replica knows. */
  leader(): string | undefined;
  /** The current decision. Undefined before the first complete list. */
  decision(): ClusterDecision | undefined;
  /** Returns the reasons why nothing is served, as sentences. Empty if rules are served. */
  missing(): readonly string[];
  /** The reports of all living replicas, including this one. */
  reports(): readonly ReplicaReport[];
  /** The newest status that is known of the object. */
  statusOf(object: ConfigObject): ConfigStatus | undefined;
}
