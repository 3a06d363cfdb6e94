import { attendedMs } from '../../../process/time/clock.ts';
import type { StoreError } from '../counter-store.ts';
import { GatheringStore, type GatheringStoreOptions } from './gathering-store.ts';
import { PlainCounting } from './plain-counting.ts';
import type { RedisAddress, SentinelAddress } from './redis-address.ts';
import { type ConnectionCounts, connectionCommands, RedisConnection } from './redis-connection.ts';
import { isNoScript, isTimeout } from './redis-error.ts';
import type { Batch } from './script-batches.ts';

export interface RedisStoreOptions extends GatheringStoreOptions {
  /** One server, or the master that sentinels know. */
  address: RedisAddress | SentinelAddress;
}

/**
 * Counts in one Redis server: what arrives in one turn of the event loop, or in a window, goes out in one script call,
 * folded by key.
 * Calls go out in order, so many at a time as there are places for them.
 */
export class RedisStore extends GatheringStore {
  readonly #connection: RedisConnection;
  readonly #plain: PlainCounting;

  constructor(options: RedisStoreOptions) {
    const connection = new RedisConnection(options);
    super(options, options.address.label, connection.errors);
    this.#connection = connection;
    this.#plain = new PlainCounting({
      commands: connectionCommands(connection),
      timeoutMs: options.timeoutMs,
      timedOut: () => connection.errors.timedOut(),
      monotonicMs: attendedMs,
    });
  }

  override get connected(): boolean {
    return this.#connection.connected;
  }

  get connectionCounts(): Readonly<ConnectionCounts> {
    return this.#connection.counts;
  }

  override async ping(patienceMs?: number): Promise<void> {
    if (!this.connected) throw this.notConnected();
    await this.#connection.ping(patienceMs);
  }

  protected override disconnect(): Promise<void> {
    return this.#connection.close();
  }

  protected override async attempt(): Promise<void> {
    if (!this.connected) await this.#connection.open();
    await this.ping();
  }

  protected override notConnected(): StoreError {
    return this.#connection.notConnected();
  }

  override send(batch: Batch): void {
    if (!batch.leaveOutAbandoned()) {
      // Not at once: the next batch may be such a one, too, and so on.
      queueMicrotask(() => this.settle(batch));
      return;
    }
    if (this.withoutScripts) {
      this.#countPlainly(batch);
      return;
    }
    const args: string[] = [];
    batch.pushArguments(args);
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
    this.settle(batch);
  }

  #countPlainly(batch: Batch): void {
    batch.countPlainly(this.#plain).then(() => this.settle(batch));
  }

  #failed(batch: Batch, error: unknown): void {
    if (this.refusesScripts(error)) {
      this.#countPlainly(batch);
      return;
    }
    if (isTimeout(error)) this.#connection.reset();
    batch.fail(this.#connection.errors.fromCommand(error));
    this.settle(batch);
  }
}
