/**
 * One limiter's side of the ledger of one counter. Each message says how many hits are charged for good, how many clients may still
 * use, and how many more are wanted. All numbers are absolute, so messages and replies may be lost. Hits that the answer grants
 * beyond what clients may use are free to be assigned. Nothing is assigned without an answer.
 */
import { newLeaseTerms, newOperation, type Operation, plainCounter } from '../stores/operation.ts';
import type { ClaimSums } from './fair-level.ts';
import { ledgerKeyOf } from './ledger.ts';
import type { SharedLimit, SharedWindow } from './terms.ts';

export class Account {
  readonly limit: SharedLimit;
  readonly window: SharedWindow;
  readonly startMs: number;
  readonly endMs: number;
  /** False if one counter counts without end. */
  readonly hasEnd: boolean;
  /** Hits that clients used, or may have used when they went away. */
  spent = 0;
  /** Hits that clients may still use. */
  keeps = 0;
  /** The state of the ledger by the last answer: the counter, and this limiter's part of it. */
  top = 0;
  charged = 0;
  othersCharged = 0;
  othersHungry = 0;
  reportedMs = 0;

  constructor(limit: SharedLimit, window: SharedWindow) {
    this.limit = limit;
    this.window = window;
    this.startMs = window.startSeconds * 1000;
    this.endMs = window.endSeconds * 1000;
    this.hasEnd = limit.windowAt(this.startMs).endSeconds !== Number.POSITIVE_INFINITY;
  }

  /** Starts again after the counter was reset. */
  forget(): void {
    this.spent = 0;
    this.top = 0;
    this.charged = 0;
  }

  /** Returns the message to the ledger; undefined if the counter can have none. `livesMs`: how long these sums are valid. */
  message(
    ask: { limiter: string; sequence: number; keeps: number; want: number; sums: ClaimSums; livesMs: number },
    nowMs: number,
  ): Operation | undefined {
    const { key, ttlSeconds } = this.window;
    const { requests, counter } = this.limit;
    const ledgerKey = ledgerKeyOf(key);
    if (ledgerKey === undefined) return undefined;
    const { limiter, sequence, keeps, want, livesMs, sums } = ask;
    const plain = plainCounter(key, { perSecond: counter.perSecond, capacity: requests });
    const op = newOperation(plain, key, 'add', 0, ttlSeconds);
    op.lease = newLeaseTerms({
      ...{ ledgerKey, limiter, sequence, spent: this.spent, keeps, want, limit: requests, livesMs },
      charged: Math.round(sums.charged),
      hungry: Math.round(sums.hungry * weightParts),
    });
    this.reportedMs = nowMs;
    return op;
  }

  /** Takes in the answer and returns the hits that are free to be assigned. */
  answered({ error, lease }: Operation): number {
    if (error !== undefined || lease === undefined || lease.granted < 0) return 0;
    this.top = lease.top;
    this.charged = lease.spent + lease.granted;
    this.othersCharged = lease.othersCharged;
    this.othersHungry = lease.othersHungry / weightParts;
    return Math.max(0, lease.granted - lease.keeps);
  }
}

/** Weights in ledgers are whole numbers: thousandths. */
const weightParts = 1000;

/** Returns the windows of a limit between two times, the current one first. A counter without end has windows of its own for this. */
export function windowsBetween(limit: SharedLimit, nowMs: number, untilMs: number): SharedWindow[] {
  const windows: SharedWindow[] = [];
  for (let atMs = nowMs; atMs < untilMs; ) {
    const window = windowOf(limit, atMs, nowMs);
    windows.push(window);
    atMs = window.endSeconds * 1000;
  }
  return windows;
}

function windowOf(limit: SharedLimit, atMs: number, nowMs: number): SharedWindow {
  const window = limit.windowAt(atMs);
  // The counter must live from now until the end of its window.
  const aheadSeconds = Math.ceil((atMs - nowMs) / 1000);
  if (window.endSeconds !== Number.POSITIVE_INFINITY)
    return { ...window, ttlSeconds: window.ttlSeconds + aheadSeconds };
  const length = limit.lengthSeconds;
  const startSeconds = Math.floor(atMs / 1000 / length) * length;
  const endSeconds = startSeconds + length;
  const ttlSeconds = endSeconds - Math.floor(nowMs / 1000) + 1;
  return { key: `${window.key}:shares:${startSeconds}`, startSeconds, endSeconds, ttlSeconds };
}
