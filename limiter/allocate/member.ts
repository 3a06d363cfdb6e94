/** One client of a pool: what it has, what it used, and how much it needs. */
import type { Account } from './account.ts';
import type { Bucket, Grants } from './grants.ts';
import type { Holder, Share, ShareTotals, Used } from './terms.ts';

export type Totals = { -readonly [Name in keyof ShareTotals]: number };

export const noTotals: ShareTotals = { assigned: 0, used: 0, denied: 0, returned: 0, overReported: 0 };

/** Its pool. */
interface Owner {
  report(member: Member, used: Used, nowMs: number, cameMs: number): number;
  close(member: Member): void;
}

/** Chosen: a rate is measured over a second at least, and one measurement counts as much as all before. */
const leastMeasuredMs = 1_000;
const newestCounts = 0.5;

/** What a member has of an account. */
interface Part {
  readonly account: Account;
  /** Kept for it. */
  keeps: number;
  /** Hits that it reported in the account's window. */
  used: number;
}

/** There are many of them: each field counts, and so does an array with room to spare. */
export class Member implements Share {
  readonly holder: Holder;
  readonly sinceMs: number;
  readonly totals: Totals = { ...noTotals };
  grants: Grants;
  /** When what was sent last ends; 0: nothing was sent. */
  endsMs = 0;
  reportedMs: number;
  /** Something for it is being charged. */
  isPending = false;
  isClosed = false;
  /** Hits a second, denied ones among them; undefined before it is measured. */
  #rate: number | undefined;
  #hits = 0;
  #measuredMs: number;
  #parts: readonly Part[] = [];
  readonly #owner: Owner;

  constructor(owner: Owner, holder: Holder, grants: Grants, nowMs: number) {
    this.#owner = owner;
    this.holder = holder;
    this.grants = grants;
    this.sinceMs = nowMs;
    this.reportedMs = nowMs;
    this.#measuredMs = nowMs;
  }

  get rate(): number | undefined {
    return this.#rate;
  }

  report(used: Used, nowMs: number, cameMs: number = nowMs): number {
    return this.isClosed ? 0 : this.#owner.report(this, used, nowMs, cameMs);
  }

  arrived(sentMs: number): void {
    this.grants.arrived(sentMs);
  }

  close(): void {
    if (!this.isClosed) this.#owner.close(this);
  }

  /** By our clock. */
  measure(used: number, denied: number, nowMs: number): void {
    this.reportedMs = nowMs;
    this.#hits += used + denied;
    const sinceMs = nowMs - this.#measuredMs;
    if (sinceMs < leastMeasuredMs) return;
    const measured = (this.#hits * 1000) / sinceMs;
    this.#rate = this.#rate === undefined ? measured : this.#rate + newestCounts * (measured - this.#rate);
    this.#hits = 0;
    this.#measuredMs = nowMs;
  }

  keptOf(account: Account): number {
    return this.#partOf(account)?.keeps ?? 0;
  }

  usedIn(account: Account): number {
    return this.#partOf(account)?.used ?? 0;
  }

  /** Nothing is kept for it in any window. */
  get isEmpty(): boolean {
    for (const { keeps } of this.#parts) if (keeps > 0) return false;
    return true;
  }

  /** The most that is kept for it in a window. */
  get mostKept(): number {
    return this.#parts.reduce((most, { keeps }) => Math.max(most, keeps), 0);
  }

  setUsed(account: Account, used: number): void {
    const part = this.#partOf(account);
    if (part !== undefined) part.used = used;
    else if (used > 0) this.#add({ account, keeps: 0, used });
  }

  forget(account: Account): void {
    if (this.#partOf(account) !== undefined)
      this.#parts = [...this.#parts.filter((part) => part.account !== account)];
  }

  /** As `Grants.mayUseIn`. */
  mayUseIn(account: Account, next?: Bucket, renewedMs = 0): number {
    return this.grants.mayUseIn(account.startMs, account.endMs, this.usedIn(account), next, renewedMs);
  }

  /** What it may use in the account's window has changed. */
  keep(account: Account): void {
    const part = this.#partOf(account);
    const keeps = this.isClosed ? 0 : this.mayUseIn(account);
    account.keeps += keeps - (part?.keeps ?? 0);
    if (part !== undefined) part.keeps = keeps;
    else if (keeps > 0) this.#add({ account, keeps, used: 0 });
  }

  /** What it may still use counts as used, here and in windows to come. */
  spend(): void {
    for (const { account, keeps } of this.#parts) {
      account.keeps -= keeps;
      account.spent += keeps;
    }
    this.#parts = [];
  }

  #partOf(account: Account): Part | undefined {
    for (const part of this.#parts) if (part.account === account) return part;
    return undefined;
  }

  #add(part: Part): void {
    this.#parts = [...this.#parts, part];
  }
}

/** A number that somebody sent: what is no count is none. */
export function countOf(sent: number): number {
  return sent > 0 ? Math.min(Math.floor(sent), Number.MAX_SAFE_INTEGER) : 0;
}
