/** One client of a pool: its grants, its uses and its need. */
import type { Account } from './account.ts';
import type { Grants, Proposal } from './grants.ts';
import type { PoolTimes } from './pool-times.ts';
import type { AssignmentForm, ClientReport, HitKind, Holder, Share, ShareView } from './terms.ts';

/** The pool of a member. */
interface Owner {
  readonly form: AssignmentForm;
  readonly times: PoolTimes;
  report(member: PoolClient, used: ClientReport, cameMs: number): number;
  close(member: PoolClient): void;
}

/** Chosen: a rate is measured over at least a second, and one measurement counts as much as all earlier ones. */
const minMeasuredMs = 1_000;
const newestCounts = 0.5;

/** A member's part of an account, in a linked list: a member has one or two of them. */
interface MemberPart {
  readonly account: Account;
  /** Hits that the account keeps for the member. */
  keeps: number;
  /** Hits that it reported in the account's window. */
  used: number;
  next: MemberPart | undefined;
}

/** A client of a pool. There are many of them, so each field and each object counts. */
export class PoolClient implements Share {
  readonly holder: Holder;
  readonly sinceMs: number;
  assigned = 0;
  used = 0;
  denied = 0;
  returned = 0;
  overReported = 0;
  grants: Grants;
  /** The time at which the last assignment ends, if one was sent. */
  endsMs: number | undefined;
  /** The bucket to send to the client, and whether the ledgers are already asked to charge it. */
  proposal: Proposal | undefined = undefined;
  isPending = false;
  isClosed = false;
  /** Hits per second, including denied ones; not a number before the first measurement. */
  #rate = Number.NaN;
  #hits = 0;
  #measuredMs: number;
  #parts: MemberPart | undefined;
  readonly #owner: Owner;

  constructor(owner: Owner, holder: Holder, grants: Grants, nowMs: number) {
    this.#owner = owner;
    this.holder = holder;
    this.grants = grants;
    this.sinceMs = nowMs;
    this.#measuredMs = nowMs;
  }

  get rate(): number | undefined {
    return Number.isNaN(this.#rate) ? undefined : this.#rate;
  }

  report(used: ClientReport, cameMs?: number): number {
    if (this.isClosed) return 0;
    const { times } = this.#owner;
    return this.#owner.report(this, used, cameMs === undefined ? times.now() : times.since(cameMs));
  }

  arrived(sentMs: number): void {
    this.grants.arrived(this.#owner.times.since(sentMs));
  }

  close(): void {
    if (!this.isClosed) this.#owner.close(this);
  }

  view(): ShareView {
    const { assigned, used, denied, returned, overReported } = this;
    const { form, times } = this.#owner;
    return {
      ...{ assigned, used, denied, returned, overReported, sinceMs: times.epochOf(this.sinceMs) },
      endsMs: this.endsMs === undefined ? 0 : times.epochOf(this.endsMs),
      ...{ form, weight: this.holder.weight, demand: this.rate ?? 0 },
      mayUse: form === 'exact' ? this.grants.left : this.#maxKept,
    };
  }

  count(kind: HitKind, hits: number): void {
    if (hits === 0) return;
    this[kind] += hits;
    this.holder.count(kind, hits);
  }

  /** Measures the rate by the limiter's clock. */
  measure(used: number, denied: number, nowMs: number): void {
    this.#hits += used + denied;
    const sinceMs = nowMs - this.#measuredMs;
    if (sinceMs < minMeasuredMs) return;
    const measured = (this.#hits * 1000) / sinceMs;
    const before = this.rate ?? measured;
    this.#rate = before + newestCounts * (measured - before);
    this.#hits = 0;
    this.#measuredMs = nowMs;
  }

  partOf(account: Account): MemberPart {
    let part = this.#parts;
    while (part !== undefined && part.account !== account) part = part.next;
    if (part !== undefined) return part;
    this.#parts = { account, keeps: 0, used: 0, next: this.#parts };
    return this.#parts;
  }

  /** Whether no account keeps hits for it in any window. */
  get isEmpty(): boolean {
    return this.#maxKept === 0;
  }

  /** The most that an account keeps for it in a window. */
  get #maxKept(): number {
    let max = 0;
    for (let part = this.#parts; part !== undefined; part = part.next) max = Math.max(max, part.keeps);
    return max;
  }

  forget(account: Account): void {
    if (this.#parts?.account === account) this.#parts = this.#parts.next;
    for (let part = this.#parts; part !== undefined; part = part.next)
      if (part.next?.account === account) part.next = part.next.next;
  }

  /** Returns the hits to be charged to the account in addition to those already kept, if the proposal is sent. */
  extraIn(account: Account, proposal: Proposal, untilMs: number): number {
    if (this.isClosed || account.startMs >= untilMs) return 0;
    const { used, keeps } = this.partOf(account);
    return Math.max(0, this.grants.mayUseIn(account.startMs, account.endMs, used, proposal, untilMs) - keeps);
  }

  /** Updates the hits that the account keeps for it, after a change of what it may use in the account's window. */
  keep(account: Account): void {
    const part = this.partOf(account);
    const keeps = this.isClosed ? 0 : this.grants.mayUseIn(account.startMs, account.endMs, part.used);
    account.keeps += keeps - part.keeps;
    part.keeps = keeps;
  }

  /** Counts what it may still use as used, in the current window and in later ones. */
  spend(): void {
    for (let part = this.#parts; part !== undefined; part = part.next) {
      part.account.keeps -= part.keeps;
      part.account.spent += part.keeps;
    }
    this.#parts = undefined;
  }
}
