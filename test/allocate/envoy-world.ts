/**
 * Envoys, limiters and one store on a clock of their own, in steps. Envoys do what a real one was measured to do: a changed bucket
 * keeps the fraction of its tokens, one after DENY_ALL begins full, TTLs count from arrival, reports come every 5 s with counters that
 * were zeroed before, and what a broken stream carried is lost.
 */
import { expect } from 'vitest';
import { Allocator } from '../../limiter/allocate/allocator.ts';
import type {
  AssignmentForm,
  ClientReport,
  GrantedBucket,
  PoolTerms,
  Share,
  SharedLimit,
} from '../../limiter/allocate/terms.ts';
import { MemoryStore } from '../../limiter/stores/memory/memory-store.ts';
import { failAll, newOperation, type Operation, plainCounter } from '../../limiter/stores/operation.ts';
import { countAll, type Store, type SubmitOptions } from '../../limiter/stores/store.ts';
import { StoreError } from '../../limiter/stores/store-error.ts';

export const stepMs = 250;
const reportMs = 5_000;
/** The TTL of assignments, as the allocator has it by default. */
const ttlSeconds = 15;

export interface WorldOptions {
  readonly random: () => number;
  readonly form: AssignmentForm;
  readonly requests: number;
  readonly windowSeconds: number;
  /** Requests a second of each client. */
  readonly rates: readonly number[];
  readonly limiters: number;
  /** By how much the clock of each limiter is ahead of that of the one before. */
  readonly skewMs: number;
  readonly isPoisson: boolean;
  /** How often, for each client and second, a stream breaks, and each limiter and second, one dies. */
  readonly breaks: number;
  readonly deaths: number;
  /** How much of all messages to the store is lost, or their replies are. */
  readonly losses: number;
  /** The longest that a push and a report take, now and then. */
  readonly pushMs: number;
  readonly lateMs: number;
  /** Whether the limiter is shown what arrived. */
  readonly hasPings: boolean;
  /** Requests a second that ask for each hit. */
  readonly direct: number;
}

/** Nothing goes wrong, and nothing takes long. */
export const evenly = {
  ...{ limiters: 2, skewMs: 0, isPoisson: true, breaks: 0, deaths: 0, losses: 0 },
  ...{ pushMs: 0, lateMs: 0, hasPings: true, direct: 0 },
} as const;
/** Clocks 5 s apart, pushes that take nearly as long as the allocator waits for them, and nobody who says what arrived. */
export const disorder = {
  ...{ limiters: 3, skewMs: 2_500, isPoisson: true, breaks: 0.01, deaths: 0.02, losses: 0.05 },
  ...{ pushMs: 4_500, lateMs: 750, hasPings: false, direct: 0 },
} as const;

interface Limiter {
  readonly aheadMs: number;
  allocator: Allocator;
  isDead: boolean;
}

interface Bucket extends GrantedBucket {
  readonly aheadMs: number;
  held: number;
  filledMs: number;
  endsMs: number;
}

export class Envoy {
  readonly rate: number;
  readonly phaseMs: number;
  limiter: Limiter | undefined;
  share: Share | undefined;
  bucket: Bucket | undefined;
  due = 0;
  allowed = 0;
  denied = 0;
  /** In the whole run, and in the present second. */
  passed = 0;
  /** Pushes and reports under way, in order. */
  readonly pushes: { atMs: number; assignment: GrantedBucket; aheadMs: number; sentMs: number }[] = [];
  readonly reports: { atMs: number; used?: ClientReport; arrivedMs?: number }[] = [];

  constructor(rate: number, phaseMs: number) {
    this.rate = rate;
    this.phaseMs = phaseMs;
  }

  apply(assignment: GrantedBucket, aheadMs: number, nowMs: number): void {
    const { tokens, perFill, fillSeconds, isFresh } = assignment;
    // A message has only whole numbers.
    for (const part of [tokens, perFill, fillSeconds])
      if (!Number.isSafeInteger(part))
        throw new RangeError(`an assignment has ${part} in place of a whole number`);
    const endsMs = nowMs + ttlSeconds * 1000;
    const before = this.bucket !== undefined && this.bucket.endsMs > nowMs ? this.bucket : undefined;
    const isSame =
      before?.tokens === tokens && before.perFill === perFill && before.fillSeconds === fillSeconds;
    if (before !== undefined && isSame && !isFresh) {
      before.endsMs = endsMs;
      return;
    }
    if (before !== undefined) fill(before, nowMs);
    const fraction = before === undefined || before.tokens === 0 || isFresh ? 1 : before.held / before.tokens;
    this.bucket = { ...assignment, aheadMs, held: tokens * fraction, filledMs: nowMs, endsMs };
  }

  /** Gives how many of these requests pass. */
  use(requests: number, nowMs: number): number {
    const { bucket } = this;
    let passed = 0;
    if (bucket !== undefined && bucket.endsMs > nowMs && bucket.tokens > 0) {
      fill(bucket, nowMs);
      passed = Math.min(requests, Math.floor(bucket.held));
      bucket.held -= passed;
    }
    this.allowed += passed;
    this.denied += requests - passed;
    this.passed += passed;
    return passed;
  }

  breakStream(): void {
    this.limiter = undefined;
    this.share = undefined;
    this.pushes.length = 0;
    this.reports.length = 0;
  }
}

function fill(bucket: Bucket, nowMs: number): void {
  const { tokens, perFill, fillSeconds, filledMs } = bucket;
  bucket.held = Math.min(tokens, bucket.held + ((nowMs - filledMs) / 1000) * (perFill / fillSeconds));
  bucket.filledMs = nowMs;
}

/** Loses messages and replies of one limiter. */
class LossyStore implements Store {
  readonly #store: Store;
  readonly #loses: () => boolean;

  constructor(store: Store, loses: () => boolean) {
    this.#store = store;
    this.#loses = loses;
  }

  submit(ops: Operation[], options: SubmitOptions, done: () => void): void {
    const lost = new StoreError('lost', { transient: true });
    if (this.#loses()) {
      failAll(ops, lost);
      done();
      return;
    }
    this.#store.submit(ops, options, () => {
      if (this.#loses()) failAll(ops, lost);
      done();
    });
  }

  async ping(): Promise<void> {}
  async close(): Promise<void> {}
}

export class World {
  nowMs = 1_800_000_000_000;
  readonly startMs = this.nowMs;
  /** Requests that passed, by the window as the clock of the limiter has it that assigned them. */
  readonly passed = new Map<number, number>();
  readonly envoys: Envoy[];
  /** Seconds in which a client with demand and an assignment got nothing. */
  starved = 0;
  overReported = 0;
  /** The store fails until this time. */
  failsUntilMs = 0;
  readonly #options: WorldOptions;
  readonly #store: MemoryStore;
  readonly #limiters: Limiter[];
  #started = 0;

  constructor(options: WorldOptions) {
    this.#options = options;
    const { random, rates, limiters, skewMs } = options;
    const clock = { nowMs: () => this.nowMs, monotonicMs: () => this.nowMs };
    this.#store = new MemoryStore({ clock, maxCounters: 1e6, maxBytes: 1e9, ledgers: true });
    this.#limiters = Array.from({ length: limiters }, (_, i) => this.#newLimiter(i * skewMs));
    this.envoys = rates.map((rate) => new Envoy(rate, Math.floor((random() * reportMs) / stepMs) * stepMs));
  }

  #newLimiter(aheadMs: number): Limiter {
    const { random, losses } = this.#options;
    const limiter: Limiter = {
      aheadMs,
      isDead: false,
      allocator: new Allocator({
        store: new LossyStore(
          this.#store,
          () => limiter.isDead || this.nowMs < this.failsUntilMs || random() < losses,
        ),
        clock: { nowMs: () => this.nowMs + aheadMs, monotonicMs: () => this.nowMs },
        random,
        limiter: `limiter-${this.#started++}`,
      }),
    };
    return limiter;
  }

  /** The counter's key holds the window, as keys do. */
  #limit(): SharedLimit {
    const { requests, windowSeconds } = this.#options;
    return {
      counter: plainCounter('counter', { perSecond: false, capacity: requests }),
      requests,
      lengthSeconds: windowSeconds,
      hasBurst: false,
      windowAt: (nowMs) => {
        const startSeconds = Math.floor(nowMs / 1000 / windowSeconds) * windowSeconds;
        const endSeconds = startSeconds + windowSeconds;
        const ttlSeconds = endSeconds - Math.floor(nowMs / 1000) + 10;
        return { key: `counter_${startSeconds}`, startSeconds, endSeconds, ttlSeconds };
      },
    };
  }

  windowOf(nowMs: number): number {
    return Math.floor(nowMs / 1000 / this.#options.windowSeconds);
  }

  /** How much of the limit whole windows from this one on used, on average. */
  usedFrom(window: number): number {
    const whole = this.#wholeFrom(window);
    const sum = whole.reduce((total, passed) => total + passed, 0);
    return sum / whole.length / this.#options.requests;
  }

  /** As `usedFrom`, of the window that used least. */
  minFrom(window: number): number {
    return Math.min(...this.#wholeFrom(window)) / this.#options.requests;
  }

  #wholeFrom(window: number): number[] {
    const first = this.windowOf(this.startMs);
    const last = this.windowOf(this.nowMs - 1);
    return [...this.passed].flatMap(([at, passed]) => (at >= first + window && at < last ? [passed] : []));
  }

  /** Streams to it break, and another one is in its place. */
  kill(at: number): void {
    const killed = this.#limiters[at]!;
    killed.isDead = true;
    this.#limiters[at] = this.#newLimiter(killed.aheadMs);
    for (const envoy of this.envoys) if (envoy.limiter === killed) envoy.breakStream();
  }

  run(seconds: number): void {
    for (const endMs = this.nowMs + seconds * 1000; this.nowMs < endMs; this.nowMs += stepMs) this.#step();
  }

  #step(): void {
    const { random, breaks, deaths, direct } = this.#options;
    for (const i of this.#limiters.keys()) {
      if (random() < (deaths * stepMs) / 1000) this.kill(i);
      this.#limiters[i]!.allocator.tick();
    }
    for (const envoy of this.envoys) {
      if (breaks > 0 && random() < (breaks * stepMs) / 1000) {
        envoy.share?.close();
        envoy.breakStream();
      }
      this.#arrive(envoy);
      this.#request(envoy);
      if ((this.nowMs - this.startMs - envoy.phaseMs) % reportMs === 0) this.#report(envoy);
      this.#arrive(envoy);
    }
    if (direct > 0) this.#askDirectly(this.#count(direct));
  }

  /** What a client asks for in a step. */
  #count(rate: number, before = 0): number {
    const { random, isPoisson } = this.#options;
    const expected = (rate * stepMs) / 1000;
    if (!isPoisson) return expected + before;
    if (expected > 20) {
      const normal = Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random());
      return Math.max(0, Math.round(expected + normal * Math.sqrt(expected)));
    }
    let count = 0;
    for (let left = Math.exp(-expected), product = random(); product > left; product *= random()) count += 1;
    return count;
  }

  #request(envoy: Envoy): void {
    const asked = this.#count(envoy.rate, envoy.due);
    const requests = Math.floor(asked);
    envoy.due = asked - requests;
    if (requests === 0) return;
    const passed = envoy.use(requests, this.nowMs);
    if (passed === 0) {
      if (envoy.bucket !== undefined) this.starved += stepMs / 1000;
      return;
    }
    this.#pass(passed, envoy.bucket!.aheadMs);
  }

  #pass(passed: number, aheadMs: number): void {
    const window = this.windowOf(this.nowMs + aheadMs);
    this.passed.set(window, (this.passed.get(window) ?? 0) + passed);
  }

  #askDirectly(requests: number): void {
    const { requests: limit } = this.#options;
    const { key, ttlSeconds } = this.#limit().windowAt(this.nowMs);
    for (let i = 1; i <= requests; i += 1) {
      const op = newOperation(plainCounter(key, { perSecond: false }), key, 'add', 1, ttlSeconds);
      this.#store.submit([op], countAll, () => {});
      if (op.after <= limit) this.#pass(1, 0);
    }
  }

  /** Counters are zeroed before a report is sent. */
  #report(envoy: Envoy): void {
    const { random, form, lateMs, pushMs } = this.#options;
    const { allowed, denied } = envoy;
    if (envoy.limiter === undefined) {
      if (envoy.rate === 0) return;
      const limiter = this.#limiters[Math.floor(random() * this.#limiters.length)]!;
      envoy.limiter = limiter;
      const terms: PoolTerms = { form, limits: [this.#limit()] };
      const push = (assignment: GrantedBucket): void => {
        const delayMs = random() < 0.2 ? random() * pushMs : 0;
        const atMs = Math.max(this.nowMs + delayMs, envoy.pushes.at(-1)?.atMs ?? 0);
        const { aheadMs } = limiter;
        envoy.pushes.push({ atMs, assignment, aheadMs, sentMs: this.nowMs });
      };
      const holder = { weight: 1, push, count: () => {} };
      envoy.share = limiter.allocator.open('pool', terms, holder);
    }
    envoy.allowed = 0;
    envoy.denied = 0;
    const delayMs = random() < 0.2 ? random() * lateMs : 0;
    const atMs = Math.max(this.nowMs + delayMs, envoy.reports.at(-1)?.atMs ?? 0);
    envoy.reports.push({ atMs, used: { allowed, denied } });
  }

  #arrive(envoy: Envoy): void {
    while (envoy.reports.length > 0 && envoy.reports[0]!.atMs <= this.nowMs) {
      const { used, arrivedMs } = envoy.reports.shift()!;
      if (arrivedMs !== undefined) envoy.share!.arrived(arrivedMs);
      if (used !== undefined) this.overReported += envoy.share!.report(used);
    }
    while (envoy.pushes.length > 0 && envoy.pushes[0]!.atMs <= this.nowMs) {
      const { assignment, aheadMs, sentMs } = envoy.pushes.shift()!;
      envoy.apply(assignment, aheadMs, this.nowMs);
      // The answer to a PING, in order with reports.
      if (this.#options.hasPings)
        envoy.reports.push({
          atMs: Math.max(this.nowMs, envoy.reports.at(-1)?.atMs ?? 0),
          arrivedMs: sentMs,
        });
    }
  }
}

/** So many clients that ask for so much together. */
export function equalRates(count: number, perSecond: number): number[] {
  return Array.from({ length: count }, () => perSecond / count);
}

export function expectWithinLimit({ passed }: World, requests: number): void {
  expect([...passed.values()].filter((one) => one > requests)).toEqual([]);
  expect(passed.size).toBeGreaterThan(1);
}

/** Of what equals got: 1 where all got the same. */
export function jainIndex(amounts: readonly number[]): number {
  let sum = 0;
  let squares = 0;
  for (const amount of amounts) {
    sum += amount;
    squares += amount * amount;
  }
  return (sum * sum) / (amounts.length * squares);
}
