/** What reservations do, written down simply: one counter a limit and window, a list of what was reserved, sums. */
import type { TestCall } from '../support/reservation-calls.ts';

export interface ModelledScope {
  readonly stem: string;
  readonly limit: number;
  /** What is beyond it is not charged, whatever is needed. */
  readonly isBucket: boolean;
  /** What is beyond it is charged, but not reported. */
  readonly isSliding: boolean;
  /** The key of its present window. */
  readonly key: string;
}

interface Modelled {
  readonly id: string;
  readonly stem: string;
  readonly key: string;
  readonly amount: number;
  readonly ttlMs: number;
  readonly onExpiry: 'release' | 'charge';
  readonly isMarker: boolean;
  /** 0: any number. */
  readonly descriptors: number;
  readonly dueMs: number;
  taken: number;
  isRefused: boolean;
  state: 'open' | 'released' | 'kept' | 'settled';
  charged: number;
  forgetMs: number;
}

export interface ModelledReserve {
  readonly id: string;
  readonly isMarker: boolean;
  readonly descriptors: number;
  readonly scopes: readonly ModelledScope[];
  readonly amount: number;
  readonly ttlMs: number;
  readonly onExpiry: 'release' | 'charge';
  readonly isShadow: boolean;
}

export interface ModeledSettle {
  readonly id: string;
  readonly isMarker: boolean;
  readonly descriptors: number;
  readonly scopes: readonly ModelledScope[];
  readonly actual: number | undefined;
  readonly unknown: 'charge' | 'report';
}

export class ReservationModel {
  nowMs = 0;
  /** A bucket had less than was needed. */
  wasEmptied = false;
  readonly #recordMs: number;
  readonly #used = new Map<string, number>();
  /** What was charged beyond any check. */
  readonly #unchecked = new Map<string, number>();
  #all: Modelled[] = [];

  constructor(recordMs: number) {
    this.#recordMs = recordMs;
  }

  used({ key }: ModelledScope): number {
    return this.#used.get(key) ?? 0;
  }

  /** As a store says it. */
  reported(scope: ModelledScope): [used: number, reserved: number, open: number] {
    const used = scope.isSliding ? Math.min(scope.limit, this.used(scope)) : this.used(scope);
    const open = this.#open(scope);
    const reserved = open.reduce((sum, { taken }) => sum + taken, 0);
    return [used, Math.min(used, reserved), open.length];
  }

  /** At most so much may be used. */
  max({ key, limit }: ModelledScope): number {
    return limit + (this.#unchecked.get(key) ?? 0);
  }

  /** Hits that are counted only if they fit. */
  hit(scope: ModelledScope, hits: number): void {
    if (hits === 0 || this.used(scope) + hits <= scope.limit) this.#add(scope, hits);
  }

  reserve(call: ModelledReserve): 'reserved' | 'repeated' | 'refused' | 'conflict' {
    const { id, isMarker, descriptors, scopes, amount, ttlMs, onExpiry, isShadow } = call;
    this.expire(scopes);
    const known = isMarker ? [] : scopes.map(({ stem }) => this.#record(id, stem));
    if (known.some((one) => one !== undefined)) {
      const isSame = known.every(
        (one) =>
          one !== undefined && one.amount === amount && one.ttlMs === ttlMs && one.onExpiry === onExpiry,
      );
      return isSame ? 'repeated' : 'conflict';
    }
    // Not even an amount of 0 fits where the limit is exceeded, as far as the store reports it.
    const isRefused = !isShadow && scopes.some((scope) => this.reported(scope)[0] + amount > scope.limit);
    if (isRefused && !isMarker) return 'refused';
    for (const scope of scopes) {
      const taken = isRefused ? 0 : this.#charge(scope, amount);
      const { stem, key } = scope;
      const dueMs = this.nowMs + ttlMs;
      const forgetMs = isMarker && (isRefused || onExpiry === 'release') ? dueMs : dueMs + this.#recordMs;
      const made = { id, stem, key, amount, ttlMs, onExpiry, isMarker, descriptors, dueMs, taken, isRefused };
      this.#all.push({ ...made, state: 'open', charged: 0, forgetMs });
    }
    return isRefused ? 'refused' : 'reserved';
  }

  settle({
    id,
    isMarker,
    descriptors,
    scopes,
    actual,
    unknown,
  }: ModeledSettle): Pick<TestCall, 'outcome' | 'charged' | 'amount'> & Partial<TestCall> {
    this.expire(scopes);
    const reservedDescriptors = isMarker ? 0 : this.descriptorsOf(id, scopes);
    if (reservedDescriptors > 0 && reservedDescriptors !== descriptors)
      return { outcome: 'partial', charged: 0, amount: 0, reservedDescriptors };
    let answer: Pick<TestCall, 'outcome' | 'charged' | 'amount'> | undefined;
    for (const scope of scopes) {
      const known = isMarker ? this.#marker(id, scope.stem) : this.#record(id, scope.stem);
      if (known === undefined) {
        if (unknown === 'report' || actual === undefined) continue;
        this.#charge(scope, actual);
        answer ??= { outcome: 'unknown', charged: actual, amount: 0 };
        if (isMarker) continue;
        const settled = { state: 'settled', charged: actual, forgetMs: this.nowMs + this.#recordMs } as const;
        const nothing = { amount: -1, ttlMs: 0, taken: 0, descriptors: 0 };
        const never = { ...nothing, onExpiry: 'release', isRefused: false } as const;
        this.#all.push({
          id,
          stem: scope.stem,
          key: scope.key,
          isMarker,
          dueMs: this.nowMs,
          ...never,
          ...settled,
        });
        continue;
      }
      const wasSettled = known.state === 'settled';
      const outcome = wasSettled ? 'repeated' : known.dueMs <= this.nowMs ? 'late' : 'settled';
      const charged = wasSettled ? known.charged : (actual ?? known.amount);
      answer ??= { outcome, charged, amount: Math.max(0, known.amount) };
      if (!wasSettled) this.#close(known, scope, charged);
    }
    return answer ?? { outcome: 'unknown', charged: 0, amount: 0 };
  }

  /** Of the reservation with this id, as the counters of these limits know it, or any counter; 0: there is none. */
  descriptorsOf(id: string, scopes?: readonly ModelledScope[]): number {
    const isIts = (one: Modelled): boolean =>
      !one.isMarker && one.id === id && (scopes?.some(({ stem }) => stem === one.stem) ?? true);
    return this.#all.find(isIts)?.descriptors ?? 0;
  }

  /** Those of these limits alone: nobody asked for the others. */
  expire(scopes: readonly ModelledScope[]): void {
    for (const one of this.#all) {
      if (one.state !== 'open' || one.dueMs > this.nowMs || !scopes.some(({ stem }) => stem === one.stem))
        continue;
      if (one.onExpiry === 'release') this.#used.set(one.key, (this.#used.get(one.key) ?? 0) - one.taken);
      one.state = one.onExpiry === 'release' ? 'released' : 'kept';
    }
    this.#all = this.#all.filter(({ state, forgetMs }) => state === 'open' || forgetMs > this.nowMs);
  }

  #close(known: Modelled, scope: ModelledScope, actual: number): void {
    if (!known.isRefused) {
      const { state, amount, taken } = known;
      if (state === 'released') this.#charge(scope, actual);
      else if (actual > amount) this.#charge(scope, actual - amount);
      else if (known.key === scope.key) this.#add(scope, -Math.max(0, taken - actual));
    }
    known.state = 'settled';
    known.charged = actual;
    known.forgetMs = Math.max(known.dueMs, this.nowMs) + this.#recordMs;
    if (known.isMarker) this.#all = this.#all.filter((one) => one !== known);
  }

  #charge(scope: ModelledScope, hits: number): number {
    const free = scope.limit - this.used(scope);
    const taken = scope.isBucket ? Math.min(hits, free) : hits;
    this.#add(scope, taken);
    if (taken < hits) this.wasEmptied = true;
    if (taken > free) {
      const { key } = scope;
      this.#unchecked.set(key, (this.#unchecked.get(key) ?? 0) + taken);
    }
    return taken;
  }

  #add(scope: ModelledScope, hits: number): void {
    this.#used.set(scope.key, this.used(scope) + hits);
  }

  #record(id: string, stem: string): Modelled | undefined {
    return this.#all.find((one) => !one.isMarker && one.id === id && one.stem === stem);
  }

  #marker(id: string, stem: string): Modelled | undefined {
    const its = this.#all.filter((one) => one.isMarker && one.id === id && one.stem === stem);
    const held = its.filter(({ isRefused }) => !isRefused);
    return held.find(({ state }) => state === 'open') ?? held[0] ?? its[0];
  }

  #open({ key, stem }: ModelledScope): Modelled[] {
    return this.#all.filter(
      (one) => one.state === 'open' && !one.isRefused && one.stem === stem && one.key === key,
    );
  }
}
