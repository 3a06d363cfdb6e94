/** The common part of the stores in one Redis (redis-store.ts) and in a cluster: what to send, when, and how to send it again. */

import { FlushTurn } from '../../../process/queues/loop-turns.ts';
import { systemTimers, type Timers, unblockedMs, unblockedTimers } from '../../../process/time/clock.ts';
import { retryDelayMs } from '../../../process/time/pacing.ts';
import type { ClientTls } from '../client-tls.ts';
import { failAll, failOp, type Operation, type Reservation } from '../operation.ts';
import { readThenCount, type SubmitAll } from '../stop-when-over.ts';
import {
  countAll,
  type Note,
  type Notes,
  type OnceClaims,
  type ReservationBounds,
  type Store,
  type SubmitOptions,
  type TallyChanges,
} from '../store.ts';
import { StoreError } from '../store-error.ts';
import { needsScripts } from './bounded-steps.ts';
import { CountPart, type PartTerms, StopPart } from './count-parts.ts';
import { program } from './lua/program.ts';
import { PlainCounting } from './plain-counting.ts';
import { noteKeyOf, tallyKeyOf } from './reservation-keys.ts';
import { ReservationPart } from './reservation-part.ts';
import { shareTally } from './reservation-tally.ts';
import {
  Batch,
  type CallBounds,
  type CallCarrier,
  type CallCounts,
  CallSlots,
  defaultCallBounds,
  finishBatch,
  maxKeysPerCall,
  TurnBatches,
} from './turn-batches.ts';
import type { KeyedCommands } from './wire/redis-connection.ts';
import {
  areScriptsRejected,
  isKeyRejected,
  isNoScript,
  type RedisErrors,
  type RedisScripts,
} from './wire/redis-error.ts';
import { hasSet, textReply, UnexpectedReply } from './wire/resp.ts';

export interface RedisStoreBaseOptions {
  /** The TLS of the connection; undefined without TLS. */
  tls?: ClientTls | undefined;
  /** REDIS_CLOSE_CONNECTION_ON_READONLY_ERROR. Defaults to false. */
  closeOnReadOnly?: boolean | undefined;
  /** REDIS_TIMEOUT: the maximum time for connecting and for every command. Without a connection, ops fail immediately. */
  timeoutMs: number;
  /** REDIS_POOL_*. Defaults to ten places, and to exceeding them after a second. */
  calls?: CallBounds | undefined;
  /** REDIS_PIPELINE_WINDOW: the shortest time between two calls under traffic, in whole milliseconds. Defaults to 0. */
  windowMs?: number | undefined;
  /** The timers. Defaults to Node's. */
  timers?: Timers | undefined;
  /**
   * Writes answers at the end of its work. The code that passes on the replies of one read marks their start and end. Defaults to an
   * instance that no other code uses.
   */
  flushTurn?: FlushTurn | undefined;
  random: () => number;
  /** REDIS_SCRIPTS. In a cluster, only refunds and ops with bounds use scripts. Defaults to `auto`. */
  scripts?: RedisScripts | undefined;
  /** The bounds of reservations. Defaults to 10,000, and to ten minutes. */
  reservations?: ReservationBounds | undefined;
  /** CACHE_KEY_PREFIX. Defaults to none. */
  keyPrefix?: string | undefined;
  /** Called once, when `auto` continues without scripts. The reason contains no credentials. */
  onScriptsRejected?: ((reason: string) => void) | undefined;
  /** Called once, when the ledgers of leases are not permitted. The reason contains no credentials. */
  onLeasesRejected?: ((reason: string) => void) | undefined;
  /** Called at every change of `connected`. */
  onChange?: ((connected: boolean, reason?: string) => void) | undefined;
  /** Called when an attempt to connect failed, or an open connection broke; for the log. Contains no credentials. */
  onFailure?: ((message: string) => void) | undefined;
  /** Called when Redis answered a counting command with an error: its first word, and its text without credentials. */
  onRejection?: ((code: string, text: string) => void) | undefined;
  /** Called when Redis requires no password although one is set. */
  onNeedlessPassword?: (() => void) | undefined;
}

/**
 * Sends ops that arrive in one turn of the event loop, or in a window, together. The number of calls in progress is at most the number of
 * places.
 */
export abstract class RedisStoreBase implements Store, CallCarrier<Batch> {
  readonly #errors: RedisErrors;
  readonly #label: string;
  readonly #random: () => number;
  readonly #timeoutMs: number;
  readonly #batches: TurnBatches;
  protected readonly places: CallSlots<Batch>;
  readonly #onScriptsRejected: ((reason: string) => void) | undefined;
  #onLeasesRejected: ((reason: string) => void) | undefined;
  readonly #terms: PartTerms;
  protected withoutScripts: boolean;
  #closed = false;

  constructor(options: RedisStoreBaseOptions, label: string, errors: RedisErrors, isCluster = false) {
    const { timers, windowMs, timeoutMs, random, scripts = 'auto', calls = defaultCallBounds } = options;
    this.#errors = errors;
    this.#label = label;
    this.#random = random;
    this.#timeoutMs = timeoutMs;
    this.withoutScripts = scripts === 'never';
    const { reservations = defaultReservations, keyPrefix = '' } = options;
    this.#terms = { names: { prefix: keyPrefix, isCluster }, reservations };
    this.#onScriptsRejected = options.onScriptsRejected;
    this.#onLeasesRejected = options.onLeasesRejected;
    this.places = new CallSlots<Batch>({
      ...calls,
      timeoutMs,
      timers: timers ?? unblockedTimers,
      carrier: this,
    });
    this.#batches = new TurnBatches({
      terms: this.#terms,
      calls: this.places,
      windowMs,
      timers: timers ?? systemTimers,
      monotonicMs: () => performance.now(),
      flushTurn: options.flushTurn ?? new FlushTurn(),
    });
  }

  /** Whether any server answers. Without it ops fail immediately. */
  abstract get connected(): boolean;

  abstract ping(patienceMs?: number): Promise<void>;

  protected abstract readonly commands: KeyedCommands;

  /** Makes one attempt to reach a server. */
  protected abstract attempt(): Promise<void>;

  protected abstract disconnect(): void;

  protected abstract notConnected(): StoreError;

  /** Sends a batch, which has a place until it is given to `finishBatch` with `places`. */
  abstract send(batch: Batch): void;

  reject(batch: Batch, waitedMs: number | undefined): void {
    batch.fail(this.#errors.noPlace(waitedMs));
    finishBatch(batch);
  }

  protected get closed(): boolean {
    return this.#closed;
  }

  /** The numbers of calls in progress, of waiting calls, and of those that got no place. */
  get callCounts(): CallCounts {
    return this.places;
  }

  /** Connects and retries until the first PONG. Afterward the store reconnects by itself. */
  connect(retry: Omit<StartRetryOptions, 'attempt' | 'label' | 'random' | 'stopped'>): Promise<void> {
    return startWithRetry({
      ...retry,
      label: this.#label,
      random: this.#random,
      stopped: () => this.#closed,
      attempt: () => this.attempt(),
    });
  }

  submit(ops: Operation[], options: SubmitOptions, done: () => void): void {
    if (!this.connected || this.#closed) {
      const error = this.#closed ? this.#errors.closed() : this.notConnected();
      failAll(ops, error);
      done();
    } else if (ops.length === 0) {
      done();
    } else if (ops[0]!.hold !== undefined) {
      this.#reserve(ops, ops[0]!.hold.reservation, done);
    } else if (this.withoutScripts && ops.some(hasBound)) {
      // This happens immediately, so that the breaker does not wait for an answer of Redis, which is not asked.
      for (const op of ops) if (hasBound(op)) failOp(op, needsScripts);
      const plain = ops.filter((op) => !hasBound(op));
      this.submit(plain, options, done);
    } else if (!options.stopWhenOver) {
      this.#batches.add(ops, CountPart, { callsLeft: 0, caller: ops[0]!.caller, done });
    } else if (ops.length > maxKeysPerCall) {
      readThenCount([ops], (part, each) => this.submit(part, countAll, each), done);
    } else {
      this.#batches.add(ops, StopPart, { callsLeft: 0, caller: ops[0]!.caller, done });
    }
  }

  get notes(): Notes {
    return {
      recall: (id) => this.#recall(id),
      note: (note) => this.#note(note),
      share: (name, changes, nowMs) => this.#share(name, changes, nowMs),
    };
  }

  get claims(): OnceClaims {
    return { claim: (name, seconds) => this.#claim(name, seconds) };
  }

  /** Counts a batch that has a place, or a piece of one. Never rejects. */
  protected abstract count(batch: Batch): Promise<void>;

  /** Returns the way to count without scripts. `parallelism` is the option of `PlainCountingOptions`. */
  protected plainCounting(commands: KeyedCommands, parallelism?: number): PlainCounting {
    return new PlainCounting({
      commands,
      submit: this.#submitApart,
      parallelism,
      timeoutMs: this.#timeoutMs,
      timedOut: () => this.#errors.timedOut(),
      monotonicMs: unblockedMs,
    });
  }

  /** Counts ops of a batch that has a place, separately from the other ops of the batch. */
  readonly #submitApart: SubmitAll = (ops, done) => {
    const batch = new Batch(this.#terms);
    const request = { callsLeft: 0, caller: undefined, done };
    for (let first = 0; first < ops.length; first += ops[first]!.groupSize)
      batch.add(ops, first, first + ops[first]!.groupSize, CountPart, request);
    void this.count(batch).then(done);
  };

  /** Counts a batch by one call of the program, which `by` sends by its name or its source. Never rejects. */
  protected async runProgram(batch: Batch, by: 'evalsha' | 'eval' = 'evalsha'): Promise<void> {
    const args: string[] = [];
    batch.pushArguments(args, by === 'eval' ? program.source : program.sha1);
    try {
      const reply = await this.commands.send(batch.key, by, args);
      if (!batch.answer(reply, this.#errors)) throw new UnexpectedReply(by.toUpperCase(), reply);
    } catch (error) {
      // A server that has the source has the program.
      if (by === 'eval' && isNoScript(error)) batch.fail(this.commands.translate(error));
      else await this.countAgain(batch, error);
    }
  }

  /** Counts a batch again after an error, if Redis ran nothing and another way may succeed. Otherwise, fails it. Never rejects. */
  protected async countAgain(batch: Batch, error: unknown): Promise<void> {
    if (isNoScript(error)) {
      await this.runProgram(batch, 'eval');
      return;
    }
    const again = this.sentAgain(batch, error);
    if (again === undefined) batch.fail(this.commands.translate(error));
    else await Promise.all(again.map((one) => this.count(one)));
  }

  /** Submits a call about a reservation. All of its counters are in one place. */
  #reserve(ops: Operation[], call: Reservation, done: () => void): void {
    if (this.withoutScripts || !this.connected || this.#closed) {
      const why = this.connected ? needsScripts : this.notConnected();
      failAll(ops, this.#closed ? this.#errors.closed() : why);
      done();
      return;
    }
    const goOn = () => {
      if (call.hasMore && ops[0]!.error === undefined) this.#reserve(ops, call, done);
      else done();
    };
    this.#batches.add(ops, ReservationPart, { callsLeft: 0, caller: ops[0]!.caller, done: goOn });
  }

  async #recall(id: string): Promise<string | undefined> {
    const key = noteKeyOf(id, this.#terms.names);
    return this.sendPlain(key, 'get', [key], (reply) => textReply('GET', reply));
  }

  async #note({ id, text, ttlMs }: Note): Promise<string | undefined> {
    const { names, reservations } = this.#terms;
    const key = noteKeyOf(id, names);
    const ms = String(ttlMs + reservations.recordMs);
    const isKept = await this.sendPlain(key, 'set', [key, text, 'NX', 'PX', ms], hasSet);
    return isKept ? undefined : this.#recall(id);
  }

  async #claim(name: string, seconds: number): Promise<boolean> {
    const key = `weir:claim:${name}`;
    return this.sendPlain(key, 'set', [key, '1', 'NX', 'EX', String(seconds)], hasSet);
  }

  #share(name: string, changes: TallyChanges, nowMs: number): Promise<TallyChanges> {
    return shareTally(this.commands, tallyKeyOf(name, this.#terms.names), changes, nowMs);
  }

  /** Sends a plain command. `read` throws if the reply does not have the form of the command. */
  protected async sendPlain<T>(
    key: string,
    name: string,
    args: string[],
    read: (reply: unknown) => T,
  ): Promise<T> {
    try {
      return read(await this.commands.send(key, name, args));
    } catch (error) {
      throw this.commands.translate(error);
    }
  }

  close(): Promise<void> {
    this.#closed = true;
    this.places.close();
    this.disconnect();
    return Promise.resolve();
  }

  /** Returns the batches to send after Redis rejected one with `error` and ran nothing. Undefined: the batch has failed. */
  protected sentAgain(batch: Batch, error: unknown): Batch[] | undefined {
    if (areScriptsRejected(error)) {
      if (!this.withoutScripts) this.#onScriptsRejected?.(this.#errors.fromOwnCommand(error).message);
      this.withoutScripts = true;
      return [batch];
    }
    if (!isKeyRejected(error)) return undefined;
    // The user may still have access to the other keys.
    const parts = batch.split();
    if (parts.length > 1) return parts;
    if (!batch.hasLeases) return undefined;
    // The error may concern only a ledger of leases.
    this.#onLeasesRejected?.(this.#errors.fromOwnCommand(error).message);
    this.#onLeasesRejected = undefined;
    batch.dropLeases();
    return [batch];
  }
}

const defaultReservations: ReservationBounds = { maxReservations: 10_000, recordMs: 600_000 };

function hasBound({ counter }: Operation): boolean {
  return counter.bound !== undefined;
}

export interface StartRetryOptions {
  /** Makes one attempt. */
  attempt: () => Promise<void>;
  /** The name of the server in errors. */
  label: string;
  /** The first wait. Defaults to 1 s. */
  initialMs?: number;
  /** The waits double up to this value. Defaults to 30 s. */
  maxMs?: number;
  /** Gives up when an attempt fails after this time. 0: never. Defaults to 0. */
  maxElapsedMs?: number;
  /** Whether to give up after a failed attempt, regardless of the time. */
  stopped: () => boolean;
  monotonicMs: () => number;
  sleep: (ms: number) => Promise<void>;
  random: () => number;
  /** Called before every wait. */
  onRetry?: (retry: { waitMs: number; elapsedMs: number; error: Error }) => void;
}

/** Resolves with the first successful attempt. Rejects only if `maxElapsedMs` is over or it was stopped. */
export async function startWithRetry(options: StartRetryOptions): Promise<void> {
  const { initialMs = 1000, maxMs = 30_000, maxElapsedMs = 0 } = options;
  const startedMs = options.monotonicMs();
  for (let failures = 1; ; failures += 1) {
    const error = await options.attempt().then(
      () => undefined,
      (reason: Error) => reason,
    );
    if (error === undefined) return;
    if (options.stopped()) throw error;
    const elapsedMs = options.monotonicMs() - startedMs;
    if (maxElapsedMs > 0 && elapsedMs >= maxElapsedMs) {
      const text = `timed out waiting for Redis connection to ${options.label} after ${Math.round(elapsedMs)} ms: ${error.message}`;
      throw new StoreError(text, { transient: true });
    }
    const waitMs = retryDelayMs({ failures, firstMs: initialMs, maxMs: maxMs, random: options.random });
    options.onRetry?.({ waitMs, elapsedMs, error });
    await options.sleep(waitMs);
  }
}
