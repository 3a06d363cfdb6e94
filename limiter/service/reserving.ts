/**
 * Reserves, commits and releases amounts for descriptors, for the APIs and for markers. It creates their counters in the form that the
 * store of reservations requires. It writes the store's answers into hits, so that statuses and statistics are made as for other hits.
 */
import type { LimitedPlan, LimitPlan, Plan } from '../decide/limit-plan.ts';
import { Code } from '../decide/messages.ts';
import type { ResponseOptions } from '../decide/response.ts';
import type { DescriptorStatus } from '../decide/response-message.ts';
import { RuleStat } from '../stats/registry/rule-stats.ts';
import {
  asksForHits,
  type Caller,
  newHold,
  newReservation,
  type ReachedReservationBound,
  type Reservation,
  type ReservationOwner,
  type Verb,
} from '../stores/operation.ts';
import { countAll, type Store } from '../stores/store.ts';
import { StoreError } from '../stores/store-error.ts';
import type { BudgetOutcome, CountedHit, HitsAsked, ServiceEvents } from './decision.ts';
import { Assessment, type HitStatuses } from './hit-statuses.ts';
import type { LimitWarnings } from './limit-warnings.ts';
import { HitMaker, type HitMakerOptions } from './prepare.ts';

/** The amount of a call for one descriptor, and its hits. */
export interface DescriptorHold {
  /** Index of the descriptor. */
  readonly index: number;
  readonly plan: LimitedPlan;
  readonly isQuota: boolean;
  /** As `ReservationHold.amount`. */
  readonly amount: number | undefined;
  readonly ttlMs: number;
  readonly onExpiry: 'release' | 'charge';
  /** The hits, one for each limit. `Reserving` makes them. */
  hits: CountedHit[];
  /** The hits that were sent to the store instead: the same hits, or others of the call that have the same key. */
  asked: CountedHit[];
}

const noHits: CountedHit[] = [];

/** Creates a hold without hits, for one call. */
export function newDescriptorHold(given: Omit<DescriptorHold, 'hits' | 'asked'>): DescriptorHold {
  const { index, plan, isQuota, amount, ttlMs, onExpiry } = given;
  return { index, plan, isQuota, amount, ttlMs, onExpiry, hits: noHits, asked: noHits };
}

/** The record of a reservation without a limit. */
export interface UnlimitedTerms {
  readonly ttlMs: number;
  /** Undefined: nothing is stored. */
  readonly note: UnlimitedNoteFormat | undefined;
}

/** The text that a store holds instead of a reservation. */
export interface UnlimitedNoteFormat {
  until(expiresAtMs: number): string;
  /** Returns when the reservation in the text `known` expires, if `text` belongs to the same reservation; otherwise undefined. */
  endOfSame(known: string, text: string): number | undefined;
}

/** The error if the store does not support reservations. */
export class ReservationsUnsupported extends StoreError {
  constructor(reason = 'this store cannot store reservations') {
    super(reason, { transient: false, notCounted: true });
  }
}

export interface ReservingOptions extends HitMakerOptions {
  readonly store: Store;
  /**
   * The reason why the store does not support reservations, for callers that ask for one. Undefined: it supports them, unless it cannot
   * store notes.
   */
  readonly whyReservesNothing: string | undefined;
  readonly isQuota: (plan: Plan) => boolean;
  readonly response: Pick<ResponseOptions, 'shadowMode'>;
  readonly warnings: LimitWarnings | undefined;
  readonly events: Pick<ServiceEvents, 'onOverridden' | 'onBudgetCall' | 'onReservationsExpired'>;
}

export function chargesExpired({ rule }: LimitPlan): boolean {
  return rule.reserve?.onExpiry === 'charge';
}

export class Reserving {
  readonly #options: ReservingOptions;
  readonly #hits: HitMaker;
  readonly #store: Store;
  /** Undefined: the store supports reservations. */
  readonly reservesNothing: ReservationsUnsupported | undefined;
  /** Holds no state between two counters. */
  readonly #assessment: Assessment;

  constructor(options: ReservingOptions) {
    this.#options = options;
    this.#assessment = new Assessment(options.stats);
    // Reservations return hits, so a counter that was full may have room.
    this.#hits = new HitMaker({ ...options, localCache: undefined });
    this.#store = options.store;
    const { whyReservesNothing: why, store } = options;
    if (why !== undefined || store.notes === undefined)
      this.reservesNothing = new ReservationsUnsupported(why);
  }

  /**
   * Reserves all or nothing, and writes the outcome into the call. If an override blocks it, it only reads the counters. `done` gets
   * the reason why the store did not answer, or not in time. The outcome is then meaningless. `unlimited`: required if there are no holds.
   */
  reserve(
    holds: readonly DescriptorHold[],
    call: Reservation,
    asker: Caller,
    done: (error: StoreError | undefined) => void,
    unlimited?: UnlimitedTerms,
  ): void {
    const nowMs = this.#options.clock.nowMs();
    this.#makeHits(holds, 'reserve', nowMs);
    const open = holds.some(isFull) ? holds.filter((one) => !isFull(one)) : holds;
    const isRejected =
      open !== holds && isBlocked(holds, open, call.otherQuotaPasses) && !this.#options.response.shadowMode;
    if (isRejected) call.outcome = 'refused';
    call.expiresAtMs = nowMs + (holds[0] ?? unlimited!).ttlMs;
    // If a reservation is rejected, the store still reads the counters. For a marker, it also records that nothing is held.
    const asked = isRejected ? newReservation({ ...call, isOverLimitElsewhere: true }) : call;
    const verb = isRejected && !call.isMarker ? 'look' : 'reserve';
    const ops = this.#operations(isRejected ? holds : open, asked, verb);
    call.width = ops.length;
    const conclude = (error: StoreError | undefined): void => {
      for (const op of ops) op.verb = 'reserve';
      this.#noteGivenBack(ops);
      this.#report('reserve', call.outcome === 'full' ? outcomeOf(call.full) : call.outcome, error);
      this.#answerHits(holds, open, call, error);
      done(error);
    };
    const unlimitedNote = ops.length === 0 && !isRejected ? unlimited?.note : undefined;
    if (unlimitedNote !== undefined) void this.#note(call, unlimited!.ttlMs, unlimitedNote).then(conclude);
    else this.#submit(ops, asker, conclude);
  }

  /** Records that the id of a marker holds nothing, because something else rejects the request. A commit of this id charges nothing. */
  reject(holds: readonly DescriptorHold[], id: string, asker: Caller): void {
    for (const one of holds) this.#countAsked(one);
    const call = newReservation({ id, isMarker: true, isOverLimitElsewhere: true, width: 0 });
    this.#makeHits(holds, 'look', this.#options.clock.nowMs());
    const ops = this.#operations(holds, call, 'reserve');
    // The answer does not wait for this.
    this.#submit(ops, staying(asker), () => this.#noteGivenBack(ops));
  }

  /** Commits, and writes the outcome into the call. `done` is called as for `reserve`. */
  commit(
    holds: readonly DescriptorHold[],
    call: Reservation,
    asker: Caller,
    done: (error: StoreError | undefined) => void,
  ): void {
    this.#makeHits(holds, 'commit', this.#options.clock.nowMs());
    const ops = this.#operations(holds, call, 'commit');
    // If nothing is held, there is nothing to look up.
    if (ops.length === 0) call.commitOutcome = 'settled';
    // The amount was used, even if the caller gave up.
    this.#submit(ops, staying(asker), (error) => {
      this.#noteGivenBack(ops);
      this.#report('settle', call.commitOutcome === 'partial' ? 'conflict' : call.commitOutcome, error);
      for (const one of holds) this.#answerHit(one, error);
      if (error === undefined) this.#countCommitted(holds);
      done(error);
    });
  }

  /** Reads the counters without counting. `done` is called as for `reserve`. */
  look(holds: readonly DescriptorHold[], asker: Caller, done: (error: StoreError | undefined) => void): void {
    this.#makeHits(holds, 'look', this.#options.clock.nowMs());
    const ops = this.#operations(holds, newReservation({ id: '', width: 0 }), 'look');
    this.#submit(ops, asker, (error) => {
      this.#noteGivenBack(ops);
      for (const one of holds) this.#answerHit(one, error);
      done(error);
    });
  }

  /**
   * Writes the reserved amounts into the statuses of quotas that requests reserve, unless the amounts are known. It writes nothing if the
   * store fails. `done` is called once.
   */
  addReserved(
    plans: readonly Plan[],
    statuses: readonly DescriptorStatus[],
    asker: Caller,
    done: () => void,
  ): void {
    const holds: DescriptorHold[] = [];
    for (const [index, plan] of plans.entries()) {
      if (plan.kind !== 'limited' || plan.rule.reserve === undefined) continue;
      const status = statuses[index]!;
      if (status.plan === undefined || status.reserved !== undefined) continue;
      if (!this.#options.isQuota(plan)) continue;
      const terms = { amount: undefined, ttlMs: 0, onExpiry: 'release' } as const;
      holds.push(newDescriptorHold({ index, plan, isQuota: true, ...terms }));
    }
    if (holds.length === 0) {
      done();
      return;
    }
    this.look(holds, asker, (error) => {
      if (error === undefined) for (const one of holds) noteReserved(statuses[one.index]!, one);
      done();
    });
  }

  /** Stores a note for a reservation that no counter stores. */
  async #note(
    call: Reservation,
    ttlMs: number,
    { until, endOfSame }: UnlimitedNoteFormat,
  ): Promise<StoreError | undefined> {
    const text = until(call.expiresAtMs);
    try {
      if (this.reservesNothing !== undefined) throw this.reservesNothing;
      const known = await this.#store.notes!.note({ id: call.id, text, ttlMs, owner: call.owner });
      if (known === undefined) return undefined;
      if (typeof known !== 'string') {
        call.outcome = 'full';
        call.full = known;
        return undefined;
      }
      const endMs = endOfSame(known, text);
      call.outcome = endMs === undefined ? 'conflict' : 'repeated';
      call.expiresAtMs = endMs ?? 0;
      return undefined;
    } catch (error) {
      if (!(error instanceof StoreError)) throw error;
      return error;
    }
  }

  #submit(ops: CountedHit[], caller: Caller, done: (error: StoreError | undefined) => void): void {
    if (ops.length === 0 || this.reservesNothing !== undefined) {
      done(ops.length === 0 ? undefined : this.reservesNothing);
      return;
    }
    for (const op of ops) op.caller = caller;
    this.#store.submit(ops, countAll, () => done(firstError(ops)));
  }

  #makeHits(holds: readonly DescriptorHold[], verb: Verb, nowMs: number): void {
    const asks = asksForHits(verb);
    for (const one of holds)
      one.hits = this.#hitsOf(one.plan.limits, asks ? (one.amount ?? 0) : 0, verb, nowMs);
  }

  #hitsOf(limits: readonly LimitPlan[], amount: number, verb: Verb, nowMs: number): CountedHit[] {
    // Most rules have one limit.
    const hits = [this.#hits.hit(limits[0]!, amount, verb, nowMs)];
    if (limits.length === 1) return hits;
    for (const limit of limits.slice(1)) hits.push(this.#hits.hit(limit, amount, verb, nowMs));
    for (const hit of hits) hit.groupSize = limits.length;
    hits[0]!.group = hits;
    hits[0]!.remembered = hits.some(({ full }) => full);
    return hits;
  }

  /** Returns one operation for each key, in the order of descriptors and limits. */
  #operations(holds: readonly DescriptorHold[], call: Reservation, verb: Verb): CountedHit[] {
    const [first] = holds;
    let ops: CountedHit[];
    // Most calls have one operation.
    if (holds.length === 1 && first!.hits.length === 1) {
      ops = first!.hits;
      first!.asked = ops;
      this.#hold(first!, ops[0]!, first!.amount, call);
    } else ops = this.#operationsByKey(holds, call);
    for (const op of ops) op.verb = verb;
    call.width = ops.length;
    return ops;
  }

  /** Descriptors with the same counter are charged together. */
  #operationsByKey(holds: readonly DescriptorHold[], call: Reservation): CountedHit[] {
    const byKey = new Map<string, CountedHit>();
    const amounts = amountsOf(holds);
    for (const one of holds) {
      one.asked = one.hits.map((hit) => {
        const known = byKey.get(hit.key);
        if (known !== undefined) return known;
        byKey.set(hit.key, hit);
        this.#hold(one, hit, amounts.get(hit.key), call);
        return hit;
      });
    }
    return [...byKey.values()];
  }

  #hold(
    { isQuota, index: group, ttlMs, onExpiry }: DescriptorHold,
    hit: CountedHit,
    amount: number | undefined,
    reservation: Reservation,
  ): void {
    const isShadow = hit.counter.rule.shadowMode || this.#options.response.shadowMode;
    hit.hold = newHold({ reservation, isShadow, isQuota, group, amount, ttlMs, onExpiry });
  }

  /** The local cache may remember the counters of returned hits as full. */
  #noteGivenBack(ops: readonly CountedHit[]): void {
    const { localCache, events } = this.#options;
    let expired = 0;
    for (const { key, hold } of ops) {
      const { changed, givenBack } = hold!;
      expired += givenBack;
      if (changed < 0 || givenBack > 0) localCache?.forget(key);
    }
    if (expired > 0) events.onReservationsExpired?.(expired);
  }

  #report(kind: 'reserve' | 'settle', outcome: BudgetOutcome, error: StoreError | undefined): void {
    this.#options.events.onBudgetCall?.(kind, error === undefined ? outcome : 'failed');
  }

  /** `open`: the hits that the store was asked for. */
  #answerHits(
    held: readonly DescriptorHold[],
    open: readonly DescriptorHold[],
    { outcome, isMarker }: Reservation,
    error: StoreError | undefined,
  ): void {
    // After an error, an API call may be repeated with the same id. Hits of a marker count as other hits do.
    const isNew = outcome !== 'repeated' && outcome !== 'conflict' && (error === undefined || isMarker);
    for (const one of held) {
      if (open.includes(one)) this.#answerHit(one, error);
      // The hits count once, also if they are blocked.
      if (isNew) this.#countAsked(one);
    }
    if (outcome !== 'full' || held.some(({ hits }) => hits.some(({ over }) => over))) return;
    for (const { hits } of held) for (const hit of hits) hit.over = true;
  }

  #answerHit({ hits, asked }: DescriptorHold, error: StoreError | undefined): void {
    // If one limit rejects the amount, all limits of a rule are left out, including those with enough room.
    const reportsWhich = hits.length > 1 && asked.some((one) => !fits(one));
    for (let i = 0; i < hits.length; i++) {
      const hit = hits[i]!;
      const one = asked[i]!;
      const { outcome } = one.hold!;
      hit.error = error;
      hit.over = outcome === 'refused' || (outcome === 'left-out' && (!reportsWhich || !fits(one)));
      hit.applied = outcome === 'charged' ? hit.hits : 0;
      hit.after = one.after;
      hit.waitMicros = one.waitMicros;
      hit.mayReturn = true;
    }
  }

  #countAsked({ plan, amount = 0 }: DescriptorHold): void {
    const { stats } = this.#options;
    for (const { metric } of plan.limits) stats.add(stats.slotOf(metric) + RuleStat.totalHits, amount);
  }

  /**
   * Counts committed amounts in statistics. A charge above the held amount counts as hits that could not be rejected. A returned amount
   * counts as refunded hits.
   */
  #countCommitted(held: readonly DescriptorHold[]): void {
    const { stats, warnings } = this.#options;
    // A single descriptor shares its counters with no other.
    const counted = held.length > 1 ? new Set<CountedHit>() : undefined;
    for (const { asked } of held) {
      for (const one of asked) {
        if (counted?.has(one) === true) continue;
        counted?.add(one);
        const { counter: plan, key, windowEndSeconds, after: used } = one;
        const { changed } = one.hold!;
        const slot = stats.slotOf(plan.metric);
        if (changed < 0) stats.add(slot + RuleStat.totalNegativeHits, -changed);
        if (changed <= 0) continue;
        stats.add(slot + RuleStat.totalHits, changed);
        stats.add(slot + RuleStat.passed, changed);
        warnings?.note(plan, key, windowEndSeconds, used);
        this.#assessment.ofTotal(plan, changed, used, 0);
      }
    }
  }
}

export function ownerOf(domain: string, { caller }: Caller): ReservationOwner {
  return { domain, caller: caller?.name };
}

function outcomeOf(full: ReachedReservationBound | undefined): BudgetOutcome {
  return full === undefined || full.of === 'counter' ? 'full' : `full_${full.of}`;
}

/** Returns the status of a descriptor that asked to reserve an amount. Reports the thresholds of `warn_at` that are reached. */
export function statusOfReserved(
  {
    hitStatuses,
    warnings,
  }: { readonly hitStatuses: HitStatuses; readonly warnings: LimitWarnings | undefined },
  one: DescriptorHold,
  asked: HitsAsked,
  { reports, hit = one.hits[0]! }: { readonly reports: boolean; readonly hit?: CountedHit },
): DescriptorStatus {
  const status = hitStatuses.statusOf(hit, asked, one.index, reports);
  noteNeverFits(status, one);
  if (hit.counter.warns) warnings?.report(hit, status);
  return status;
}

/** Marks the status if its limits would reject the amount even if nothing were used. */
function noteNeverFits(status: DescriptorStatus, { asked }: DescriptorHold): void {
  if (status.code === Code.OVER_LIMIT && asked.some(neverFits)) status.neverPasses = true;
}

function fits({ hold, after, counter }: CountedHit): boolean {
  return (hold!.amount ?? 0) <= counter.capacity - after;
}

function neverFits({ hold, counter }: CountedHit): boolean {
  const { outcome, amount = 0 } = hold!;
  return (outcome === 'refused' || outcome === 'left-out') && amount > counter.capacity;
}

function firstError(ops: readonly CountedHit[]): StoreError | undefined {
  for (const { error } of ops) if (error !== undefined) return error;
  return undefined;
}

/** Returns the sum that all descriptors request for each key. */
function amountsOf(held: readonly DescriptorHold[]): Map<string, number | undefined> {
  const amounts = new Map<string, number | undefined>();
  for (const { hits, amount } of held) {
    for (const { key } of hits) {
      const other = amounts.get(key);
      const both = amount === undefined ? other : Math.min(Number.MAX_SAFE_INTEGER, amount + (other ?? 0));
      amounts.set(key, both);
    }
  }
  return amounts;
}

/** A caller whose call continues even if the request is given up. */
function staying({ span }: Caller): Caller {
  return { abandoned: false, span };
}

/** Whether an override blocks a limit. */
function isFull({ hits }: DescriptorHold): boolean {
  for (const { full } of hits) if (full) return true;
  return false;
}

/** Whether full counters block the reservation. `open`: the hits whose counters are not full. At least one other counter is full. */
function isBlocked(
  held: readonly DescriptorHold[],
  open: readonly DescriptorHold[],
  otherQuotaPasses: boolean,
): boolean {
  if (held.some((one) => !one.isQuota && !open.includes(one))) return true;
  // Only the counters of quotas are full.
  return !otherQuotaPasses && !open.some(({ isQuota }) => isQuota);
}

/** Writes the reserved amount of the counter that the status describes. */
export function noteReserved(status: DescriptorStatus, { hits, asked }: DescriptorHold): void {
  const one = asked[hits.findIndex(({ counter }) => counter.texts === status.plan?.texts)];
  if (one !== undefined) status.reserved = one.hold!.reserved;
}
