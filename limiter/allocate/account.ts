/**
 * One limiter's side of the ledger of one counter. Each message says what is charged for good, what clients may still use, and how much
 * more is wanted; all of it absolute, so that messages and replies may be lost. What the answer grants beyond what clients may use
 * is free to be assigned. Nothing is assigned without an answer.
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
  /** False where one counter counts for good. */
  readonly hasEnd: boolean;
  /** Hits that clients used, or may have used when they went away. */
  spent = 0;
  /** Hits that clients may still use. */
  keeps = 0;
  /** As the ledger has it by the last answer: the counter, and what of it is this limiter's. */
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

  /** The counter was reset. */
  forget(): void {
    this.spent = 0;
    this.top = 0;
    this.charged = 0;
  }

  /** Undefined where the counter can have no ledger. `livesMs`: how long these sums hold. */
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

  /** Gives what is free to be assigned. */
  answered({ error, lease }: Operation): number {
    if (error !== undefined || lease === undefined || lease.granted < 0) return 0;
    this.top = lease.top;
    this.charged = lease.spent + lease.granted;
    this.othersCharged = lease.othersCharged;
    this.othersHungry = lease.othersHungry / weightParts;
    return Math.max(0, lease.granted - lease.keeps);
  }
}

/** Weights are whole numbers in ledgers, of so small parts. */
const weightParts = 1000;

/** The windows of a limit that a time lies in, the present one first. What counts for good has windows of its own for that. */
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
  // Its counter has to live from now on until its end.
  const aheadSeconds = Math.ceil((atMs - nowMs) / 1000);
  if (window.endSeconds !== Number.POSITIVE_INFINITY)
    return { ...window, ttlSeconds: window.ttlSeconds + aheadSeconds };
  const length = limit.lengthSeconds;
  const startSeconds = Math.floor(atMs / 1000 / length) * length;
  const endSeconds = startSeconds + length;
  const ttlSeconds = endSeconds - Math.floor(nowMs / 1000) + 1;
  return { key: `${window.key}:shares:${startSeconds}`, startSeconds, endSeconds, ttlSeconds };
}
