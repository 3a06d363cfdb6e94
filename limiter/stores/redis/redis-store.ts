import { attendedMs } from '../../../process/time/clock.ts';
import type { StoreError } from '../store-error.ts';
import { GatheringStore, type GatheringStoreOptions } from './gathering-store.ts';
import { program } from './lua/program.ts';
import { PlainCounting } from './plain-counting.ts';
import type { Batch } from './turn-batch.ts';
import type { RedisAddress, SentinelAddress } from './wire/redis-address.ts';
import type { KeyedCommands } from './wire/redis-connection.ts';
import { type ConnectionCounts, connectionCommands, RedisConnection } from './wire/redis-connection.ts';
import { isNoScript } from './wire/redis-error.ts';
import type { RedisLink, SentCall } from './wire/redis-link.ts';
import { UnexpectedReply } from './wire/reply-checks.ts';
import { type Reply, ReplyError } from './wire/resp.ts';

/** A way to one server: a `RedisConnection`, or a client that somebody else opened. */
export type ServerConnection = Pick<
  RedisConnection,
  'connected' | 'counts' | 'errors' | 'notConnected' | 'open' | 'ping' | 'send' | 'close'
> & { readonly link: Pick<RedisLink, 'begin' | 'send'> | undefined };

/** One server, or the master that sentinels know; or a connection to one, and how logs name it. */
export type RedisStoreOptions = GatheringStoreOptions &
  (
    | { readonly address: RedisAddress | SentinelAddress }
    | { readonly connection: ServerConnection; readonly label: string }
  );

/** A script by its name, or with its source. */
type How = 'evalsha' | 'eval';

/** What became of a batch. */
interface Outcome {
  answered: (batch: Batch, reply: Reply, how: How) => void;
  failed: (batch: Batch, error: Error) => void;
}

/**
 * Counts in one Redis server: what arrives in one turn of the event loop, or in a window, goes out in one script call,
 * folded by key.
 * Calls go out in order, so many at a time as there are places for them.
 */
export class RedisStore extends GatheringStore {
  readonly #connection: ServerConnection;
  readonly #plain: PlainCounting;
  protected override readonly commands: KeyedCommands;
  readonly #outcome: Outcome = {
    answered: (batch, reply, how) => this.#answered(batch, reply, how),
    failed: (batch, error) => this.#failed(batch, error),
  };

  constructor(options: RedisStoreOptions) {
    const isGiven = 'connection' in options;
    const connection = isGiven ? options.connection : new RedisConnection(options);
    super(options, isGiven ? options.label : options.address.label, connection.errors);
    this.#connection = connection;
    this.commands = connectionCommands(connection);
    this.#plain = new PlainCounting({
      commands: this.commands,
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
      // Not at once: the next batch may be such a one, too, and so on.
      queueMicrotask(() => this.settle(batch));
      return;
    }
    this.#count(batch);
  }

  #count(batch: Batch): void {
    if (this.withoutScripts) batch.countPlainly(this.#plain).then(() => this.settle(batch));
    else this.#sendScript(batch, 'evalsha');
  }

  #sendScript(batch: Batch, how: How): void {
    const { link } = this.#connection;
    if (link === undefined) {
      // Not at once: who waits for a place behind it is such a one, too, and so on.
      queueMicrotask(() => this.#failed(batch, this.notConnected()));
      return;
    }
    const { sha1, source } = program;
    const command = link.begin();
    command.push(how);
    command.push(how === 'evalsha' ? sha1 : source);
    batch.pushArguments(command);
    link.send(new ScriptCall(this.#outcome, batch, how));
  }

  #answered(batch: Batch, reply: Reply, how: How): void {
    const { errors } = this.#connection;
    if (reply instanceof ReplyError) {
      this.#refused(batch, reply, how);
      return;
    }
    if (!batch.answer(reply, errors)) batch.fail(errors.fromCommand(new UnexpectedReply('EVALSHA', reply)));
    this.settle(batch);
  }

  #refused(batch: Batch, error: ReplyError, how: How): void {
    // Redis ran nothing when it does not know the script, so the same call may go out again.
    if (how === 'evalsha' && isNoScript(error)) {
      this.#sendScript(batch, 'eval');
      return;
    }
    const again = this.sentAgain(batch, error);
    if (again === undefined) this.#failed(batch, error);
    else if (again[0] === batch) this.#count(batch);
    else {
      const whole = { callsLeft: again.length, done: () => this.settle(batch) };
      for (const part of again) {
        part.requests.push(whole);
        this.#count(part);
      }
    }
  }

  #failed(batch: Batch, error: Error): void {
    batch.fail(this.#connection.errors.fromCommand(error));
    this.settle(batch);
  }
}

/** A batch under way. */
class ScriptCall implements SentCall {
  dueMs = 0;
  next: SentCall | undefined = undefined;
  readonly #outcome: Outcome;
  readonly #batch: Batch;
  readonly #how: How;

  constructor(outcome: Outcome, batch: Batch, how: How) {
    this.#outcome = outcome;
    this.#batch = batch;
    this.#how = how;
  }

  answered(reply: Reply): void {
    this.#outcome.answered(this.#batch, reply, this.#how);
  }

  failed(error: Error): void {
    this.#outcome.failed(this.#batch, error);
  }
}
