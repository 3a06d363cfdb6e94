import type { Socket } from 'node:net';
import type { FlushTurn } from '../../../../process/queues/loop-turns.ts';
import { unblockedMs, unblockedTimers, unrefUnblockedTimers } from '../../../../process/time/clock.ts';
import { type ClientTls, dial } from '../../client-tls.ts';
import type { RedisAddress } from './redis-address.ts';
import { commandTimedOut, connectionClosed, isTimeout, unexpectedAnswer } from './redis-error.ts';
import type { Arguments } from './resp.ts';
import { CommandWriter, type Reply, ReplyError, RespReader } from './resp.ts';

/** A command that was sent, in the list of those that wait for their replies. */
export interface SentCall {
  /** The time at which it has waited too long, on the scale of `unblockedMs`. The link sets it. */
  dueMs: number;
  /** The command that was sent after it. The link sets it. */
  next: SentCall | undefined;
  receiver: CallReceiver | undefined;
}

/** A command that writes its arguments itself. */
export interface WritableCall extends SentCall {
  pushArguments(args: Arguments): void;
}

/** Receives the outcome of a command, once. */
export interface CallReceiver {
  /** The reply may be an error of Redis. */
  answered(call: SentCall, reply: Reply): void;
  /** Called if there will be no reply. */
  failed(call: SentCall, error: Error): void;
}

export interface RedisLinkOptions {
  endpoint: RedisAddress['endpoint'];
  /** The TLS of the connection; undefined without TLS. */
  tls: ClientTls | undefined;
  /** The maximum time for connecting and for every command. */
  timeoutMs: number;
  /** The maximum time in which calls wait and the server sends nothing. Undefined: only `timeoutMs` applies. */
  silenceMs?: number | undefined;
  /** Writes answers after the replies of one read. */
  flushTurn?: FlushTurn | undefined;
  /**
   * Called with unrequested messages, such as those after SUBSCRIBE. Without it, such a message counts as a violation of the protocol.
   */
  onMessage?: (message: Reply) => void;
  /** Called once when the link has ended. Commands in progress fail afterward. */
  onEnd?: (error: Error) => void;
}

/** Chosen: the maximum number of bytes in one read. */
const readBytes = 16_384;

/**
 * A connection to a server, from dialing to its end. Redis answers in the order of commands, so each reply belongs to the oldest call. If
 * a call gets no reply in time, the connection ends, because the next reply could not be assigned. A server that sends nothing at all is
 * given up earlier: it hangs.
 */
export class RedisLink {
  readonly #options: RedisLinkOptions;
  readonly #socket: Socket;
  readonly #opened = Promise.withResolvers<void>();
  #oldest: SentCall | undefined;
  #latest: SentCall | undefined;
  readonly #writer = new CommandWriter();
  readonly #reader: RespReader;
  #isWatching = false;
  /** When the server sent something, on the scale of `unblockedMs`. Known only with `silenceMs`. */
  #heardMs = 0;
  #failure: Error | undefined;

  constructor(options: RedisLinkOptions) {
    this.#options = options;
    this.#reader = new RespReader(this.#replied);
    const { endpoint, tls, timeoutMs } = options;
    // One buffer for all reads, instead of a stream: https://nodejs.org/api/net.html#socketconnectoptions-connectlistener
    const buffer = Buffer.allocUnsafeSlow(readBytes);
    this.#socket = dial(endpoint, tls, { buffer, callback: this.#received });
    const callOff = unblockedTimers.after(timeoutMs, () => this.#end(connectingTimedOut()));
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

  /** Why the link ended; undefined before that. */
  get failure(): Error | undefined {
    return this.#failure;
  }

  /** Waits for the connection, then logs in. A server that requires no password is reported and accepted. */
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

  /**
   * Sends a command, and resolves to the reply. Rejects with a `ReplyError`, or the reason why there is none. Commands of one event
   * are sent together.
   */
  ask(name: string, args: readonly string[]): Promise<Reply> {
    const { promise, resolve, reject } = Promise.withResolvers<Reply>();
    const receiver: CallReceiver = {
      answered: (_, reply) => (reply instanceof ReplyError ? reject(reply) : resolve(reply)),
      failed: (_, error) => reject(error),
    };
    this.#await({ dueMs: 0, next: undefined, receiver });
    if (this.#writer.isEmpty) process.nextTick(() => this.#write());
    this.#writer.command([name, ...args]);
    return promise;
  }

  /** Writes the command, and those of `ask` that wait, before this returns. */
  send(name: string, call: WritableCall): void {
    this.#write();
    this.#writer.push(name);
    call.pushArguments(this.#writer);
    this.#await(call);
    this.#write();
  }

  /** Ends the connection. Commands in progress fail. */
  close(): void {
    this.#end(connectionClosed());
  }

  #await(call: SentCall): void {
    const { timeoutMs, silenceMs = timeoutMs } = this.#options;
    call.dueMs = unblockedMs() + timeoutMs;
    if (this.#oldest === undefined) this.#oldest = call;
    else this.#latest!.next = call;
    this.#latest = call;
    if (this.#failure !== undefined) this.#failSoon();
    else if (!this.#isWatching) this.#watch(silenceMs);
  }

  #write(): void {
    const bytes = this.#writer.take();
    if (bytes === undefined || this.#failure !== undefined) return;
    // A waiting write gets a copy, so that it retains no more memory than it has bytes.
    const isToWait = this.#options.tls !== undefined || this.#socket.writableLength > 0;
    this.#socket.write(isToWait ? Buffer.from(bytes) : bytes);
    // Otherwise the system has taken all bytes.
    if (!isToWait && this.#socket.writableLength > 0) this.#writer.keep();
  }

  readonly #received = (length: number, bytes: Uint8Array): boolean => {
    const { flushTurn, silenceMs } = this.#options;
    if (silenceMs !== undefined) this.#heardMs = unblockedMs();
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
      call.receiver!.answered(call, reply);
    } catch (error) {
      // This is a bug in Weir and is reported as such. The replies after it belong to other calls.
      void Promise.reject(error);
    }
  };

  #shift(): SentCall | undefined {
    const call = this.#oldest;
    if (call === undefined) return undefined;
    this.#oldest = call.next;
    if (call.next === undefined) this.#latest = undefined;
    // An object that an old one references survives minor collections, even if nothing references the old one.
    call.next = undefined;
    return call;
  }

  /** Starts one timer for all commands, because they have the same timeout. */
  #watch(delayMs: number): void {
    this.#isWatching = true;
    unrefUnblockedTimers.after(delayMs, () => {
      this.#isWatching = false;
      if (this.#oldest === undefined || this.#failure !== undefined) return;
      const { timeoutMs, silenceMs = timeoutMs } = this.#options;
      const { dueMs } = this.#oldest;
      const silentMs = Math.max(dueMs - timeoutMs, this.#heardMs) + silenceMs;
      const nowMs = unblockedMs();
      if (nowMs < Math.min(dueMs, silentMs)) {
        this.#watch(Math.min(dueMs, silentMs) - nowMs);
        return;
      }
      const isSilent = nowMs < dueMs;
      const late: SentCall[] = [];
      while (this.#oldest !== undefined && (isSilent || this.#oldest.dueMs <= nowMs))
        late.push(this.#shift()!);
      const error = commandTimedOut(isSilent ? silenceMs : timeoutMs);
      // The connection ends first, so that no caller sends commands that waited for one of these.
      this.#end(error);
      for (const call of late) call.receiver!.failed(call, error);
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

  /** Fails the commands, but not immediately: the sender may be in the middle of its work. */
  #failSoon(): void {
    const failure = this.#failure!;
    const error = isTimeout(failure) ? connectionClosed() : failure;
    process.nextTick(() => {
      for (let call = this.#shift(); call !== undefined; call = this.#shift())
        call.receiver!.failed(call, error);
    });
  }
}

function connectingTimedOut(): Error {
  return Object.assign(new Error('connect ETIMEDOUT'), { code: 'ETIMEDOUT', syscall: 'connect' });
}

/** Whether the server requires no password. Servers before 6.0 and later ones use different texts. */
function isNeedless(error: unknown): boolean {
  return (
    error instanceof ReplyError &&
    /no password is set|without any password configured for the default user/.test(error.message)
  );
}
