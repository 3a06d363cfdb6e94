/**
 * One HTTP/2 connection of a server: bytes in, bytes out. It has neither sockets nor timers; its owner calls `receive`, `flush` and
 * `tick` with the time.
 */
import { HpackError } from '../hpack/tables.ts';
import { ConnectionContext } from './connection-context.ts';
import { ErrorCode, largest31 } from './constants.ts';
import { FrameDispatch, FrameReader, PrefaceReader, writeServerPreface } from './frame-reader.ts';
import { OutputPump, writeGoAway, writePing } from './frame-writer.ts';
import {
  ConnectionWatch,
  type Http2ConnectionOptions,
  type Http2Limits,
  never,
  openStreamBytes,
  waitingAnswerBytes,
} from './limits.ts';
import type { Transport } from './request-handler.ts';
import { UnfinishedRequests } from './request-reader.ts';
import { ConnectionError, type ViolationReason, violationTexts } from './violation.ts';

/** The payloads of the server's two PINGs, which distinguish the peer's answers. */
const drainPing = Buffer.from('weir.end');
const keepalivePing = Buffer.from('weir.ask');

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
 * The server writes nothing before the preface arrived, so that clients of other protocols see only a closed connection.
 * If `drain()` came first, the preface leads to DRAINING at once. In GOING, new streams are ignored after our last
 * GOAWAY (RFC 9113, section 6.8); after the peer's GOAWAY alone they are served.
 */
const Phase = { PREFACE: 0, SETTINGS: 1, OPEN: 2, DRAINING: 3, GOING: 4, CLOSED: 5 } as const;
type Phase = (typeof Phase)[keyof typeof Phase];

export class Http2Connection {
  readonly #context: ConnectionContext;
  readonly #transport: Transport;
  readonly #limits: Http2Limits;
  readonly #options: Http2ConnectionOptions;
  readonly #preface = new PrefaceReader();
  readonly #reader: FrameReader;
  readonly #dispatch: FrameDispatch;
  readonly #watch: ConnectionWatch;
  readonly #unfinished: UnfinishedRequests;
  readonly #pump: OutputPump;
  #phase: Phase = Phase.PREFACE;
  #receiving = false;
  #flushScheduled = false;
  /** Whether `drain` was called. */
  #isToDrain = false;
  /** Whether the peer has ended its side. */
  #peerHasEnded = false;
  /** Whether the transport took nothing from one tick to the next. */
  #isStalled = false;
  /** The last value passed to `onBufferedBytes`; -1 after the connection was asked to hold less. */
  #reportedBytes = 0;

  constructor(options: Http2ConnectionOptions) {
    this.#options = options;
    this.#transport = options.transport;
    this.#limits = options.limits;
    this.#context = new ConnectionContext(options, this.#written);
    this.#watch = new ConnectionWatch(options.limits, options.nowMs);
    this.#unfinished = new UnfinishedRequests(this.#context, () => options.onUnfinishedRequest?.());
    this.#pump = new OutputPump({
      output: this.#context.output,
      transport: options.transport,
      pauseQueuedBytes: options.limits.pauseQueuedBytes,
      onStalled: () => {
        this.#watch.stalledMs = this.#context.nowMs;
      },
    });
    this.#dispatch = new FrameDispatch(this.#context, {
      onSettings: () => {
        if (this.#phase === Phase.SETTINGS) this.#phase = Phase.OPEN;
        this.#watch.prefaceIsOver = true;
      },
      onSettingsAck: () => {
        this.#context.settingsAcknowledged = true;
        this.#watch.settingsSentMs = never;
      },
      onPingAck: (payload) => this.#pingAnswered(payload),
      onGoAway: () => this.#goOnlyOn(),
    });
    this.#reader = new FrameReader(this.#dispatch);
  }

  get openStreams(): number {
    return this.#context.streams.size;
  }

  get isClosed(): boolean {
    return this.#phase === Phase.CLOSED;
  }

  /**
   * The bytes that the connection holds until the peer acts, that is, until it ends its requests, header sections and frames, and reads
   * answers. Output that waits for a full socket counts from the next tick on, because most of it is written by then.
   */
  get bufferedBytes(): number {
    if (this.#phase === Phase.CLOSED) return 0;
    const { streams, writer } = this.#context;
    const { block } = this.#dispatch.requests;
    return (
      // Streams that wait for their handler are not counted.
      streams.unfinished * openStreamBytes +
      streams.handlerBytes +
      writer.waiting.size * waitingAnswerBytes +
      writer.queuedBytes +
      this.#reader.partial.length +
      (block === undefined ? 0 : block.bytes) +
      (this.#isStalled ? this.#pump.bufferedBytes : 0)
    );
  }

  /** `bytes` is only valid until this returns. */
  receive(bytes: Uint8Array, nowMs: number): void {
    if (this.#phase === Phase.CLOSED) return;
    this.#context.nowMs = nowMs;
    this.#watch.receivedMs = nowMs;
    this.#receiving = true;
    try {
      const offset = this.#phase === Phase.PREFACE ? this.#readPreface(bytes) : 0;
      if (offset >= 0) this.#reader.read(bytes, offset);
    } catch (error) {
      this.#failWith(error);
    }
    this.#receiving = false;
    if (this.#phase === Phase.GOING) this.#finishIfDone();
    this.flush();
  }

  /**
   * Called when the peer sends no more. Incomplete requests stay incomplete, and answers without an end have lost their reader. Other
   * answers are still sent.
   */
  peerEnded(): void {
    if (this.#phase === Phase.CLOSED) return;
    this.#peerHasEnded = true;
    try {
      this.#context.peerEnded();
      this.#goOnlyOn();
    } catch (error) {
      this.#failWith(error);
    }
  }

  /** Called when the transport is closed. */
  lost(): void {
    if (this.#phase !== Phase.CLOSED) this.#close(ErrorCode.CANCEL);
  }

  /** Called when the transport accepts bytes again. */
  onDrain(): void {
    if (this.#phase === Phase.CLOSED) return;
    this.#flushScheduled = false;
    this.#isStalled = false;
    this.#pump.drained();
    this.#reportBufferedBytes(this.bufferedBytes);
  }

  /** Writes the gathered output at once. */
  flush(): void {
    this.#flushScheduled = false;
    if (this.#phase === Phase.CLOSED) return;
    this.#pump.write();
    const bufferedBytes = this.bufferedBytes;
    if (bufferedBytes !== this.#reportedBytes) this.#reportBufferedBytes(bufferedBytes);
  }

  #reportBufferedBytes(bufferedBytes: number): void {
    this.#reportedBytes = bufferedBytes;
    this.#options.onBufferedBytes?.(bufferedBytes);
  }

  /**
   * Frees memory by ending the part of the connection that has waited longest for the peer. This is usually a stream. The whole
   * connection ends if a header section, a frame or unread answers wait longer, or if only the owner holds bytes of it (`isMoreUnread`).
   * Returns false if there is nothing to end.
   */
  shed(isMoreUnread = false): boolean {
    if (this.#phase === Phase.CLOSED) return false;
    this.#reportedBytes = -1;
    const stream = this.#context.streams.longestWaiting();
    const sinceMs = this.#waitsSinceMs();
    const isNothing = stream === undefined && sinceMs === never;
    if (isNothing && !isMoreUnread) return false;
    if (stream === undefined || sinceMs < stream.openedMs) {
      this.#fail(ErrorCode.ENHANCE_YOUR_CALM, 'too_many_bytes');
      return true;
    }
    try {
      this.#options.onShed?.();
      this.#context.shed(stream);
      this.#written();
    } catch (error) {
      this.#failWith(error);
    }
    return true;
  }

  /**
   * Shuts down gracefully in two steps, so that requests in progress are still served (RFC 9113, section 6.8). A peer that has not sent
   * its preface is notified after it does.
   */
  drain(): void {
    if (this.#isToDrain || this.#phase === Phase.CLOSED) return;
    this.#isToDrain = true;
    this.#drainStarted();
    if (this.#phase === Phase.SETTINGS || this.#phase === Phase.OPEN) this.#announceDrain();
  }

  /** Drains a connection that reached its maximum age. If the peer has not begun yet, the connection ends at once. */
  ageOut(): void {
    if (this.#phase <= Phase.SETTINGS) this.#fail(ErrorCode.PROTOCOL_ERROR, 'preface_timeout');
    else this.drain();
  }

  /** Does everything that depends on time. Called every 100 to 1000 ms. */
  tick(nowMs: number): void {
    if (this.#phase === Phase.CLOSED) return;
    const { streams, writer, output } = this.#context;
    this.#context.nowMs = nowMs;
    if (!this.#pump.isBlocked) output.rest();
    else if (!this.#isStalled) {
      this.#isStalled = true;
      this.#reportBufferedBytes(this.bufferedBytes);
      if (this.isClosed) return;
    }
    this.#resetUnfinished(nowMs);
    if (this.isClosed) return;
    const reaction = this.#watch.look({
      nowMs,
      openStreams: streams.size,
      emptySinceMs: streams.emptySinceMs,
      blocked: this.#pump.isBlocked,
      queuedBytes: writer.queuedBytes,
      sentFromQueues: writer.sentFromQueues,
      sectionSinceMs: this.#dispatch.requests.block?.startedMs ?? never,
      unfinishedFrame: this.#reader.unfinishedFrame,
    });
    if (reaction === undefined) return;
    if (reaction === 'send_ping') {
      writePing(output, 0, keepalivePing);
      this.#written();
    } else if (reaction === 'drain_over') {
      if (this.#phase === Phase.PREFACE) this.#finish();
      else this.#goAway();
    } else this.#fail(reaction.code, reaction.reason);
  }

  /** The time since which anything other than a stream waits for the peer. `Infinity`: nothing does. */
  #waitsSinceMs(): number {
    const sectionMs = this.#dispatch.requests.block?.startedMs ?? never;
    const frameMs = this.#reader.unfinishedFrame === 0 ? never : this.#context.nowMs;
    const stalledMs = this.#isStalled ? this.#watch.stalledMs : never;
    return Math.min(sectionMs, frameMs, stalledMs);
  }

  /** Returns the offset of the first frame, or -1 if there is none. */
  #readPreface(bytes: Uint8Array): number {
    const at = this.#preface.read(bytes);
    if (at < 0) {
      this.#options.onViolation('not_http2');
      this.#finish();
    }
    if (!this.#preface.isComplete) return -1;
    this.#phase = Phase.SETTINGS;
    this.#watch.settingsSentMs = this.#context.nowMs;
    writeServerPreface(this.#context.output, this.#limits);
    if (this.#isToDrain) this.#announceDrain();
    return at;
  }

  #pingAnswered(payload: Uint8Array): void {
    this.#watch.pingAnswered();
    this.#context.writer.pingAnswered(payload);
    if (this.#phase === Phase.DRAINING && drainPing.equals(payload)) this.#goAway();
  }

  #drainStarted(): void {
    this.#watch.drainStartedMs = this.#context.nowMs;
    this.#unfinished.drainStarted(this.#context.nowMs);
  }

  /** Takes the first step of the graceful shutdown. */
  #announceDrain(): void {
    this.#drainStarted();
    this.#phase = Phase.DRAINING;
    writeGoAway(this.#context.output, largest31, ErrorCode.NO_ERROR);
    writePing(this.#context.output, 0, drainPing);
    this.#written();
  }

  /** Takes the second step of the graceful shutdown. */
  #goAway(): void {
    const { streams, output } = this.#context;
    this.#context.lastServedId = streams.lastId;
    writeGoAway(output, streams.lastId, ErrorCode.NO_ERROR);
    this.#phase = Phase.GOING;
    this.#watch.drainStartedMs = never;
    this.#written();
  }

  /** Serves the remaining streams until they end, after the peer's GOAWAY. */
  #goOnlyOn(): void {
    if (this.#phase === Phase.CLOSED) return;
    this.#phase = Phase.GOING;
    this.#watch.drainStartedMs = never;
    this.#finishIfDone();
  }

  /** Called by every writer. Asks for a flush, bounds the output for a slow reader, and ends the connection after the last answer. */
  readonly #written = (): void => {
    if (this.#phase === Phase.GOING) this.#finishIfDone();
    if (this.#phase === Phase.CLOSED) return;
    const { writer, output } = this.#context;
    const waiting = writer.queuedBytes + (this.#pump.isBlocked ? output.length : 0);
    if (waiting > this.#limits.maxQueuedBytes) {
      this.#fail(ErrorCode.ENHANCE_YOUR_CALM, 'slow_reader');
    } else if (!this.#receiving && !this.#flushScheduled) {
      this.#flushScheduled = true;
      this.#options.scheduleFlush(this);
    }
  };

  #failWith(error: unknown): void {
    if (error instanceof ConnectionError) this.#fail(error.code, error.reason);
    else if (error instanceof HpackError) this.#fail(ErrorCode.COMPRESSION_ERROR, 'compression_error');
    else this.#fail(ErrorCode.INTERNAL_ERROR, 'internal_error', error);
  }

  /** RFC 9113, section 5.4.1. If the transport takes nothing, the peer cannot be notified. */
  #fail(code: ErrorCode, reason: ViolationReason, error?: unknown): void {
    if (this.#phase === Phase.CLOSED) return;
    const reported = this.#phase !== Phase.PREFACE && !this.#pump.isBlocked;
    if (reported) {
      const debug = `${reason}: ${violationTexts[reason]}`;
      writeGoAway(this.#context.output, this.#context.streams.lastId, code, debug);
      this.#pump.writeRest();
    }
    this.#options.onViolation(reason, error);
    this.#close(code);
    if (reported) this.#transport.end();
    else this.#transport.destroy();
  }

  /** Input that arrived in the same piece of bytes is served first. */
  #finishIfDone(): void {
    if (this.#phase === Phase.GOING && !this.#receiving && this.openStreams === 0) this.#finish();
  }

  /**
   * Closes the connection when everything is sent. The last GOAWAY is omitted if the peer's own GOAWAY began the end. RFC 9113, section
   * 6.8.
   */
  #finish(): void {
    const { streams, output, lastServedId } = this.#context;
    if (this.#phase === Phase.GOING && lastServedId === largest31 && !this.#peerHasEnded) {
      writeGoAway(output, streams.lastId, ErrorCode.NO_ERROR);
    }
    this.#pump.writeRest();
    this.#close(ErrorCode.NO_ERROR);
    this.#transport.end();
  }

  #resetUnfinished(nowMs: number): void {
    try {
      if (this.#unfinished.tick(nowMs)) this.#written();
    } catch (error) {
      this.#failWith(error);
    }
  }

  #close(code: ErrorCode): void {
    this.#phase = Phase.CLOSED;
    this.#context.abortAll(code);
    this.#options.onBufferedBytes?.(0);
    this.#options.onClose?.();
  }
}
