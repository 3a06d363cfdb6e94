/** The limits that the server sets for a peer, and the checks of their times. */
import { ErrorCode } from './constants.ts';
import type { RequestHandler, Transport } from './request-handler.ts';
import type { ViolationReason } from './violation.ts';

/** An allowance that one kind of event spends. Useful work restores it, and so, slowly, does time. */
export interface BudgetLimits {
  /** The amount that may be spent at once. */
  burst: number;
  /** The amount that an answer with a body restores. */
  perRequest: number;
  /** The amount that a second restores, so that the keepalive of a quiet client never adds up to an attack. */
  perSecond: number;
}

/** The limits that the server sets for a peer. Chosen: RFC 9113 leaves them open. */
export interface Http2Limits {
  /** SETTINGS_MAX_CONCURRENT_STREAMS: more streams are rejected. */
  maxConcurrentStreams: number;
  /** SETTINGS_INITIAL_WINDOW_SIZE: at least 65,535, because a peer may use this window before it receives the setting. */
  streamWindowBytes: number;
  /** The connection's receive window, at least 65,535. */
  connectionWindowBytes: number;
  /** The maximum size of all incomplete request bodies of a connection. A stream that exceeds it is reset. */
  maxBufferedBytes: number;
  /** SETTINGS_MAX_HEADER_LIST_SIZE: a larger request is answered with 431. RFC 9113, section 10.5.1. */
  maxHeaderListBytes: number;
  /** The maximum size of one compressed header section. A connection that exceeds it ends. */
  maxHeaderBlockBytes: number;
  /** The maximum number of CONTINUATION frames in one header section. */
  maxContinuationFrames: number;
  /** SETTINGS, PING, PRIORITY, PRIORITY_UPDATE, WINDOW_UPDATE, empty DATA, unknown frames, frames on closed streams. */
  controlFrames: BudgetLimits;
  /** Streams that the peer resets within `rapidResetMs` after it opened them, or before their request is complete. */
  rapidResets: BudgetLimits;
  /** A call that is canceled after this time had an expired deadline, and is not an attack. */
  rapidResetMs: number;
  /** Streams that the server must reset or reject because of a fault of the peer. */
  provokedResets: BudgetLimits;
  /**
   * The maximum size of answers that wait for the peer. If they wait for a full socket, reading pauses. If they wait for windows, new
   * requests are rejected.
   */
  pauseQueuedBytes: number;
  /** The maximum size of answers that wait for a socket or for windows. A connection that exceeds it ends. */
  maxQueuedBytes: number;
  /** The maximum time for which answers may wait without progress. */
  slowReaderMs: number;
  /** The time from the connection's start to the client's preface and SETTINGS. */
  prefaceTimeoutMs: number;
  /** The time from the server's SETTINGS to their acknowledgement. RFC 9113, section 6.5.3. */
  settingsTimeoutMs: number;
  /**
   * The time from a request's HEADERS to its end. A request that takes longer is reset. A header section or a frame that takes longer
   * ends the connection. A stream of messages may take any time.
   */
  requestTimeoutMs: number;
  /** The maximum time without any stream. `Infinity`: no limit. */
  idleTimeoutMs: number;
  /** The time without a byte from the peer after which the server sends it a PING. `Infinity`: never. */
  keepaliveMs: number;
  keepaliveTimeoutMs: number;
  /**
   * The time that a graceful shutdown waits for the answer to its PING, for incomplete requests, and for a peer that has not sent its
   * preface.
   */
  drainPingMs: number;
}

/** The measured memory of a stream with an incomplete request, including everything that belongs to it. */
export const openStreamBytes = 1024;
/** The memory of an answer that waits for windows, in addition to its bytes. It includes the stream. */
export const waitingAnswerBytes = 1536;

export const defaultHttp2Limits: Http2Limits = {
  maxConcurrentStreams: 1024,
  streamWindowBytes: 1_048_576,
  connectionWindowBytes: 4_194_304,
  maxBufferedBytes: 33_554_432,
  // Higher than the limit of proxies for their clients (60 KiB in Envoy), because they forward tracing headers.
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
  /** The time at which the last stream closed. */
  emptySinceMs: number;
  /** Whether the transport waits for the peer. */
  blocked: boolean;
  /** The size of bodies that wait for windows. The next field counts the pieces of these bodies that were sent. */
  queuedBytes: number;
  sentFromQueues: number;
  /** The time at which the current header section began. `Infinity`: there is none. */
  sectionSinceMs: number;
  /** The number of the incomplete frame; 0: none. */
  unfinishedFrame: number;
}

/** A time that never comes. */
export const never = Number.POSITIVE_INFINITY;

/** Determines the server's reaction to the facts and the time. Pure. */
export class ConnectionWatch {
  readonly #limits: Http2Limits;
  readonly #startedMs: number;
  /** Whether the peer's SETTINGS have arrived. */
  prefaceIsOver = false;
  /** The time at which our SETTINGS were sent, until they are acknowledged. */
  settingsSentMs = never;
  /** The time of the last bytes. */
  receivedMs: number;
  /** The time since which the transport has accepted nothing. */
  stalledMs = never;
  /** The time at which the first step of a graceful shutdown began, until its second step. */
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

  /** The age of a frame counts from the first call that sees it. */
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

  /** Any bytes prove that the peer is alive, but only the answer shows that it reads our output. */
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

/** The rest of an allowance. */
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

  /** Returns false if the allowance is used up. `served` is the number of answers, which restore it. */
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
  /** The peer, which the handler gets. */
  peer?: unknown;
  limits: Http2Limits;
  nowMs: number;
  /** Called when output was gathered outside `receive`. The owner must call `flush` by the end of the turn. */
  scheduleFlush(connection: { flush(): void }): void;
  /** Called at most once, when the connection is being ended. `error` is the thrown error if the reason is `internal_error`. */
  onViolation(reason: ViolationReason, error?: unknown): void;
  /** Called when a request that was not complete in time was reset. */
  onUnfinishedRequest?(): void;
  /** Called when `shed` has ended a request. */
  onShed?(): void;
  /** Called when `bufferedBytes` has changed: at most once for each `flush`, and again after a call of `shed`. */
  onBufferedBytes?(bufferedBytes: number): void;
  /** Called once, when no stream is left. Nothing else is called afterward. */
  onClose?(): void;
}
