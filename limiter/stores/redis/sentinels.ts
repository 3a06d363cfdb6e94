/** Connections to Redis behind sentinels: their options, who says where the master is, and who goes there. */
import { connect as connectTcp, Socket } from 'node:net';
import { connect as connectTls } from 'node:tls';
import { AbstractConnector, Redis, type RedisOptions } from 'ioredis';
import type { ClientTls } from '../client-tls.ts';
import { StoreError } from '../counter-store.ts';
import type { SentinelAddress } from './redis-address.ts';
import { connectingHint, RedisErrors } from './redis-error.ts';

/** Options of ioredis with which nothing waits for a connection and nothing is sent twice. */
export function redisOptions({
  credentials: { username, password },
  timeoutMs,
  tls,
}: {
  credentials: { username: string | undefined; password: string | undefined };
  /** Bounds connecting and every command. */
  timeoutMs: number;
  tls: ClientTls | undefined;
}): Omit<RedisOptions, 'replyMapping'> {
  return {
    ...(username === undefined ? {} : { username }),
    ...(password === undefined ? {} : { password }),
    ...(tls === undefined ? {} : { tls: tls.options }),
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
  };
}

export interface MasterPlace {
  host: string;
  port: number;
}

export interface SentinelsOptions {
  address: SentinelAddress;
  /** Bounds connecting to a sentinel, and its answer. */
  timeoutMs: number;
  tls: ClientTls | undefined;
}

/** A lost watch is opened again so much later; nobody waits for it. */
const watchRetryMs = 1_000;

/** What a connection asks of the sentinels: where the master is, and word when it is another. */
export class Sentinels {
  readonly #options: SentinelsOptions;
  readonly #errors: RedisErrors;
  /** Asked right now. */
  readonly #asked = new Set<Redis>();
  #watching: Redis[] = [];

  constructor(options: SentinelsOptions) {
    this.#options = options;
    this.#errors = new RedisErrors({
      timeoutMs: options.timeoutMs,
      password: options.address.sentinelAuth.password,
    });
  }

  /** Asks all of them at once and takes the first answer: one that hangs holds up nobody. Rejects with a StoreError. */
  async master(): Promise<MasterPlace> {
    const asked = this.#options.address.sentinels.map((sentinel) => this.#ask(sentinel));
    try {
      return await Promise.any(asked);
    } catch (error) {
      throw (error as AggregateError).errors[0];
    } finally {
      this.stopAsking();
    }
  }

  /** `master` under way rejects. */
  stopAsking(): void {
    for (const client of this.#asked) client.disconnect();
    this.#asked.clear();
  }

  /** Calls back when a sentinel says that the master is another, once for each sentinel. */
  watch(onSwitch: (master: MasterPlace) => void): void {
    this.#watching = this.#options.address.sentinels.map((sentinel) => {
      const client = this.#client(sentinel, () => watchRetryMs);
      client.on('ready', () => client.subscribe('+switch-master').catch(() => client.disconnect(true)));
      client.on('message', (_channel: string, text: string) => {
        const [name, , , host = '', port] = text.split(' ');
        if (name === this.#options.address.masterName) onSwitch({ host, port: Number(port) });
      });
      client.connect().catch(() => {});
      return client;
    });
  }

  close(): void {
    this.stopAsking();
    for (const client of this.#watching) client.disconnect();
    this.#watching = [];
  }

  async #ask(sentinel: MasterPlace): Promise<MasterPlace> {
    const client = this.#client(sentinel, () => null);
    let failure: StoreError | undefined;
    let hint = '';
    client.on('error', (error: Error) => {
      failure ??= this.#errors.fromConnecting(error);
      hint ||= connectingHint(error, { tls: this.#options.tls !== undefined, wasConnected: false });
    });
    this.#asked.add(client);
    let reply: unknown;
    try {
      await client.connect();
      reply = await client.call('SENTINEL', 'get-master-addr-by-name', this.#options.address.masterName);
    } catch (error) {
      const { message, transient } = failure ?? this.#errors.fromConnecting(error);
      throw new StoreError(`sentinel ${sentinel.host}:${sentinel.port}: ${message}${hint}`, { transient });
    }
    if (!Array.isArray(reply)) {
      const text = `sentinel ${sentinel.host}:${sentinel.port} knows no master "${this.#options.address.masterName}"`;
      throw new StoreError(text, { transient: true });
    }
    return { host: String(reply[0]), port: Number(reply[1]) };
  }

  #client({ host, port }: MasterPlace, retryStrategy: () => number | null): Redis {
    const { address, timeoutMs, tls } = this.#options;
    const client = new Redis({
      host,
      port,
      ...redisOptions({ credentials: address.sentinelAuth, timeoutMs, tls }),
      autoResubscribe: false,
      retryStrategy,
    });
    client.on('error', () => {});
    return client;
  }
}

// How ioredis comes to a connection with the master that the sentinels name, anew at every attempt.

/**
 * Not the library's own: that one gives up for good when no sentinel answers, or tries again by itself without an end
 * that the connection could see.
 */
export function masterConnector(given: {
  sentinels: Sentinels;
  tls: ClientTls | undefined;
  /** Where the attempt under way goes. */
  onPlace: (place: MasterPlace) => void;
}): NonNullable<RedisOptions['Connector']> {
  return class extends AbstractConnector {
    constructor() {
      super(1);
    }

    override async connect(): Promise<Socket> {
      this.connecting = true;
      let place: MasterPlace;
      try {
        place = await given.sentinels.master();
      } catch (error) {
        if (!this.connecting) throw error;
        // A socket that is broken already makes this a failed attempt like any other; a rejection would be the last one.
        this.firstError = error as Error;
        return new Socket().destroy();
      }
      if (!this.connecting) throw new Error('Connection is closed.');
      given.onPlace(place);
      this.stream =
        given.tls === undefined ? connectTcp(place) : connectTls({ ...place, ...given.tls.options });
      return this.stream;
    }

    override disconnect(): void {
      super.disconnect();
      given.sentinels.stopAsking();
    }
  };
}
