/** What the passing of time says of a connection; pure: facts and the time in, a verdict out. */
import { ErrorCode } from './constants.ts';
import type { BudgetLimits, Http2Limits } from './limits.ts';
import type { ViolationReason } from './violation.ts';

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
