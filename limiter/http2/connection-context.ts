import { Budget } from './connection-watch.ts';
import { ErrorCode, initialMaxFrameBytes, largest31, largestMaxFrameBytes, Setting } from './constants.ts';
import { readUint32 } from './frame-reader.ts';
import { OutputBuffer, writeResetStream } from './frame-writer.ts';
import { type Http2Limits, openStreamBytes, waitingAnswerBytes } from './limits.ts';
import type { RequestHandler } from './request-handler.ts';
import { ResponseWriter } from './response-writer.ts';
import { type Http2Stream, StreamState } from './stream.ts';
import { ClosedBy, StreamTable } from './stream-table.ts';
import { ConnectionError } from './violation.ts';

export interface ContextOptions {
  peer: unknown;
  handler: RequestHandler;
  limits: Http2Limits;
  nowMs: number;
  onWritten: () => void;
  onEmpty: () => void;
}

/** What the parts of one connection share: its streams, its output, the time, and what is left of its allowances. */
export class ConnectionContext {
  readonly limits: Http2Limits;
  readonly handler: RequestHandler;
  readonly output = new OutputBuffer();
  readonly streams: StreamTable;
  readonly writer: ResponseWriter;
  /** As of the last bytes or tick. */
  nowMs: number;
  /** Streams above it are not served any more: what the last GOAWAY said. */
  lastServedId = largest31;
  isClosed = false;
  /** The peer knows our SETTINGS. */
  settingsAcknowledged = false;
  readonly #controlFrames: Budget;
  readonly #rapidResets: Budget;
  readonly #provokedResets: Budget;

  constructor(options: ContextOptions) {
    const { limits, nowMs } = options;
    this.limits = limits;
    this.handler = options.handler;
    this.nowMs = nowMs;
    this.#controlFrames = new Budget(limits.controlFrames, nowMs);
    this.#rapidResets = new Budget(limits.rapidResets, nowMs);
    this.#provokedResets = new Budget(limits.provokedResets, nowMs);
    this.streams = new StreamTable({ maxStreams: limits.maxConcurrentStreams, onEmpty: options.onEmpty });
    this.writer = new ResponseWriter({
      peer: options.peer,
      output: this.output,
      streams: this.streams,
      onWritten: options.onWritten,
      onServed: () => this.#requestServed(),
    });
  }

  /** @throws ConnectionError when the peer sends control frames and nothing useful beside them. */
  spendControl(cost: number): void {
    if (this.#controlFrames.spend(cost, this.nowMs)) return;
    throw new ConnectionError(ErrorCode.ENHANCE_YOUR_CALM, 'control_flood');
  }

  /** @throws ConnectionError when the peer resets too many streams that it just opened, or whose request it never ended. */
  spendReset(stream: Http2Stream, wasUnfinished: boolean): void {
    if (!wasUnfinished && this.nowMs - stream.openedMs >= this.limits.rapidResetMs) return;
    if (this.#rapidResets.spend(1, this.nowMs)) return;
    throw new ConnectionError(ErrorCode.ENHANCE_YOUR_CALM, 'rapid_reset');
  }

  /** @throws ConnectionError when the peer made the server reset too many streams. */
  spendProvocation(): void {
    if (this.#provokedResets.spend(1, this.nowMs)) return;
    throw new ConnectionError(ErrorCode.ENHANCE_YOUR_CALM, 'provoked_reset');
  }

  /** A fault of the peer that only concerns one stream. RFC 9113, section 5.4.2. */
  streamError(id: number, code: ErrorCode): void {
    this.spendProvocation();
    this.resetStream(id, code);
  }

  /** A stream that is no fault of the peer. */
  resetStream(id: number, code: ErrorCode): void {
    writeResetStream(this.output, id, code);
    const stream = this.streams.get(id);
    if (stream === undefined) this.streams.closed.add(id, ClosedBy.SERVER_RESET);
    else this.abort(stream, code, ClosedBy.SERVER_RESET);
  }

  /** Ends the stream that waits for its peer longest, which is told so. */
  shed(stream: Http2Stream): void {
    // A peer to whom it happens again and again had better go.
    this.spendProvocation();
    if (stream.isOpen) this.handler.onShed?.(stream);
    if (stream.state !== StreamState.CLOSED) this.resetStream(stream.id, ErrorCode.ENHANCE_YOUR_CALM);
  }

  /** Closes a stream and tells its handler first, unless that is done with it. */
  abort(stream: Http2Stream, code: ErrorCode, how: ClosedBy): void {
    const wasOpen = stream.isOpen;
    stream.responseEnded = true;
    this.writer.forget(stream);
    if (wasOpen) this.handler.onAbort(stream, code);
    this.streams.close(stream, how);
  }

  /** Whoever would end these has gone: requests that are not complete, and answers that have no end. */
  peerEnded(): void {
    for (const stream of this.streams) {
      if (stream.state === StreamState.OPEN || (stream.answerIsStream && stream.isOpen)) {
        this.abort(stream, ErrorCode.CANCEL, ClosedBy.PEER_RESET);
      }
    }
  }

  /** The connection ends. */
  abortAll(code: ErrorCode): void {
    this.isClosed = true;
    for (const stream of this.streams) {
      try {
        this.abort(stream, code, ClosedBy.SERVER_RESET);
      } catch {
        // The other streams' handlers must hear of it all the same.
      }
    }
  }

  /** What streams hold for the peer to do its part. Those that wait for their handler are none of them. */
  get heldBytes(): number {
    const { streams, writer } = this;
    return (
      streams.unfinished * openStreamBytes +
      streams.handlerBytes +
      writer.waitingStreams * waitingAnswerBytes +
      writer.queuedBytes
    );
  }

  #requestServed(): void {
    this.#controlFrames.requestCompleted();
    this.#rapidResets.requestCompleted();
    this.#provokedResets.requestCompleted();
  }
}

/** The peer's SETTINGS. RFC 9113, section 6.5.2; RFC 9113, section 6.5.3 for the order. */

export const settingBytes = 6;

/**
 * Applies what concerns a server's sending. MAX_FRAME_SIZE is only checked, as no larger frame than the initial one is
 * ever sent; of several initial windows only the last changes the streams, which costs a pass over all of them.
 * @throws ConnectionError
 */
export function applySettings(writer: ResponseWriter, bytes: Uint8Array, start: number, end: number): void {
  let window = writer.initialStreamWindow;
  for (let at = start; at < end; at += settingBytes) {
    const identifier = ((bytes[at] as number) << 8) | (bytes[at + 1] as number);
    const value = readUint32(bytes, at + 2);
    check(identifier, value);
    if (identifier === Setting.HEADER_TABLE_SIZE) writer.encoder.setPeerTableBytes(value);
    else if (identifier === Setting.INITIAL_WINDOW_SIZE) window = value;
  }
  if (window !== writer.initialStreamWindow && !writer.changeInitialWindow(window)) {
    throw new ConnectionError(ErrorCode.FLOW_CONTROL_ERROR, 'flow_control_error');
  }
}

function check(identifier: number, value: number): void {
  if (identifier === Setting.INITIAL_WINDOW_SIZE && value > largest31) {
    throw new ConnectionError(ErrorCode.FLOW_CONTROL_ERROR, 'flow_control_error');
  }
  const good =
    identifier === Setting.ENABLE_PUSH
      ? value <= 1
      : identifier !== Setting.MAX_FRAME_SIZE ||
        (value >= initialMaxFrameBytes && value <= largestMaxFrameBytes);
  if (!good) throw new ConnectionError(ErrorCode.PROTOCOL_ERROR, 'protocol_error');
}

/**
 * The life of a connection:
 *
 *                 preface             SETTINGS            drain()              PING answered, or
 *     PREFACE ─────────────▶ SETTINGS ─────────▶ OPEN ─────────────▶ DRAINING  drainPingMs went by
 *        │                       │                │  GOAWAY(2^31-1)  │ PING    ──────────▶ GOING
 *        │ drain(),              │ drain()        │                  ▲                      │ GOAWAY(last)
 *        │ no preface for        └──────────────────────────────────▶│                      │
 *        │ drainPingMs                            │ the peer's GOAWAY, or FIN               │
 *        ▼                                        └────────────────────────────────────────▶│
 *     CLOSED                                                                                │ no stream is left:
 *                                                                                           │ GOAWAY(last) if none yet
 *     any state ── a violation: GOAWAY(code), the transport ends ──▶ CLOSED ◀───────────────┘
 *     any state ── lost() ─────────────────────────────────────────▶ CLOSED
 *
 * Nothing is written before the preface arrived, so that other protocols on the port see a closed connection and
 * nothing else; a peer that sends it to a connection which is to drain comes to DRAINING at once. In GOING new streams
 * are ignored once the last GOAWAY said so (RFC 9113, section 6.8): after the peer's own they are served.
 */
export const Phase = { PREFACE: 0, SETTINGS: 1, OPEN: 2, DRAINING: 3, GOING: 4, CLOSED: 5 } as const;
export type Phase = (typeof Phase)[keyof typeof Phase];
