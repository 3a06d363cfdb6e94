import type { Clock, Timers } from '../../../process/time/clock.ts';
import type { MemoryStore } from '../memory/memory-store.ts';
import { copyOperation, newOperation, type Operation, plainCounter, wasLeftOut } from '../operation.ts';
import { lookThenCount } from '../stop-when-over.ts';
import { countAll, type Store, StoreDecorator, type SubmitOptions } from '../store.ts';
import type { StoreError } from '../store-error.ts';
import { type OwedCounter, OwedCounters, type OwedHits } from './owed-counters.ts';

export interface LocalFallbackStoreOptions {
  store: Store;
  /** Holds the last known totals, and counts from them; bounded by itself. */
  local: MemoryStore;
  clock: Clock;
  timers: Timers;
  /** Keys that hits may be owed to, and what they may occupy. */
  maxOwedKeys: number;
  maxOwedBytes: number;
  /**
   * The errors that are answered locally, all of ops with bounds. Undefined: all errors. What is set here is no outage: nothing is
   * learned from what the store answers, which would cost each request.
   */
  answersOnly?: ((error: StoreError) => boolean) | undefined;
  /** Some of what was counted locally never reached the store; once a round of deliveries. */
  onUndelivered?: (undelivered: { counters: number; reason: string }) => void;
}

/** Keys delivered in one go; the next ones wait for its answer. */
export const keysPerDelivery = 128;
/** From one try to deliver to the next while the store is away. */
export const deliveryIntervalMs = 250;
/** How long an end waits for what is still owed, as the store may just have come back. */
export const lastDeliveriesMs = 1_000;

/**
 * STORE_FAILURE_MODE=local: what the store cannot count is counted in memory, from the last total that the store reported
 * this process, and added to the store when it is back. Only hits that certainly were not counted are added: those whose
 * reply was lost may be in the store already, and nothing is sent twice.
 */
export class LocalFallbackStore extends StoreDecorator {
  readonly #options: LocalFallbackStoreOptions;
  readonly #owed: OwedCounters;
  /** What is on its way, by key: answers to requests that were sent before it do not have it yet. */
  #underWay = new Map<string, OwedHits>();
  /** Grows with resets: what the store was asked before is not learned after. */
  #epoch = 0;
  #countedLocally = 0;
  #undelivered = 0;
  #endWait: (() => void) | undefined;
  #delivering = false;
  /** Nothing more is counted locally. */
  #closed = false;
  /** Nothing more is delivered. */
  #ended = false;
  #onAllDelivered: (() => void) | undefined;

  constructor(options: LocalFallbackStoreOptions) {
    super(options.store);
    this.#options = options;
    this.#owed = new OwedCounters({ maxKeys: options.maxOwedKeys, maxBytes: options.maxOwedBytes });
  }

  /** Requests in which something was counted locally, since the start. */
  get countedLocally(): number {
    return this.#countedLocally;
  }

  /** Keys whose hits the store does not have yet. */
  get owedCounters(): number {
    return this.#owed.size;
  }

  /** Deliveries to keys that failed, and ops that found no room, since the start. */
  get undelivered(): number {
    return this.#undelivered + this.#owed.dropped;
  }

  override submit(ops: Operation[], options: SubmitOptions, done: () => void): void {
    // Nothing is held locally, and plain windows need no scripts.
    if (ops[0]?.hold !== undefined || (this.#options.answersOnly !== undefined && !ops.some(hasBound))) {
      this.store.submit(ops, options, done);
      return;
    }
    const epoch = this.#epoch;
    this.store.submit(ops, options, () => {
      this.#answered(ops, options, epoch);
      done();
    });
  }

  /** These counters were reset: what was counted for them before is not owed to those that follow. Undefined: nobody knows which. */
  forget(keys: readonly string[] | undefined): void {
    this.#epoch += 1;
    if (keys === undefined) return;
    this.#options.local.remove(keys);
    for (const key of keys) {
      this.#owed.forgive(key);
      this.#underWay.delete(key);
    }
  }

  override async close(): Promise<void> {
    this.#closed = true;
    await this.#lastDeliveries();
    this.#ended = true;
    this.#endWait?.();
    this.#say(this.#owed.size, 'the limiter ended before the store took them');
    await this.store.close();
  }

  #answered(ops: readonly Operation[], options: SubmitOptions, epoch: number): void {
    if (wasLeftOut(ops)) return;
    const { answersOnly } = this.#options;
    let anyFailed = false;
    for (const op of ops) {
      if (op.error !== undefined) anyFailed ||= answersOnly === undefined || answersOnly(op.error);
      else if (answersOnly === undefined) this.#learn(op, epoch);
    }
    if (!anyFailed || this.#closed) return;
    this.#countLocally(ops, options);
  }

  #learn(op: Operation, epoch: number): void {
    if (this.#underWay.size > 0) op.after = this.#underWay.get(op.key)?.appliedTo(op.after) ?? op.after;
    if (this.#owed.size > 0) op.after = this.#owed.get(op.key)?.appliedTo(op.after) ?? op.after;
    if (epoch === this.#epoch) this.#options.local.learn(op);
  }

  /** The store's answers to these ops, which it has heard of, are others now. */
  corrected(ops: readonly Operation[]): void {
    if (this.#options.answersOnly === undefined) for (const op of ops) this.#options.local.learn(op);
  }

  #countLocally(ops: readonly Operation[], options: SubmitOptions): void {
    this.#countedLocally += 1;
    const { answersOnly } = this.#options;
    const failed = ops.filter(
      ({ error }) => error !== undefined && (answersOnly === undefined || answersOnly(error)),
    );
    const errors = failed.map((op) => op.error as StoreError);
    if (options.stopWhenOver) {
      const answered = ops.filter((op) => op.error === undefined);
      lookThenCount(this.#options.local, failed, () => {}, answered.map(asBefore));
    } else {
      this.#options.local.submit(failed, options, () => {});
    }
    const nowMs = this.#options.clock.nowMs();
    for (const [index, op] of failed.entries()) {
      const { key, applied, verb, counter, ttlSeconds, error } = op;
      // What is counted only if it passes cannot be added later: the store would have to take it.
      if (hasBound(op)) continue;
      if (error !== undefined || applied === 0 || errors[index]?.notCounted !== true) continue;
      const { perSecond } = counter;
      const negative = verb === 'refund';
      this.#owed.owe({ key, hits: applied, negative, perSecond, endMs: nowMs + ttlSeconds * 1000 });
    }
    this.#deliverLater();
  }

  async #lastDeliveries(): Promise<void> {
    if (this.#owed.size === 0 && !this.#delivering) return;
    await new Promise<void>((resolve) => {
      const giveUp = this.#options.timers.after(lastDeliveriesMs, resolve);
      this.#onAllDelivered = () => {
        giveUp();
        resolve();
      };
      this.#deliverLater();
    });
  }

  #deliverLater(): void {
    if (this.#owed.size === 0 && !this.#delivering) this.#onAllDelivered?.();
    if (this.#ended || this.#delivering || this.#endWait !== undefined || this.#owed.size === 0) return;
    this.#endWait = this.#options.timers.after(deliveryIntervalMs, () => {
      this.#endWait = undefined;
      this.#delivering = true;
      this.#deliver();
    });
  }

  /** One batch, and when the store took it, the next. */
  #deliver(): void {
    const nowMs = this.#options.clock.nowMs();
    const deliveries = this.#owed.take(keysPerDelivery, nowMs).map((counter) => deliveryOf(counter, nowMs));
    const ops = deliveries.flatMap((delivery) => delivery.ops);
    if (ops.length === 0) {
      this.#delivering = false;
      this.#deliverLater();
      return;
    }
    this.#underWay = new Map(deliveries.map(({ counter }) => [counter.key, counter.hits]));
    this.store.submit(ops, countAll, () => {
      const stillOwed = deliveries.filter(({ counter }) => this.#underWay.has(counter.key));
      this.#underWay = new Map();
      if (this.#settle(stillOwed)) {
        setImmediate(() => this.#deliver());
        return;
      }
      this.#delivering = false;
      this.#deliverLater();
    });
  }

  /** False when the store is not there yet. What failed otherwise may have been counted, so it is not sent again. */
  #settle(deliveries: readonly Delivery[]): boolean {
    let lost = 0;
    let reason = '';
    let there = !this.#ended;
    for (const { counter, ops } of deliveries) {
      const error = ops.find((op) => op.error !== undefined)?.error;
      if (error === undefined) {
        for (const op of ops) this.#learn(op, this.#epoch);
        continue;
      }
      if (!this.#ended && ops.every((op) => op.error?.notCounted === true)) {
        this.#owed.putBack(counter);
        there = false;
      } else {
        lost += 1;
        reason = error.message;
      }
    }
    this.#say(lost, reason);
    return there;
  }

  #say(counters: number, reason: string): void {
    if (counters === 0) return;
    this.#undelivered += counters;
    this.#options.onUndelivered?.({ counters, reason });
  }
}

/** With the total that its key had before it was counted. */
function asBefore(op: Operation): Operation {
  const before = copyOperation(op, op.verb, op.hits);
  before.after = Math.max(0, op.after - op.applied);
  return before;
}

function hasBound({ counter }: Operation): boolean {
  return counter.bound !== undefined;
}

/** What is owed to one key, as the ops that add it. */
interface Delivery {
  readonly counter: OwedCounter;
  readonly ops: readonly Operation[];
}

/** One subtraction and one addition, or the one of them that does anything. */
function deliveryOf(counter: OwedCounter, nowMs: number): Delivery {
  const { toTakeBack, toAdd } = counter.hits;
  const ttlSeconds = Math.max(1, Math.ceil((counter.endMs - nowMs) / 1000));
  const { key } = counter;
  const plain = plainCounter(key, counter);
  const ops: Operation[] = [];
  if (toTakeBack > 0) ops.push(newOperation(plain, key, 'refund', toTakeBack, ttlSeconds));
  if (toAdd > 0) ops.push(newOperation(plain, key, 'add', toAdd, ttlSeconds));
  return { counter, ops };
}
