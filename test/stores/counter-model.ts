import type { Operation } from '../../limiter/stores/operation.ts';

const max = BigInt(Number.MAX_SAFE_INTEGER);

/** What the algorithm is to do, in exact numbers and without regard to cost. */
export interface BoundModel {
  room(nowMicros: number): bigint;
  take(nowMicros: number, hits: number): void;
  giveBack(nowMicros: number, hits: number): void;
}

/** Cloudflare's formula. */
export class SlidingModel implements BoundModel {
  readonly #counts = new Map<bigint, bigint>();
  readonly #limit: bigint;
  readonly #length: bigint;

  constructor(limit: number, windowMicros: number) {
    this.#limit = BigInt(limit);
    this.#length = BigInt(windowMicros);
  }

  room(nowMicros: number): bigint {
    const now = BigInt(nowMicros);
    const window = now / this.#length;
    const rest = this.#length - (now % this.#length);
    // The most h with former x rest + current + h <= limit.
    const free = (this.#limit - this.#count(window)) * this.#length - this.#count(window - 1n) * rest;
    return free < 0n ? 0n : free / this.#length;
  }

  take(nowMicros: number, hits: number): void {
    const window = BigInt(nowMicros) / this.#length;
    this.#counts.set(window, this.#count(window) + BigInt(hits));
  }

  giveBack(nowMicros: number, hits: number): void {
    let left = BigInt(hits);
    const current = BigInt(nowMicros) / this.#length;
    for (const window of [current, current - 1n]) {
      const count = this.#count(window);
      const taken = left < count ? left : count;
      this.#counts.set(window, count - taken);
      left -= taken;
    }
  }

  #count(window: bigint): bigint {
    return this.#counts.get(window) ?? 0n;
  }
}

/** Tokens as a real number: here in parts of one, a window's length of them. */
export class BucketModel implements BoundModel {
  readonly #requests: bigint;
  readonly #full: bigint;
  readonly #token: bigint;
  #tokens: bigint;
  #at: bigint | undefined;

  constructor(requests: number, burst: number, windowMicros: number) {
    this.#requests = BigInt(requests);
    this.#token = BigInt(windowMicros);
    this.#full = BigInt(burst) * this.#token;
    this.#tokens = this.#full;
  }

  room(nowMicros: number): bigint {
    this.#fill(nowMicros);
    return this.#tokens / this.#token;
  }

  take(nowMicros: number, hits: number): void {
    this.#fill(nowMicros);
    this.#tokens -= BigInt(hits) * this.#token;
  }

  giveBack(nowMicros: number, hits: number): void {
    this.#fill(nowMicros);
    this.#add(BigInt(hits) * this.#token);
  }

  #fill(nowMicros: number): void {
    this.#add((BigInt(nowMicros) - (this.#at ?? 0n)) * this.#requests);
    this.#at = BigInt(nowMicros);
  }

  #add(parts: bigint): void {
    const more = this.#tokens + parts;
    if (more < this.#full) this.#tokens = more;
    else this.#tokens = this.#full;
  }
}

/** Of a key that has a bound other than a fixed window. */
export interface ModelledBound {
  newModel(): BoundModel;
  capacity: number;
}

interface Answer {
  applied: number;
  after: number;
  over: boolean;
  error: undefined;
}

/** What a store is expected to answer, written without regard to cost, one op after the other. */
export class CounterModel {
  readonly #totals = new Map<string, bigint>();
  readonly #models = new Map<string, BoundModel>();
  readonly #modelled: ReadonlyMap<Operation['counter']['bound'], ModelledBound>;

  constructor(modelled: ReadonlyMap<Operation['counter']['bound'], ModelledBound> = new Map()) {
    this.#modelled = modelled;
  }

  submit(ops: readonly Operation[], stopWhenOver: boolean, nowMicros = 0): Answer[] {
    const groups: Operation[][] = [];
    for (let first = 0; first < ops.length; first += ops[first]!.groupSize)
      groups.push(ops.slice(first, first + ops[first]!.groupSize));
    const judged = groups.map(
      ([first, ...rest]) =>
        first!.verb === 'add' &&
        [first!, ...rest].some(
          (op) => this.#used(op, nowMicros) + BigInt(op.hits) > BigInt(op.counter.capacity),
        ),
    );
    const refuses = (kind: Operation['holdsBack']) =>
      judged.filter((_, i) => {
        const { holdsBack, verb } = groups[i]![0]!;
        return holdsBack === kind && verb === 'add';
      });
    const together = refuses('together');
    const anyOver = refuses('alone').includes(true) || (together.length > 0 && !together.includes(false));
    return groups.flatMap((group, i) => {
      const { verb, counter } = group[0]!;
      const isPeek = verb === 'peek';
      const counts = !isPeek && (!stopWhenOver || verb === 'refund' || judged[i]! || !anyOver);
      return counter.bound === undefined
        ? [this.#count(group[0]!, counts)]
        : this.#admit(group, counts, nowMicros);
    });
  }

  #count(op: Operation, counts: boolean): Answer {
    const applied = counts ? op.hits : 0;
    const reported = this.#move(op, op.verb === 'refund' ? -applied : applied);
    return { applied, after: Number(reported), over: false, error: undefined };
  }

  #admit(group: readonly Operation[], counts: boolean, nowMicros: number): Answer[] {
    const over = group.map((op) => op.verb !== 'refund' && BigInt(op.hits) > this.#room(op, nowMicros));
    const { hits, verb } = group[0]!;
    const negative = verb === 'refund';
    const applied = negative || (counts && !over.includes(true)) ? hits : 0;
    for (const op of group) {
      const model = this.#modelOf(op);
      if (model === undefined) this.#move(op, negative ? -applied : applied);
      else if (negative) model.giveBack(nowMicros, applied);
      else model.take(nowMicros, applied);
    }
    return group.map((op, i) => {
      return { applied, after: Number(this.#used(op, nowMicros)), over: over[i]!, error: undefined };
    });
  }

  #modelOf(op: Operation): BoundModel | undefined {
    const modelled = this.#modelled.get(op.counter.bound);
    if (modelled === undefined) return undefined;
    const model = this.#models.get(op.key) ?? modelled.newModel();
    this.#models.set(op.key, model);
    return model;
  }

  /** Of a fixed window the total, also beyond the limit. */
  #used(op: Operation, nowMicros: number): bigint {
    const model = this.#modelOf(op);
    if (model === undefined) return this.#total(op);
    return BigInt(this.#modelled.get(op.counter.bound)!.capacity) - model.room(nowMicros);
  }

  #room(op: Operation, nowMicros: number): bigint {
    const model = this.#modelOf(op);
    if (model !== undefined) return model.room(nowMicros);
    const free = BigInt(op.counter.capacity) - this.#total(op);
    return free < 0n ? 0n : free;
  }

  /** Gives what is reported: one more than the most where hits are left out. */
  #move(op: Operation, hits: number): bigint {
    const moved = this.#total(op) + BigInt(hits);
    this.#totals.set(op.key, moved < 0n ? 0n : moved > max ? max : moved);
    return moved > max ? max + 1n : this.#total(op);
  }

  #total(op: Operation): bigint {
    return this.#totals.get(op.key) ?? 0n;
  }
}
