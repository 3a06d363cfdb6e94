/**
 * Receives the messages for all limiters on a separate connection, because a server sends a subscriber nothing else. The connection
 * opens when the first listener subscribes, and reopens when it is lost. If the server does not answer a PING, the connection is closed.
 */
import type { Timers } from '../../../process/time/clock.ts';
import { storeReconnectDelayMs } from '../../stores/reconnect-delay.ts';
import { isClosed } from '../../stores/redis/wire/redis-error.ts';
import { RedisLink } from '../../stores/redis/wire/redis-link.ts';
import { type Reply, ReplyError } from '../../stores/redis/wire/resp.ts';
import type { RedisServers } from './redis-servers.ts';
import type { SubscriptionListener } from './store-admin.ts';

export interface SubscriptionOptions {
  channel: string;
  servers: RedisServers;
  timers: Timers;
  /** Called with the server's message when it rejects SUBSCRIBE, or with undefined if it closed the connection instead. */
  onRejection: (message: string | undefined) => void;
  onSubscribed: () => void;
}

/** The pause before another attempt, since an operator may correct the ACL. */
const pauseAfterRejectionMs = 30_000;
const pingMs = 2_000;

export class RedisSubscription {
  readonly #options: SubscriptionOptions;
  readonly #listeners = new Set<SubscriptionListener>();
  #link: RedisLink | undefined;
  #isOpening = false;
  #isSubscribed = false;
  #failures = 0;
  #callOff = (): void => {};
  #closed = false;

  constructor(options: SubscriptionOptions) {
    this.#options = options;
  }

  subscribe(listener: SubscriptionListener): () => void {
    const own: SubscriptionListener = {
      received: (text) => listener.received(text),
      back: () => listener.back(),
    };
    this.#listeners.add(own);
    if (this.#isSubscribed) queueMicrotask(() => this.#listeners.has(own) && own.back());
    else void this.#open();
    return () => void this.#listeners.delete(own);
  }

  close(): void {
    this.#closed = true;
    this.#callOff();
    this.#link?.close();
    this.#listeners.clear();
  }

  async #open(): Promise<void> {
    if (this.#isOpening || this.#isSubscribed || this.#closed) return;
    this.#isOpening = true;
    this.#callOff();
    const { servers, channel } = this.#options;
    const { tls, timeoutMs } = servers.options;
    let hasAsked = false;
    try {
      const endpoint = await servers.endpoint();
      if (this.#closed) return;
      const link: RedisLink = new RedisLink({
        endpoint,
        tls,
        timeoutMs,
        onMessage: (message) => this.#received(message),
        onEnd: () => this.#ended(link),
      });
      this.#link = link;
      await link.login(servers.login, () => {});
      hasAsked = true;
      await link.ask('subscribe', [channel]);
      this.#subscribed(link);
    } catch (error) {
      this.#link?.close();
      const isRejected = error instanceof ReplyError ? hasAsked : hasAsked && isClosed(error);
      // A server that ends at this moment also closes the connection, but not twice in a row.
      if (isRejected && (error instanceof ReplyError || this.#failures > 0)) {
        const text = error instanceof ReplyError ? servers.errors.fromOwnCommand(error).message : undefined;
        this.#options.onRejection(text);
        this.#again(pauseAfterRejectionMs);
      } else {
        this.#failures += 1;
        const { random } = servers.options;
        this.#again(storeReconnectDelayMs(this.#failures, random));
      }
    } finally {
      this.#isOpening = false;
    }
  }

  #subscribed(link: RedisLink): void {
    if (link.failure !== undefined) throw link.failure;
    this.#isSubscribed = true;
    this.#failures = 0;
    this.#options.onSubscribed();
    this.#ping(link);
    for (const listener of [...this.#listeners]) listener.back();
  }

  /** A message that arrives before the reply is taken for it, and shows as well that the server responds. */
  #ping(link: RedisLink): void {
    this.#callOff = this.#options.timers.after(pingMs, () => {
      link.ask('ping', []).then(
        (reply) => {
          this.#received(reply);
          if (link === this.#link && this.#isSubscribed) this.#ping(link);
        },
        () => link.close(),
      );
    });
  }

  #received(message: Reply): void {
    if (!Array.isArray(message) || String(message[0]) !== 'message') return;
    const text = String(message[2]);
    for (const listener of [...this.#listeners]) listener.received(text);
  }

  #ended(link: RedisLink): void {
    if (link !== this.#link || !this.#isSubscribed) return;
    this.#isSubscribed = false;
    if (this.#closed) return;
    this.#callOff();
    void this.#open();
  }

  #again(delayMs: number): void {
    if (this.#closed) return;
    this.#callOff = this.#options.timers.after(delayMs, () => void this.#open());
  }
}
