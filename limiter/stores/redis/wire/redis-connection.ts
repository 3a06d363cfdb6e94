import type { FlushTurn } from '../../../../process/queues/loop-turns.ts';
import { unblockedTimers } from '../../../../process/time/clock.ts';
import type { ClientTls } from '../../client-tls.ts';
import { storeReconnectDelayMs } from '../../reconnect-delay.ts';
import { StoreError } from '../../store-error.ts';
import type { NodePlace, RedisAddress, SentinelAddress } from './redis-address.ts';
import { connectingHint, isClosed, isTimeout, RedisErrors } from './redis-error.ts';
import { RedisLink } from './redis-link.ts';
import { type Reply, ReplyError, UnexpectedReply } from './resp.ts';
import { Sentinels } from './sentinels.ts';

// The connection to a Redis server, which is replaced whenever it is lost. Nothing is queued while it is down, and nothing is sent twice:
// a command whose reply was lost is an error to its caller, because it may have been counted.

/** Values of `ratelimit.redis_pool.cx_active`, `cx_total` and `cx_local_close`. */
export interface ConnectionCounts {
  active: number;
  /** Connections opened since the start. */
  total: number;
  /** The number of connections closed since the start, regardless of who closed them. */
  localClose: number;
}

export interface RedisConnectionOptions {
  /** One server, or the master that sentinels know. */
  address: RedisAddress | SentinelAddress;
  /** The TLS of the connection; undefined without TLS. */
  tls?: ClientTls | undefined;
  /** REDIS_CLOSE_CONNECTION_ON_READONLY_ERROR: whether to leave a server that accepts no writes, and connect again. */
  closeOnReadOnly?: boolean | undefined;
  /** The maximum time for connecting and for every command. */
  timeoutMs: number;
  /** The maximum time in which calls wait and the server sends nothing: it hangs. Undefined: only `timeoutMs` applies. */
  silenceMs?: number | undefined;
  /** Where to count the connections, for several servers together. Defaults to an object of its own. */
  counts?: ConnectionCounts | undefined;
  /** Writes answers after the replies of one read. */
  flushTurn?: FlushTurn | undefined;
  /** Returns a number from 0 to below 1, for the jitter of reconnecting. */
  random: () => number;
  /** Called when the connection has opened or ended. `reason` describes why it ended. */
  onChange?: ((connected: boolean, reason?: string) => void) | undefined;
  /** Called when an attempt to connect failed, or an open connection broke. The message contains no credentials. */
  onFailure?: ((message: string) => void) | undefined;
  /** Called when Redis answered a counting command with an error: its first word, and its text without credentials. */
  onRejection?: ((code: string, text: string) => void) | undefined;
  /** Called when the server requires no password although one is set. */
  onNeedlessPassword?: (() => void) | undefined;
}

export class RedisConnection {
  readonly counts: ConnectionCounts;
  readonly errors: RedisErrors;
  readonly #options: RedisConnectionOptions;
  readonly #sentinels: Sentinels | undefined;
  /** The master that the sentinels named at the last attempt. */
  #place: NodePlace | undefined;
  /**
   * The link for calls that need no promise. Undefined: no server has answered on a connection. The system may open one to a hung
   * server.
   */
  link: RedisLink | undefined;
  /** The link of the last attempt. */
  #tried: RedisLink | undefined;
  #attempt: Promise<void> | undefined;
  #reconnects = false;
  /** The number of consecutive failures. */
  #failures = 0;
  #retry: NodeJS.Timeout | undefined;
  /** Why the last attempt failed, until one succeeds. */
  #lastFailure: string | undefined;
  #closing = false;

  constructor(options: RedisConnectionOptions) {
    const { address, timeoutMs, tls, onRejection, onNeedlessPassword } = options;
    this.#options = options;
    this.counts = options.counts ?? { active: 0, total: 0, localClose: 0 };
    const onReadOnly =
      options.closeOnReadOnly === true ? () => this.#leave('the server accepts no writes') : undefined;
    this.errors = new RedisErrors({ timeoutMs, password: address.password, onReadOnly, onRejection });
    if ('sentinels' in address)
      this.#sentinels = new Sentinels({ address, timeoutMs, tls, onNeedlessPassword });
  }

  get connected(): boolean {
    return this.link !== undefined;
  }

  /** Why the last attempt to connect failed; undefined if none did since the last connection. */
  get lastFailure(): string | undefined {
    return this.#lastFailure;
  }

  /** Whether an attempt to connect has succeeded. From then on, it reconnects on its own. */
  get wasConnected(): boolean {
    return this.#reconnects;
  }

  /** Returns the error of ops that arrive without a connection, including the reason. */
  notConnected(): StoreError {
    return this.errors.notConnected(this.#lastFailure);
  }

  /** Makes one attempt to connect. After a success, lost connections are reopened for as long as necessary. */
  open(): Promise<void> {
    clearTimeout(this.#retry);
    this.#attempt ??= this.#connect().finally(() => {
      this.#attempt = undefined;
    });
    return this.#attempt;
  }

  /** Sends a command, and resolves to the reply. Rejects with an error that `errors` translates. */
  send(name: string, args: readonly string[]): Promise<Reply> {
    return this.link?.ask(name, args) ?? Promise.reject(this.notConnected());
  }

  /** Sends PING. Rejects with a StoreError. Without an answer after `patienceMs`, or the timeout, the connection is closed. */
  async ping(patienceMs = this.#options.timeoutMs): Promise<void> {
    let failure: StoreError | undefined;
    const giveUp = () => {
      failure = this.errors.timedOut(patienceMs);
      this.#leave(failure.message);
    };
    const callOff =
      patienceMs < this.#options.timeoutMs ? unblockedTimers.after(patienceMs, giveUp) : () => {};
    try {
      checkPong(await this.send('ping', []));
    } catch (error) {
      if (error instanceof StoreError) throw error;
      throw failure ?? this.errors.fromOwnCommand(error);
    } finally {
      callOff();
    }
  }

  /** Closes the connection. Commands in progress fail. */
  close(): void {
    this.#closing = true;
    clearTimeout(this.#retry);
    this.#sentinels?.close();
    this.#down();
    this.#tried?.close();
  }

  async #connect(): Promise<void> {
    const { address, onNeedlessPassword = () => {} } = this.#options;
    let link: RedisLink | undefined;
    try {
      const endpoint = 'endpoint' in address ? address.endpoint : await this.#master();
      if (this.#closing) throw this.errors.closed();
      link = this.#dial(endpoint);
      await link.login(address, onNeedlessPassword);
      // The server is reachable, but it may be loading its data, or be the wrong server.
      this.#failures = 0;
      await this.#check(link);
      if (link.failure !== undefined) throw link.failure;
    } catch (error) {
      link?.close();
      throw this.#failed(error);
    }
    this.link = link;
    this.#lastFailure = undefined;
    this.counts.active += 1;
    this.counts.total += 1;
    if (!this.#reconnects) this.#sentinels?.watch((master) => this.#switched(master));
    this.#reconnects = true;
    this.#options.onChange?.(true);
  }

  #dial(endpoint: RedisAddress['endpoint']): RedisLink {
    const { tls, timeoutMs, silenceMs, flushTurn } = this.#options;
    const link: RedisLink = new RedisLink({
      endpoint,
      tls,
      timeoutMs,
      silenceMs,
      flushTurn,
      onEnd: (error) => {
        if (link === this.#tried) this.#lost(error);
      },
    });
    this.#tried = link;
    return link;
  }

  async #master(): Promise<NodePlace> {
    this.#place = await this.#sentinels!.master();
    return this.#place;
  }

  async #check(link: RedisLink): Promise<void> {
    checkPong(await link.ask('ping', []));
    if (this.#sentinels !== undefined && (await isReplica(link))) throw this.errors.isReplica();
  }

  /** Handles the failure of an attempt. */
  #failed(error: unknown): StoreError {
    if (this.#closing) return this.errors.closed();
    const failure = this.#fromServer(error);
    this.#lastFailure = failure.message;
    this.#options.onFailure?.(failure.message);
    this.#tryLater();
    return failure;
  }

  #lost(error: Error): void {
    if (!this.connected) return;
    if (isTimeout(error)) {
      const isSilent = error.afterMs < this.#options.timeoutMs;
      this.#down(isSilent ? 'it does not answer' : this.errors.timedOut().message);
    } else {
      if (!isClosed(error)) this.#options.onFailure?.(this.#fromServer(error).message);
      this.#down('the connection was closed');
    }
    this.#tryLater();
  }

  #tryLater(): void {
    if (!this.#reconnects || this.#closing) return;
    this.#failures += 1;
    const { random } = this.#options;
    const delayMs = storeReconnectDelayMs(this.#failures, random);
    this.#retry = setTimeout(() => void this.open().catch(() => {}), delayMs).unref();
  }

  /**
   * Handles a report of sentinels that another server is the master. Without a connection, the next attempt asks the sentinels anyway.
   */
  #switched(master: NodePlace): void {
    const { host, port } = this.#place!;
    if (master.host !== host || master.port !== port)
      this.#leave(`the master is ${master.host}:${master.port} now`);
  }

  /** Fails all commands in progress, and connects again. */
  #leave(reason: string): void {
    const { link } = this;
    if (link === undefined) return;
    this.#down(reason);
    link.close();
    this.#tryLater();
  }

  #down(reason?: string): void {
    if (this.link === undefined) return;
    this.link = undefined;
    this.counts.active -= 1;
    this.counts.localClose += 1;
    if (!this.#closing) this.#options.onChange?.(false, reason);
  }

  /** Returns the error of an attempt. An answer of the master names it, because sentinels have other passwords. */
  #fromServer(error: unknown): StoreError {
    const { message, transient, notCounted, noAnswer } = this.errors.fromConnecting(error);
    const place = error instanceof ReplyError ? this.#place : undefined;
    const who = place === undefined ? '' : `master ${place.host}:${place.port}: `;
    const tls = this.#options.tls !== undefined;
    const hint = connectingHint(error, { tls, wasConnected: this.#reconnects });
    return new StoreError(`${who}${message}${hint}`, { transient, notCounted, noAnswer });
  }
}

function checkPong(reply: Reply): void {
  if (reply !== 'PONG') throw new UnexpectedReply('PING', reply);
}

/**
 * Whether the server is a replica, because a sentinel may still name a former master. If the question is not permitted, it trusts the
 * sentinel.
 */
async function isReplica(link: RedisLink): Promise<boolean> {
  try {
    const role = await link.ask('role', []);
    if (!Array.isArray(role) || !(role[0] instanceof Buffer)) throw new UnexpectedReply('ROLE', role);
    return role[0].toString() === 'slave';
  } catch (error) {
    if (error instanceof ReplyError) return false;
    throw error;
  }
}

/** Sends single commands about one key each to a server, a proxy for several servers, or a cluster. */
export interface KeyedCommands {
  /** Sends a command. Commands of one turn are sent together, in order for one key. Rejects with an error for `translate`. */
  send(key: string, name: string, args: string[]): Promise<unknown>;
  /** Returns an error of `send` as a StoreError. */
  translate(error: unknown): StoreError;
  /** Returns equal values for keys of one server, as far as is known. */
  placeOf(key: string): unknown;
}

/** Returns commands that use one connection for all keys. */
export function connectionCommands(connection: Pick<RedisConnection, 'send' | 'errors'>): KeyedCommands {
  return {
    send: (_key, name, args) => connection.send(name, args),
    translate: (error) => (error instanceof StoreError ? error : connection.errors.fromCommand(error)),
    placeOf: () => connection,
  };
}
