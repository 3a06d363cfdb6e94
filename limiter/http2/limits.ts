/** What the server allows a peer, and what time and allowances say of one. */
import { ErrorCode } from './constants.ts';
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

/** What the server allows a peer. Chosen: RFC 9113 leaves them open. */
export interface Http2Limits {
  /** SETTINGS_MAX_CONCURRENT_STREAMS: more are refused. */
  maxConcurrentStreams: number;
  /** SETTINGS_INITIAL_WINDOW_SIZE: at least 65,535, as a peer may use that before it knows. */
  streamWindowBytes: number;
  /** The connection's receive window, at least 65,535. */
  connectionWindowBytes: number;
  /** Bodies of requests that are not complete, summed over the connection: the stream that takes it beyond is reset. */
  maxBufferedBytes: number;
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
  maxBufferedBytes: 33_554_432,
  // Above what proxies take of a client (60 KiB in Envoy), whose tracing headers they hand on.
  maxHeaderListBytes: 98_304,
  maxHeaderBlockBytes: 131_072,
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

export type Reaction = 'send_ping' | 'drain_over' | { code: ErrorCode; reason: ViolationReason };

export interface ConnectionFacts {
  nowMs: number;
  openStreams: number;
  /** When the last of them closed. */
  emptySinceMs: number;
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

/** Pure: facts and the time in, a reaction out. */
export class ConnectionWatch {
  readonly #limits: Http2Limits;
  readonly #startedMs: number;
  /** The peer's SETTINGS came. */
  prefaceIsOver = false;
  /** Of ours, until they are acknowledged. */
  settingsSentMs = never;
  /** When the last bytes came. */
  receivedMs: number;
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
  }

  pingAnswered(): void {
    this.#pingSentMs = never;
  }

  look(facts: ConnectionFacts): Reaction | undefined {
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
    if (facts.openStreams === 0 && nowMs - facts.emptySinceMs >= limits.idleTimeoutMs) {
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
  #keepalive(nowMs: number): Reaction | undefined {
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
  #served = 0;

  constructor(limits: BudgetLimits, nowMs: number) {
    this.#limits = limits;
    this.#left = limits.burst;
    this.#refilledMs = nowMs;
  }

  /** False when the allowance does not reach. `served` counts the answers that give something back. */
  spend(cost: number, nowMs: number, served: number): boolean {
    const { burst, perRequest, perSecond } = this.#limits;
    const passedMs = Math.max(0, nowMs - this.#refilledMs);
    const gained = (served - this.#served) * perRequest + (passedMs / 1000) * perSecond;
    this.#left = Math.min(burst, this.#left + gained) - cost;
    this.#refilledMs += passedMs;
    this.#served = served;
    return this.#left >= 0;
  }
}

export interface Http2ConnectionOptions {
  handler: RequestHandler;
  transport: Transport;
  /** Who is at the other end, for the handler. */
  peer?: unknown;
  limits: Http2Limits;
  nowMs: number;
  /** Something was gathered outside `receive`: `flush` is due, at the latest at the end of the turn. */
  scheduleFlush(connection: { flush(): void }): void;
  /** At most once: the connection is being ended. `error` is what was thrown where that is `internal_error`. */
  onViolation(reason: ViolationReason, error?: unknown): void;
  /** A request that was not complete in time was reset. */
  onUnfinishedRequest?(): void;
  /** A request was ended by `shed`. */
  onShed?(): void;
  /** What it holds has changed: `bufferedBytes`. Called once for each `flush` at most, and again when it was to hold less. */
  onBufferedBytes?(bufferedBytes: number): void;
  /** Once: no stream is left, and nothing is called any more. */
  onClose?(): void;
}
