import type { Clock, Timers } from '../../../process/time/clock.ts';
import type { MemoryStore } from '../memory/memory-store.ts';
import { copyOperation, newOperation, type Operation, plainCounter, wasLeftOut } from '../operation.ts';
import { readThenCount, type SubmitAll } from '../stop-when-over.ts';
import { countAll, type Store, StoreDecorator, type SubmitOptions } from '../store.ts';
import type { StoreError } from '../store-error.ts';
import { type OwedCounter, OwedCounters, type OwedHits } from './owed-counters.ts';

export interface LocalFallbackStoreOptions {
  store: Store;
  /** Stores the last known totals and counts from them. It has its own bounds. */
  local: MemoryStore;
  clock: Clock;
  timers: Timers;
  /** The maximum number of keys with undelivered hits, and their maximum memory. */
  maxOwedKeys: number;
  maxOwedBytes: number;
  /**
   * Selects the errors that are answered locally. They must concern only ops with bounds. Undefined: all errors. With a selection, no
   * outage is bridged. The store's answers are then not remembered, because that would cost each request time.
   */
  answersOnly?: ((error: StoreError) => boolean) | undefined;
  /** Called at most once for each round of deliveries, if locally counted hits never reached the store. */
  onUndelivered?: (undelivered: { counters: number; reason: string }) => void;
}

/** The maximum number of keys in one delivery. The next delivery waits for its answer. */
export const keysPerDelivery = 128;
/** The interval of attempts to deliver while the store is unavailable. */
export const deliveryIntervalMs = 250;
/** The time that `close` waits for deliveries, because the store may just have come back. */
export const lastDeliveriesMs = 1_000;

/**
 * STORE_FAILURE_MODE=local: hits that the store cannot count are counted in memory, from the last total that the store reported to this
 * process, and added to the store when it is back. Only hits that were certainly not counted are added. Hits whose reply was lost may be
 * in the store already, and nothing is sent twice.
 */
export class LocalFallbackStore extends StoreDecorator {
  readonly #options: LocalFallbackStoreOptions;
  readonly #owed: OwedCounters;
  /** Hits in flight, by key. Answers to earlier requests do not include them yet. */
  #underWay = new Map<string, OwedHits>();
  /** Increases with resets. Answers to questions from before a reset are not remembered. */
  #epoch = 0;
  #countedLocally = 0;
  #undelivered = 0;
  #endWait: (() => void) | undefined;
  #delivering = false;
  /** Whether local counting has ended. */
  #closed = false;
  /** Whether deliveries have ended. */
  #ended = false;
  #onAllDelivered: (() => void) | undefined;

  constructor(options: LocalFallbackStoreOptions) {
    super(options.store);
    this.#options = options;
    this.#owed = new OwedCounters({ maxKeys: options.maxOwedKeys, maxBytes: options.maxOwedBytes });
  }

  /** The number of requests with hits that were counted locally since the start. */
  get countedLocally(): number {
    return this.#countedLocally;
  }

  /** The number of keys with hits that the store does not have yet. */
  get owedCounters(): number {
    return this.#owed.size;
  }

  /** The failed deliveries of keys, and the ops without room, since the start. */
  get undelivered(): number {
    return this.#undelivered + this.#owed.dropped;
  }

  override submit(ops: Operation[], options: SubmitOptions, done: () => void): void {
    // Reservations are not supported locally, and plain windows need no scripts.
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

  /**
   * Called when these counters were reset. Hits that were counted for them before the reset are not delivered. Undefined: unknown
   * counters.
   */
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
    this.#say(this.#owed.size, 'the limiter ended before the store accepted them');
    await this.store.close();
  }

  #answered(ops: readonly Operation[], options: SubmitOptions, epoch: number): void {
    if (wasLeftOut(ops)) return;
    const { answersOnly } = this.#options;
    let failed: Operation[] | undefined;
    for (const op of ops) {
      if (op.error === undefined) {
        if (answersOnly === undefined) this.#learn(op, epoch);
      } else if (answersOnly === undefined || answersOnly(op.error)) {
        failed ??= [];
        failed.push(op);
      }
    }
    if (failed !== undefined && !this.#closed) this.#countLocally(failed, ops, options);
  }

  #learn(op: Operation, epoch: number): void {
    if (this.#underWay.size > 0) op.after = this.#underWay.get(op.key)?.appliedTo(op.after) ?? op.after;
    if (this.#owed.size > 0) op.after = this.#owed.get(op.key)?.appliedTo(op.after) ?? op.after;
    if (epoch === this.#epoch) this.#options.local.learn(op);
  }

  /** Called when answers of the store to these ops were corrected afterward. */
  corrected(ops: readonly Operation[]): void {
    if (this.#options.answersOnly === undefined) for (const op of ops) this.#options.local.learn(op);
  }

  /** Counts the `failed` of these ops. */
  #countLocally(failed: Operation[], ops: readonly Operation[], options: SubmitOptions): void {
    this.#countedLocally += 1;
    const errors = failed.map((op) => op.error as StoreError);
    if (options.stopWhenOver) {
      const answered = ops.filter((op) => op.error === undefined);
      const submit: SubmitAll = (part, done) => this.#options.local.submit(part, countAll, done);
      readThenCount([failed], submit, () => {}, answered.map(asBefore));
    } else {
      this.#options.local.submit(failed, options, () => {});
    }
    const nowMs = this.#options.clock.nowMs();
    for (const [index, op] of failed.entries()) {
      const { key, applied, verb, counter, ttlSeconds } = op;
      // Hits that count only if they pass cannot be added later, because the store would have to accept them.
      if (hasBound(op)) continue;
      if (applied === 0 || errors[index]?.notCounted !== true) continue;
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

  /** Delivers one batch, and the next batch when the store has accepted it. */
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

  /**
   * Handles the answers to a batch. Returns false if the store is not available yet. Hits that failed in another way may have been
   * counted, so they are not sent again.
   */
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

/** Returns the op with the total that its key had before it was counted. */
function asBefore(op: Operation): Operation {
  const before = copyOperation(op, op.verb, op.hits);
  before.after = Math.max(0, op.after - op.applied);
  return before;
}

function hasBound({ counter }: Operation): boolean {
  return counter.bound !== undefined;
}

/** Returns the undelivered hits of one key, as ops that add them. */
interface Delivery {
  readonly counter: OwedCounter;
  readonly ops: readonly Operation[];
}

/** Returns a subtraction and an addition, or only one of them if the other has no effect. */
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
