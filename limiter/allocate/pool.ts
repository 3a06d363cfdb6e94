/**
 * The shares of one rule's limits for one bucket id, in this limiter. A report says what was used and what is needed. A client's
 * share follows from the fair level of the current windows. Everything to be sent within a quarter of a second is charged by one
 * message to each ledger: those of the current windows, and those of later windows in which the assignments can still be used.
 *
 * In the exact form a window's hits are released over its course. All are released some time before it ends, so that clients use them
 * up and report it. Hits that clients may have left at the end are also charged to the next window, if it is unknown in which of the
 * two a hit was used.
 */
import type { Clock } from '../../process/time/clock.ts';
import { newOperation, type Operation } from '../stores/operation.ts';
import { countAll, type Store } from '../stores/store.ts';
import { Account, windowsBetween } from './account.ts';
import { exactBucket, hitsOf, nothing, refillingBucket } from './buckets.ts';
import { type ClaimSums, fairLevel, type ShareClaim } from './fair-level.ts';
import { type GrantedBucket, Grants } from './grants.ts';
import { type ClientTotals, countOf, noTotals, PoolClient } from './pool-client.ts';
import type { Holder, PoolTerms, SharedLimit, ShareView, Used } from './terms.ts';

export interface PoolOptions {
  readonly store: Store;
  readonly clock: Pick<Clock, 'nowMs'>;
  readonly random: () => number;
  readonly limiter: string;
  readonly settleMs: number;
  readonly ttlSeconds: number;
  nextSequence(): number;
}

/** The shortest time between questions to the ledgers, and the longest time between reports to them. */
const askMs = 250;
const refreshMs = 5_000;
/** Chosen: with more members, a request waits for the next tick, and the fair level may be older, so that finding it costs little. */
const fewMembers = 20;
/** Chosen: a later answer is of no use, because its windows may no longer cover the assignments. */
const answerMs = 2_000;
/** Envoy's report interval. The limiter sends what a client needs until its next report, plus some extra for a delay. */
const reportMs = 5_000;
const aheadSeconds = 1.1 * (reportMs / 1000);
/**
 * Exact form: hits are released this much ahead of a window's course. The course ends this long before the window, or with half of a
 * short window.
 */
const leadSeconds = 6;
const tailSeconds = 30;
/** Chosen: exact form: a client that has this many times what it needs gets less if others need more. */
const tooMuch = 2;
/**
 * Exact form: if the limit is short, a client is denied everything from this long after a report until the next one, if that is the
 * last but one of a window. So its last grant is all that it may be using, and the limiter has the rest of the hits back in time.
 * Chosen: `inUseMs` of grants.ts and some more before a report.
 */
const clearsFromMs = 2_500;
const clearsToMs = 2_900;
/** Refilling form: a bucket is changed only if its flow differs by more than this, and it has this much more than is needed. */
const changes = 0.05;
const spare = 1.2;

/** A proposed message: a bucket, or the newest one again. */
type Proposal = GrantedBucket | 'renew';

/**
 * Claims of the pool whose level is being computed. They are reused because, with many clients, new ones each time would be most of
 * the garbage.
 */
const claims: { -readonly [Name in keyof ShareClaim]: number }[] = [];

/** The part of an account that can still be assigned. */
interface Free {
  readonly account: Account;
  hits: number;
}

type Levels = readonly (ClaimSums & { level: number })[];

export class Pool {
  readonly key: string;
  readonly members = new Set<PoolClient>();
  /** The totals, including those of closed shares. */
  readonly totals: ClientTotals = { ...noTotals };
  readonly #options: PoolOptions;
  /** An array, because each of many pools has few accounts, and a map takes more memory. */
  #accounts: readonly Account[] = [];
  /** The accounts of the current windows, by limit. */
  #current: Account[] = [];
  #terms: PoolTerms;
  #proposals: Map<PoolClient, Proposal> | undefined;
  #isAsking = false;
  #askedMs = 0;
  /** The time at which `tick` has something to do, unless something happens before. */
  dueMs = 0;
  #sweptMs = 0;
  #levels: Levels = [];
  #levelsMs = 0;
  #weight = 0;
  #isDraining = false;
  #onDrained: (() => void) | undefined;

  constructor(key: string, terms: PoolTerms, options: PoolOptions) {
    this.key = key;
    this.#terms = terms;
    this.#options = options;
  }

  open(holder: Holder, nowMs: number): PoolClient {
    this.dueMs = 0;
    const member = new PoolClient(this, holder, this.#newGrants(nowMs), nowMs);
    this.#enter(nowMs);
    this.members.add(member);
    this.#weight += holder.weight;
    return member;
  }

  report(member: PoolClient, reported: Used, nowMs: number, cameMs: number): number {
    this.dueMs = 0;
    this.#enter(nowMs);
    const [allowed, denied] = [countOf(reported.allowed), countOf(reported.denied)];
    let windowMs = Number.POSITIVE_INFINITY;
    let most = Number.POSITIVE_INFINITY;
    for (const { startMs, limit } of this.#current) {
      windowMs = Math.min(windowMs, startMs);
      most = Math.min(most, limit.requests);
    }
    const { own, over, returned } = member.grants.report({ allowed, denied }, cameMs, { windowMs, most });
    const used = allowed - over;
    addReport(member, used, denied, returned, over);
    addReport(this.totals, used, denied, returned, over);
    for (const account of this.#current) {
      if (this.#isExact) account.spent += own;
      member.setUsed(account, member.usedIn(account) + own);
    }
    this.#count(used);
    this.#keep(member);
    member.measure(used, denied, cameMs);
    const isUrgent = this.members.size <= fewMembers || member.grants.newest === undefined;
    this.#propose(member, nowMs);
    if (isUrgent && nowMs - this.#askedMs >= askMs) this.#ask(nowMs);
    return over;
  }

  close(member: PoolClient): void {
    this.dueMs = 0;
    member.isClosed = true;
    member.spend();
    this.members.delete(member);
    this.#proposals?.delete(member);
    this.#weight -= member.holder.weight;
  }

  change(terms: PoolTerms, nowMs: number): void {
    this.dueMs = 0;
    const isOther = terms.form !== this.#terms.form;
    const before = this.#current;
    const ended = this.#accounts;
    this.#terms = terms;
    this.#accounts = [];
    this.#current = [];
    this.#askedMs = 0;
    for (const member of this.members) {
      if (isOther) member.grants = this.#newGrants(nowMs, member.grants);
    }
    this.#enter(nowMs);
    for (const account of this.#current) {
      // If the window is the same, its uses continue.
      const former = before.find(({ window }) => window.key === account.window.key);
      if (former === undefined) continue;
      account.spent = former.spent;
      for (const member of this.members) member.setUsed(account, member.usedIn(former));
    }
    for (const member of this.members) {
      for (const account of ended) member.forget(account);
      this.#keep(member);
      this.#propose(member, nowMs, true);
    }
    this.#ask(nowMs);
  }

  reset(keys: ReadonlySet<string>): void {
    this.dueMs = 0;
    for (const account of this.#current) {
      if (!keys.has(account.window.key)) continue;
      account.forget();
      for (const member of this.members) member.setUsed(account, 0);
    }
  }

  tick(nowMs: number): void {
    this.#enter(nowMs);
    if (nowMs - this.#sweptMs >= 4 * askMs) {
      this.#sweptMs = nowMs;
      // Members that have nothing, or used it up, get more as soon as hits are available.
      const empty = [...this.members].filter(({ isEmpty }) => isEmpty);
      if (empty.length > 0 && this.#fairLevels(nowMs).some(({ hungry }) => hungry > 0)) {
        for (const member of empty) this.#propose(member, nowMs);
      }
    }
    if (this.#isEnding(nowMs)) {
      for (const member of this.members) if (this.#isToClear(member, nowMs)) this.#proposed(member, nothing);
    }
    if (nowMs - this.#askedMs >= askMs) this.#ask(nowMs);
    this.dueMs = this.#nextMs(nowMs);
  }

  /** Whether some clients need more than is available, by the last computed level. */
  get #isShort(): boolean {
    return this.#isExact && this.#levels.some(({ level }) => level < Number.POSITIVE_INFINITY);
  }

  #isEnding(nowMs: number): boolean {
    return (
      this.#isShort && !this.#isDraining && this.#current.some(({ endMs }) => endMs <= nowMs + 3 * reportMs)
    );
  }

  #isToClear({ reportedMs, isPending, grants: { newest, left } }: PoolClient, nowMs: number): boolean {
    const sinceMs = nowMs - reportedMs;
    if (isPending || sinceMs < clearsFromMs || sinceMs > clearsToMs) return false;
    const isLastButOne = this.#current.some(
      ({ endMs }) => endMs > reportedMs + 2 * reportMs && endMs <= reportedMs + 3 * reportMs,
    );
    return isLastButOne && newest?.hasArrived === true && newest.tokens > 0 && left > newest.likelyLeft;
  }

  #nextMs(nowMs: number): number {
    if (this.#hasProposals || !this.#isQuiet(nowMs) || this.#isEnding(nowMs)) return 0;
    const isEmpty = this.members.values().some((member) => member.isEmpty);
    let nextMs = isEmpty ? this.#sweptMs + 4 * askMs : Number.POSITIVE_INFINITY;
    for (const { endMs, reportedMs } of this.#current)
      nextMs = Math.min(nextMs, this.#isShort ? endMs - 3 * reportMs : endMs, reportedMs + refreshMs);
    return nextMs;
  }

  /** Renews all assignments once more. */
  drain(nowMs: number): Promise<void> {
    this.#isDraining = true;
    this.#enter(nowMs);
    for (const member of this.members) if (this.#isLasting(member, nowMs)) this.#proposed(member, 'renew');
    return new Promise((resolve) => {
      this.#onDrained = resolve;
      this.#ask(nowMs);
    });
  }

  *list(): Iterable<ShareView> {
    for (const member of this.members) {
      const { assigned, used, denied, returned, overReported, holder, sinceMs, endsMs } = member;
      yield {
        ...{ assigned, used, denied, returned, overReported, holder, sinceMs, endsMs },
        ...{ pool: this.key, form: this.#terms.form, demand: member.rate ?? 0 },
        mayUse: this.#isExact ? member.grants.left : member.mostKept,
      };
    }
  }

  get #hasProposals(): boolean {
    return this.#proposals !== undefined && this.#proposals.size > 0;
  }

  #proposed(member: PoolClient, proposal: Proposal): void {
    this.#proposals ??= new Map();
    this.#proposals.set(member, proposal);
  }

  get #isExact(): boolean {
    return this.#terms.form === 'exact';
  }

  get #horizonMs(): number {
    return this.#options.ttlSeconds * 1000 + this.#options.settleMs;
  }

  #newGrants(nowMs: number, former?: Grants): Grants {
    return new Grants({ refills: !this.#isExact, settleMs: this.#options.settleMs, former }, nowMs);
  }

  /** Finds the current windows. In new ones nothing has been used yet, and every member is sent something. */
  #enter(nowMs: number): void {
    const { limits } = this.#terms;
    const isSame =
      this.#current.length === limits.length &&
      this.#current.every(({ startMs, endMs }) => startMs <= nowMs && nowMs < endMs);
    if (isSame) return;
    const before = this.#current;
    this.#current = limits.map((limit) => this.#account(limit, windowsBetween(limit, nowMs, nowMs + 1)[0]!));
    const ended = this.#accounts.filter(({ endMs }) => endMs <= nowMs);
    this.#accounts = this.#accounts.filter(({ endMs }) => endMs > nowMs);
    for (const account of ended) for (const member of this.members) member.forget(account);
    this.#levelsMs = 0;
    if (!this.#isExact || before.length === 0) return;
    for (const member of this.members) this.#propose(member, nowMs);
    this.#askedMs = 0;
  }

  #account(limit: SharedLimit, window: Account['window']): Account {
    const known = this.#accounts.find((account) => account.window.key === window.key);
    if (known !== undefined) return known;
    const account = new Account(limit, window);
    this.#accounts = [...this.#accounts, account];
    for (const member of this.members) member.keep(account);
    return account;
  }

  /**
   * Counts hits of sliding windows and buckets, so that callers that ask for each hit see them: none of their later windows can be
   * charged.
   */
  #count(used: number): void {
    if (used === 0) return;
    for (const { limit, startMs, hasEnd } of this.#current) {
      if (hasEnd) continue;
      const { key, ttlSeconds } = limit.windowAt(startMs);
      const add = newOperation(limit.counter, key, 'add', used, ttlSeconds);
      this.#options.store.submit([add], countAll, () => {});
    }
  }

  #keep(member: PoolClient): void {
    for (const account of this.#accounts) member.keep(account);
  }

  /** Returns for each limit the level, and the sums for other limiters. */
  #fairLevels(nowMs: number): Levels {
    const validMs = askMs + Math.max(0, this.members.size - fewMembers);
    const isFresh = this.#levels.length === this.#current.length && nowMs - this.#levelsMs < validMs;
    if (isFresh && nowMs >= this.#levelsMs) return this.#levels;
    this.#levelsMs = nowMs;
    this.#levels = this.#current.map((account) => {
      const released = this.#released(account, nowMs);
      let count = 0;
      for (const member of this.members) {
        const claim = claims[count] ?? { weight: 0, charged: 0, need: 0 };
        claims[count++] = claim;
        const keeps = member.keptOf(account);
        // For a refilling bucket, `keeps` includes what was used of it.
        const used = this.#isExact ? member.usedIn(account) : 0;
        const isThere = nowMs - member.reportedMs < this.#options.ttlSeconds * 1000;
        claim.weight = member.holder.weight;
        claim.charged = used + keeps;
        claim.need =
          used + (isThere ? Math.max(keeps, this.#claimOf(member, account, released, nowMs)) : keeps);
      }
      const { top, charged, othersCharged, othersHungry } = account;
      const amount = released - (top - charged) + othersCharged;
      return fairLevel(claims, amount, othersHungry, count);
    });
    return this.#levels;
  }

  /** Returns what the member needs of the account in addition to what it used. */
  #claimOf(member: PoolClient, account: Account, released: number, nowMs: number): number {
    const need = this.#needOf(member, nowMs);
    if (!this.#isExact) return this.#hitsFor(need, account);
    return Math.max(need, (member.rate ?? 0) * aheadOf(account, released, nowMs));
  }

  /** Returns how many of a window's hits may be charged by now. */
  #released({ limit, startMs, endMs }: Account, nowMs: number): number {
    if (!this.#isExact) return limit.requests;
    const seconds = (endMs - startMs) / 1000;
    const released =
      ((nowMs - startMs) / 1000 + leadSeconds) / (seconds - Math.min(tailSeconds, seconds / 2));
    return limit.requests * Math.min(1, released);
  }

  /**
   * Returns the hits needed until the report after the next; in the refilling form, per second. Never more than an equal share beyond
   * what it has.
   */
  #needOf({ rate, holder }: PoolClient, nowMs: number): number {
    let most = Number.POSITIVE_INFINITY;
    let fair = Number.POSITIVE_INFINITY;
    let leftSeconds = Number.POSITIVE_INFINITY;
    for (const { limit, endMs, othersHungry } of this.#current) {
      const share = (limit.requests * holder.weight) / Math.max(holder.weight, this.#weight + othersHungry);
      most = Math.min(most, share);
      fair = Math.min(fair, share / limit.lengthSeconds);
      leftSeconds = Math.min(leftSeconds, (endMs - nowMs) / 1000);
    }
    const perSecond = rate ?? fair;
    if (!this.#isExact) return perSecond;
    const expected = perSecond * Math.min(aheadSeconds, Math.max(aheadSeconds / 3, leftSeconds));
    // Two standard deviations of random arrivals are added.
    return Math.min(
      Math.max(1, most),
      Math.ceil(expected + 2 * Math.sqrt(expected)) + (perSecond > 0 ? 1 : 0),
    );
  }

  /** Returns the size of a refilling bucket for this many hits per second. */
  #hitsFor(perSecond: number, { limit: { lengthSeconds } }: Account): number {
    return perSecond > 0 ? Math.ceil(perSecond * spare * (lengthSeconds + 1)) + 2 : 0;
  }

  #propose(member: PoolClient, nowMs: number, isChanged = false): void {
    if (member.isPending || this.#isDraining) return;
    const { newest } = member.grants;
    const bucket = this.#isExact
      ? this.#exactFor(member, nowMs, isChanged)
      : this.#refillingFor(member, nowMs, isChanged);
    const { ttlSeconds } = this.#options;
    if (bucket !== undefined) this.#proposed(member, bucket);
    else if (newest === undefined || !this.#isLasting(member, nowMs)) this.#proposed(member, nothing);
    else if (member.endsMs - nowMs < ttlSeconds * 1000 - 0.8 * reportMs) this.#proposed(member, 'renew');
  }

  /** Whether a message sent now arrives before the current assignment has ended. A bucket that arrives later begins full. */
  #isLasting({ endsMs }: PoolClient, nowMs: number): boolean {
    return endsMs - nowMs > this.#options.settleMs + answerMs;
  }

  /** Returns undefined if the member has enough, or if no hits are available. `isChanged`: the member may have too many hits. */
  #exactFor(member: PoolClient, nowMs: number, isChanged: boolean): GrantedBucket | undefined {
    const need = this.#needOf(member, nowMs);
    const { newest } = member.grants;
    const left = newest === undefined || !this.#isLasting(member, nowMs) ? 0 : newest.likelyLeft;
    const { weight } = member.holder;
    let room = need;
    let most = Number.POSITIVE_INFINITY;
    for (const [i, { level }] of this.#fairLevels(nowMs).entries()) {
      const account = this.#current[i]!;
      const used = member.usedIn(account);
      const keeps = member.keptOf(account);
      most = Math.min(most, level * weight - used);
      room = Math.min(room, level * weight - used - keeps);
    }
    if (isChanged && left > most) return exactBucket(Math.max(0, Math.floor(room)));
    // Rounded up or down at random, so that clients with shares below one take turns.
    const tokens = Math.floor(room + (room < need ? this.#options.random() : 0));
    if (tokens > left && left * 1.1 < need) return exactBucket(tokens);
    if (member.rate !== undefined && left > tooMuch * need && this.#isShort) return exactBucket(need);
    // It has likely used up its grant. The hits that may be left of it are returned once another grant was sent.
    return left === 0 && newest !== undefined && newest.left > 0 ? nothing : undefined;
  }

  #refillingFor(member: PoolClient, nowMs: number, isChanged: boolean): GrantedBucket | undefined {
    const need = this.#needOf(member, nowMs);
    const { newest } = member.grants;
    const isFresh = newest === undefined || newest.tokens === 0 || !this.#isLasting(member, nowMs);
    let bucket: GrantedBucket | undefined;
    for (const [i, { level }] of this.#fairLevels(nowMs).entries()) {
      const account = this.#current[i]!;
      const { requests, lengthSeconds } = account.limit;
      const share = (requests * member.holder.weight) / Math.max(member.holder.weight, this.#weight);
      const had = newest === undefined ? 0 : hitsOf(newest, lengthSeconds);
      const wanted = Math.max(1, Math.min(this.#hitsFor(need, account), had + share));
      const hits = Math.min(wanted, level * member.holder.weight);
      const rounded = hits < wanted && hits < 2 ? Math.floor(hits + this.#options.random()) : hits;
      const next = refillingBucket(rounded, lengthSeconds, isFresh);
      if (bucket === undefined || next.perFill * bucket.fillSeconds < bucket.perFill * next.fillSeconds)
        bucket = next;
    }
    if (bucket === undefined || isFresh || isChanged) return bucket;
    const flow = bucket.perFill / bucket.fillSeconds;
    const flows = newest.perFill / newest.fillSeconds;
    return Math.abs(flow - flows) > changes * flows ? bucket : undefined;
  }

  /** Reports to the ledgers and asks for the proposed hits. */
  #ask(nowMs: number): void {
    if (this.#isAsking) return;
    this.#askedMs = nowMs;
    if (!this.#hasProposals && this.#isQuiet(nowMs)) {
      this.#onDrained?.();
      return;
    }
    const proposals = this.#proposals ?? new Map<PoolClient, Proposal>();
    this.#proposals = undefined;
    const untilMs = nowMs + this.#horizonMs;
    const levels = this.#fairLevels(nowMs);
    const asked: [Account, Operation][] = [];
    for (const [i, limit] of this.#terms.limits.entries()) {
      for (const window of windowsBetween(limit, nowMs, untilMs + answerMs)) {
        const account = this.#account(limit, window);
        let want = 0;
        for (const [member, proposal] of proposals)
          want += extraOf(member, proposal, account, untilMs + answerMs);
        if (want === 0 && !this.#needsReport(account, nowMs)) continue;
        const message = account.message(
          {
            limiter: this.#options.limiter,
            sequence: this.#options.nextSequence(),
            keeps: account.keeps,
            want,
            sums: levels[i]!,
            livesMs: this.#horizonMs,
          },
          nowMs,
        );
        if (message !== undefined) asked.push([account, message]);
      }
    }
    if (asked.length === 0) {
      this.#assign(proposals, new Map(), nowMs);
      return;
    }
    this.#isAsking = true;
    for (const member of proposals.keys()) member.isPending = true;
    this.#options.store.submit(
      asked.map(([, op]) => op),
      countAll,
      () => {
        this.#isAsking = false;
        this.dueMs = 0;
        for (const member of proposals.keys()) member.isPending = false;
        const free = new Map(asked.map(([account, op]) => [account, account.answered(op)]));
        if (this.members.size <= fewMembers) this.#levelsMs = 0;
        const answeredMs = this.#options.clock.nowMs();
        const isLate = answeredMs > nowMs + answerMs || answeredMs < nowMs;
        this.#assign(isLate ? new Map() : proposals, free, answeredMs);
      },
    );
  }

  #isQuiet(nowMs: number): boolean {
    return !this.#accounts.some((account) => this.#needsReport(account, nowMs));
  }

  /** Whether the account's ledger needs a report even if no client wants more. */
  #needsReport(account: Account, nowMs: number): boolean {
    if (account.keeps + account.spent !== account.charged) return true;
    return this.#current.includes(account) && nowMs - account.reportedMs >= refreshMs;
  }

  /** Reduces the bucket to the free hits. In the exact form the newest is renewed if the client likely has more than that. */
  #within(bucket: GrantedBucket, member: PoolClient, free: readonly Free[], nowMs: number): Proposal {
    const { newest } = member.grants;
    if (!this.#isExact) return this.#refillingWithin(bucket, newest, free);
    let least = Number.POSITIVE_INFINITY;
    for (const { hits } of free) least = Math.min(least, hits);
    if (bucket.tokens <= least) return bucket;
    if (least > (newest?.likelyLeft ?? 0)) return { ...bucket, tokens: least };
    return this.#isLasting(member, nowMs) ? 'renew' : nothing;
  }

  /** Reduces the bucket. A client's first one gets half of the free hits, because others will follow, and surplus hits return late. */
  #refillingWithin(
    bucket: GrantedBucket,
    newest: GrantedBucket | undefined,
    free: readonly Free[],
  ): GrantedBucket {
    let within = bucket;
    for (const { account, hits } of free) {
      const seconds = account.limit.lengthSeconds;
      const had = bucket.isFresh || newest === undefined ? 0 : hitsOf(newest, seconds);
      const isFirst = newest === undefined || newest.tokens === 0;
      const most = had + (isFirst ? Math.max(Math.min(1, hits), hits / 2) : hits);
      if (hitsOf(within, seconds) > most) within = refillingBucket(most, seconds, bucket.isFresh);
    }
    return within;
  }

  /** Sends the proposals as far as their hits are charged. */
  #assign(
    proposals: ReadonlyMap<PoolClient, Proposal>,
    free: ReadonlyMap<Account, number>,
    nowMs: number,
  ): void {
    const { ttlSeconds } = this.#options;
    const untilMs = nowMs + this.#horizonMs;
    const accounts = this.#accounts.filter(({ startMs, endMs }) => startMs < untilMs && endMs > nowMs);
    const left: Free[] = accounts.map((account) => ({ account, hits: free.get(account) ?? 0 }));
    for (const [member, proposal] of proposals) {
      if (member.isClosed) continue;
      let sent = proposal === 'renew' ? proposal : this.#within(proposal, member, left, nowMs);
      if (!take(left, member, sent, untilMs)) {
        if (sent === 'renew' || !this.#isLasting(member, nowMs)) continue;
        sent = 'renew';
        if (!take(left, member, sent, untilMs)) continue;
      }
      const bucket = sent === 'renew' ? member.grants.newest : sent;
      if (bucket === undefined) continue;
      if (sent === 'renew') member.grants.renew(untilMs);
      else {
        member.grants.send(sent, nowMs, untilMs);
        const assigned = this.#isExact ? sent.tokens : 0;
        member.assigned += assigned;
        this.totals.assigned += assigned;
      }
      member.endsMs = nowMs + ttlSeconds * 1000;
      this.#keep(member);
      const { tokens, perFill, fillSeconds } = bucket;
      const isFresh = sent !== 'renew' && sent.isFresh;
      member.holder.push({ tokens, perFill, fillSeconds, ttlSeconds, isFresh });
    }
    if (this.#onDrained === undefined) return;
    if (!this.#hasProposals) this.#onDrained();
    else this.#ask(nowMs);
  }
}

function addReport(totals: ClientTotals, used: number, denied: number, returned: number, over: number): void {
  totals.used += used;
  totals.denied += denied;
  totals.returned += returned;
  totals.overReported += over;
}

/**
 * Returns for how many seconds from now a steady flow would use the released hits of a window. For that time, the needs of others are
 * ignored.
 */
function aheadOf({ limit, startMs, endMs }: Account, released: number, nowMs: number): number {
  const share = limit.requests === 0 ? 0 : released / limit.requests;
  return Math.max(0, (share * (endMs - startMs) - (nowMs - startMs) - reportMs) / 1000);
}

/** Takes the hits to be charged for a member. Returns false, and takes nothing, if too few are free. */
function take(left: readonly Free[], member: PoolClient, sent: Proposal, untilMs: number): boolean {
  for (const { account, hits } of left) if (extraOf(member, sent, account, untilMs) > hits) return false;
  for (const one of left) one.hits -= extraOf(member, sent, one.account, untilMs);
  return true;
}

/** Returns the hits to be charged in addition to those already kept for a member. */
function extraOf(member: PoolClient, proposal: Proposal, account: Account, untilMs: number): number {
  if (member.isClosed || account.startMs >= untilMs) return 0;
  const mayUse =
    proposal === 'renew' ? member.mayUseIn(account, undefined, untilMs) : member.mayUseIn(account, proposal);
  return Math.max(0, mayUse - member.keptOf(account));
}
