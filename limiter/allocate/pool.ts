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
import { countOf, PoolClient } from './pool-client.ts';
import { longAgoMs, type PoolTimes } from './pool-times.ts';
import { refillingForm } from './refilling-form.ts';
import { type AssignmentForm, type ClientReport, type Holder, type PoolTerms, sameTerms } from './terms.ts';

export interface PoolOptions {
  readonly store: Store;
  readonly times: PoolTimes;
  readonly random: () => number;
  readonly limiter: string;
  readonly ttlSeconds: number;
  nextSequence(): number;
}

const forms: Readonly<Record<AssignmentForm, FormRules>> = { exact: exactForm, refilling: refillingForm };

/** The shortest time between questions to the ledgers, and the longest time between reports to them. */
const askMs = 250;
const refreshMs = 5_000;
/** Chosen: with more members, a request waits for the next tick, and the fair level may be older, so that finding it costs little. */
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
  #proposals: Map<PoolClient, Proposal> | undefined;
  #isAsking = false;
  #askedMs = longAgoMs;
  /** The time at which `tick` has something to do, unless something happens before. */
  dueMs = longAgoMs;
  #sweptMs = longAgoMs;
  #isDraining = false;
  #onDrained: (() => void) | undefined;

  constructor(terms: PoolTerms, options: PoolOptions, epochMs: number) {
    this.#options = options;
    this.#terms = terms;
    this.limits = terms.limits.map((limit) => new AccountedLimit(limit, options.times, epochMs));
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

  open(holder: Holder, nowMs: number): PoolClient {
    this.dueMs = longAgoMs;
    const member = new PoolClient(this, holder, new Grants(this.rules.refills, nowMs), nowMs);
    this.#enter(nowMs);
    this.members.add(member);
    this.weight += holder.weight;
    return member;
  }

  report(member: PoolClient, reported: ClientReport, nowMs: number, cameMs: number): number {
    this.dueMs = longAgoMs;
    this.#enter(nowMs);
    const [allowed, denied] = [countOf(reported.allowed), countOf(reported.denied)];
    let windowMs = Number.POSITIVE_INFINITY;
    let max = Number.POSITIVE_INFINITY;
    for (const { current, terms } of this.limits) {
      windowMs = Math.min(windowMs, current.startMs);
      max = Math.min(max, terms.requests);
    }
    const { own, over, returned } = member.grants.report({ allowed, denied }, cameMs, { windowMs, max });
    const used = allowed - over;
    member.count('used', used);
    member.count('denied', denied);
    member.count('returned', returned);
    member.count('overReported', over);
    for (const { current } of this.limits) {
      if (!this.rules.refills) current.spent += own;
      member.setUsed(current, member.usedIn(current) + own);
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
    this.#proposals?.delete(member);
    this.weight -= member.holder.weight;
  }

  change(terms: PoolTerms, epochMs: number): void {
    const nowMs = this.times.of(epochMs);
    const isSame = sameTerms(this.#terms, terms, epochMs);
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
    const former = this.limits.flatMap(({ accounts }) => accounts);
    this.limits = terms.limits.map((limit) => new AccountedLimit(limit, this.times, epochMs, former));
    this.#forget(former);
    this.#enter(nowMs);
    for (const member of this.members) this.#propose(member, nowMs, true);
    this.#ask(nowMs);
  }

  reset(keys: ReadonlySet<string>): void {
    this.dueMs = longAgoMs;
    for (const { current } of this.limits) {
      if (!keys.has(current.window.key)) continue;
      current.forget();
      for (const member of this.members) member.setUsed(current, 0);
    }
  }

  tick(nowMs: number): void {
    this.#enter(nowMs);
    if (nowMs - this.#sweptMs >= 4 * askMs) {
      this.#sweptMs = nowMs;
      // Members that have nothing, or used it up, get more as soon as hits are available.
      const empty = [...this.members].filter(({ isEmpty }) => isEmpty);
      if (empty.length > 0 && this.#isHungry(nowMs)) for (const member of empty) this.#propose(member, nowMs);
    }
    if (!this.#isDraining && this.rules.clearsFromMs(this.limits) <= nowMs) {
      for (const member of this.members)
        if (this.rules.clears(member, this.limits, nowMs)) this.#proposed(member, nothing);
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

  #isHungry(nowMs: number): boolean {
    this.#findLevels(nowMs);
    return this.limits.some(({ hungry }) => hungry > 0);
  }

  #nextMs(nowMs: number): number {
    let nextMs = this.rules.clearsFromMs(this.limits);
    if (this.#hasProposals || !this.#isQuiet(nowMs) || nextMs <= nowMs) return longAgoMs;
    const isEmpty = this.members.values().some((member) => member.isEmpty);
    if (isEmpty) nextMs = Math.min(nextMs, this.#sweptMs + 4 * askMs);
    for (const { current } of this.limits)
      nextMs = Math.min(nextMs, current.endMs, current.reportedMs + refreshMs);
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

  get #hasProposals(): boolean {
    return this.#proposals !== undefined && this.#proposals.size > 0;
  }

  #proposed(member: PoolClient, proposal: Proposal): void {
    this.#proposals ??= new Map();
    this.#proposals.set(member, proposal);
  }

  /** Finds the current windows. In new ones nothing has been used yet, and every member is sent something. */
  #enter(nowMs: number): void {
    const before = this.limits.map(({ accounts }) => accounts[0]);
    this.#reach(nowMs, nowMs + 1);
    if (this.limits.every(({ current }, n) => current === before[n])) return;
    this.#levelsMs = longAgoMs;
    if (this.rules.refills || before[0] === undefined) return;
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

  /** Forgets those of these accounts that no limit has any more. */
  #forget(former: readonly Account[]): void {
    for (const account of former) {
      if (this.limits.some(({ accounts }) => accounts.includes(account))) continue;
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
      const add = newOperation(terms.counter, key, 'add', used, ttlSeconds);
      this.#options.store.submit([add], countAll, () => {});
    }
  }

  #keep(member: PoolClient): void {
    for (const { accounts } of this.limits) for (const account of accounts) member.keep(account);
  }

  #findLevels(nowMs: number): void {
    const validMs = askMs + Math.max(0, this.members.size - fewMembers);
    if (nowMs >= this.#levelsMs && nowMs - this.#levelsMs < validMs) return;
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
    if (!this.#hasProposals && this.#isQuiet(nowMs)) {
      this.#onDrained?.();
      return;
    }
    const proposals = this.#proposals ?? new Map<PoolClient, Proposal>();
    this.#proposals = undefined;
    this.#findLevels(nowMs);
    const asked = this.#messages(proposals, nowMs);
    if (asked.length === 0) {
      this.#assign(proposals, asked, nowMs);
      return;
    }
    this.#isAsking = true;
    for (const member of proposals.keys()) member.isPending = true;
    this.#options.store.submit(
      asked.map(([, op]) => op),
      countAll,
      () => {
        this.#isAsking = false;
        this.dueMs = longAgoMs;
        for (const member of proposals.keys()) member.isPending = false;
        if (this.members.size <= fewMembers) this.#levelsMs = longAgoMs;
        const answeredMs = this.times.now();
        const isLate = answeredMs > nowMs + answerMs || answeredMs < nowMs;
        this.#assign(isLate ? new Map() : proposals, asked, answeredMs);
      },
    );
  }

  /** Returns the messages to the ledgers of all windows in which the proposals can be used. */
  #messages(proposals: ReadonlyMap<PoolClient, Proposal>, nowMs: number): [Account, Operation][] {
    const { limiter } = this.#options;
    const livesMs = this.#horizonMs;
    const untilMs = nowMs + livesMs + answerMs;
    const asked: [Account, Operation][] = [];
    this.#reach(nowMs, untilMs);
    for (const limit of this.limits) {
      for (const account of limit.accounts) {
        let want = 0;
        for (const [member, proposal] of proposals) want += member.extraIn(account, proposal, untilMs);
        if (want === 0 && !this.#isDue(limit, account, nowMs)) continue;
        const sequence = this.#options.nextSequence();
        const message = limit.message(account, { limiter, sequence, want, livesMs }, nowMs);
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
  #assign(
    proposals: ReadonlyMap<PoolClient, Proposal>,
    asked: readonly [Account, Operation][],
    nowMs: number,
  ): void {
    const untilMs = nowMs + this.#horizonMs;
    for (const { accounts } of this.limits) {
      for (const account of accounts)
        account.free = account.startMs < untilMs && account.endMs > nowMs ? 0 : Number.POSITIVE_INFINITY;
    }
    for (const [account, op] of asked) account.answered(op);
    for (const [member, proposal] of proposals) {
      if (member.isClosed) continue;
      const sent = this.#within(proposal, member, nowMs);
      if (this.#take(member, sent, untilMs)) this.#send(member, sent, nowMs);
      else if (sent !== 'renew' && this.#isLasting(member, nowMs) && this.#take(member, 'renew', untilMs))
        this.#send(member, 'renew', nowMs);
    }
    if (this.#onDrained === undefined) return;
    if (!this.#hasProposals) this.#onDrained();
    else this.#ask(nowMs);
  }

  /** Reduces a proposal to the free hits. */
  #within(proposal: Proposal, member: PoolClient, nowMs: number): Proposal {
    if (proposal === 'renew') return proposal;
    const within = this.rules.within(proposal, member.grants.newest, this.limits);
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
    member.holder.push({ tokens, perFill, fillSeconds, isFresh: sent !== 'renew' && sent.isFresh });
  }
}
