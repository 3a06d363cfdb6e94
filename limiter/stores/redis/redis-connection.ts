/**
 * One connection to one Redis server, held open by ioredis. Nothing is queued while it is down and nothing is sent
 * twice: a command whose reply was lost is an error to its caller, since it may have been counted.
 */
import { Command, Redis } from 'ioredis';
import type { StoreError } from '../store-error.ts';
import type { RedisAddress } from './redis-address.ts';
import { isTimeout, RedisErrors } from './redis-error.ts';

/** Values of `ratelimit.redis_pool.cx_active`, `cx_total` and `cx_local_close`. */
export interface ConnectionCounts {
  active: number;
  /** Connections opened since the start. */
  total: number;
  /** Connections closed since the start, whoever closed them. */
  localClose: number;
}

export interface RedisConnectionOptions {
  address: RedisAddress;
  /** Bounds connecting and every command. */
  timeoutMs: number;
  /** 0 up to 1, for the jitter of reconnecting. */
  random: () => number;
  /** `reason` says why the connection ended. */
  onChange?: ((connected: boolean, reason?: string) => void) | undefined;
  /** An attempt to connect failed, or an open connection broke. The message holds no credentials. */
  onFailure?: ((message: string) => void) | undefined;
}

export class RedisConnection {
  readonly counts: ConnectionCounts = { active: 0, total: 0, localClose: 0 };
  readonly errors: RedisErrors;
  readonly #options: RedisConnectionOptions;
  readonly #redis: Redis;
  #connected = false;
  /** Reconnecting by itself, which it does not do before the first success. */
  #reconnects = false;
  /** Ends with the first answer on a new connection: taking it says little, the system does that for a hung server. */
  #checked: Promise<void> = Promise.resolve();
  /** Why the attempt under way fails; kept apart because ioredis only says that the connection was closed. */
  #failure: StoreError | undefined;
  #closing = false;

  constructor(options: RedisConnectionOptions) {
    const { address, timeoutMs } = options;
    this.#options = options;
    this.errors = new RedisErrors({ timeoutMs, password: address.password });
    this.#redis = new Redis({
      ...address.endpoint,
      ...(address.username === undefined ? {} : { username: address.username }),
      ...(address.password === undefined ? {} : { password: address.password }),
      db: address.db,
      protocol: 2,
      lazyConnect: true,
      connectTimeout: timeoutMs,
      commandTimeout: timeoutMs,
      disconnectTimeout: 1,
      enableOfflineQueue: false,
      autoResendUnfulfilledCommands: false,
      maxRetriesPerRequest: 0,
      // INFO and CLIENT SETINFO are unknown to proxies and often forbidden.
      enableReadyCheck: false,
      disableClientInfo: true,
      retryStrategy: (attempt) => (this.#reconnects ? reconnectDelayMs(attempt, options.random) : null),
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

  get connected(): boolean {
    return this.#connected;
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
    this.#reconnects = true;
  }

  /** Settles with the reply; rejects with the library's error, which `errors` translates. */
  send(name: string, args: string[]): Promise<unknown> {
    return this.#redis.sendCommand(new Command(name, args)) as Promise<unknown>;
  }

  /** After a command timed out: everything under way fails, and a new connection is tried. */
  reset(): void {
    this.#down(this.errors.timedOut().message);
    this.#redis.disconnect(true);
  }

  close(): Promise<void> {
    this.#closing = true;
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
      await this.#redis.ping();
    } catch (error) {
      this.#failure ??= this.errors.fromCommand(error);
      this.#redis.disconnect(this.#reconnects);
    }
    if (this.#failure !== undefined || this.#closing) return;
    this.#connected = true;
    this.counts.active = 1;
    this.counts.total += 1;
    this.#options.onChange?.(true);
  }

  #down(reason: string): void {
    if (!this.#connected) return;
    this.#connected = false;
    this.counts.active = 0;
    this.counts.localClose += 1;
    if (!this.#closing) this.#options.onChange?.(false, reason);
  }

  #failed(error: Error): void {
    const failure = this.errors.fromConnecting(error);
    this.#options.onFailure?.(failure.message);
    if (this.#connected) return;
    this.#failure = failure;
    if (isSelect(error) || isTimeout(error)) this.#redis.disconnect(true);
  }
}

/** 125 ms doubling to 4 s, less up to a quarter so that many limiters do not come back at once. */
export function reconnectDelayMs(attempt: number, random: () => number): number {
  const delayMs = Math.min(4000, 125 * 2 ** Math.min(attempt - 1, 5));
  return Math.round(delayMs * (1 - random() / 4));
}

function isSelect(error: Error): boolean {
  return 'command' in error && (error.command as { name?: unknown }).name === 'select';
}
