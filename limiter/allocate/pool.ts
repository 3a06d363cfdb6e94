/**
 * The shares of one rule's limits for one bucket id, in this limiter. A report says what was used and what is needed. A client's
 * share follows from the fair level of the current windows. Everything to be sent within a quarter of a second is charged by one
 * message to each ledger: those of the current windows, and those of later windows in which the assignments can still be used.
 */
import { newOperation, type Operation } from '../stores/operation.ts';
import { countAll, type Store } from '../stores/store.ts';
import { type Account, AccountedLimit } from './account.ts';
import { nothing } from './buckets.ts';
import { type FormRules, findLevels, needOf, reportMs, type SharedPool } from './demand.ts';
import { exactForm } from './exact-form.ts';
import { Grants, type Proposal, settleMs } from './grants.ts';
import { PoolClient } from './pool-client.ts';
import { longAgoMs, type PoolTimes } from './pool-times.ts';
import { refillingForm } from './refilling-form.ts';
import { type AssignmentForm, type ClientReport, type Holder, type PoolTerms, sameTerms } from './terms.ts';

export interface PoolOptions {
  readonly store: Store;
  readonly times: PoolTimes;
  readonly random: () => number;
  readonly limiter: string;
  readonly ttlSeconds: number;
  /** Sends messages to ledgers, and numbers them. */
  ask(questions: Operation[], answered: () => void): void;
}

const forms: Readonly<Record<AssignmentForm, FormRules>> = { exact: exactForm, refilling: refillingForm };

/** The shortest time between questions to the ledgers, less than a tick, so that each tick asks; and the longest one between reports. */
const askMs = 200;
const refreshMs = 5_000;
/** The interval at which members without hits are looked for, and after which an unanswered question is asked again. */
const sweepMs = 1_000;
/**
 * Chosen: with more members, a request waits for the next tick, and the fair level may be older, so that finding it costs little. It may
 * be as old as a report if the limit was enough for all.
 */
const fewMembers = 20;
/** Chosen: a later answer is of no use, because its windows may no longer cover the assignments. */
const answerMs = 2_000;

export class Pool implements SharedPool {
  readonly members = new Set<PoolClient>();
  limits: readonly AccountedLimit[];
  weight = 0;
  readonly #options: PoolOptions;
  #terms: PoolTerms;
  #levelsMs = longAgoMs;
  /** Members with a proposal for the next question. Closed ones are passed over. */
  #proposing: PoolClient[] = [];
  /** Members whose proposals no ledger answered in time, since when. */
  #unanswered: { readonly members: Set<PoolClient>; readonly sinceMs: number } | undefined;
  #isAsking = false;
  #askedMs = longAgoMs;
  /** The time at which `tick` has something to do, unless something happens before. */
  dueMs = longAgoMs;
  #sweptMs = longAgoMs;
  #isDraining = false;
  #onDrained: (() => void) | undefined;

  constructor(terms: PoolTerms, options: PoolOptions) {
    const { times } = options;
    this.#options = options;
    this.#terms = terms;
    this.limits = terms.limits.map((limit) => new AccountedLimit(limit, times, times.now()));
  }

  get form(): AssignmentForm {
    return this.#terms.form;
  }

  get rules(): FormRules {
    return forms[this.form];
  }

  get times(): PoolTimes {
    return this.#options.times;
  }

  get random(): () => number {
    return this.#options.random;
  }

  get #horizonMs(): number {
    return this.#options.ttlSeconds * 1000 + settleMs;
  }

  open(holder: Holder): PoolClient {
    const nowMs = this.times.now();
    this.dueMs = longAgoMs;
    const member = new PoolClient(this, holder, new Grants(this.rules.refills, nowMs), nowMs);
    this.#enter(nowMs);
    this.members.add(member);
    this.weight += holder.weight;
    return member;
  }

  report(member: PoolClient, reported: ClientReport, cameMs: number): number {
    const nowMs = this.times.now();
    this.dueMs = longAgoMs;
    this.#enter(nowMs);
    const { allowed, denied } = reported;
    let windowMs = Number.POSITIVE_INFINITY;
    let max = Number.POSITIVE_INFINITY;
    for (const { current, terms } of this.limits) {
      windowMs = Math.min(windowMs, current.startMs);
      max = Math.min(max, terms.requests);
    }
    const { own, over, returned } = member.grants.report(reported, cameMs, windowMs, max);
    const used = allowed - over;
    member.count('used', used);
    member.count('denied', denied);
    member.count('returned', returned);
    member.count('overReported', over);
    for (const { current } of this.limits) {
      if (!this.rules.refills) current.spent += own;
      member.partOf(current).used += own;
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
    this.dueMs = longAgoMs;
    member.isClosed = true;
    member.spend();
    this.members.delete(member);
    this.weight -= member.holder.weight;
  }

  change(terms: PoolTerms): void {
    const nowMs = this.times.now();
    const isSame = sameTerms(this.#terms, terms, this.times.epochOf(nowMs));
    const isOther = this.form !== terms.form;
    this.#terms = terms;
    if (isSame) return;
    this.dueMs = longAgoMs;
    this.#askedMs = longAgoMs;
    this.#levelsMs = longAgoMs;
    if (isOther) {
      for (const member of this.members) {
        member.spend();
        member.grants = new Grants(this.rules.refills, nowMs);
      }
    }
    const former = this.limits;
    const accounts = former.flatMap((limit) => limit.accounts);
    this.limits = terms.limits.map((limit) => new AccountedLimit(limit, this.times, nowMs, accounts));
    this.#leave(former, nowMs);
    this.#forget(accounts);
    this.#enter(nowMs);
    for (const member of this.members) this.#propose(member, nowMs, true);
    this.#ask(nowMs);
  }

  reset(keys: ReadonlySet<string>): void {
    const nowMs = this.times.now();
    this.#enter(nowMs);
    const emptied = this.limits.filter((limit) =>
      keys.has(limit.terms.windowAt(this.times.epochOf(nowMs)).key),
    );
    if (emptied.length === 0) return;
    for (const limit of emptied) {
      if (limit.hasEnd) limit.current.forget();
      else this.#submit(limit.refund());
      for (const member of this.members) member.partOf(limit.current).used = 0;
    }
    this.dueMs = longAgoMs;
    this.#levelsMs = longAgoMs;
    for (const member of this.members) this.#propose(member, nowMs);
  }

  tick(nowMs: number): void {
    this.#enter(nowMs);
    if (nowMs - this.#sweptMs >= sweepMs) {
      this.#sweptMs = nowMs;
      this.#findLevels(nowMs);
      // Members that have nothing, or used it up, get more as soon as hits are available.
      if (this.#isHungry) for (const member of this.members) if (member.isEmpty) this.#propose(member, nowMs);
    }
    if (!this.#isDraining && this.rules.clearsFromMs(this.limits) <= nowMs) {
      for (const member of this.members)
        if (this.rules.clears(member, this.limits, nowMs)) this.#proposed(member, nothing);
    }
    if (this.#unanswered !== undefined && nowMs - this.#unanswered.sinceMs >= sweepMs) {
      const { members } = this.#unanswered;
      this.#unanswered = undefined;
      for (const member of members) if (!member.isClosed) this.#propose(member, nowMs);
    }
    if (nowMs - this.#askedMs >= askMs) this.#ask(nowMs);
    this.dueMs = this.#nextMs(nowMs);
  }

  /** Whether nothing is left to be done: no client is left, and the ledgers know it. */
  get isOver(): boolean {
    const isKnown = this.limits.every(({ accounts }) =>
      accounts.every((account) => account.isReported(true)),
    );
    return this.members.size === 0 && !this.#isAsking && isKnown;
  }

  /** Whether a member needs more than the level, when it was last found. */
  get #isHungry(): boolean {
    return this.limits.some(({ hungry }) => hungry > 0);
  }

  #nextMs(nowMs: number): number {
    let nextMs = this.rules.clearsFromMs(this.limits);
    if (this.#proposing.length > 0 || !this.#isQuiet(nowMs) || nextMs <= nowMs) return longAgoMs;
    if (this.#unanswered !== undefined) nextMs = Math.min(nextMs, this.#unanswered.sinceMs + sweepMs);
    if (this.#isHungry || this.#levelsMs === longAgoMs) nextMs = Math.min(nextMs, this.#sweptMs + sweepMs);
    for (const { current } of this.limits)
      nextMs = Math.min(nextMs, current.endMs, current.reportedMs + refreshMs);
    return nextMs;
  }

  /** Renews all assignments once more. */
  drain(): Promise<void> {
    const nowMs = this.times.now();
    this.#isDraining = true;
    this.#enter(nowMs);
    for (const member of this.members) if (this.#isLasting(member, nowMs)) this.#proposed(member, 'renew');
    return new Promise((resolve) => {
      this.#onDrained = resolve;
      this.#ask(nowMs);
    });
  }

  #proposed(member: PoolClient, proposal: Proposal): void {
    if (member.proposal === undefined) this.#proposing.push(member);
    member.proposal = proposal;
  }

  /** Finds the current windows. In new ones nothing has been used yet, and every member is sent something. */
  #enter(nowMs: number): void {
    if (this.limits.every((limit) => limit.isAt(nowMs))) return;
    const isFirst = this.limits.some(({ accounts }) => accounts.length === 0);
    this.#reach(nowMs, nowMs + 1);
    this.#levelsMs = longAgoMs;
    if (this.rules.refills || isFirst) return;
    for (const member of this.members) this.#propose(member, nowMs);
    this.#askedMs = longAgoMs;
  }

  /** Opens accounts for all windows until a time, and leaves those of windows that have ended. */
  #reach(nowMs: number, untilMs: number): void {
    for (const limit of this.limits) {
      const before = limit.accounts;
      if (!limit.reach(nowMs, untilMs)) continue;
      this.#forget(before);
      for (const account of limit.accounts)
        if (!before.includes(account)) for (const member of this.members) member.keep(account);
    }
  }

  /** Charges for good what clients may use in windows that no limit has any more. Later terms may have the same windows again. */
  #leave(former: readonly AccountedLimit[], nowMs: number): void {
    const { limiter } = this.#options;
    const messages: Operation[] = [];
    for (const limit of former) {
      for (const account of limit.accounts) {
        if (this.#has(account) || account.isReported(true)) continue;
        account.spent += account.keeps;
        account.keeps = 0;
        const message = limit.message(account, { limiter, want: 0, livesMs: this.#horizonMs }, nowMs);
        if (message !== undefined) messages.push(message);
      }
    }
    if (messages.length > 0) this.#options.ask(messages, () => {});
  }

  #has(account: Account): boolean {
    return this.limits.some(({ accounts }) => accounts.includes(account));
  }

  /** Forgets those of these accounts that no limit has any more. */
  #forget(former: readonly Account[]): void {
    for (const account of former) {
      if (this.#has(account)) continue;
      for (const member of this.members) member.forget(account);
    }
  }

  /**
   * Counts hits of sliding windows and buckets, so that callers that ask for each hit see them: none of their later windows can be
   * charged.
   */
  #count(used: number): void {
    if (used === 0) return;
    for (const { terms, current, hasEnd } of this.limits) {
      if (hasEnd) continue;
      const { key, ttlSeconds } = terms.windowAt(this.times.epochOf(current.startMs));
      this.#submit(newOperation(terms.counter, key, 'add', used, ttlSeconds));
    }
  }

  #submit(counted: Operation): void {
    if (counted.hits > 0) this.#options.store.submit([counted], countAll, () => {});
  }

  #keep(member: PoolClient): void {
    for (const { accounts } of this.limits) for (const account of accounts) member.keep(account);
  }

  #findLevels(nowMs: number): void {
    const others = Math.max(0, this.members.size - fewMembers);
    const validMs = askMs + Math.min(reportMs, this.#isHungry ? others : 4 * others);
    if (nowMs - this.#levelsMs < validMs) return;
    this.#levelsMs = nowMs;
    findLevels(this, this.#options.ttlSeconds * 1000, nowMs);
  }

  #propose(member: PoolClient, nowMs: number, isChanged = false): void {
    if (member.isPending || this.#isDraining) return;
    const { newest } = member.grants;
    const isLasting = this.#isLasting(member, nowMs);
    this.#findLevels(nowMs);
    const need = needOf(this, member, nowMs);
    const bucket = this.rules.bucketFor(this, member, isLasting ? newest : undefined, need, isChanged);
    const lastsMs = (member.endsMs ?? nowMs) - nowMs;
    if (bucket !== undefined) this.#proposed(member, bucket);
    else if (newest === undefined || !isLasting) this.#proposed(member, nothing);
    else if (lastsMs < this.#options.ttlSeconds * 1000 - 0.8 * reportMs) this.#proposed(member, 'renew');
  }

  /** Whether a message sent now arrives before the current assignment has ended. A bucket that arrives later begins full. */
  #isLasting({ endsMs }: PoolClient, nowMs: number): boolean {
    return endsMs !== undefined && endsMs - nowMs > settleMs + answerMs;
  }

  /** Reports to the ledgers and asks for the proposed hits. */
  #ask(nowMs: number): void {
    if (this.#isAsking) return;
    this.#askedMs = nowMs;
    if (this.#proposing.length === 0 && this.#isQuiet(nowMs)) {
      this.#onDrained?.();
      return;
    }
    const { limits } = this;
    const members = this.#proposing;
    this.#proposing = [];
    this.#findLevels(nowMs);
    const asked = this.#messages(members, nowMs);
    if (asked.length === 0) {
      this.#assign(members, asked, nowMs);
      return;
    }
    this.#isAsking = true;
    for (const member of members) member.isPending = true;
    const answered = (): void => {
      this.#isAsking = false;
      this.dueMs = longAgoMs;
      if (this.members.size <= fewMembers) this.#levelsMs = longAgoMs;
      const answeredMs = this.times.now();
      const isLate = answeredMs > nowMs + answerMs;
      const isAnswered = asked.every(([, { error, lease }]) => error === undefined && lease!.granted >= 0);
      if (isLate) for (const member of members) member.proposal = undefined;
      if (isLate || !isAnswered) {
        this.#unanswered ??= { members: new Set(), sinceMs: answeredMs };
        for (const member of members) this.#unanswered.members.add(member);
      }
      this.#assign(members, asked, answeredMs);
      if (this.limits !== limits) for (const member of this.members) this.#propose(member, answeredMs, true);
    };
    this.#options.ask(
      asked.map(([, op]) => op),
      answered,
    );
  }

  /** Returns the messages to the ledgers of all windows in which the proposals can be used. */
  #messages(members: readonly PoolClient[], nowMs: number): [Account, Operation][] {
    const { limiter } = this.#options;
    const untilMs = nowMs + this.#horizonMs + answerMs;
    const asked: [Account, Operation][] = [];
    this.#reach(nowMs, untilMs);
    for (const limit of this.limits) {
      for (const account of limit.accounts) {
        let want = 0;
        for (const member of members) want += member.extraIn(account, member.proposal!, untilMs);
        if (want === 0 && !this.#isDue(limit, account, nowMs)) continue;
        const message = limit.message(account, { limiter, want, livesMs: this.#horizonMs }, nowMs);
        if (message !== undefined) asked.push([account, message]);
      }
    }
    return asked;
  }

  /** Whether the ledgers need no report unless a client wants more. */
  #isQuiet(nowMs: number): boolean {
    return !this.limits.some((limit) => limit.accounts.some((one) => this.#isDue(limit, one, nowMs)));
  }

  #isDue({ current }: AccountedLimit, account: Account, nowMs: number): boolean {
    if (!account.isReported(this.members.size === 0)) return true;
    return account === current && nowMs - account.reportedMs >= refreshMs;
  }

  /** Sends the proposals as far as their hits are charged. */
  #assign(members: readonly PoolClient[], asked: readonly [Account, Operation][], nowMs: number): void {
    const untilMs = nowMs + this.#horizonMs;
    for (const { accounts } of this.limits) {
      for (const account of accounts)
        account.free = account.startMs < untilMs && account.endMs > nowMs ? 0 : Number.POSITIVE_INFINITY;
    }
    for (const [account, op] of asked) account.answered(op);
    for (const member of members) {
      const { proposal } = member;
      member.proposal = undefined;
      member.isPending = false;
      if (proposal === undefined || member.isClosed) continue;
      const sent = this.#within(proposal, member, nowMs);
      if (this.#take(member, sent, untilMs)) this.#send(member, sent, nowMs);
      else if (sent !== 'renew' && this.#isLasting(member, nowMs) && this.#take(member, 'renew', untilMs))
        this.#send(member, 'renew', nowMs);
    }
    if (this.#onDrained === undefined) return;
    if (this.#proposing.length === 0) this.#onDrained();
    else this.#ask(nowMs);
  }

  /** Reduces a proposal to the free hits. */
  #within(proposal: Proposal, member: PoolClient, nowMs: number): Proposal {
    if (proposal === 'renew') return proposal;
    const within = this.rules.within(proposal, member, this.limits);
    return within ?? (this.#isLasting(member, nowMs) ? 'renew' : nothing);
  }

  /** Takes the hits to be charged for a member. Returns false, and takes nothing, if too few are free. */
  #take(member: PoolClient, sent: Proposal, untilMs: number): boolean {
    for (const { accounts } of this.limits)
      for (const account of accounts) if (member.extraIn(account, sent, untilMs) > account.free) return false;
    for (const { accounts } of this.limits)
      for (const account of accounts) account.free -= member.extraIn(account, sent, untilMs);
    return true;
  }

  #send(member: PoolClient, sent: Proposal, nowMs: number): void {
    const untilMs = nowMs + this.#horizonMs;
    const bucket = sent === 'renew' ? member.grants.newest : sent;
    if (bucket === undefined) return;
    if (sent === 'renew') member.grants.renew(untilMs);
    else {
      member.grants.send(sent, nowMs, untilMs);
      if (!this.rules.refills) member.count('assigned', sent.tokens);
    }
    member.endsMs = nowMs + this.#options.ttlSeconds * 1000;
    this.#keep(member);
    const { tokens, perFill, fillSeconds } = bucket;
    member.holder.push(sent === 'renew' ? { tokens, perFill, fillSeconds, isFresh: false } : sent);
  }
}
