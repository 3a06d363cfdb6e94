/** What a store in one Redis and one in a cluster have in common: gathering what is submitted, and places for calls. */
import { attendedTimers, systemTimers, type Timers } from '../../../process/time/clock.ts';
import type { ClientTls } from '../client-tls.ts';
import {
  type CounterOp,
  type CounterStore,
  failOp,
  type StoreError,
  type SubmitOptions,
} from '../counter-store.ts';
import { lookThenCount } from '../stop-when-over.ts';
import {
  type Batch,
  type CallBounds,
  type CallCounts,
  CallPlaces,
  maxKeysPerCall,
  settle,
  usualCallBounds,
} from './call-places.ts';
import { areScriptsRefused, type RedisErrors, type RedisScripts } from './redis-error.ts';
import { type StartRetryOptions, startWithRetry } from './start-retry.ts';
import { TurnGathering } from './turn-gathering.ts';

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
  random: () => number;
  /** REDIS_SCRIPTS; in a cluster refunds alone use one. Defaults to `auto`. */
  scripts?: RedisScripts | undefined;
  /** Told once, when `auto` goes on without scripts. The reason holds no credentials. */
  onScriptsRefused?: ((reason: string) => void) | undefined;
  /** Told at every change of `connected`. */
  onChange?: ((connected: boolean, reason?: string) => void) | undefined;
  /** An attempt to connect failed, or an open connection broke; for the log. Holds no credentials. */
  onFailure?: ((message: string) => void) | undefined;
  /** Redis answered a command that counts with an error: its first word, and its text without credentials. */
  onRefusal?: ((code: string, text: string) => void) | undefined;
}

/** What arrives in one turn of the event loop, or in a window, goes out together, so many calls at a time as have places. */
export abstract class GatheringStore implements CounterStore {
  readonly #errors: RedisErrors;
  readonly #label: string;
  readonly #random: () => number;
  readonly #gathering: TurnGathering;
  readonly #places: CallPlaces<Batch>;
  readonly #onScriptsRefused: ((reason: string) => void) | undefined;
  #scripts: RedisScripts;
  #closed = false;

  constructor(options: GatheringStoreOptions, label: string, errors: RedisErrors) {
    const { timers, windowMs, timeoutMs, random, scripts = 'auto', calls = usualCallBounds } = options;
    this.#errors = errors;
    this.#label = label;
    this.#random = random;
    this.#scripts = scripts;
    this.#onScriptsRefused = options.onScriptsRefused;
    this.#gathering = new TurnGathering({
      send: (batch) => this.#places.take(batch),
      windowMs,
      timers: timers ?? systemTimers,
      monotonicMs: () => performance.now(),
    });
    this.#places = new CallPlaces<Batch>({
      ...calls,
      timeoutMs,
      timers: timers ?? attendedTimers,
      go: (batch) => this.send(batch),
      refuse: (batch, waitedMs) => {
        batch.fail(errors.noPlace(waitedMs));
        settle(batch);
      },
    });
  }

  /** Whether anything answers. Without it ops fail at once. */
  abstract get connected(): boolean;

  abstract ping(patienceMs?: number): Promise<void>;

  /** One attempt, until something answers. */
  protected abstract attempt(): Promise<void>;

  protected abstract disconnect(): Promise<void>;

  protected abstract notConnected(): StoreError;

  /** The batch has a place until it is given to `settle`. */
  protected abstract send(batch: Batch): void;

  protected get closed(): boolean {
    return this.#closed;
  }

  protected get withoutScripts(): boolean {
    return this.#scripts === 'never';
  }

  /** Calls under way, those that wait for a place, and those that got none. */
  get callCounts(): CallCounts {
    return this.#places;
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

  submit(ops: CounterOp[], options: SubmitOptions, done: () => void): void {
    if (!this.connected || this.#closed) {
      const error = this.#closed ? this.#errors.closed() : this.notConnected();
      for (const op of ops) failOp(op, error);
      done();
    } else if (ops.length === 0) {
      done();
    } else if (!options.stopWhenOver) {
      this.#gathering.add(ops, { callsLeft: 0, done });
    } else if (ops.length > maxKeysPerCall) {
      lookThenCount(this, ops, done);
    } else {
      this.#gathering.addWhole(ops, { callsLeft: 0, done });
    }
  }

  close(): Promise<void> {
    this.#closed = true;
    this.#places.close();
    return this.disconnect();
  }

  protected settle(batch: Batch): void {
    this.#places.free();
    settle(batch);
  }

  /** Whether `error` says that this Redis runs no scripts: then none is sent any more. */
  protected refusesScripts(error: unknown): boolean {
    if (!areScriptsRefused(error)) return false;
    if (!this.withoutScripts) this.#onScriptsRefused?.(this.#errors.fromOwnCommand(error).message);
    this.#scripts = 'never';
    return true;
  }
}
