/** What a store in one Redis and one in a cluster have in common: gathering what is submitted, and places for calls. */
import { attendedTimers, systemTimers, type Timers } from '../../../process/time/clock.ts';
import { FlushTurn } from '../../../process/time/loop-turns.ts';
import { retryDelayMs } from '../../../process/time/pacing.ts';
import type { ClientTls } from '../client-tls.ts';
import { failAll, failOp, type Operation, type Reservation } from '../operation.ts';
import { lookThenCount } from '../stop-when-over.ts';
import type { Claims, Note, Notes, ReservationBounds, Store, SubmitOptions, TallyChanges } from '../store.ts';
import { StoreError } from '../store-error.ts';
import { needsScripts } from './bounded-steps.ts';
import { CountPart, type Part, type PartKind, StopPart } from './count-parts.ts';
import {
  type Batch,
  type CallBounds,
  type CallCarrier,
  type CallCounts,
  CallPlaces,
  defaultCallBounds,
  maxKeysPerCall,
  settle,
  TurnGathering,
} from './gathered-calls.ts';
import { noteKeyOf, ReservationNames, tallyKeyOf } from './reservation-keys.ts';
import { ReservationPart } from './reservation-part.ts';
import { shareTally } from './reservation-tally.ts';
import type { KeyedCommands } from './wire/redis-connection.ts';
import { areScriptsRefused, isKeyRefused, type RedisErrors, type RedisScripts } from './wire/redis-error.ts';
import { hasSet, textReply } from './wire/resp.ts';

export interface GatheringStoreOptions {
  /** Undefined: none. */
  tls?: ClientTls | undefined;
  /** REDIS_CLOSE_CONNECTION_ON_READONLY_ERROR. Defaults to false. */
  closeOnReadOnly?: boolean | undefined;
  /** REDIS_TIMEOUT: bounds connecting and every command. Without a connection ops fail at once. */
  timeoutMs: number;
  /** REDIS_POOL_*. Defaults to ten places, and to going beyond them after a second. */
  calls?: CallBounds | undefined;
  /** REDIS_PIPELINE_WINDOW, in whole milliseconds: under traffic at most one call in so long. Defaults to 0. */
  windowMs?: number | undefined;
  /** Defaults to Node's. */
  timers?: Timers | undefined;
  /**
   * Whose answers are written at the end of its work: who hands over the replies of one read says when it begins and ends.
   * Defaults to one that nobody else uses.
   */
  flushTurn?: FlushTurn | undefined;
  random: () => number;
  /** REDIS_SCRIPTS; in a cluster refunds and ops with bounds alone use one. Defaults to `auto`. */
  scripts?: RedisScripts | undefined;
  /** Of reservations. Defaults to 10,000, and to ten minutes. */
  reservations?: ReservationBounds | undefined;
  /** CACHE_KEY_PREFIX. Defaults to none. */
  keyPrefix?: string | undefined;
  /** Reported once, when `auto` goes on without scripts. The reason holds no credentials. */
  onScriptsRefused?: ((reason: string) => void) | undefined;
  /** Reported once, when ledgers of leases may not be used. The reason holds no credentials. */
  onLeasesRefused?: ((reason: string) => void) | undefined;
  /** Reported at every change of `connected`. */
  onChange?: ((connected: boolean, reason?: string) => void) | undefined;
  /** An attempt to connect failed, or an open connection broke; for the log. Holds no credentials. */
  onFailure?: ((message: string) => void) | undefined;
  /** Redis answered a command that counts with an error: its first word, and its text without credentials. */
  onRefusal?: ((code: string, text: string) => void) | undefined;
  /** Redis asks for no password, though one is set. */
  onNeedlessPassword?: (() => void) | undefined;
}

/** What arrives in one turn of the event loop, or in a window, goes out together, so many calls at a time as have places. */
export abstract class GatheringStore implements Store, CallCarrier<Batch> {
  readonly #errors: RedisErrors;
  readonly #label: string;
  readonly #random: () => number;
  readonly #gathering: TurnGathering;
  protected readonly places: CallPlaces<Batch>;
  readonly #onScriptsRefused: ((reason: string) => void) | undefined;
  #onLeasesRefused: ((reason: string) => void) | undefined;
  readonly #reservationBounds: ReservationBounds;
  readonly #isCluster: boolean;
  protected readonly names: ReservationNames;
  protected withoutScripts: boolean;
  #closed = false;

  constructor(options: GatheringStoreOptions, label: string, errors: RedisErrors, isCluster = false) {
    const { timers, windowMs, timeoutMs, random, scripts = 'auto', calls = defaultCallBounds } = options;
    this.#errors = errors;
    this.#label = label;
    this.#random = random;
    this.withoutScripts = scripts === 'never';
    const { reservations = defaultReservations, keyPrefix = '' } = options;
    this.#reservationBounds = reservations;
    this.#isCluster = isCluster;
    this.names = new ReservationNames(keyPrefix, isCluster);
    this.#onScriptsRefused = options.onScriptsRefused;
    this.#onLeasesRefused = options.onLeasesRefused;
    this.places = new CallPlaces<Batch>({
      ...calls,
      timeoutMs,
      timers: timers ?? attendedTimers,
      carrier: this,
    });
    this.#gathering = new TurnGathering({
      newPart: this.newPart,
      calls: this.places,
      windowMs,
      timers: timers ?? systemTimers,
      monotonicMs: () => performance.now(),
      flushTurn: options.flushTurn ?? new FlushTurn(),
    });
  }

  /** Whether anything answers. Without it ops fail at once. */
  abstract get connected(): boolean;

  abstract ping(patienceMs?: number): Promise<void>;

  protected abstract readonly commands: KeyedCommands;

  /** One attempt, until something answers. */
  protected abstract attempt(): Promise<void>;

  protected abstract disconnect(): void;

  protected abstract notConnected(): StoreError;

  /** The batch has a place until it is given to `settle` with `places`. */
  abstract send(batch: Batch): void;

  refuse(batch: Batch, waitedMs: number | undefined): void {
    batch.fail(this.#errors.noPlace(waitedMs));
    settle(batch);
  }

  left(batch: Batch): void {
    this.#gathering.left(batch);
  }

  protected readonly newPart = (kind: PartKind): Part => {
    if (kind === 'count') return new CountPart(this.#isCluster);
    return kind === 'stop' ? new StopPart() : new ReservationPart(this.#reservationBounds, this.names);
  };

  protected get closed(): boolean {
    return this.#closed;
  }

  /** Calls under way, those that wait for a place, and those that got none. */
  get callCounts(): CallCounts {
    return this.places;
  }

  /** Connects and waits for the first PONG, again and again; then reconnects by itself whenever that is needed. */
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
      // At once, so that the breaker does not wait for a word of Redis, which is not asked.
      for (const op of ops) if (hasBound(op)) failOp(op, needsScripts);
      const plain = ops.filter((op) => !hasBound(op));
      this.submit(plain, options, done);
    } else if (!options.stopWhenOver) {
      this.#gathering.add(ops, 'count', { callsLeft: 0, done });
    } else if (ops.length > maxKeysPerCall) {
      lookThenCount(this, ops, done);
    } else {
      this.#gathering.add(ops, 'stop', { callsLeft: 0, done });
    }
  }

  get notes(): Notes {
    return {
      recall: (id) => this.#recall(id),
      note: (note) => this.#note(note),
      share: (name, changes, nowMs) => this.#share(name, changes, nowMs),
    };
  }

  get claims(): Claims {
    return { claim: (name, seconds) => this.#claim(name, seconds) };
  }

  /** All counters of the call are in one place. */
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
    this.#gathering.add(ops, 'hold', { callsLeft: 0, done: goOn });
  }

  async #recall(id: string): Promise<string | undefined> {
    const key = noteKeyOf(id, this.names);
    return this.sendPlain(key, 'get', [key], (reply) => textReply('GET', reply));
  }

  async #note({ id, text, ttlMs }: Note): Promise<string | undefined> {
    const key = noteKeyOf(id, this.names);
    const ms = String(ttlMs + this.#reservationBounds.recordMs);
    const isKept = await this.sendPlain(key, 'set', [key, text, 'NX', 'PX', ms], hasSet);
    return isKept ? undefined : this.#recall(id);
  }

  async #claim(name: string, seconds: number): Promise<boolean> {
    const key = `weir:claim:${name}`;
    return this.sendPlain(key, 'set', [key, '1', 'NX', 'EX', String(seconds)], hasSet);
  }

  #share(name: string, changes: TallyChanges, nowMs: number): Promise<TallyChanges> {
    return shareTally(this.commands, tallyKeyOf(name, this.names), changes, nowMs);
  }

  /** `read` throws at a reply that the command never gives. */
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

  /** Into what a batch goes out once more that Redis answered with `error`, of which it ran nothing then; undefined: it has failed. */
  protected sentAgain(batch: Batch, error: unknown): Batch[] | undefined {
    if (areScriptsRefused(error)) {
      if (!this.withoutScripts) this.#onScriptsRefused?.(this.#errors.fromOwnCommand(error).message);
      this.withoutScripts = true;
      return [batch];
    }
    if (!isKeyRefused(error)) return undefined;
    // What one part may not touch is no reason to refuse the others.
    if (batch.isMixed) return batch.split();
    if (!batch.hasLeases) return undefined;
    // It may be about a ledger of leases alone.
    this.#onLeasesRefused?.(this.#errors.fromOwnCommand(error).message);
    this.#onLeasesRefused = undefined;
    batch.dropLeases();
    return [batch];
  }
}

const defaultReservations: ReservationBounds = { maxReservations: 10_000, recordMs: 600_000 };

function hasBound({ counter }: Operation): boolean {
  return counter.bound !== undefined;
}

export interface StartRetryOptions {
  /** One attempt. */
  attempt: () => Promise<void>;
  /** How errors name the server. */
  label: string;
  /** The first wait. Defaults to 1 s. */
  initialMs?: number;
  /** The waits double up to this. Defaults to 30 s. */
  maxMs?: number;
  /** Give up when an attempt fails after this. 0: never. Defaults to 0. */
  maxElapsedMs?: number;
  /** Whether to give up after a failed attempt, whatever the time. */
  stopped: () => boolean;
  monotonicMs: () => number;
  sleep: (ms: number) => Promise<void>;
  random: () => number;
  /** Before every wait. */
  onRetry?: (retry: { waitMs: number; elapsedMs: number; error: Error }) => void;
}

/** Resolves with the first attempt that succeeds; rejects only when `maxElapsedMs` is over or it was stopped. */
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
    const waitMs = retryDelayMs({ failures, firstMs: initialMs, mostMs: maxMs, random: options.random });
    options.onRetry?.({ waitMs, elapsedMs, error });
    await options.sleep(waitMs);
  }
}
