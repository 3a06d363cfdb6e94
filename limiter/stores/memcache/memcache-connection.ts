/**
 * One connection to one node. Commands are sent at once, one behind the other, and answered in that order.
 *
 *   new --send/open--> connecting --VERSION--> ready
 *                        |  ^                   |
 *                 failed |  '---lost, at once---'
 *                        v
 *                      down --after a delay--> connecting, which answers what comes with an error meanwhile
 *
 * While it connects for the first time, or again after it was lost, commands wait; nothing is sent twice.
 */
import type { Socket } from 'node:net';
import { unblockedMs, unblockedTimers } from '../../../process/time/clock.ts';
import { type ClientTls, dial, tlsErrorText } from '../client-tls.ts';
import { storeReconnectDelayMs } from '../reconnect-delay.ts';
import type { StoreError } from '../store-error.ts';
import { CommandQueue, type MemcacheCommand, versionCommand } from './command.ts';
import {
  closedError,
  lostConnection,
  MemcacheReplyReader,
  notConnected,
  timedOut,
  tooMuchWaiting,
} from './reply-reader.ts';

/** One node's address: MEMCACHE_HOST_PORT and the answers to MEMCACHE_SRV. */
export interface MemcacheAddress {
  endpoint: { host: string; port: number } | { path: string };
  /** The address as it is configured. It identifies the node, also in logs. */
  label: string;
}

export interface MemcacheConnectionOptions {
  address: MemcacheAddress;
  /** Undefined: no TLS. */
  tls?: ClientTls | undefined;
  /** The timeout of connecting and of every command. */
  timeoutMs: number;
  /** Returns a number from 0 to below 1. */
  random: () => number;
  /** Called when the connection is down, with the reason, or ready again. A loss that the first attempt repairs is not reported. */
  onChange(up: boolean, reason: string): void;
}

/** Chosen: bounds the memory for a node that does not read. */
const maxWaitingBytes = 16 * 1024 * 1024;

export class MemcacheConnection {
  readonly #options: MemcacheConnectionOptions;
  #state: 'new' | 'connecting' | 'ready' | 'down' | 'closed' = 'new';
  /** Whether it was reported as down and not yet as ready. */
  #isDown = false;
  #socket: Socket | undefined;
  #reader: MemcacheReplyReader | undefined;
  /** Sent commands, in the order of their replies. */
  readonly #sent = new CommandQueue();
  /** Commands that wait for the connection. */
  readonly #unsent = new CommandQueue();
  #output = '';
  #isFlushing = false;
  /** The number of consecutive failed attempts. */
  #failures = 0;
  #retry: NodeJS.Timeout | undefined;
  #callOffDeadline: (() => void) | undefined;

  constructor(options: MemcacheConnectionOptions) {
    this.#options = options;
  }

  get ready(): boolean {
    return this.#state === 'ready';
  }

  get idle(): boolean {
    return this.#sent.size + this.#unsent.size === 0;
  }

  /** Connects, unless it already has. */
  open(): void {
    if (this.#state === 'new') this.#connect();
  }

  /** The command is always answered, possibly before `send` returns. */
  send(command: MemcacheCommand): void {
    if (this.#state === 'closed') command.onError(closedError());
    else if (this.#state === 'down' || (this.#state === 'connecting' && this.#isDown))
      command.onError(notConnected());
    else if (this.#sent.bytes + this.#unsent.bytes > maxWaitingBytes) command.onError(tooMuchWaiting());
    else if (this.#state === 'ready') this.#write(command);
    else {
      this.#unsent.push(command, unblockedMs());
      this.#watch();
      this.open();
    }
  }

  /** Answers commands in flight with an error. */
  close(): void {
    this.#state = 'closed';
    clearTimeout(this.#retry);
    this.#drop(closedError());
    this.#unsent.fail(closedError());
    this.#callOffDeadline?.();
  }

  #connect(): void {
    this.#state = 'connecting';
    const socket = dial(this.#options.address.endpoint, this.#options.tls);
    this.#socket = socket;
    this.#reader = new MemcacheReplyReader({
      onValue: (key, value) => {
        if (this.#sent.first?.onValue(key, value) !== true) this.#lost(socket, 'unexpected answer');
      },
      onLine: (line) => this.#line(socket, line),
    });
    socket.on('data', (chunk: Buffer) => {
      if (socket !== this.#socket) return;
      if (this.#reader?.push(chunk) === false) this.#lost(socket, 'unexpected answer');
    });
    socket.on('error', (error) => this.#lost(socket, reasonOf(error)));
    socket.on('close', () => this.#lost(socket, 'the node closed the connection'));
    // A process that hangs still accepts connections, so the node must answer once before decisions wait for it.
    const probe = versionCommand((reply) => {
      if (typeof reply === 'string') this.#opened();
      else this.#lost(socket, reply.message);
    });
    // The socket sends it once it is connected.
    this.#write(probe);
  }

  #opened(): void {
    this.#state = 'ready';
    this.#failures = 0;
    if (this.#isDown) {
      this.#isDown = false;
      this.#options.onChange(true, '');
    }
    while (this.#unsent.first !== undefined) {
      const command = this.#unsent.first;
      this.#unsent.shift();
      this.#write(command);
    }
  }

  #write(command: MemcacheCommand): void {
    this.#sent.push(command, unblockedMs());
    this.#output += command.text;
    this.#watch();
    if (this.#isFlushing) return;
    this.#isFlushing = true;
    process.nextTick(() => this.#flush());
  }

  /** Sends all commands that one event produced together. */
  #flush(): void {
    this.#isFlushing = false;
    const output = this.#output;
    this.#output = '';
    if (output !== '') this.#socket?.write(output);
  }

  #line(socket: Socket, line: string): void {
    if (socket !== this.#socket) return;
    const command = this.#sent.first;
    this.#sent.shift();
    if (command?.onLine(line) === true) return;
    this.#lost(socket, `unexpected answer: ${line.slice(0, 100)}`);
    command?.onError(lostConnection());
  }

  #lost(socket: Socket, reason: string, error = lostConnection()): void {
    if (socket !== this.#socket || this.#state === 'closed') return;
    const wasReady = this.#state === 'ready';
    if (wasReady) this.#connectAgain(error);
    else this.#failed(reason, error);
  }

  /** Commands from now on wait for the new connection. */
  #connectAgain(error: StoreError): void {
    this.#state = 'connecting';
    this.#drop(error);
    this.#connect();
  }

  #failed(reason: string, error: StoreError): void {
    const { random, onChange } = this.#options;
    this.#state = 'down';
    this.#failures += 1;
    const delayMs = storeReconnectDelayMs(this.#failures, random);
    this.#retry = setTimeout(() => this.#connect(), delayMs).unref();
    if (!this.#isDown) {
      this.#isDown = true;
      onChange(false, reason);
    }
    this.#drop(error);
    this.#unsent.fail(notConnected());
  }

  /** Ends the socket and answers the commands that were sent. */
  #drop(error: StoreError): void {
    const socket = this.#socket;
    this.#socket = undefined;
    this.#reader = undefined;
    this.#output = '';
    socket?.destroy();
    this.#sent.fail(error);
  }

  /** Sets one timer, for the command that has waited longest. */
  #watch(): void {
    if (this.#callOffDeadline !== undefined) return;
    this.#callOffDeadline = unblockedTimers.after(this.#options.timeoutMs, () => this.#expire());
  }

  #expire(): void {
    this.#callOffDeadline = undefined;
    const sinceMs = Math.min(this.#sent.firstMs ?? Infinity, this.#unsent.firstMs ?? Infinity);
    if (sinceMs === Infinity) return;
    const { timeoutMs } = this.#options;
    const leftMs = sinceMs + timeoutMs - unblockedMs();
    if (leftMs > 0) {
      this.#callOffDeadline = unblockedTimers.after(Math.ceil(leftMs), () => this.#expire());
      return;
    }
    const socket = this.#socket;
    const error = timedOut(timeoutMs);
    if (socket !== undefined) this.#lost(socket, error.message, error);
    this.#unsent.fail(error);
  }
}

/** Returns the first error if there are several, as for a name with several addresses. */
function reasonOf(error: Error): string {
  const first = error instanceof AggregateError ? (error.errors[0] as unknown) : error;
  return tlsErrorText(error) ?? (first instanceof Error ? first.message : error.message);
}
