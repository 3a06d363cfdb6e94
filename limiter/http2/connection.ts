/**
 * One HTTP/2 connection of a server: bytes in, bytes out. It knows neither sockets nor timers; who owns those calls
 * `receive`, `flush` and `tick`, and passes the time.
 *
 *                 preface             SETTINGS            drain()              PING answered, or
 *     PREFACE ─────────────▶ SETTINGS ─────────▶ OPEN ─────────────▶ DRAINING  drainPingMs went by
 *                                                 │  GOAWAY(2^31-1)  │ PING    ──────────▶ GOING
 *                                                 │                                       │ GOAWAY(last)
 *                                                 │ the peer's GOAWAY, or FIN             │
 *                                                 └──────────────────────────────────────▶│
 *                                                                                         │ last stream closed
 *     any state ── a violation: GOAWAY(code), the transport ends ──▶ CLOSED ◀─────────────┘
 *     any state ── lost() ─────────────────────────────────────────▶ CLOSED
 *
 * Nothing is written before the preface arrived, so that other protocols on the port see a closed connection and
 * nothing else. In GOING new streams are ignored (RFC 9113, section 6.8).
 */
import { HpackError } from '../hpack/index.ts';
import { ClosedBy } from './closed-streams.ts';
import { ConnectionContext } from './connection-context.ts';
import { ConnectionWatch } from './connection-watch.ts';
import { largest31 } from './constants.ts';
import { ErrorCode } from './error-code.ts';
import { FrameDispatch } from './frame-dispatch.ts';
import { FrameReader } from './frame-reader.ts';
import { writeGoAway, writePing } from './frame-writer.ts';
import type { Http2Limits } from './limits.ts';
import { PrefaceReader, writeServerPreface } from './preface.ts';
import type { RequestHandler } from './request-handler.ts';
import { StreamState } from './stream.ts';
import type { Transport } from './transport.ts';
import { ConnectionError, type ViolationReason } from './violation.ts';

export interface Http2ConnectionOptions {
  handler: RequestHandler;
  transport: Transport;
  limits: Http2Limits;
  nowMs: number;
  /** Something was gathered outside `receive`: `flush` is due, at the latest at the end of the turn. */
  scheduleFlush(connection: Http2Connection): void;
  /** At most once: the connection is being ended. */
  onViolation(reason: ViolationReason): void;
  /** Once: no stream is left, and nothing is called any more. */
  onClose?(): void;
}

const Phase = { PREFACE: 0, SETTINGS: 1, OPEN: 2, DRAINING: 3, GOING: 4, CLOSED: 5 } as const;
type Phase = (typeof Phase)[keyof typeof Phase];

/** What the two PINGs of the server carry, to tell their answers apart. */
const drainPing = Buffer.from('weir.end');
const keepalivePing = Buffer.from('weir.ask');

export class Http2Connection {
  readonly #context: ConnectionContext;
  readonly #transport: Transport;
  readonly #limits: Http2Limits;
  readonly #options: Http2ConnectionOptions;
  readonly #preface = new PrefaceReader();
  readonly #reader: FrameReader;
  readonly #watch: ConnectionWatch;
  #phase: Phase = Phase.PREFACE;
  #receiving = false;
  #flushScheduled = false;
  /** The transport waits for the peer. */
  #blocked = false;
  #paused = false;

  constructor(options: Http2ConnectionOptions) {
    this.#options = options;
    this.#transport = options.transport;
    this.#limits = options.limits;
    this.#context = new ConnectionContext({
      handler: options.handler,
      limits: options.limits,
      nowMs: options.nowMs,
      onWritten: () => this.#written(),
      onEmpty: () => this.#emptied(),
    });
    this.#watch = new ConnectionWatch(options.limits, options.nowMs);
    this.#reader = new FrameReader(
      new FrameDispatch(this.#context, {
        onSettings: () => {
          if (this.#phase === Phase.SETTINGS) this.#phase = Phase.OPEN;
          this.#watch.settingsReceived();
        },
        onSettingsAck: () => this.#watch.settingsAcknowledged(),
        onPingAck: (payload) => this.#pingAnswered(payload),
        onGoAway: () => this.#goOnlyOn(),
      }),
    );
  }

  get openStreams(): number {
    return this.#context.streams.size;
  }

  get isClosed(): boolean {
    return this.#phase === Phase.CLOSED;
  }

  /** `bytes` are only valid until it returns. */
  receive(bytes: Uint8Array, nowMs: number): void {
    if (this.#phase === Phase.CLOSED) return;
    this.#context.nowMs = nowMs;
    this.#watch.received(nowMs);
    this.#receiving = true;
    try {
      const offset = this.#phase === Phase.PREFACE ? this.#readPreface(bytes) : 0;
      if (offset >= 0) this.#reader.read(bytes, offset);
    } catch (error) {
      this.#failWith(error);
    }
    this.#receiving = false;
    this.flush();
  }

  /** The peer sends no more: requests that are not complete never will be; the others are still answered. */
  peerEnded(): void {
    if (this.#phase === Phase.CLOSED) return;
    try {
      for (const stream of this.#context.streams) {
        if (stream.state === StreamState.OPEN) {
          this.#context.abort(stream, ErrorCode.CANCEL, ClosedBy.PEER_RESET);
        }
      }
      this.#goOnlyOn();
    } catch (error) {
      this.#failWith(error);
    }
  }

  /** The transport is gone. */
  lost(): void {
    if (this.#phase !== Phase.CLOSED) this.#close(ErrorCode.CANCEL);
  }

  /** The transport takes bytes again. */
  onDrain(): void {
    if (this.#phase === Phase.CLOSED) return;
    this.#blocked = false;
    this.flush();
    if (!this.#paused || this.#blocked) return;
    this.#paused = false;
    this.#transport.resume();
  }

  /** Writes what was gathered, at once. */
  flush(): void {
    this.#flushScheduled = false;
    if (this.#phase === Phase.CLOSED) return;
    if (!this.#blocked) this.#writeOut();
    if (this.#blocked && !this.#paused && this.#context.output.length > this.#limits.pauseQueuedBytes) {
      this.#paused = true;
      this.#transport.pause();
    }
  }

  /** Graceful shutdown in two steps, so that requests under way are still served. RFC 9113, section 6.8. */
  drain(): void {
    if (this.#phase >= Phase.DRAINING) return;
    if (this.#phase <= Phase.SETTINGS) {
      this.#finish();
      return;
    }
    this.#phase = Phase.DRAINING;
    this.#watch.drainStarted(this.#context.nowMs);
    writeGoAway(this.#context.output, largest31, ErrorCode.NO_ERROR);
    writePing(this.#context.output, 0, drainPing);
    this.#written();
  }

  /** Called every 100 to 1000 ms: everything that depends on time. */
  tick(nowMs: number): void {
    if (this.#phase === Phase.CLOSED) return;
    const { streams, writer, output } = this.#context;
    this.#context.nowMs = nowMs;
    if (!this.#blocked) output.rest();
    const verdict = this.#watch.look({
      nowMs,
      openStreams: streams.size,
      blocked: this.#blocked,
      queuedBytes: writer.queuedBytes,
      sentFromQueues: writer.sentFromQueues,
    });
    if (verdict === undefined) return;
    if (verdict === 'send_ping') {
      writePing(output, 0, keepalivePing);
      this.#written();
    } else if (verdict === 'drain_over') this.#goAway();
    else this.#fail(verdict.code, verdict.reason);
  }

  /** Returns where the frames start, or -1 when there are none. */
  #readPreface(bytes: Uint8Array): number {
    const at = this.#preface.read(bytes);
    if (at < 0) {
      this.#options.onViolation('not_http2');
      this.#finish();
    }
    if (!this.#preface.isComplete) return -1;
    this.#phase = Phase.SETTINGS;
    this.#watch.prefaceReceived(this.#context.nowMs);
    writeServerPreface(this.#context.output, this.#limits);
    return at;
  }

  #pingAnswered(payload: Uint8Array): void {
    this.#watch.pingAnswered();
    if (this.#phase === Phase.DRAINING && drainPing.equals(payload)) this.#goAway();
  }

  /** The second step of the graceful shutdown. */
  #goAway(): void {
    const { streams, output } = this.#context;
    this.#context.lastServedId = streams.lastId;
    writeGoAway(output, streams.lastId, ErrorCode.NO_ERROR);
    this.#phase = Phase.GOING;
    this.#watch.drainEnded();
    this.#written();
    if (streams.size === 0) this.#finish();
  }

  /** The peer goes: its streams are served to their end. */
  #goOnlyOn(): void {
    if (this.#phase === Phase.CLOSED) return;
    this.#phase = Phase.GOING;
    this.#watch.drainEnded();
    if (this.#context.streams.size === 0) this.#finish();
  }

  #emptied(): void {
    this.#watch.emptied(this.#context.nowMs);
    if (this.#phase === Phase.GOING) this.#finish();
  }

  /** Every writer calls it: asks for a flush, and bounds what waits for a slow reader. */
  #written(): void {
    if (this.#phase === Phase.CLOSED) return;
    const { output, writer } = this.#context;
    const waiting = writer.queuedBytes + (this.#blocked ? output.length : 0);
    if (waiting > this.#limits.maxQueuedBytes) {
      this.#fail(ErrorCode.ENHANCE_YOUR_CALM, 'slow_reader');
    } else if (!this.#receiving && !this.#flushScheduled) {
      this.#flushScheduled = true;
      this.#options.scheduleFlush(this);
    }
  }

  #writeOut(): void {
    const bytes = this.#context.output.take();
    if (bytes === undefined || this.#transport.write(bytes)) return;
    this.#blocked = true;
    this.#watch.stalled(this.#context.nowMs);
  }

  #failWith(error: unknown): void {
    if (error instanceof ConnectionError) this.#fail(error.code, error.reason);
    else if (error instanceof HpackError) this.#fail(ErrorCode.COMPRESSION_ERROR, 'compression_error');
    else this.#fail(ErrorCode.INTERNAL_ERROR, 'internal_error');
  }

  /** RFC 9113, section 5.4.1. A transport that takes nothing cannot be told. */
  #fail(code: ErrorCode, reason: ViolationReason): void {
    if (this.#phase === Phase.CLOSED) return;
    const told = this.#phase !== Phase.PREFACE && !this.#blocked;
    if (told) {
      writeGoAway(this.#context.output, this.#context.streams.lastId, code);
      this.#writeOut();
    }
    this.#options.onViolation(reason);
    this.#close(code);
    if (told) this.#transport.end();
    else this.#transport.destroy();
  }

  /** All is said. */
  #finish(): void {
    this.#writeOut();
    this.#close(ErrorCode.NO_ERROR);
    this.#transport.end();
  }

  #close(code: ErrorCode): void {
    this.#phase = Phase.CLOSED;
    this.#context.isClosed = true;
    for (const stream of this.#context.streams) {
      try {
        this.#context.abort(stream, code, ClosedBy.SERVER_RESET);
      } catch {
        // The connection ends already, and the other streams' handlers must hear of it.
      }
    }
    this.#options.onClose?.();
  }
}
