import { attendedMs, attendedTimers, systemTimers, type Timers } from '../../../process/time/clock.ts';
import type { ClientTls } from '../client-tls.ts';
import type { CounterOp, CounterStore, SubmitOptions } from '../counter-store.ts';
import { failOp } from '../folded-run.ts';
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
import { PlainCounting } from './plain-counting.ts';
import type { RedisAddress, SentinelAddress } from './redis-address.ts';
import { type ConnectionCounts, connectionCommands, RedisConnection } from './redis-connection.ts';
import { areScriptsRefused, isNoScript, isTimeout, type RedisScripts } from './redis-error.ts';
import { type StartRetryOptions, startWithRetry } from './start-retry.ts';
import { TurnGathering } from './turn-gathering.ts';

export interface RedisStoreOptions {
  /** One server, or the master that sentinels know. */
  address: RedisAddress | SentinelAddress;
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
  /** REDIS_SCRIPTS. Defaults to `auto`. */
  scripts?: RedisScripts | undefined;
  /** Told once, when `auto` goes on without scripts. The reason holds no credentials. */
  onScriptsRefused?: ((reason: string) => void) | undefined;
  /** Told at every change of `connected`. */
  onChange?: (connected: boolean, reason?: string) => void;
  /** An attempt to connect failed, or an open connection broke; for the log. Holds no credentials. */
  onFailure?: (message: string) => void;
  /** Redis answered a command that counts with an error: its first word, and its text without credentials. */
  onRefusal?: ((code: string, text: string) => void) | undefined;
}

/**
 * Counts in one Redis server: what arrives in one turn of the event loop, or in a window, goes out in one script call,
 * folded by key.
 * Calls go out in order, so many at a time as there are places for them.
 */
export class RedisStore implements CounterStore {
  readonly #connection: RedisConnection;
  readonly #label: string;
  readonly #random: () => number;
  readonly #gathering: TurnGathering;
  readonly #places: CallPlaces<Batch>;
  readonly #plain: PlainCounting;
  readonly #onScriptsRefused: ((reason: string) => void) | undefined;
  #scripts: RedisScripts;
  #closed = false;

  constructor(options: RedisStoreOptions) {
    const { address, timeoutMs, random, windowMs, timers } = options;
    this.#connection = new RedisConnection(options);
    this.#label = address.label;
    this.#random = random;
    this.#scripts = options.scripts ?? 'auto';
    this.#onScriptsRefused = options.onScriptsRefused;
    this.#gathering = new TurnGathering({
      send: (batch) => this.#places.take(batch),
      windowMs,
      timers: timers ?? systemTimers,
      monotonicMs: () => performance.now(),
    });
    this.#places = new CallPlaces<Batch>({
      ...(options.calls ?? usualCallBounds),
      timeoutMs,
      timers: timers ?? attendedTimers,
      go: (batch) => this.#send(batch),
      refuse: (batch, waitedMs) => {
        batch.fail(this.#connection.errors.noPlace(waitedMs));
        settle(batch);
      },
    });
    this.#plain = new PlainCounting({
      commands: connectionCommands(this.#connection),
      timeoutMs,
      timedOut: () => this.#connection.errors.timedOut(),
      monotonicMs: attendedMs,
    });
  }

  get connected(): boolean {
    return this.#connection.connected;
  }

  get connectionCounts(): Readonly<ConnectionCounts> {
    return this.#connection.counts;
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
      attempt: async () => {
        if (!this.connected) await this.#connection.open();
        await this.ping();
      },
    });
  }

  submit(ops: CounterOp[], options: SubmitOptions, done: () => void): void {
    if (!this.#connection.connected || this.#closed) {
      const error = this.#closed ? this.#connection.errors.closed() : this.#connection.notConnected();
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

  async ping(patienceMs?: number): Promise<void> {
    if (!this.#connection.connected) throw this.#connection.notConnected();
    await this.#connection.ping(patienceMs);
  }

  close(): Promise<void> {
    this.#closed = true;
    this.#places.close();
    return this.#connection.close();
  }

  #send(batch: Batch): void {
    if (!batch.leaveOutAbandoned()) {
      // Not at once: the next batch may be such a one, too, and so on.
      queueMicrotask(() => this.#settle(batch));
      return;
    }
    if (this.#scripts === 'never') {
      this.#countPlainly(batch);
      return;
    }
    const args = batch.toArgs();
    this.#connection.send('evalsha', [batch.script.sha1, ...args]).then(
      (reply) => this.#answered(batch, reply),
      // Redis ran nothing when it does not know the script, so the same call may go out again.
      (error: unknown) => (isNoScript(error) ? this.#sendSource(batch, args) : this.#failed(batch, error)),
    );
  }

  #sendSource(batch: Batch, args: string[]): void {
    this.#connection.send('eval', [batch.script.source, ...args]).then(
      (reply) => this.#answered(batch, reply),
      (error: unknown) => this.#failed(batch, error),
    );
  }

  #answered(batch: Batch, reply: unknown): void {
    const { errors } = this.#connection;
    if (!batch.answer(reply, errors)) batch.fail(errors.unexpectedAnswer());
    this.#settle(batch);
  }

  #countPlainly(batch: Batch): void {
    batch.countPlainly(this.#plain).then(() => this.#settle(batch));
  }

  #settle(batch: Batch): void {
    this.#places.free();
    settle(batch);
  }

  #failed(batch: Batch, error: unknown): void {
    if (areScriptsRefused(error)) {
      if (this.#scripts === 'auto')
        this.#onScriptsRefused?.(this.#connection.errors.fromOwnCommand(error).message);
      this.#scripts = 'never';
      this.#countPlainly(batch);
      return;
    }
    if (isTimeout(error)) this.#connection.reset();
    batch.fail(this.#connection.errors.fromCommand(error));
    this.#settle(batch);
  }
}
