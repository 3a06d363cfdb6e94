/** What the parts of one connection share, and what the passing of time says of it. */
import { ErrorCode, largest31 } from './constants.ts';
import { OutputBuffer, writeResetStream } from './frame-writer.ts';
import {
  type BudgetLimits,
  type Http2ConnectionOptions,
  type Http2Limits,
  openStreamBytes,
  waitingAnswerBytes,
} from './limits.ts';
import type { RequestHandler } from './request-handler.ts';
import { ResponseWriter } from './response-writer.ts';
import { ClosedBy, type Http2Stream, StreamState, StreamTable } from './stream-table.ts';
import { calmError, type ViolationReason } from './violation.ts';

export type Verdict = 'send_ping' | 'drain_over' | { code: ErrorCode; reason: ViolationReason };

export interface ConnectionFacts {
  nowMs: number;
  openStreams: number;
  /** The transport waits for the peer. */
  blocked: boolean;
  /** Bodies that wait for windows, and how often some of them went out. */
  queuedBytes: number;
  sentFromQueues: number;
  /** When the header section that goes on began. `Infinity`: there is none. */
  sectionSinceMs: number;
  /** Which frame is not complete. 0: none. */
  unfinishedFrame: number;
}

/** A moment that has not come. */
export const never = Number.POSITIVE_INFINITY;

/** Pure: facts and the time in, a verdict out. */
export class ConnectionWatch {
  readonly #limits: Http2Limits;
  readonly #startedMs: number;
  /** The peer's SETTINGS came. */
  prefaceIsOver = false;
  /** Of ours, until they are acknowledged. */
  settingsSentMs = never;
  /** When the last bytes came. */
  receivedMs: number;
  /** When the last stream closed. */
  emptySinceMs: number;
  /** Since when the transport takes nothing. */
  stalledMs = never;
  /** When the graceful shutdown began whose first step goes on. */
  drainStartedMs = never;
  #pingSentMs = never;
  #queuesStalledMs = never;
  #sentFromQueues = 0;
  #unfinishedFrame = 0;
  #frameSinceMs = never;

  constructor(limits: Http2Limits, nowMs: number) {
    this.#limits = limits;
    this.#startedMs = nowMs;
    this.receivedMs = nowMs;
    this.emptySinceMs = nowMs;
  }

  pingAnswered(): void {
    this.#pingSentMs = never;
  }

  look(facts: ConnectionFacts): Verdict | undefined {
    const { nowMs } = facts;
    const limits = this.#limits;
    if (!this.prefaceIsOver && nowMs - this.#startedMs >= limits.prefaceTimeoutMs) {
      return { code: ErrorCode.PROTOCOL_ERROR, reason: 'preface_timeout' };
    }
    if (nowMs - this.settingsSentMs >= limits.settingsTimeoutMs) {
      return { code: ErrorCode.SETTINGS_TIMEOUT, reason: 'settings_timeout' };
    }
    if (this.#isLate(facts)) return { code: ErrorCode.ENHANCE_YOUR_CALM, reason: 'unfinished_frame' };
    if (this.#readsTooSlowly(facts)) return { code: ErrorCode.ENHANCE_YOUR_CALM, reason: 'slow_reader' };
    if (nowMs - this.drainStartedMs >= limits.drainPingMs) return 'drain_over';
    if (facts.openStreams === 0 && nowMs - this.emptySinceMs >= limits.idleTimeoutMs) {
      return { code: ErrorCode.NO_ERROR, reason: 'idle_timeout' };
    }
    return facts.blocked || !this.prefaceIsOver ? undefined : this.#keepalive(nowMs);
  }

  /** A frame is known from the first look at it on. */
  #isLate({ nowMs, unfinishedFrame, sectionSinceMs }: ConnectionFacts): boolean {
    if (unfinishedFrame !== this.#unfinishedFrame) {
      this.#unfinishedFrame = unfinishedFrame;
      this.#frameSinceMs = unfinishedFrame === 0 ? never : nowMs;
    }
    return nowMs - Math.min(sectionSinceMs, this.#frameSinceMs) >= this.#limits.requestTimeoutMs;
  }

  #readsTooSlowly(facts: ConnectionFacts): boolean {
    const { nowMs } = facts;
    if (facts.blocked && nowMs - this.stalledMs >= this.#limits.slowReaderMs) return true;
    if (facts.queuedBytes === 0) this.#queuesStalledMs = never;
    else if (this.#queuesStalledMs === never || facts.sentFromQueues !== this.#sentFromQueues) {
      this.#queuesStalledMs = nowMs;
    }
    this.#sentFromQueues = facts.sentFromQueues;
    return nowMs - this.#queuesStalledMs >= this.#limits.slowReaderMs;
  }

  /** Any bytes prove the peer alive, but only the answer shows that it reads what we send. */
  #keepalive(nowMs: number): Verdict | undefined {
    if (this.#pingSentMs !== never) {
      if (nowMs - Math.max(this.#pingSentMs, this.receivedMs) < this.#limits.keepaliveTimeoutMs) {
        return undefined;
      }
      return { code: ErrorCode.NO_ERROR, reason: 'keepalive_timeout' };
    }
    if (nowMs - this.receivedMs < this.#limits.keepaliveMs) return undefined;
    this.#pingSentMs = nowMs;
    return 'send_ping';
  }
}

/** What is left of one allowance. */
export class Budget {
  readonly #limits: BudgetLimits;
  #left: number;
  #refilledMs: number;

  constructor(limits: BudgetLimits, nowMs: number) {
    this.#limits = limits;
    this.#left = limits.burst;
    this.#refilledMs = nowMs;
  }

  /** False when the allowance does not reach. */
  spend(cost: number, nowMs: number): boolean {
    if (nowMs > this.#refilledMs) this.#refill(nowMs);
    this.#left -= cost;
    return this.#left >= 0;
  }

  requestCompleted(): void {
    this.#left = Math.min(this.#left + this.#limits.perRequest, this.#limits.burst);
  }

  #refill(nowMs: number): void {
    const gained = ((nowMs - this.#refilledMs) / 1000) * this.#limits.perSecond;
    this.#left = Math.min(this.#limits.burst, this.#left + gained);
    this.#refilledMs = nowMs;
  }
}

/** Its streams, its output, the time, and what is left of its allowances. */
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

  constructor(
    { peer, handler, limits, nowMs }: Http2ConnectionOptions,
    { onWritten, onEmpty }: { onWritten: () => void; onEmpty: () => void },
  ) {
    this.limits = limits;
    this.handler = handler;
    this.nowMs = nowMs;
    this.#controlFrames = new Budget(limits.controlFrames, nowMs);
    this.#rapidResets = new Budget(limits.rapidResets, nowMs);
    this.#provokedResets = new Budget(limits.provokedResets, nowMs);
    this.streams = new StreamTable({ maxStreams: limits.maxConcurrentStreams, onEmpty });
    this.writer = new ResponseWriter({
      peer,
      output: this.output,
      streams: this.streams,
      onWritten,
      onServed: () => this.#requestServed(),
    });
  }

  /** @throws ConnectionError when the peer sends control frames and nothing useful beside them. */
  spendControl(cost: number): void {
    if (this.#controlFrames.spend(cost, this.nowMs)) return;
    throw calmError('control_flood');
  }

  /** @throws ConnectionError when the peer resets too many streams that it just opened, or whose request it never ended. */
  spendReset(stream: Http2Stream, wasUnfinished: boolean): void {
    if (!wasUnfinished && this.nowMs - stream.openedMs >= this.limits.rapidResetMs) return;
    if (this.#rapidResets.spend(1, this.nowMs)) return;
    throw calmError('rapid_reset');
  }

  /** @throws ConnectionError when the peer made the server reset too many streams. */
  spendProvocation(): void {
    if (this.#provokedResets.spend(1, this.nowMs)) return;
    throw calmError('provoked_reset');
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
