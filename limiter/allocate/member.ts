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

export class Member implements Share {
  readonly holder: Holder;
  readonly sinceMs: number;
  readonly totals: Totals = { ...noTotals };
  grants: Grants;
  /** Of these accounts, what is kept for it. */
  readonly kept = new Map<Account, number>();
  /** Hits that it reported in the window of these accounts. */
  readonly used = new Map<Account, number>();
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

  usedIn(account: Account): number {
    return this.used.get(account) ?? 0;
  }

  /** As `Grants.mayUseIn`. */
  mayUseIn(account: Account, next?: Bucket, renewedMs = 0): number {
    return this.grants.mayUseIn(account.startMs, account.endMs, this.usedIn(account), next, renewedMs);
  }

  /** What it may use in the account's window has changed. */
  keep(account: Account): void {
    const keeps = this.isClosed ? 0 : this.mayUseIn(account);
    account.keeps += keeps - (this.kept.get(account) ?? 0);
    if (keeps === 0) this.kept.delete(account);
    else this.kept.set(account, keeps);
  }

  /** What it may still use counts as used, here and in windows to come. */
  spend(): void {
    for (const [account, keeps] of this.kept) {
      account.keeps -= keeps;
      account.spent += keeps;
    }
    this.kept.clear();
  }
}

/** A number that somebody sent: what is no count is none. */
export function countOf(sent: number): number {
  return sent > 0 ? Math.min(Math.floor(sent), Number.MAX_SAFE_INTEGER) : 0;
}
