import { ErrorCode, largest31 } from './constants.ts';
import { OutputBuffer, writeResetStream } from './frame-writer.ts';
import { Budget, type Http2ConnectionOptions, type Http2Limits } from './limits.ts';
import type { RequestHandler } from './request-handler.ts';
import { ResponseWriter } from './response-writer.ts';
import { ClosedBy, type Http2Stream, StreamState, StreamTable } from './stream-table.ts';
import { enhanceYourCalmError } from './violation.ts';

/** The state that the parts of a connection share: its streams, its output, the time, and the rest of its allowances. */
export class ConnectionContext {
  readonly limits: Http2Limits;
  readonly handler: RequestHandler;
  readonly output = new OutputBuffer();
  readonly streams: StreamTable;
  readonly writer: ResponseWriter;
  /** The time of the last receive or tick. */
  nowMs: number;
  /** The stream identifier of the last GOAWAY: streams above it are not served. */
  lastServedId = largest31;
  isClosed = false;
  /** Whether the peer has acknowledged our SETTINGS. */
  settingsAcknowledged = false;
  readonly #controlFrames: Budget;
  readonly #rapidResets: Budget;
  readonly #provokedResets: Budget;

  constructor({ peer, handler, limits, nowMs }: Http2ConnectionOptions, onWritten: () => void) {
    this.limits = limits;
    this.handler = handler;
    this.nowMs = nowMs;
    this.#controlFrames = new Budget(limits.controlFrames, nowMs);
    this.#rapidResets = new Budget(limits.rapidResets, nowMs);
    this.#provokedResets = new Budget(limits.provokedResets, nowMs);
    this.streams = new StreamTable(limits.maxConcurrentStreams, this);
    this.writer = new ResponseWriter({ peer, output: this.output, streams: this.streams, onWritten });
  }

  /** @throws ConnectionError if the peer sends too many control frames in relation to useful ones */
  spendControl(cost: number): void {
    if (this.#controlFrames.spend(cost, this.nowMs, this.writer.served)) return;
    throw enhanceYourCalmError('control_flood');
  }

  /** @throws ConnectionError if the peer resets too many streams shortly after opening them, or before their request is complete */
  spendReset(stream: Http2Stream, wasUnfinished: boolean): void {
    if (!wasUnfinished && this.nowMs - stream.openedMs >= this.limits.rapidResetMs) return;
    if (this.#rapidResets.spend(1, this.nowMs, this.writer.served)) return;
    throw enhanceYourCalmError('rapid_reset');
  }

  /** @throws ConnectionError if the peer made the server reset too many streams */
  spendProvocation(): void {
    if (this.#provokedResets.spend(1, this.nowMs, this.writer.served)) return;
    throw enhanceYourCalmError('provoked_reset');
  }

  /** Resets a stream because of a fault of the peer that concerns this stream only. RFC 9113, section 5.4.2. */
  streamError(id: number, code: ErrorCode): void {
    this.spendProvocation();
    this.resetStream(id, code);
  }

  /** Resets a stream without counting a fault of the peer. */
  resetStream(id: number, code: ErrorCode): void {
    writeResetStream(this.output, id, code);
    const stream = this.streams.get(id);
    if (stream === undefined) this.streams.closed.add(id, ClosedBy.SERVER_RESET);
    else this.abort(stream, code, ClosedBy.SERVER_RESET);
  }

  /** Ends a stream that waits for its peer, after its handler had the chance to answer it. */
  shed(stream: Http2Stream): void {
    // A peer whose streams are ended repeatedly loses its connection.
    this.spendProvocation();
    if (stream.isOpen) stream.receiver?.shed?.();
    if (stream.state !== StreamState.CLOSED) this.resetStream(stream.id, ErrorCode.ENHANCE_YOUR_CALM);
  }

  /** Closes a stream and notifies its receiver, unless the response has ended. */
  abort(stream: Http2Stream, code: ErrorCode, how: ClosedBy): void {
    const wasOpen = stream.isOpen;
    stream.isOpen = false;
    this.writer.forget(stream);
    if (wasOpen) stream.receiver?.abort(code);
    this.streams.close(stream, how);
  }

  /** Aborts everything that only the peer could end: requests that are not complete, and answers without an end. */
  peerEnded(): void {
    for (const stream of this.streams.values()) {
      if (stream.state === StreamState.OPEN || (stream.answerIsStream && stream.isOpen)) {
        this.abort(stream, ErrorCode.CANCEL, ClosedBy.PEER_RESET);
      }
    }
  }

  /** Aborts all streams, because the connection ends. */
  abortAll(code: ErrorCode): void {
    this.isClosed = true;
    for (const stream of this.streams.values()) {
      try {
        this.abort(stream, code, ClosedBy.SERVER_RESET);
      } catch {
        // The handlers of the other streams must be notified even if one of them throws.
      }
    }
  }
}
