import type { StoreError } from '../store-error.ts';
import type { PlainCounting } from './plain-counting.ts';
import { RedisStoreBase, type RedisStoreBaseOptions } from './redis-store-base.ts';
import { type Batch, finishBatch } from './turn-batches.ts';
import type { RedisAddress, SentinelAddress } from './wire/redis-address.ts';
import type { KeyedCommands } from './wire/redis-connection.ts';
import { type ConnectionCounts, connectionCommands, RedisConnection } from './wire/redis-connection.ts';
import type { CallReceiver, RedisLink } from './wire/redis-link.ts';
import { type Reply, ReplyError, UnexpectedReply } from './wire/resp.ts';

/** The way to one server: a `RedisConnection`, or a client that other code opened. */
export type ServerConnection = Pick<
  RedisConnection,
  'connected' | 'counts' | 'errors' | 'notConnected' | 'open' | 'ping' | 'send' | 'close'
> & { readonly link: Pick<RedisLink, 'send'> | undefined };

/** A server, or the master that sentinels know; or an existing connection, and its name in logs. */
export type RedisStoreOptions = RedisStoreBaseOptions &
  (
    | { readonly address: RedisAddress | SentinelAddress }
    | { readonly connection: ServerConnection; readonly label: string }
  );

/**
 * Counts in one Redis server. Everything that arrives in one turn of the event loop, or in a window, is sent as one script call,
 * folded by key. Calls are sent in order, at most as many at a time as there are places.
 */
export class RedisStore extends RedisStoreBase implements CallReceiver {
  readonly #connection: ServerConnection;
  readonly #plain: PlainCounting;
  protected override readonly commands: KeyedCommands;

  constructor(options: RedisStoreOptions) {
    const isGiven = 'connection' in options;
    const connection = isGiven ? options.connection : new RedisConnection(options);
    super(options, isGiven ? options.label : options.address.label, connection.errors);
    this.#connection = connection;
    this.commands = connectionCommands(connection);
    this.#plain = this.plainCounting(this.commands);
  }

  override get connected(): boolean {
    return this.#connection.link !== undefined;
  }

  get connectionCounts(): Readonly<ConnectionCounts> {
    return this.#connection.counts;
  }

  override async ping(patienceMs?: number): Promise<void> {
    if (!this.connected) throw this.notConnected();
    await this.#connection.ping(patienceMs);
  }

  protected override disconnect(): void {
    this.#connection.close();
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
      // This does not happen immediately, because the next batch may be empty, too, and so on.
      queueMicrotask(() => finishBatch(batch, this.places));
      return;
    }
    const { link } = this.#connection;
    if (link === undefined || this.withoutScripts) {
      void this.count(batch).then(() => finishBatch(batch, this.places));
      return;
    }
    batch.receiver = this;
    link.send('evalsha', batch);
  }

  protected override count(batch: Batch): Promise<void> {
    return this.withoutScripts ? batch.countPlainly(this.#plain) : this.runProgram(batch);
  }

  answered(batch: Batch, reply: Reply): void {
    const { errors } = this.#connection;
    if (reply instanceof ReplyError) {
      void this.countAgain(batch, reply).then(() => finishBatch(batch, this.places));
      return;
    }
    if (!batch.answer(reply, errors)) batch.fail(errors.fromCommand(new UnexpectedReply('EVALSHA', reply)));
    finishBatch(batch, this.places);
  }

  failed(batch: Batch, error: Error): void {
    batch.fail(this.#connection.errors.fromCommand(error));
    finishBatch(batch, this.places);
  }
}
