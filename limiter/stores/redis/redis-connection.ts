import { Command, Redis, ReplyError } from 'ioredis';
import { attendedMs, attendedTimers, looseAttendedTimers } from '../../../process/time/clock.ts';
import { retryDelayMs } from '../../../process/time/pacing.ts';
import type { ClientTls } from '../client-tls.ts';
import { StoreError } from '../counter-store.ts';
import type { RedisAddress, SentinelAddress } from './redis-address.ts';
import { commandTimedOut, connectingHint, isTimeout, RedisErrors } from './redis-error.ts';
import type { KeyedCommands } from './scripts.ts';
import { type MasterPlace, masterConnector, redisOptions, Sentinels } from './sentinels.ts';

// One connection to one Redis server, held open by ioredis. Nothing is queued while it is down and nothing is sent
// twice: a command whose reply was lost is an error to its caller, since it may have been counted.

/** Values of `ratelimit.redis_pool.cx_active`, `cx_total` and `cx_local_close`. */
export interface ConnectionCounts {
  active: number;
  /** Connections opened since the start. */
  total: number;
  /** Connections closed since the start, whoever closed them. */
  localClose: number;
}

export interface RedisConnectionOptions {
  /** One server, or the master that sentinels know. */
  address: RedisAddress | SentinelAddress;
  /** Undefined: none. */
  tls?: ClientTls | undefined;
  /** REDIS_CLOSE_CONNECTION_ON_READONLY_ERROR: a server that takes no writes is left, and a new connection tried. */
  closeOnReadOnly?: boolean | undefined;
  /** Bounds connecting and every command. */
  timeoutMs: number;
  /** 0 up to 1, for the jitter of reconnecting. */
  random: () => number;
  /** `reason` says why the connection ended. */
  onChange?: ((connected: boolean, reason?: string) => void) | undefined;
  /** An attempt to connect failed, or an open connection broke. The message holds no credentials. */
  onFailure?: ((message: string) => void) | undefined;
  /** Redis answered a command that counts with an error: its first word, and its text without credentials. */
  onRefusal?: ((code: string, text: string) => void) | undefined;
}

const reconnecting = { firstMs: 125, mostMs: 4_000, spread: 0.25 };

/** A command in the line of those that were sent. */
export interface SentCommand {
  readonly isSettled: boolean;
  next: this | undefined;
}

/**
 * Commands in the order in which they were sent, linked through themselves: each costs the same, however many are under
 * way. Redis answers in this order, so those that are settled stand before those that are not.
 */
export class SentCommands<Sent extends SentCommand> {
  #oldest: Sent | undefined;
  #latest: Sent | undefined;

  add(command: Sent): void {
    if (this.oldest() === undefined) this.#oldest = command;
    else this.#latest!.next = command;
    this.#latest = command;
  }

  /** The first that is not settled; those before it are let go. */
  oldest(): Sent | undefined {
    let first = this.#oldest;
    while (first?.isSettled === true) {
      const { next } = first;
      // What an old object points to outlives the cheap collections, even if nobody has the old one any more.
      first.next = undefined;
      first = next;
    }
    this.#oldest = first;
    if (first === undefined) this.#latest = undefined;
    return first;
  }
}

/** The library's own timeout takes a standstill of this process for the server's silence. */
class PatientCommand extends Command implements SentCommand {
  /** On the scale of `attendedMs`. */
  dueMs = 0;
  next: this | undefined = undefined;

  override setTimeout(): void {}
}

export class RedisConnection {
  readonly counts: ConnectionCounts = { active: 0, total: 0, localClose: 0 };
  readonly errors: RedisErrors;
  readonly #options: RedisConnectionOptions;
  readonly #redis: Redis;
  readonly #sentinels: Sentinels | undefined;
  /** Which master the sentinels named at the last attempt. */
  #place: MasterPlace | undefined;
  /** Written here alone. */
  connected = false;
  /** Reconnecting by itself, which it does not do before the first success. */
  #reconnects = false;
  /** Ends with the first answer on a new connection: taking it says little, the system does that for a hung server. */
  #checked: Promise<void> = Promise.resolve();
  /** Why the attempt under way fails; kept apart because ioredis only says that the connection was closed. */
  #failure: StoreError | undefined;
  /** Why the last attempt failed, until one succeeds. */
  #lastFailure: string | undefined;
  #closing = false;
  /** All have the same time, so that one timer does for them. */
  readonly #sent = new SentCommands<PatientCommand>();
  #isWatching = false;

  constructor(options: RedisConnectionOptions) {
    const { address, timeoutMs, tls, random } = options;
    this.#options = options;
    const onReadOnly =
      options.closeOnReadOnly === true ? () => this.#leave('the server takes no writes') : undefined;
    const { onRefusal } = options;
    this.errors = new RedisErrors({ timeoutMs, password: address.password, onReadOnly, onRefusal });
    if ('sentinels' in address) this.#sentinels = new Sentinels({ address, timeoutMs, tls });
    const sentinels = this.#sentinels;
    const onPlace = (place: MasterPlace): void => {
      this.#place = place;
    };
    this.#redis = new Redis({
      ...('endpoint' in address ? address.endpoint : {}),
      ...(sentinels === undefined ? {} : { Connector: masterConnector({ sentinels, tls, onPlace }) }),
      ...redisOptions({ credentials: address, timeoutMs, tls }),
      db: address.db,
      retryStrategy: (failures) =>
        this.#reconnects ? retryDelayMs({ ...reconnecting, failures, random }) : null,
    });
    this.#redis.on('connecting', () => {
      this.#failure = undefined;
    });
    this.#redis.on('ready', () => {
      this.#checked = this.#check();
    });
    this.#redis.on('close', () => this.#down('the connection was closed'));
    this.#redis.on('error', (error: Error) => this.#failed(error));
  }

  /** Why the last attempt to connect failed; undefined when none did since there was a connection. */
  get lastFailure(): string | undefined {
    return this.#lastFailure;
  }

  /** Nothing is under way. */
  get isIdle(): boolean {
    return this.#sent.oldest() === undefined;
  }

  /** For ops that arrive without a connection, with the reason why there is none. */
  notConnected(): StoreError {
    return this.errors.notConnected(this.#lastFailure);
  }

  /** One attempt. Once it succeeded, lost connections are reopened for as long as it takes. */
  async open(): Promise<void> {
    if (this.#closing) throw this.errors.closed();
    try {
      await this.#redis.connect();
    } catch (error) {
      throw this.#failure ?? this.errors.fromConnecting(error);
    }
    await this.#checked;
    // ioredis takes a refused SELECT for a success and would count in the wrong database.
    if (this.#failure !== undefined) throw this.#failure;
    if (!this.#reconnects) this.#sentinels?.watch((master) => this.#switched(master));
    this.#reconnects = true;
  }

  /** Settles with the reply; rejects with the library's error, which `errors` translates. */
  send(name: string, args: string[]): Promise<unknown> {
    const command = new PatientCommand(name, args);
    const { timeoutMs } = this.#options;
    command.dueMs = attendedMs() + timeoutMs;
    this.#sent.add(command);
    if (!this.#isWatching) this.#watch(timeoutMs);
    return this.#redis.sendCommand(command) as Promise<unknown>;
  }

  /** Gives up the commands that are due in so long, and comes again for the others. The socket keeps the process alive. */
  #watch(delayMs: number): void {
    this.#isWatching = true;
    looseAttendedTimers.after(delayMs, () => {
      this.#isWatching = false;
      for (let oldest = this.#sent.oldest(); oldest !== undefined; oldest = this.#sent.oldest()) {
        const leftMs = oldest.dueMs - attendedMs();
        if (leftMs > 0) {
          this.#watch(leftMs);
          return;
        }
        oldest.reject(commandTimedOut());
      }
    });
  }

  /** As `send`; where there is no answer in time, the connection is given up. */
  async sendOrReset(name: string, args: string[]): Promise<unknown> {
    try {
      const reply = await this.send(name, args);
      // Not only when the next one is sent: with its arguments and its reply, it may be large.
      this.#sent.oldest();
      return reply;
    } catch (error) {
      if (isTimeout(error)) this.reset();
      throw error;
    }
  }

  /** Rejects with a StoreError. Without an answer after `patienceMs`, or the timeout, the connection is given up. */
  async ping(patienceMs = this.#options.timeoutMs): Promise<void> {
    let failure: StoreError | undefined;
    const giveUp = () => {
      failure = this.errors.timedOut(patienceMs);
      this.#leave(failure.message);
    };
    const callOff =
      patienceMs < this.#options.timeoutMs ? attendedTimers.after(patienceMs, giveUp) : () => {};
    try {
      await this.send('ping', []);
    } catch (error) {
      if (isTimeout(error)) this.reset();
      throw failure ?? this.errors.fromOwnCommand(error);
    } finally {
      callOff();
    }
  }

  /** After a command timed out: everything under way fails, and a new connection is tried. */
  reset(): void {
    this.#leave(this.errors.timedOut().message);
  }

  close(): Promise<void> {
    this.#closing = true;
    this.#sentinels?.close();
    const { status } = this.#redis;
    if (status !== 'connecting' && status !== 'connect' && status !== 'ready') {
      this.#redis.disconnect();
      return Promise.resolve();
    }
    return new Promise((resolve) => {
      this.#redis.once('end', resolve);
      this.#redis.disconnect();
    });
  }

  /** Never rejects. */
  async #check(): Promise<void> {
    try {
      if (String(await this.send('ping', [])) !== 'PONG') this.#unfit(this.errors.unexpectedAnswer());
      else if (this.#sentinels !== undefined && (await this.#isReplica()))
        this.#unfit(this.errors.isReplica());
    } catch (error) {
      if (this.#failure === undefined && !this.#closing) this.#unfit(this.#fromServer(error));
      else this.#redis.disconnect(this.#reconnects);
    }
    if (this.#failure !== undefined || this.#closing) return;
    this.connected = true;
    this.#lastFailure = undefined;
    this.counts.active = 1;
    this.counts.total += 1;
    this.#options.onChange?.(true);
  }

  /** It answers, but not as the server that is wanted. */
  #unfit(failure: StoreError): void {
    this.#failure ??= failure;
    this.#lastFailure = this.#failure.message;
    this.#options.onFailure?.(this.#failure.message);
    this.#redis.disconnect(this.#reconnects);
  }

  /** A sentinel may still name a master that has come back as a replica. Who may not ask takes its word. */
  async #isReplica(): Promise<boolean> {
    try {
      const [role] = (await this.send('role', [])) as unknown[];
      return String(role) === 'slave';
    } catch (error) {
      if (error instanceof ReplyError) return false;
      throw error;
    }
  }

  /** The sentinels made another server the master. While there is no connection, the next attempt asks them anyway. */
  #switched(master: MasterPlace): void {
    const isHere = master.host === this.#place?.host && master.port === this.#place.port;
    if (!isHere) this.#leave(`the master is ${master.host}:${master.port} now`);
  }

  /** Everything under way fails, and a new connection is tried. */
  #leave(reason: string): void {
    if (!this.connected) return;
    this.#down(reason);
    this.#redis.disconnect(true);
  }

  #down(reason: string): void {
    if (!this.connected) return;
    this.connected = false;
    this.counts.active = 0;
    this.counts.localClose += 1;
    if (!this.#closing) this.#options.onChange?.(false, reason);
  }

  /** What the master says must not look as if a sentinel had said it: their passwords are two. */
  #fromServer(error: unknown): StoreError {
    const { message, transient, notCounted, unheard } = this.errors.fromConnecting(error);
    const isMasters = this.#place !== undefined && error instanceof ReplyError;
    const who = isMasters ? `master ${this.#place?.host}:${this.#place?.port}: ` : '';
    const tls = this.#options.tls !== undefined;
    const hint = connectingHint(error, { tls, wasConnected: this.counts.total > 0 });
    return new StoreError(`${who}${message}${hint}`, { transient, notCounted, unheard });
  }

  #failed(error: Error): void {
    const failure = this.#fromServer(error);
    this.#options.onFailure?.(failure.message);
    if (this.connected) return;
    this.#failure = failure;
    this.#lastFailure = failure.message;
    if (isSelect(error) || isTimeout(error)) this.#redis.disconnect(true);
  }
}

function isSelect(error: Error): boolean {
  return 'command' in error && (error.command as { name?: unknown }).name === 'select';
}

/** All keys by one connection. */
export function connectionCommands(connection: RedisConnection): KeyedCommands {
  return {
    send: (_key, name, args) => connection.sendOrReset(name, args),
    translate: (error) => (error instanceof StoreError ? error : connection.errors.fromCommand(error)),
    placeOf: () => connection,
  };
}
