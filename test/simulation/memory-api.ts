/** Access of one client to a simulated cluster. Answers take time, and faults can be injected into each request. */
import {
  ApiError,
  type ApiRequest,
  type Denial,
  type KubernetesApi,
  rejection,
  unreachable,
  type WatchStream,
} from '../../control-plane/kubernetes/api.ts';
import type { Timers } from '../../process/time/clock.ts';
import {
  apiVersion,
  fleetKind,
  fleetPlural,
  kind,
  overrideKind,
  overridePlural,
  plural,
} from '../../rules/language/kinds.ts';
import { apiError, type Kind, type MemoryCluster, type Selection, type Target } from './memory-cluster.ts';

const ours = (plural: string, kind: string): Kind => ({
  ...{ root: `/apis/${apiVersion}`, plural, kind },
  ...{ isNamespaced: true, hasStatus: true },
});
const ofOthers = (root: string, plural: string, kind: string, isNamespaced = true): Kind => ({
  ...{ root, plural, kind, isNamespaced },
  hasStatus: false,
});

/** The kinds that a control plane reads and writes. */
export const kinds: readonly Kind[] = [
  ours(plural, kind),
  ours(overridePlural, overrideKind),
  ours(fleetPlural, fleetKind),
  ofOthers('/api/v1', 'configmaps', 'ConfigMap'),
  ofOthers('/api/v1', 'namespaces', 'Namespace', false),
  ofOthers('/api/v1', 'pods', 'Pod'),
  ofOthers('/apis/coordination.k8s.io/v1', 'leases', 'Lease'),
  ofOthers('/apis/events.k8s.io/v1', 'events', 'Event'),
  ofOthers('/apis/discovery.k8s.io/v1', 'endpointslices', 'EndpointSlice'),
];

/** What happens to one request. */
export interface Fault {
  /** Of the whole request: half of it passes before the server acts, half of it after. Defaults to the client's delay. */
  delayMs?: number;
  /** The server answers with this error, and does nothing. */
  refused?: { status: number; reason: string; retryAfterSeconds?: number };
  /** The server does what it was asked, but the connection ends before the answer. */
  lost?: boolean;
  /** The connection ends before the server has the request. */
  unreached?: boolean;
  /** The server receives the request twice, as when a client sends it again; the client gets the second answer. */
  repeated?: boolean;
}

export interface MemoryApiOptions {
  cluster: MemoryCluster;
  timers: Timers;
  /** By which the client is reported: it may stand still. Defaults to `timers`. */
  clientTimers?: Timers;
  /** Nothing passes, and nobody is notified: requests wait for their timeout. */
  isSilent?(): boolean;
  /** Field manager of writes that name none. */
  userAgent: string;
  /** Asked for each request, streams included. */
  fault?(request: ApiRequest): Fault | undefined;
  /** Answers to GET and POST of what is no object: schemas, reviews of tokens. Undefined: 404. */
  others?(request: ApiRequest): unknown;
  delayMs?: number;
  /** The client changes nothing of what it sends and gets: nothing is copied. */
  isTrusted?: boolean;
  /** How often a watch says how far it is. */
  bookmarkMs?: number;
  denied?: ((denial: Denial, isDenied: boolean) => void) | undefined;
}

const server = 'https://memory';

export class MemoryApi implements KubernetesApi {
  readonly denied: KubernetesApi['denied'];
  readonly #options: MemoryApiOptions;
  readonly #watches = new Set<MemoryWatch>();
  /** What fails each request that has no answer yet. */
  readonly #underWay = new Set<() => void>();
  /** Lists that were begun: what is left of each, by its token. */
  readonly #pages = new Map<string, { revision: number; rest: unknown[] }>();

  constructor(options: MemoryApiOptions) {
    this.#options = options;
    this.denied = options.denied;
  }

  /** Watches that are open. */
  get watches(): number {
    return this.#watches.size;
  }

  async request<T = unknown>(request: ApiRequest): Promise<T> {
    const { delayMs = this.#options.delayMs ?? 0, ...fault } = this.#options.fault?.(request) ?? {};
    return this.#copy(await this.#awaited(request, this.#exchange(request, { ...fault, delayMs }))) as T;
  }

  stream(request: ApiRequest): Promise<WatchStream> {
    const { delayMs = this.#options.delayMs ?? 0, ...fault } = this.#options.fault?.(request) ?? {};
    return this.#awaited(request, this.#open(request, { ...fault, delayMs }));
  }

  async #open(request: ApiRequest, fault: Fault & { delayMs: number }): Promise<WatchStream> {
    await this.#pause(fault.delayMs / 2);
    if (this.#options.isSilent?.()) await this.#silence();
    const refused = rejectionOf(request, fault);
    if (refused !== undefined) {
      await this.#return(fault.delayMs / 2);
      throw refused;
    }
    const watch = new MemoryWatch(this.#options, this.#selection(request), request);
    this.#watches.add(watch);
    watch.ended.finally(() => this.#watches.delete(watch));
    await this.#return(fault.delayMs / 2);
    return watch;
  }

  /** What `work` comes to, unless the client has waited long enough, gives it up, or loses its connections. */
  async #awaited<T>({ signal, timeoutMs = 30_000 }: ApiRequest, work: Promise<T>): Promise<T> {
    const { promise, resolve, reject } = Promise.withResolvers<T>();
    const timeout = () => reject(apiError(0, 'Timeout', `${server}: no answer within ${timeoutMs} ms`));
    const callOff = this.#clientTimers.after(timeoutMs, timeout);
    const onAbort = () => reject(apiError(0, 'Aborted', `${server}: the request was canceled`));
    const lose = () => reject(unreachable(server, new Error('socket hang up')));
    if (signal?.aborted) onAbort();
    signal?.addEventListener('abort', onAbort, { once: true });
    this.#underWay.add(lose);
    try {
      work.then(resolve, reject);
      return await promise;
    } finally {
      callOff();
      this.#underWay.delete(lose);
      signal?.removeEventListener('abort', onAbort);
    }
  }

  /** Breaks all connections: requests under way fail. */
  close(): void {
    for (const watch of this.#watches) watch.break();
    for (const lose of [...this.#underWay]) lose();
  }

  async #exchange(request: ApiRequest, fault: Fault & { delayMs: number }): Promise<unknown> {
    await this.#pause(fault.delayMs / 2);
    if (this.#options.isSilent?.()) await this.#silence();
    const refused = rejectionOf(request, fault);
    if (refused !== undefined) {
      await this.#return(fault.delayMs / 2);
      throw refused;
    }
    if (fault.repeated) attempt(() => this.#answer(request));
    const answer = attempt(() => this.#answer(request));
    await this.#return(fault.delayMs / 2);
    if (this.#options.isSilent?.()) await this.#silence();
    if (fault.lost) throw unreachable(server, new Error('socket hang up'));
    if ('error' in answer) throw ofRequest(answer.error, request);
    return answer.value;
  }

  #answer(request: ApiRequest): unknown {
    const { cluster } = this.#options;
    const { method = 'GET', contentType = 'application/json', query = {}, path } = request;
    const found = targetOf(path);
    if (found === undefined) return this.#other(request);
    const { kind, namespace, name } = found;
    const body = this.#copy(request.body ?? {}) as Record<string, unknown>;
    const manager = String(query['fieldManager'] ?? this.#options.userAgent.split('/')[0]);
    if (name === undefined) {
      if (method === 'GET') return this.#list(request, this.#selection(request));
      return cluster.create({ kind, namespace }, body, manager);
    }
    const target: Target = { ...found, name };
    switch (method) {
      case 'GET':
        return cluster.read({ kind, namespace, name });
      case 'PUT':
        return cluster.replace(target, body, manager);
      case 'DELETE':
        return cluster.delete(target, (body['preconditions'] ?? {}) as object);
      default:
        return contentType === 'application/apply-patch+yaml'
          ? cluster.apply(target, body, { manager, force: query['force'] === true })
          : cluster.merge(target, body, manager);
    }
  }

  #other(request: ApiRequest): unknown {
    const answer = this.#options.others?.(request);
    if (answer === undefined)
      throw apiError(404, 'NotFound', 'the server could not find the requested resource');
    return answer;
  }

  #list({ query = {} }: ApiRequest, selection: Selection): unknown {
    const { cluster } = this.#options;
    const token = query['continue'];
    const page = typeof token === 'string' && token !== '' ? this.#pages.get(token) : undefined;
    if (token && (page === undefined || cluster.isForgotten(page.revision)))
      throw apiError(
        410,
        'Expired',
        'The provided continue parameter is too old to display a consistent list result.',
      );
    const revision = page?.revision ?? cluster.revision;
    const all = page?.rest ?? cluster.list(selection);
    const limit = Number(query['limit'] ?? 0) || all.length;
    const rest = all.slice(limit);
    const next = `${revision}:${all.length}:${this.#pages.size}`;
    if (rest.length > 0) this.#pages.set(next, { revision, rest });
    return {
      apiVersion: selection.kind.root.replace(/^\/apis?\//, ''),
      kind: `${selection.kind.kind}List`,
      metadata: {
        resourceVersion: String(revision),
        ...(rest.length > 0 && { continue: next, remainingItemCount: rest.length }),
      },
      items: all.slice(0, limit),
    };
  }

  #selection({ path, query = {} }: ApiRequest): Selection {
    const found = targetOf(path);
    if (found === undefined)
      throw apiError(404, 'NotFound', 'the server could not find the requested resource');
    const { kind, namespace } = found;
    return { kind, namespace, labelSelector: String(query['labelSelector'] ?? '') };
  }

  #copy(value: unknown): unknown {
    return this.#options.isTrusted ? value : structuredClone(value);
  }

  get #clientTimers(): Timers {
    return this.#options.clientTimers ?? this.#options.timers;
  }

  /** On the way to the server. */
  #pause(ms: number): Promise<void> {
    return new Promise((resolve) => this.#options.timers.after(ms, resolve));
  }

  /** On the way back. */
  #return(ms: number): Promise<void> {
    return new Promise((resolve) => this.#clientTimers.after(ms, resolve));
  }

  /** Until the client waits no longer. */
  #silence(): Promise<never> {
    return new Promise(() => {});
  }
}

/** A watch that is open. */
class MemoryWatch implements WatchStream {
  readonly ended: Promise<ApiError | undefined>;
  readonly #end: (error: ApiError | undefined) => void;
  readonly #options: MemoryApiOptions;
  readonly #selection: Selection;
  readonly #request: ApiRequest;
  #revision: number;
  #isDue = false;

  constructor(options: MemoryApiOptions, selection: Selection, request: ApiRequest) {
    this.#options = options;
    this.#selection = selection;
    this.#request = request;
    this.#revision = Number(request.query?.['resourceVersion'] ?? options.cluster.revision);
    const { promise, resolve } = Promise.withResolvers<ApiError | undefined>();
    this.ended = promise;
    this.#end = resolve;
  }

  async follow(receive: (values: readonly unknown[]) => void): Promise<ApiError | undefined> {
    const { cluster, delayMs = 0, bookmarkMs = 60_000, isSilent = () => false } = this.#options;
    const { timers, clientTimers = timers } = this.#options;
    const { signal, query = {} } = this.#request;
    let isOpen = true;
    const send = (): void => {
      this.#isDue = false;
      if (!isOpen || isSilent()) return;
      if (cluster.isForgotten(this.#revision)) {
        const message = `too old resource version: ${this.#revision} (${cluster.revision})`;
        receive([{ type: 'ERROR', object: { kind: 'Status', code: 410, reason: 'Expired', message } }]);
        return;
      }
      const values = cluster.linesAfter(this.#revision, this.#selection);
      this.#revision = cluster.revision;
      if (values.length > 0) receive(this.#options.isTrusted ? values : structuredClone(values));
    };
    const later = (): void => {
      if (this.#isDue) return;
      this.#isDue = true;
      clientTimers.after(delayMs / 2, send);
    };
    const onAbort = () => this.end();
    const seconds = Number(query['timeoutSeconds'] ?? 0);
    const resourceVersion = () => String(this.#revision);
    const calledOff = [
      cluster.onChange(({ kind }) => {
        if (kind === this.#selection.kind) later();
      }),
      clientTimers.every(bookmarkMs, () => {
        send();
        if (isOpen && !isSilent() && query['allowWatchBookmarks'] === true)
          receive([{ type: 'BOOKMARK', object: { metadata: { resourceVersion: resourceVersion() } } }]);
      }),
      ...(seconds > 0 ? [clientTimers.after(seconds * 1000, () => this.end())] : []),
    ];
    signal?.addEventListener('abort', onAbort, { once: true });
    if (signal?.aborted) onAbort();
    later();
    const error = await this.ended;
    isOpen = false;
    for (const callOff of calledOff) callOff();
    signal?.removeEventListener('abort', onAbort);
    return error;
  }

  end(): void {
    this.#end(undefined);
  }

  /** The connection ends within the answer. */
  break(): void {
    this.#end(unreachable(server, new Error('aborted')));
  }
}

function rejectionOf(request: ApiRequest, { refused, unreached }: Fault): ApiError | undefined {
  if (unreached) return unreachable(server, new Error('connect ECONNREFUSED'));
  if (refused === undefined) return undefined;
  const { status, reason, retryAfterSeconds } = refused;
  const { method = 'GET', path } = request;
  return rejection({
    status,
    body: JSON.stringify({ kind: 'Status', code: status, reason, message: `simulated ${reason}` }),
    request: `${method} ${path}`,
    ...(retryAfterSeconds !== undefined && { retryAfter: String(retryAfterSeconds) }),
  });
}

/** As the client over HTTP words it. */
function ofRequest(error: unknown, { method = 'GET', path }: ApiRequest): unknown {
  if (!(error instanceof ApiError)) return error;
  return new ApiError({ ...error, message: `${method} ${path}: ${error.message}` });
}

function attempt(act: () => unknown): { value: unknown } | { error: unknown } {
  try {
    return { value: act() };
  } catch (error) {
    return { error };
  }
}

/** Which objects a path means; without a name all of a kind. */
function targetOf(path: string): (Omit<Target, 'name'> & { name: string | undefined }) | undefined {
  for (const kind of kinds) {
    if (!path.startsWith(`${kind.root}/`)) continue;
    const parts = path
      .slice(kind.root.length + 1)
      .split('/')
      .map(decodeURIComponent);
    const isWithin = kind.isNamespaced && parts[0] === 'namespaces';
    const [plural, name, subresource] = isWithin ? parts.slice(2) : parts;
    if (plural !== kind.plural) continue;
    return { kind, namespace: isWithin ? parts[1] : undefined, name, isStatus: subresource === 'status' };
  }
  return undefined;
}
