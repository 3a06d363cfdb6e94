/**
 * The interface to the Kubernetes API, and the failures of requests. `KubernetesClient` implements it over HTTP; simulations implement
 * it in memory.
 */
import { systemErrorReason } from '../../process/log/error-text.ts';

export interface ApiRequest {
  /** The method. Defaults to GET. */
  method?: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
  /** The path from the root of the API: `/api/v1/namespaces/default/configmaps`. */
  path: string;
  /** Query parameters. Undefined values are omitted. */
  query?: Readonly<Record<string, string | number | boolean | undefined>>;
  /** The body, which is sent as JSON. */
  body?: unknown;
  /** The type of the body. Defaults to `application/json`. Server-side apply takes `application/apply-patch+yaml`. */
  contentType?: string;
  signal?: AbortSignal | undefined;
  /** The time until the whole answer has arrived, or until a stream begins. Defaults to the client's timeout. */
  timeoutMs?: number;
}

/** The field manager of every server-side apply. */
export const fieldManager = 'weir-control-plane';

/**
 * The query and type of server-side apply. The object then has the content of the body, and no other fields that this manager wrote
 * before.
 */
export const serverSideApply = {
  method: 'PATCH',
  query: { fieldManager, force: true },
  contentType: 'application/apply-patch+yaml',
} as const;

/** An access that the API server has denied to this process with 401 or 403 for so long that the denial will not pass on its own. */
export interface Denial {
  verb: 'get' | 'list' | 'watch';
  /** The resource, such as `ratelimitfleets.ratelimit.weir.dev` or `/openapi/v3`. */
  resource: string;
  /** The reason, in the words of the API server. */
  reason: string;
}

/** The Kubernetes API. Every failure is an ApiError. */
export interface KubernetesApi {
  /** Called when an access is denied to a reader of the API, and with the same object when the denial has ended. */
  readonly denied?: ((denial: Denial, isDenied: boolean) => void) | undefined;
  /** The answer's JSON, unchecked. */
  request<T = unknown>(request: ApiRequest): Promise<T>;
  /** Returns the answer to a watch as it arrives. `signal` can also end it. */
  stream(request: ApiRequest): Promise<WatchStream>;
  /** Ends all connections. Requests in progress fail, and later requests would open new connections. */
  close(): void;
}

/** The answer to a watch. */
export interface WatchStream {
  /**
   * Passes on the parsed lines as they arrive, those of one chunk together. An empty list shows that the connection works. Called once.
   * Resolves when the watch has ended and its connection is free: with undefined for a regular end, and otherwise with the error. Never
   * rejects.
   */
  follow(receive: (values: readonly unknown[]) => void): Promise<ApiError | undefined>;
  /** Ends the watch without an error. */
  end(): void;
}

export interface ApiErrorOptions {
  status: number;
  reason: string;
  message: string;
  retryAfterMs?: number | undefined;
  cause?: unknown;
}

/** The failure of a request, with or without an answer from the server. */
export class ApiError extends Error {
  override readonly name = 'ApiError';
  /** The HTTP status, also for an ERROR event in a watch; 0 if there was no answer. */
  readonly status: number;
  /**
   * The server's reason: `NotFound`, `AlreadyExists`, `Conflict`, `Forbidden`, `Expired`. Empty if it gave none. Without an
   * answer, a reason of this client: `Unreachable`, `Timeout`, `Aborted` (by the caller's signal), `Credentials`, `Unreadable`.
   */
  readonly reason: string;
  /** The time that the server asks to wait before the next attempt. */
  readonly retryAfterMs: number | undefined;

  constructor({ status, reason, message, retryAfterMs, cause }: ApiErrorOptions) {
    super(message, cause === undefined ? undefined : { cause });
    this.status = status;
    this.reason = reason;
    this.retryAfterMs = retryAfterMs;
  }
}

/** Statuses below 500 after which the same request may succeed. See `isTransient`. */
const transientStatuses: ReadonlySet<number> = new Set([401, 408, 425, 429]);

/**
 * Returns whether the same request may succeed later without a correction. Writers of statuses, events and fleets repeat such a
 * request soon. They postpone or drop all others. docs/control-plane.md has the table.
 *
 * A missing answer is transient, regardless of the network's error: servers restart, and names and certificates are replaced. So
 * are the server's own errors (5xx), its requests to wait (408, 425, 429), and 401: tokens are replaced, and a server that has
 * just started knows no users. 403 is not transient, because a person must grant the right. A request that its caller aborted is
 * not, either.
 */
export function isTransient({ status, reason }: ApiError): boolean {
  if (status === 0) return reason !== 'Aborted';
  return status >= 500 || transientStatuses.has(status);
}

/**
 * Returns whether the server does not accept the client's identity (401), or denies the right (403). A server that has just
 * started does both.
 */
export function isDenied({ status }: Pick<ApiError, 'status'>): boolean {
  return status === 401 || status === 403;
}

/** Returns whether the server denied a list or watch (401, 403), or does not know its kind (404). */
export function isWatchRejected({ status }: Pick<ApiError, 'status'>): boolean {
  return isDenied({ status }) || status === 404;
}

/** Returns whether the request failed with this HTTP status. */
export function hasStatus(error: unknown, status: number): boolean {
  return error instanceof ApiError && error.status === status;
}

/** Returns whether the server rejected the request (4xx): it is reachable then. */
export function isRejection(error: unknown): boolean {
  return error instanceof ApiError && error.status >= 400 && error.status < 500;
}

/** Creates the error for a rejected request from the server's Status object. `body` may be anything, such as an error page of a proxy. */
export function rejection(options: {
  status: number;
  body: string;
  request: string;
  retryAfter?: string | undefined;
}): ApiError {
  const { status, request } = options;
  const { reason, message } = statusOf(options.body);
  const seconds = Number(options.retryAfter ?? Number.NaN);
  return new ApiError({
    status,
    reason,
    message: `${request}: ${message === '' ? `HTTP status ${status}` : message}`,
    retryAfterMs: seconds >= 0 ? seconds * 1000 : undefined,
  });
}

/** An ERROR event of a watch carries a Status object. */
export function watchError(object: unknown, request: string): ApiError {
  const { code, reason, message } = statusFields(object);
  const text = message === '' ? `the watch ended with status ${code}` : message;
  return new ApiError({ status: code, reason, message: `${request}: ${text}` });
}

/** Creates the error for a missing answer. `server`: the server that did not answer. */
export function unreachable(server: string, cause: unknown): ApiError {
  return new ApiError({
    status: 0,
    reason: 'Unreachable',
    message: `${server}: ${systemErrorReason(cause)}`,
    cause,
  });
}

/** The answer does not have the requested form; a proxy may have sent it. */
export function unreadable(message: string, cause?: unknown): ApiError {
  return new ApiError({ status: 0, reason: 'Unreadable', message, cause });
}

function statusOf(body: string): { reason: string; message: string } {
  try {
    return statusFields(JSON.parse(body));
  } catch {
    return { reason: '', message: firstLine(body) };
  }
}

function statusFields(value: unknown): { code: number; reason: string; message: string } {
  const fields = typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {};
  const { code, reason, message } = fields;
  return {
    code: typeof code === 'number' ? code : 500,
    reason: typeof reason === 'string' ? reason : '',
    message: typeof message === 'string' ? message : '',
  };
}

/** Returns a single line of bounded length, so that no page fills the log. */
function firstLine(body: string): string {
  const line = body.trim().split('\n', 1)[0] ?? '';
  return line.length > 200 ? `${line.slice(0, 200)}...` : line;
}
