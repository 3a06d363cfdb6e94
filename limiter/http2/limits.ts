import type { Http2Connection } from './connection.ts';
import type { RequestHandler, Transport } from './request-handler.ts';
import type { ViolationReason } from './violation.ts';

/** An allowance that is spent by one kind of event and comes back with useful work and, slowly, with time. */
export interface BudgetLimits {
  /** What may be spent at once. */
  burst: number;
  /** What one answer with a body gives back. */
  perRequest: number;
  /** What a second gives back, so that a quiet client's keepalive never adds up to an attack. */
  perSecond: number;
}

/** What the server allows a peer: numbers that we chose, as the RFC leaves them open. */
export interface Http2Limits {
  /** SETTINGS_MAX_CONCURRENT_STREAMS: more are refused. */
  maxConcurrentStreams: number;
  /** SETTINGS_INITIAL_WINDOW_SIZE: at least 65,535, as a peer may use that before it knows. */
  streamWindowBytes: number;
  /** The connection's receive window, at least 65,535. */
  connectionWindowBytes: number;
  /** Bodies of requests that are not complete, summed over the connection: the stream that takes it beyond is reset. */
  maxHeldBytes: number;
  /** SETTINGS_MAX_HEADER_LIST_SIZE: a request above it is answered with 431. RFC 9113, section 10.5.1. */
  maxHeaderListBytes: number;
  /** Compressed bytes of one header section: beyond it the connection ends. */
  maxHeaderBlockBytes: number;
  /** CONTINUATION frames of one header section. */
  maxContinuationFrames: number;
  /** SETTINGS, PING, PRIORITY, PRIORITY_UPDATE, WINDOW_UPDATE, empty DATA, unknown frames, frames on closed streams. */
  controlFrames: BudgetLimits;
  /** Streams that the peer resets within `rapidResetMs` after it opened them, or before their request is complete. */
  rapidResets: BudgetLimits;
  /** A call that was given up after this long is an expired deadline, not an attack. */
  rapidResetMs: number;
  /** Streams that the server must reset or refuse for a fault of the peer. */
  provokedResets: BudgetLimits;
  /** Answers that wait for a full socket: reading pauses. Answers that wait for windows: new requests are refused. */
  pauseQueuedBytes: number;
  /** Answers that wait for either: beyond it the connection ends. */
  maxQueuedBytes: number;
  /** How long answers may wait without the least progress. */
  slowReaderMs: number;
  /** From the connection's start to the client's preface and SETTINGS. */
  prefaceTimeoutMs: number;
  /** From the server's SETTINGS to their acknowledgement. RFC 9113, section 6.5.3. */
  settingsTimeoutMs: number;
  /** From a request's HEADERS to its end: what takes longer is reset. The same of a header section, or of any frame, which ends the connection. A stream of messages may take as long as it likes. */
  requestTimeoutMs: number;
  /** Without any stream. `Infinity` for no limit. */
  idleTimeoutMs: number;
  /** Without a byte from the peer, after which it is asked with PING. `Infinity` for never. */
  keepaliveMs: number;
  keepaliveTimeoutMs: number;
  /**
   * How long a graceful shutdown waits for the answer to its PING, for requests that are not complete yet, and for a peer
   * that has not begun.
   */
  drainPingMs: number;
}

/** What a stream whose request is not complete takes with all that belongs to it, measured. */
export const openStreamBytes = 1024;
/** What an answer that waits for windows takes beside its bytes, its stream included. */
export const waitingAnswerBytes = 1536;

export const defaultHttp2Limits: Http2Limits = {
  maxConcurrentStreams: 1024,
  streamWindowBytes: 1_048_576,
  connectionWindowBytes: 4_194_304,
  maxHeldBytes: 33_554_432,
  maxHeaderListBytes: 16_384,
  maxHeaderBlockBytes: 65_536,
  maxContinuationFrames: 16,
  controlFrames: { burst: 1000, perRequest: 8, perSecond: 10 },
  rapidResets: { burst: 1000, perRequest: 1, perSecond: 100 },
  rapidResetMs: 10,
  provokedResets: { burst: 500, perRequest: 0.1, perSecond: 1 },
  pauseQueuedBytes: 262_144,
  maxQueuedBytes: 8_388_608,
  slowReaderMs: 30_000,
  prefaceTimeoutMs: 10_000,
  settingsTimeoutMs: 10_000,
  requestTimeoutMs: 60_000,
  idleTimeoutMs: 1_800_000,
  keepaliveMs: 60_000,
  keepaliveTimeoutMs: 20_000,
  drainPingMs: 1000,
};

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
