/** A store that uses a client which the program has opened. The library never closes it. */

import type { ServingModules } from '../../limiter/assembly/context.ts';
import { openRedis, openRedisStoreAdmin } from '../../limiter/assembly/redis.ts';
import type { ServerConnection } from '../../limiter/stores/redis/redis-store.ts';
import { connectionCommands } from '../../limiter/stores/redis/wire/redis-connection.ts';
import { commandTimedOut, RedisErrors } from '../../limiter/stores/redis/wire/redis-error.ts';
import type { WritableCall } from '../../limiter/stores/redis/wire/redis-link.ts';
import { type Reply, ReplyError } from '../../limiter/stores/redis/wire/resp.ts';
import { StoreError } from '../../limiter/stores/store-error.ts';
import type { IoredisClient, NodeRedisClient } from './api.ts';

const label = 'the given client';
/** Chosen: the interval at which the start checks whether the client is connected. */
const lookMs = 20;

class GivenConnection implements ServerConnection {
  readonly counts = { active: 1, total: 1, localClose: 0 };
  readonly errors: RedisErrors;
  readonly #link = { send: (name: string, call: WritableCall) => this.#send(name, call) };
  readonly #client: IoredisClient | NodeRedisClient;
  readonly #timeoutMs: number;

  constructor(client: IoredisClient | NodeRedisClient, timeoutMs: number) {
    this.#client = client;
    this.#timeoutMs = timeoutMs;
    this.errors = new RedisErrors({ timeoutMs, password: undefined });
  }

  get connected(): boolean {
    return 'isReady' in this.#client ? this.#client.isReady : this.#client.status === 'ready';
  }

  get link(): ServerConnection['link'] {
    return this.connected ? this.#link : undefined;
  }

  notConnected(): StoreError {
    return this.errors.notConnected();
  }

  async open(): Promise<void> {
    const untilMs = performance.now() + this.#timeoutMs;
    while (!this.connected) {
      if (performance.now() > untilMs) throw this.notConnected();
      await new Promise((look) => setTimeout(look, lookMs).unref());
    }
  }

  async ping(): Promise<void> {
    try {
      await this.send('ping', []);
    } catch (error) {
      throw error instanceof StoreError ? error : this.errors.fromOwnCommand(error);
    }
  }

  async send(name: string, args: readonly string[]): Promise<Reply> {
    if (!this.connected) throw this.notConnected();
    const { promise, resolve, reject } = Promise.withResolvers<Reply>();
    this.#ask([name, ...args], resolve, reject);
    const reply = await promise;
    if (reply instanceof ReplyError) throw reply;
    // A client may give a status as bytes.
    return reply instanceof Buffer && (name === 'set' || name === 'ping') ? reply.toString() : reply;
  }

  close(): void {}

  #send(name: string, call: WritableCall): void {
    const words = [name];
    call.pushArguments(words);
    this.#ask(
      words,
      (reply) => call.receiver!.answered(call, reply),
      (error) => call.receiver!.failed(call, error),
    );
  }

  #ask(words: string[], answered: (reply: Reply) => void, failed: (error: Error) => void): void {
    let isOver = false;
    const once =
      <Value>(then: (value: Value) => void) =>
      (value: Value) => {
        if (isOver) return;
        isOver = true;
        clearTimeout(timer);
        then(value);
      };
    const fail = once(failed);
    const timer = setTimeout(() => fail(commandTimedOut(this.#timeoutMs)), this.#timeoutMs).unref();
    const [command, ...args] = words as [string, ...string[]];
    const client = this.#client;
    const asked = 'isReady' in client ? client.sendCommand(words) : client.callBuffer(command, ...args);
    asked.then(
      once((reply: unknown) => answered(replyOf(reply))),
      (error: Error) => (isReply(error) ? once(answered)(new ReplyError(error.message)) : fail(error)),
    );
  }
}

/** Returns whether the error is a reply of Redis. These errors begin with a word in capitals; errors of a client do not. */
function isReply(error: Error): boolean {
  return /^[A-Z]+(?: |$)/.test(error.message);
}

function replyOf(reply: unknown): Reply {
  if (Array.isArray(reply)) return reply.map(replyOf);
  if (typeof reply === 'string') return Buffer.from(reply);
  if (typeof reply === 'bigint') return Number(reply);
  if (reply instanceof Error) return new ReplyError(reply.message);
  return reply as Reply;
}

/** Opens stores on the given client instead of on new connections. */
export function givenClientModule(
  client: IoredisClient | NodeRedisClient,
  timeoutMs: number,
): NonNullable<ServingModules['redis']> {
  return {
    openRedis: (context, name, parts) =>
      openRedis(context, name, {
        ...parts,
        given: { connection: new GivenConnection(client, timeoutMs), label },
      }),
    openRedisStoreAdmin(context) {
      const connection = new GivenConnection(client, timeoutMs);
      const { random } = context;
      return openRedisStoreAdmin(context, {
        errors: connection.errors,
        commands: connectionCommands(connection),
        options: { tls: undefined, timeoutMs, random },
        login: { username: undefined, password: undefined, db: 0 },
        ready: () => connection.open(),
        all: () => [{ name: '-', send: (name, args) => connection.send(name, args) }],
        endpoint: () => Promise.reject(connection.notConnected()),
        close: () => {},
      });
    },
  };
}
