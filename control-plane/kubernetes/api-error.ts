/** Why a request to the Kubernetes API failed, whether the server said so or there was no answer. */
import { systemErrorReason } from '../../process/log/error-text.ts';

export interface ApiErrorOptions {
  status: number;
  reason: string;
  message: string;
  retryAfterMs?: number | undefined;
  cause?: unknown;
}

export class ApiError extends Error {
  override readonly name = 'ApiError';
  /** The HTTP status, also of an ERROR event in a watch; 0 when there was no answer. */
  readonly status: number;
  /**
   * The server's: `NotFound`, `AlreadyExists`, `Conflict`, `Forbidden`, `Expired`; empty when it gave none. Without an
   * answer one of ours: `Unreachable`, `Timeout`, `Aborted` (by the caller's signal), `Credentials`, `Unreadable`.
   */
  readonly reason: string;
  /** How long the server asks to wait before the next attempt. */
  readonly retryAfterMs: number | undefined;

  constructor({ status, reason, message, retryAfterMs, cause }: ApiErrorOptions) {
    super(message, cause === undefined ? undefined : { cause });
    this.status = status;
    this.reason = reason;
    this.retryAfterMs = retryAfterMs;
  }
}

/** Statuses below 500 after which the same request may succeed; `isTransient` says why. */
const transientStatuses: ReadonlySet<number> = new Set([401, 408, 425, 429]);

/**
 * Returns whether the same request may succeed later although nobody corrects it. Writers of statuses, events and fleets repeat
 * such a request soon; they postpone or drop all others. docs/control-plane.md has the table.
 *
 * No answer is transient, whatever the network says: servers restart, names and certificates are replaced. So are the
 * server's own faults (5xx), its wish for patience (408, 425, 429), and 401: tokens are replaced, and a server that has just
 * started knows no users. 403 is not, as a person has to grant the right. Nor is a request that its caller aborted.
 */
export function isTransient({ status, reason }: ApiError): boolean {
  if (status === 0) return reason !== 'Aborted';
  return status >= 500 || transientStatuses.has(status);
}

/** Returns whether the server does not accept who asks (401), or denies the right (403). One that has just started does both. */
export function isDenied({ status }: ApiError): boolean {
  return status === 401 || status === 403;
}

/**
 * Makes the error for a rejected request, in the words of the server's Status object. `body` may be anything, such as the page
 * of a proxy.
 */
export function refusal(options: {
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

/** No answer: `server` names who did not give one. */
export function unreachable(server: string, cause: unknown): ApiError {
  return new ApiError({
    status: 0,
    reason: 'Unreachable',
    message: `${server}: ${systemErrorReason(cause)}`,
    cause,
  });
}

/** An answer that is not what was asked for; a proxy may have given it. */
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

/** Bounded, so that no page fills the log. */
function firstLine(body: string): string {
  const line = body.trim().split('\n', 1)[0] ?? '';
  return line.length > 200 ? `${line.slice(0, 200)}...` : line;
}
