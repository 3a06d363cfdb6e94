import type { Http2Connection } from './connection.ts';
import type { Http2Limits } from './limits.ts';
import type { RequestHandler } from './request-handler.ts';
import type { Transport } from './transport.ts';
import type { ViolationReason } from './violation.ts';

export interface Http2ConnectionOptions {
  handler: RequestHandler;
  transport: Transport;
  /** Who is at the other end, for the handler. */
  peer?: unknown;
  limits: Http2Limits;
  nowMs: number;
  /** Something was gathered outside `receive`: `flush` is due, at the latest at the end of the turn. */
  scheduleFlush(connection: Http2Connection): void;
  /** At most once: the connection is being ended. `error` is what was thrown where that is `internal_error`. */
  onViolation(reason: ViolationReason, error?: unknown): void;
  /** A request that was not complete in time was reset. */
  onUnfinishedRequest?(): void;
  /** A request was ended by `shed`. */
  onShed?(): void;
  /** What it holds may have changed: `heldBytes`. Called once for each `flush`. */
  onHeld?(heldBytes: number): void;
  /** Once: no stream is left, and nothing is called any more. */
  onClose?(): void;
}
