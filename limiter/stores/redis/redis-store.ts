import type { CounterOp, CounterStore, SubmitOptions } from '../counter-store.ts';
import { failOp } from '../folded-run.ts';
import { lookThenCount } from '../stop-when-over.ts';
import { type Batch, maxKeysPerCall, type PendingRequest, settle } from './batch.ts';
import { CountBatch } from './count-batch.ts';
import type { RedisAddress } from './redis-address.ts';
import { type ConnectionCounts, RedisConnection } from './redis-connection.ts';
import { isNoScript, isTimeout } from './redis-error.ts';
import { type StartRetryOptions, startWithRetry } from './start-retry.ts';
import { StopBatch } from './stop-batch.ts';

export interface RedisStoreOptions {
  address: RedisAddress;
  /** REDIS_TIMEOUT: bounds connecting and every command. Without a connection ops fail at once. */
  timeoutMs: number;
  random: () => number;
  /** Told at every change of `connected`. */
  onChange?: (connected: boolean, reason?: string) => void;
  /** An attempt to connect failed, or an open connection broke; for the log. Holds no credentials. */
  onFailure?: (message: string) => void;
}

/**
 * Counts in one Redis server: what arrives in one turn of the event loop goes out in one script call, folded by key.
 * Calls go out in order, and each waits for none before it.
 */
export class RedisStore implements CounterStore {
  readonly #connection: RedisConnection;
  readonly #label: string;
  readonly #random: () => number;
  /** Closed to new ops, to be sent when the turn ends. */
  #full: Batch[] = [];
  #open: CountBatch | StopBatch | undefined;
  #scheduled = false;
  #closed = false;
  readonly #flush = () => this.#sendAll();

  constructor(options: RedisStoreOptions) {
    const { address, timeoutMs, random, onChange, onFailure } = options;
    this.#connection = new RedisConnection({ address, timeoutMs, random, onChange, onFailure });
    this.#label = address.label;
    this.#random = random;
  }

  get connected(): boolean {
    return this.#connection.connected;
  }

  get connectionCounts(): Readonly<ConnectionCounts> {
    return this.#connection.counts;
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
      const error = this.#closed ? this.#connection.errors.closed() : this.#connection.errors.notConnected();
      for (const op of ops) failOp(op, error);
      done();
    } else if (ops.length === 0) {
      done();
    } else if (!options.stopWhenOver) {
      this.#gather(ops, { callsLeft: 0, done });
    } else if (ops.length > maxKeysPerCall) {
      lookThenCount(this, ops, done);
    } else {
      this.#gatherWhole(ops, { callsLeft: 0, done });
    }
  }

  async ping(): Promise<void> {
    if (!this.#connection.connected) throw this.#connection.errors.notConnected();
    try {
      await this.#connection.send('ping', []);
    } catch (error) {
      if (isTimeout(error)) this.#connection.reset();
      throw this.#connection.errors.fromCommand(error);
    }
  }

  close(): Promise<void> {
    this.#closed = true;
    return this.#connection.close();
  }

  #gather(ops: CounterOp[], request: PendingRequest): void {
    let batch = this.#open instanceof CountBatch ? this.#open : this.#begin(new CountBatch());
    for (const op of ops) {
      if (batch.add(op, request)) continue;
      batch = this.#begin(new CountBatch());
      batch.add(op, request);
    }
  }

  #gatherWhole(ops: CounterOp[], request: PendingRequest): void {
    if (this.#open instanceof StopBatch && this.#open.add(ops, request)) return;
    this.#begin(new StopBatch()).add(ops, request);
  }

  #begin<T extends CountBatch | StopBatch>(batch: T): T {
    if (this.#open !== undefined) this.#full.push(this.#open);
    this.#open = batch;
    if (!this.#scheduled) {
      this.#scheduled = true;
      setImmediate(this.#flush);
    }
    return batch;
  }

  #sendAll(): void {
    this.#scheduled = false;
    const full = this.#full;
    const last = this.#open;
    this.#full = [];
    this.#open = undefined;
    for (const batch of full) this.#send(batch);
    if (last !== undefined) this.#send(last);
  }

  #send(batch: Batch): void {
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
    settle(batch);
  }

  #failed(batch: Batch, error: unknown): void {
    if (isTimeout(error)) this.#connection.reset();
    batch.fail(this.#connection.errors.fromCommand(error));
    settle(batch);
  }
}
