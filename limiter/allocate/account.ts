/**
 * One limiter's side of the ledgers of one limit. Each message to a ledger says how many hits are charged for good, how many clients
 * may still use, and how many more are wanted. All numbers are absolute, so messages and replies may be lost. Hits that the answer
 * grants beyond what clients may use are free to be assigned. Nothing is assigned without an answer.
 */
import { newLeaseTerms, newOperation, type Operation, plainCounter } from '../stores/operation.ts';
import { ledgerKeyOf } from '../stores/store.ts';
import type { ClaimSums } from './fair-level.ts';
import { longAgoMs, type PoolTimes } from './pool-times.ts';
import type { SharedLimit, SharedWindow } from './terms.ts';

/** The ledger of the counter in one window. */
export class Account {
  readonly window: SharedWindow;
  readonly #times: PoolTimes;
  /** Hits that clients used, or may have used when they went away. */
  spent = 0;
  /** Hits that clients may still use. */
  keeps = 0;
  /** Hits of the last answer that are free to be assigned. */
  free = 0;
  /** The state of the ledger by the last answer: the counter, and this limiter's part of it. */
  top = 0;
  charged = 0;
  granted = 0;
  othersCharged = 0;
  othersHungry = 0;
  /** Hits that were charged and taken from the counter again, because the counter of the limit was reset. */
  refunded = 0;
  reportedMs = longAgoMs;

  constructor(window: SharedWindow, times: PoolTimes) {
    this.window = window;
    this.#times = times;
  }

  get startMs(): number {
    return this.#times.of(this.window.startSeconds * 1000);
  }

  get endMs(): number {
    return this.#times.of(this.window.endSeconds * 1000);
  }

  /** Whether the ledger knows what is charged. `isLast`: no message follows, so the ledger must have no grant that it may take back. */
  isReported(isLast: boolean): boolean {
    return this.keeps + this.spent === this.charged && !(isLast && this.granted > 0);
  }

  /** Starts again after the counter was reset. */
  forget(): void {
    this.spent = 0;
    this.top = 0;
    this.charged = 0;
    this.granted = 0;
  }

  /** Takes in the answer to a message. */
  answered({ error, lease }: Operation): void {
    if (error !== undefined || lease === undefined || lease.granted < 0) return;
    this.top = lease.top;
    this.charged = lease.spent + lease.granted;
    this.granted = lease.granted;
    this.othersCharged = lease.othersCharged;
    this.othersHungry = lease.othersHungry / weightParts;
    this.free = Math.max(0, lease.granted - lease.keeps);
  }
}

/** Weights in ledgers are whole numbers: thousandths. */
const weightParts = 1000;

/** A limit, with an account for its current window, and one for each later window in which assignments can be used. */
export class AccountedLimit implements ClaimSums {
  readonly terms: SharedLimit;
  /** The accounts in the order of their windows, the current one first. An array, because there are few of them in each of many pools. */
  accounts: readonly Account[];
  /** False if one counter counts without end. */
  readonly hasEnd: boolean;
  readonly #times: PoolTimes;
  /** The fair level, and the sums of this limiter's clients. */
  level = Number.POSITIVE_INFINITY;
  charged = 0;
  ahead = 0;
  hungry = 0;

  /** `former`: accounts of the limit before, which continue if their windows are the same. */
  constructor(terms: SharedLimit, times: PoolTimes, nowMs: number, former: readonly Account[] = []) {
    this.terms = terms;
    this.#times = times;
    this.hasEnd = terms.windowAt(times.epochOf(nowMs)).endSeconds !== Number.POSITIVE_INFINITY;
    this.accounts = former.filter(({ window, startMs }) => {
      const { key, startSeconds, endSeconds } = this.#windowAt(startMs, startMs);
      return key === window.key && startSeconds === window.startSeconds && endSeconds === window.endSeconds;
    });
  }

  get current(): Account {
    return this.accounts[0]!;
  }

  /** Whether the current window has this time. */
  isAt(nowMs: number): boolean {
    const first = this.accounts[0];
    return first !== undefined && first.startMs <= nowMs && nowMs < first.endMs;
  }

  /** Returns the operation that takes this limiter's used hits from the counter of the current window. */
  refund(): Operation {
    const account = this.current;
    const { key, ttlSeconds } = account.window;
    const hits = account.charged - account.granted - account.refunded;
    account.refunded += hits;
    account.top -= hits;
    const plain = plainCounter(key, { perSecond: this.terms.counter.perSecond });
    return newOperation(plain, key, 'refund', hits, ttlSeconds);
  }

  /** Makes the window of this time the current one, and opens accounts until another time. Returns whether accounts have changed. */
  reach(nowMs: number, untilMs: number): boolean {
    if (this.isAt(nowMs) && this.accounts.at(-1)!.endMs >= untilMs) return false;
    const accounts: Account[] = [];
    let atMs = nowMs;
    while (atMs < untilMs) {
      const known = this.accounts.find(({ startMs, endMs }) => startMs <= atMs && atMs < endMs);
      const account = known ?? new Account(this.#windowAt(atMs, nowMs), this.#times);
      accounts.push(account);
      atMs = account.endMs;
    }
    // The first message in a window has no answer yet that says who else needs hits. Likely those who did before.
    const before = this.accounts[0];
    const [current] = accounts;
    if (before !== undefined && current !== before && current !== undefined)
      current.othersHungry = Math.max(current.othersHungry, before.othersHungry);
    // If the clock was set back, there may be a gap before later windows. These were charged.
    for (const one of this.accounts) {
      if (one.startMs !== atMs) continue;
      accounts.push(one);
      atMs = one.endMs;
    }
    this.accounts = accounts;
    return true;
  }

  /** Returns the window of a time. For a counter that never ends, the account has its own windows. */
  #windowAt(atMs: number, nowMs: number): SharedWindow {
    const epochMs = this.#times.epochOf(atMs);
    const window = this.terms.windowAt(epochMs);
    // The counter must live from now until the end of its window.
    const aheadSeconds = Math.ceil((atMs - nowMs) / 1000);
    if (this.hasEnd) return { ...window, ttlSeconds: window.ttlSeconds + aheadSeconds };
    const length = this.terms.lengthSeconds;
    const startSeconds = Math.floor(epochMs / 1000 / length) * length;
    const endSeconds = startSeconds + length;
    const ttlSeconds = endSeconds - Math.floor(this.#times.epochOf(nowMs) / 1000) + 1;
    return { key: `${window.key}:shares:${startSeconds}`, startSeconds, endSeconds, ttlSeconds };
  }

  /** Returns the message to the ledger of an account; undefined if the counter can have none. `livesMs`: how long the sums are valid. */
  message(
    account: Account,
    { limiter, want, livesMs }: { limiter: string; want: number; livesMs: number },
    nowMs: number,
  ): Operation | undefined {
    const { key, ttlSeconds } = account.window;
    const { requests, counter } = this.terms;
    const ledgerKey = ledgerKeyOf(key);
    if (ledgerKey === undefined) return undefined;
    const { spent, keeps } = account;
    const plain = plainCounter(key, { perSecond: counter.perSecond, capacity: requests });
    const op = newOperation(plain, key, 'add', 0, ttlSeconds);
    op.lease = newLeaseTerms({
      ...{ ledgerKey, limiter, spent, keeps, want, limit: requests, livesMs },
      charged: Math.round(account === this.current ? this.charged : this.ahead + keeps),
      hungry: Math.round(this.hungry * weightParts),
    });
    account.reportedMs = nowMs;
    return op;
  }
}
