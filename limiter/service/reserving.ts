/**
 * Reserves and settles for descriptors, whether an API or a marker asks: makes their counters as the store of reservations
 * knows them, and writes its answers into hits, of which statuses and statistics are made as of any others.
 */
import { Assessment, assessTotal, countAssessment } from '../decide/assess.ts';
import { Code, type DescriptorStatus } from '../decide/messages.ts';
import { isQuota, type LimitedPlan, type LimitPlan, type Plan } from '../decide/plan.ts';
import { RuleStat } from '../stats/registry/rule-stats.ts';
import { type Caller, StoreError } from '../stores/counter-store.ts';
import type {
  Fullness,
  ReservationCall,
  ReservationOwner,
  ReservationStore,
  ReserveCall,
  ReservedCounter,
  SettleCall,
} from '../stores/reservations/reservation-store.ts';
import { type CountedHit, HitMaker } from './counted-hit.ts';
import type { RateLimitServiceOptions } from './rate-limit-service.ts';
import { endOfSame } from './reservation-note.ts';
import { reservedCounterOf } from './reserved-counter.ts';

/** What is asked of one descriptor. */
export interface Holding {
  /** Index of the descriptor. */
  readonly index: number;
  readonly plan: LimitedPlan;
  readonly isQuota: boolean;
  /** As `ReservedCounter.amount`. */
  readonly amount: number | undefined;
  readonly ttlMs: number;
  readonly onExpiry: 'release' | 'charge';
}

/** What is kept of a reserve that no limit holds. */
interface UnheldTerms {
  readonly ttlMs: number;
  /** Undefined: nothing is kept. */
  readonly noteUntil: ((expiresAtMs: number) => string) | undefined;
}

/** The same with what becomes of it: one hit and one counter a limit. Descriptors may share counters. */
export interface Held extends Holding {
  readonly hits: readonly CountedHit[];
  counters: readonly ReservedCounter[];
}

interface Asked<Call extends ReservationCall> {
  readonly call: Call;
  readonly held: readonly Held[];
}

export type Reserved = Asked<ReserveCall>;
export type Settled = Asked<SettleCall>;

/** What becomes of calls, for statistics. `full` is of a counter. `failed`: the store could not be asked. */
export type BudgetOutcome =
  | (ReserveCall | SettleCall)['outcome']
  | 'full_domain'
  | 'full_caller'
  | 'full_memory'
  | 'failed';
export const budgetOutcomes: Readonly<Record<'reserve' | 'settle', readonly BudgetOutcome[]>> = {
  reserve: [
    ...(['reserved', 'repeated', 'refused', 'conflict', 'failed'] as const),
    ...(['full', 'full_domain', 'full_caller', 'full_memory'] as const),
  ],
  settle: ['settled', 'late', 'repeated', 'unknown', 'failed'],
};

const noCounters: readonly ReservedCounter[] = [];

/** The answer where nothing keeps reservations. */
export class ReservesNothing extends StoreError {
  constructor(reason = 'this store keeps no reservations') {
    super(reason, { transient: false, notCounted: true });
  }
}

export class Reserving {
  readonly #options: RateLimitServiceOptions;
  readonly #hits: HitMaker;
  readonly #store: ReservationStore | undefined;
  readonly reservesNothing: ReservesNothing;
  /** Holds nothing between two counters. */
  readonly #assessment = new Assessment();

  constructor(options: RateLimitServiceOptions) {
    this.#options = options;
    // Reservations come back: what was full need not be so.
    this.#hits = new HitMaker({ ...options, localCache: undefined });
    this.#store = options.reservations;
    this.reservesNothing = new ReservesNothing(options.whyReservesNothing);
  }

  /** All or nothing. Blocked by an override, nothing is asked but how the others stand. */
  reserve(
    holdings: readonly Holding[],
    {
      domain,
      id,
      isMarker,
      note,
      otherQuotaPasses,
      unheld,
    }: Pick<ReserveCall, 'id' | 'isMarker' | 'note' | 'otherQuotaPasses'> & {
      domain: string;
      unheld?: UnheldTerms | undefined;
    },
    asker: Caller,
    done: (reserved: Reserved) => void,
  ): void {
    const held = this.#held(holdings, false);
    const open = held.some(isFull) ? held.filter((one) => !isFull(one)) : held;
    const isRefused =
      open !== held && isBlocked(held, open, otherQuotaPasses) && !this.#options.response.shadowMode;
    const counters = this.#counters(isRefused ? held : open);
    const call: ReserveCall = {
      kind: 'reserve',
      id,
      owner: ownerOf(domain, asker),
      isMarker,
      note,
      otherQuotaPasses,
      counters,
      caller: asker,
      error: undefined,
      outcome: isRefused ? 'refused' : 'reserved',
      expiresAtMs: this.#options.clock.nowMs() + (held[0] ?? unheld ?? { ttlMs: 0 }).ttlMs,
    };
    const conclude = (): void => {
      this.#noteGivenBack(counters);
      this.#tell('reserve', call.outcome === 'full' ? outcomeOf(call.full) : call.outcome, call.error);
      this.#answerHits(held, open, call);
      done({ call, held });
    };
    if (!isRefused) {
      const noteUntil = counters.length === 0 ? unheld?.noteUntil : undefined;
      if (noteUntil !== undefined) void this.#note(call, unheld!.ttlMs, noteUntil).then(conclude);
      else this.#submit(call, conclude);
      return;
    }
    const look: ReservationCall = isMarker
      ? { ...call, refusedElsewhere: true }
      : { kind: 'look', counters, caller: asker, error: undefined };
    this.#submit(look, () => {
      call.error = look.error;
      conclude();
    });
  }

  /** Something else refuses the request: of the marker's id is remembered that it holds nothing, so that its settling charges nothing. */
  refuse(holdings: readonly Holding[], id: string, asker: Caller): void {
    for (const one of holdings) this.#countAsked(one);
    const counters = this.#counters(this.#held(holdings, true));
    const call: ReserveCall = {
      kind: 'reserve',
      ...{ id, isMarker: true, note: undefined, otherQuotaPasses: false, refusedElsewhere: true },
      counters,
      // The answer does not wait for it.
      caller: { abandoned: false, span: asker.span },
      error: undefined,
      outcome: 'refused',
      expiresAtMs: 0,
    };
    this.#submit(call, () => this.#noteGivenBack(counters));
  }

  settle(
    holdings: readonly Holding[],
    { domain, id, isMarker, unknown }: Pick<SettleCall, 'id' | 'isMarker' | 'unknown'> & { domain: string },
    asker: Caller,
    done: (settled: Settled) => void,
  ): void {
    const held = this.#held(holdings, true);
    const counters = this.#counters(held);
    const call: SettleCall = {
      kind: 'settle',
      id,
      owner: ownerOf(domain, asker),
      isMarker,
      unknown,
      counters,
      // What was used is used, whoever gave up.
      caller: { abandoned: false, span: asker.span },
      error: undefined,
      // Where nothing is held there is nothing to know.
      outcome: counters.length === 0 ? 'settled' : 'unknown',
      charged: 0,
      amount: 0,
    };
    this.#submit(call, () => {
      this.#noteGivenBack(counters);
      this.#tell('settle', call.outcome, call.error);
      for (const one of held) this.#answerHit(one, call.error);
      if (call.error === undefined) this.#countSettled(held);
      done({ call, held });
    });
  }

  /** How they stand; nothing is counted. */
  look(
    holdings: readonly Holding[],
    asker: Caller,
    done: (held: readonly Held[], error: StoreError | undefined) => void,
  ): void {
    const held = this.#held(holdings, true);
    const counters = this.#counters(held);
    const call: ReservationCall = { kind: 'look', counters, caller: asker, error: undefined };
    this.#submit(call, () => {
      this.#noteGivenBack(counters);
      for (const one of held) this.#answerHit(one, call.error);
      done(held, call.error);
    });
  }

  /**
   * Writes into the statuses of quotas that requests reserve what is held of them, if that is not known; nothing where it
   * cannot be asked. `done` is called once.
   */
  addReserved(
    plans: readonly Plan[],
    statuses: readonly DescriptorStatus[],
    asker: Caller,
    done: () => void,
  ): void {
    const holdings: Holding[] = [];
    for (const [index, plan] of plans.entries()) {
      if (plan.kind !== 'limited' || plan.rule.reserve === undefined) continue;
      const status = statuses[index]!;
      if (status.plan === undefined || status.reserved !== undefined) continue;
      if (!isQuota(plan, this.#options.response.quotaMode)) continue;
      holdings.push({ index, plan, isQuota: true, amount: undefined, ttlMs: 0, onExpiry: 'release' });
    }
    if (holdings.length === 0) {
      done();
      return;
    }
    this.look(holdings, asker, (held, error) => {
      if (error === undefined) for (const one of held) noteReserved(statuses[one.index]!, one);
      done();
    });
  }

  /** No counter remembers it. */
  async #note(call: ReserveCall, ttlMs: number, noteUntil: (expiresAtMs: number) => string): Promise<void> {
    const text = noteUntil(call.expiresAtMs);
    try {
      if (this.#store === undefined) throw this.reservesNothing;
      const known = await this.#store.note({ id: call.id, text, ttlMs, owner: call.owner });
      if (known === undefined) return;
      if (typeof known !== 'string') {
        call.outcome = 'full';
        call.full = known;
        return;
      }
      const endMs = endOfSame(known, text);
      call.outcome = endMs === undefined ? 'conflict' : 'repeated';
      call.expiresAtMs = endMs ?? 0;
    } catch (error) {
      if (!(error instanceof StoreError)) throw error;
      call.error = error;
    }
  }

  #submit(call: ReservationCall, done: () => void): void {
    if (call.counters.length > 0 && this.#store !== undefined) {
      this.#store.submit(call, done);
      return;
    }
    if (call.counters.length > 0) call.error = this.reservesNothing;
    done();
  }

  /** `isQuiet`: nothing of it counts as hits that were asked for. */
  #held(holdings: readonly Holding[], isQuiet: boolean): Held[] {
    const nowMs = this.#options.clock.nowMs();
    return holdings.map(({ index, plan, isQuota, amount, ttlMs, onExpiry }): Held => {
      const hits = this.#hitsOf(plan.limits, isQuiet ? 0 : (amount ?? 0), isQuiet, nowMs);
      return { index, plan, isQuota, amount, ttlMs, onExpiry, hits, counters: noCounters };
    });
  }

  #hitsOf(limits: readonly LimitPlan[], amount: number, isQuiet: boolean, nowMs: number): CountedHit[] {
    // Most rules have one.
    const hits = [this.#hits.make(limits[0]!, amount, isQuiet, nowMs)];
    if (limits.length === 1) return hits;
    for (const limit of limits.slice(1)) hits.push(this.#hits.make(limit, amount, isQuiet, nowMs));
    for (const hit of hits) hit.groupSize = limits.length;
    hits[0]!.group = hits;
    hits[0]!.remembered = hits.some(({ full }) => full);
    return hits;
  }

  /** Of each key one, in the order of descriptors and limits: descriptors of one counter are charged on it together. */
  #counters(held: readonly Held[]): ReservedCounter[] {
    const [first] = held;
    if (held.length === 1 && first!.hits.length === 1) {
      const counters = [this.#counter(first!, first!.hits[0]!, first!.amount)];
      first!.counters = counters;
      return counters;
    }
    const amounts = new Map<string, number | undefined>();
    for (const { hits, amount } of held) {
      for (const { key } of hits) {
        const other = amounts.get(key);
        const both = amount === undefined ? other : Math.min(Number.MAX_SAFE_INTEGER, amount + (other ?? 0));
        amounts.set(key, both);
      }
    }
    const byKey = new Map<string, ReservedCounter>();
    for (const one of held) {
      one.counters = one.hits.map((hit) => {
        const known = byKey.get(hit.key);
        if (known !== undefined) return known;
        const counter = this.#counter(one, hit, amounts.get(hit.key));
        byKey.set(hit.key, counter);
        return counter;
      });
    }
    return [...byKey.values()];
  }

  #counter(
    { isQuota, index: group, ttlMs, onExpiry }: Held,
    hit: CountedHit,
    amount: number | undefined,
  ): ReservedCounter {
    const isShadow = hit.plan.rule.shadowMode || this.#options.response.shadowMode;
    return reservedCounterOf(hit, { isShadow, isQuota, group, amount, ttlMs, onExpiry });
  }

  /** What is given back here may have been remembered as full. */
  #noteGivenBack(counters: readonly ReservedCounter[]): void {
    const { localCache, events } = this.#options;
    let expired = 0;
    for (const { key, changed, givenBack } of counters) {
      expired += givenBack;
      if (changed < 0 || givenBack > 0) localCache?.forget(key);
    }
    if (expired > 0) events.onReservationsExpired?.(expired);
  }

  #tell(kind: 'reserve' | 'settle', outcome: BudgetOutcome, error: StoreError | undefined): void {
    this.#options.events.onBudgetCall?.(kind, error === undefined ? outcome : 'failed');
  }

  /** `open`: those that the store was asked for. */
  #answerHits(held: readonly Held[], open: readonly Held[], call: ReserveCall): void {
    const { outcome, error } = call;
    // A call of the API may be made again after an error, with the same id. A marker counts as any other hits do.
    const isNew = outcome !== 'repeated' && outcome !== 'conflict' && (error === undefined || call.isMarker);
    for (const one of held) {
      if (open.includes(one)) this.#answerHit(one, error);
      // Once is enough for a blocked one, too.
      if (isNew) this.#countAsked(one);
    }
    if (outcome !== 'full' || held.some(({ hits }) => hits.some(({ over }) => over))) return;
    for (const { hits } of held) for (const hit of hits) hit.over = true;
  }

  #answerHit({ hits, counters }: Held, error: StoreError | undefined): void {
    // All limits of a rule are left out together, also those that would have let it pass.
    const tellsWhich = hits.length > 1 && counters.some((counter) => !fits(counter));
    for (let i = 0; i < hits.length; i++) {
      const hit = hits[i]!;
      const { outcome, used, waitMicros } = counters[i]!;
      hit.error = error;
      hit.over = outcome === 'refused' || (outcome === 'left-out' && (!tellsWhich || !fits(counters[i]!)));
      hit.applied = outcome === 'charged' ? hit.hits : 0;
      hit.after = used;
      hit.waitMicros = waitMicros;
      hit.mayReturn = true;
    }
  }

  #countAsked({ plan, amount = 0 }: Holding): void {
    const { stats } = this.#options;
    for (const { metric } of plan.limits) stats.add(stats.slotOf(metric) + RuleStat.totalHits, amount);
  }

  /** What was charged beyond what was held counts as hits that nobody could refuse, what came back as hits taken back. */
  #countSettled(held: readonly Held[]): void {
    const { stats, warnings } = this.#options;
    // One descriptor shares its counters with nobody.
    const counted = held.length > 1 ? new Set<ReservedCounter>() : undefined;
    for (const { hits, counters } of held) {
      for (let i = 0; i < hits.length; i++) {
        const { plan, key, windowEndSeconds } = hits[i]!;
        const counter = counters[i]!;
        if (counted?.has(counter) === true) continue;
        counted?.add(counter);
        const { changed, used } = counter;
        const slot = stats.slotOf(plan.metric);
        if (changed < 0) stats.add(slot + RuleStat.totalNegativeHits, -changed);
        if (changed <= 0) continue;
        stats.add(slot + RuleStat.totalHits, changed);
        stats.add(slot + RuleStat.passed, changed);
        warnings?.note(plan, key, windowEndSeconds, used);
        assessTotal(plan, changed, used, 0, this.#assessment);
        countAssessment(stats, slot, this.#assessment);
      }
    }
  }
}

function ownerOf(domain: string, { caller }: Caller): ReservationOwner {
  return { domain, caller: caller?.name };
}

function outcomeOf(full: Fullness | undefined): BudgetOutcome {
  return full === undefined || full.of === 'counter' ? 'full' : `full_${full.of}`;
}

/** Writes into the status whether its limits would refuse the amount also where nothing is used. */
export function noteNeverFits(status: DescriptorStatus, { counters }: Held): void {
  if (status.code === Code.OVER_LIMIT && counters.some(neverFits)) status.neverFits = true;
}

function fits({ amount = 0, used, bound }: ReservedCounter): boolean {
  return amount <= bound.capacity - used;
}

function neverFits({ outcome, amount = 0, bound }: ReservedCounter): boolean {
  return (outcome === 'refused' || outcome === 'left-out') && amount > bound.capacity;
}

/** An override blocks one of its limits. */
function isFull({ hits }: Held): boolean {
  for (const { full } of hits) if (full) return true;
  return false;
}

/** `open`: those that are not full. */
function isBlocked(held: readonly Held[], open: readonly Held[], otherQuotaPasses: boolean): boolean {
  if (held.some((one) => !one.isQuota && !open.includes(one))) return true;
  return !otherQuotaPasses && held.some(({ isQuota }) => isQuota) && !open.some(({ isQuota }) => isQuota);
}

/** Of the counter that the status is about. */
export function noteReserved(status: DescriptorStatus, { hits, counters }: Held): void {
  const counter = counters[hits.findIndex(({ plan }) => plan.texts === status.plan?.texts)];
  if (counter !== undefined) status.reserved = counter.reserved;
}
