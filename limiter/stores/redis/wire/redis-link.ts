import type { Socket } from 'node:net';
import { attendedMs, attendedTimers, looseAttendedTimers } from '../../../../process/time/clock.ts';
import type { FlushTurn } from '../../../../process/time/loop-turns.ts';
import { type ClientTls, dial } from '../../client-tls.ts';
import type { RedisAddress } from './redis-address.ts';
import { commandTimedOut, connectionClosed, isTimeout, unexpectedAnswer } from './redis-error.ts';
import type { Arguments } from './resp.ts';
import { CommandWriter, type Reply, ReplyError, ReplyReader } from './resp.ts';

/** A command that was sent, in the line of those that wait for their replies. */
export interface SentCall {
  /** When it has waited long enough, on the scale of `attendedMs`. The link writes it. */
  dueMs: number;
  /** The one sent after it. The link writes it. */
  next: SentCall | undefined;
  /** A reply, an error of Redis's among them. */
  answered(reply: Reply): void;
  /** There will be none. */
  failed(error: Error): void;
}

export interface RedisLinkOptions {
  endpoint: RedisAddress['endpoint'];
  /** Undefined: none. */
  tls: ClientTls | undefined;
  /** Bounds connecting and every command. */
  timeoutMs: number;
  /** Whose answers are written after the replies of one read. */
  flushTurn?: FlushTurn | undefined;
  /** What comes unasked, as it does after SUBSCRIBE. Without this it is no answer of a Redis. */
  onMessage?: (message: Reply) => void;
  /** It ended, once; what is under way fails after that. */
  onEnd?: (error: Error) => void;
}

/** Chosen: what one read takes from the system at most. */
const readBytes = 16_384;

/**
 * One connection to one server, from dialling to its end. Redis answers in the order in which it was asked, so the oldest call is
 * the one that a reply is for. A call that gets none in time ends the connection: nobody could report whose the next would be.
 */
export class RedisLink {
  readonly #options: RedisLinkOptions;
  readonly #socket: Socket;
  readonly #opened = Promise.withResolvers<void>();
  #oldest: SentCall | undefined;
  #latest: SentCall | undefined;
  readonly #writer = new CommandWriter();
  readonly #reader: ReplyReader;
  #isWatching = false;
  #failure: Error | undefined;

  constructor(options: RedisLinkOptions) {
    this.#options = options;
    this.#reader = new ReplyReader(this.#replied);
    const { endpoint, tls, timeoutMs } = options;
    // One buffer for all reads, which takes no stream: https://nodejs.org/api/net.html#socketconnectoptions-connectlistener
    const buffer = Buffer.allocUnsafeSlow(readBytes);
    this.#socket = dial(endpoint, tls, { buffer, callback: this.#received });
    const callOff = attendedTimers.after(timeoutMs, () => this.#end(connectingTimedOut()));
    this.#socket.once(tls === undefined ? 'connect' : 'secureConnect', () => {
      callOff();
      this.#opened.resolve();
    });
    this.#socket.on('error', (error) => this.#end(error));
    this.#socket.on('end', () => this.#end(connectionClosed()));
    this.#socket.once('close', () => {
      callOff();
      this.#end(connectionClosed());
    });
    this.#opened.promise.catch(() => {});
  }

  /** Why it ended; undefined while it has not. */
  get failure(): Error | undefined {
    return this.#failure;
  }

  /** Nothing is under way. */
  get isIdle(): boolean {
    return this.#oldest === undefined;
  }

  /** Waits for the connection, then says who is there. A server that asks for no password is reported, and is good. */
  async login(
    { username, password, db = 0 }: Pick<RedisAddress, 'username' | 'password'> & { db?: number },
    onNeedlessPassword: () => void,
  ): Promise<void> {
    await this.#opened.promise;
    if (password !== undefined) {
      try {
        await this.ask('auth', username === undefined ? [password] : [username, password]);
      } catch (error) {
        if (!isNeedless(error)) throw error;
        onNeedlessPassword();
      }
    }
    if (db !== 0) await this.ask('select', [String(db)]);
  }

  /** Settles with the reply; rejects with a `ReplyError`, or why there is none. What one event asks goes out together. */
  ask(name: string, args: readonly string[]): Promise<Reply> {
    const { promise, resolve, reject } = Promise.withResolvers<Reply>();
    const answered = (reply: Reply) => (reply instanceof ReplyError ? reject(reply) : resolve(reply));
    this.#await({ dueMs: 0, next: undefined, answered, failed: reject });
    if (this.#writer.isEmpty) process.nextTick(() => this.#write());
    this.#writer.command([name, ...args]);
    return promise;
  }

  /** For the name and the arguments of a command, which `send` has to follow at once. */
  begin(): Arguments {
    this.#write();
    return this.#writer;
  }

  /** What was begun is written before this returns. */
  send(call: SentCall): void {
    this.#await(call);
    this.#write();
  }

  /** What is under way fails. */
  close(): void {
    this.#end(connectionClosed());
  }

  #await(call: SentCall): void {
    const { timeoutMs } = this.#options;
    call.dueMs = attendedMs() + timeoutMs;
    if (this.#oldest === undefined) this.#oldest = call;
    else this.#latest!.next = call;
    this.#latest = call;
    if (this.#failure !== undefined) this.#failSoon();
    else if (!this.#isWatching) this.#watch(timeoutMs);
  }

  #write(): void {
    const bytes = this.#writer.take();
    if (bytes === undefined || this.#failure !== undefined) return;
    // What waits takes no more memory than it has bytes.
    const isToWait = this.#options.tls !== undefined || this.#socket.writableLength > 0;
    this.#socket.write(isToWait ? Buffer.from(bytes) : bytes);
    // Else the system has taken all of it.
    if (!isToWait && this.#socket.writableLength > 0) this.#writer.keep();
  }

  readonly #received = (length: number, bytes: Uint8Array): boolean => {
    const { flushTurn } = this.#options;
    flushTurn?.begin();
    const isProtocol = this.#reader.push(bytes as Buffer, length);
    flushTurn?.end();
    if (!isProtocol) this.#end(unexpectedAnswer());
    return true;
  };

  readonly #replied = (reply: Reply): void => {
    const call = this.#shift();
    if (call === undefined) {
      if (this.#options.onMessage === undefined) this.#end(unexpectedAnswer());
      else this.#options.onMessage(reply);
      return;
    }
    try {
      call.answered(reply);
    } catch (error) {
      // A fault of ours, reported as such; the replies behind it belong to others.
      void Promise.reject(error);
    }
  };

  #shift(): SentCall | undefined {
    const call = this.#oldest;
    if (call === undefined) return undefined;
    this.#oldest = call.next;
    if (call.next === undefined) this.#latest = undefined;
    // What an old object points to outlives the cheap collections, even if nobody has the old one any more.
    call.next = undefined;
    return call;
  }

  /** One timer for all, as they have the same time. */
  #watch(delayMs: number): void {
    this.#isWatching = true;
    looseAttendedTimers.after(delayMs, () => {
      this.#isWatching = false;
      if (this.#oldest === undefined || this.#failure !== undefined) return;
      const leftMs = this.#oldest.dueMs - attendedMs();
      if (leftMs > 0) {
        this.#watch(leftMs);
        return;
      }
      const nowMs = attendedMs();
      const late: SentCall[] = [];
      while (this.#oldest !== undefined && this.#oldest.dueMs <= nowMs) late.push(this.#shift()!);
      // First, so that nobody sends what waited for one of these.
      this.#end(commandTimedOut());
      for (const call of late) call.failed(commandTimedOut());
    });
  }

  #end(error: Error): void {
    if (this.#failure !== undefined) return;
    this.#failure = error;
    this.#socket.destroy();
    this.#opened.reject(error);
    this.#options.onEnd?.(error);
    this.#failSoon();
  }

  /** Not at once: who sent it may be in the middle of something. */
  #failSoon(): void {
    const failure = this.#failure!;
    const error = isTimeout(failure) ? connectionClosed() : failure;
    process.nextTick(() => {
      for (let call = this.#shift(); call !== undefined; call = this.#shift()) call.failed(error);
    });
  }
}

function connectingTimedOut(): Error {
  return Object.assign(new Error('connect ETIMEDOUT'), { code: 'ETIMEDOUT', syscall: 'connect' });
}

/** The two ways in which servers say so; before 6.0, and since. */
function isNeedless(error: unknown): boolean {
  return (
    error instanceof ReplyError &&
    /no password is set|without any password configured for the default user/.test(error.message)
  );
}
