/**
 * One TCP connection to a statsd receiver, which reconnects by itself:
 *
 *                 connected             write              written
 *   dialing ───────────────────> idle ────────> writing ──────────> idle
 *      ^  │ rejected, 1.5 s over    │ closed        │ closed, 1 s over
 *      │  v                        v               v
 *      └── waiting (3 s) <─────────┴───────────────┘
 *
 * `close` leads from every state to closed. A chunk whose write is interrupted is dropped: it is unknown how much of it arrived,
 * and counting twice would be worse than losing it.
 */
import { connect, type Socket } from 'node:net';
import type { Timers } from '../../../process/time/clock.ts';

// The Go service's statsd client has the same timeout.
const dialTimeoutMs = 1500;
const writeTimeoutMs = 1000;
export const reconnectDelayMs = 3000;

/** A connection to a receiver. */
export interface StatsdTransport {
  /** Whether it can accept a chunk now. */
  readonly idle: boolean;
  readonly connected: boolean;
  /** Dials unless connected, dialing or closed. */
  open(): void;
  /** Call it only when idle. */
  send(chunk: Uint8Array): void;
  /** Ends the connection. Resolves when everything was handed to the kernel. Absent if that is always true when idle. */
  end?(): Promise<void>;
  close(): void;
}

interface StatsdConnectionOptions {
  host: string;
  port: number;
  timers: Timers;
  /** Called when the connection is idle: it was just opened, or a write is done. */
  onIdle: () => void;
  onUp: () => void;
  /** Called when an attempt failed or a connection ended. The next attempt is already scheduled. */
  onLost: (reason: string) => void;
}

type State = 'new' | 'dialing' | 'idle' | 'writing' | 'waiting' | 'closed';

export class StatsdConnection implements StatsdTransport {
  readonly #options: StatsdConnectionOptions;
  #state: State = 'new';
  #socket: Socket | undefined;
  #cancelTimer: () => void = () => {};

  constructor(options: StatsdConnectionOptions) {
    this.#options = options;
  }

  get idle(): boolean {
    return this.#state === 'idle';
  }

  get connected(): boolean {
    return this.#state === 'idle' || this.#state === 'writing';
  }

  open(): void {
    if (this.#state !== 'new' && this.#state !== 'waiting') return;
    this.#cancelTimer();
    this.#state = 'dialing';
    const { host, port, timers } = this.#options;
    const socket = connect({ host, port });
    this.#socket = socket;
    this.#cancelTimer = timers.after(dialTimeoutMs, () =>
      this.#lost(socket, `no connection within ${dialTimeoutMs} ms`),
    );
    socket.on('connect', () => this.#connected(socket));
    socket.on('error', (error) => this.#lost(socket, error.message || String(error)));
    socket.on('close', () => this.#lost(socket, 'closed by the receiver'));
    // A statsd receiver sends nothing. If it does send data, the data must not fill up memory.
    socket.resume();
  }

  send(chunk: Uint8Array): void {
    const socket = this.#socket;
    if (this.#state !== 'idle' || socket === undefined)
      throw new Error('write on a connection that is not idle');
    this.#state = 'writing';
    this.#cancelTimer = this.#options.timers.after(writeTimeoutMs, () =>
      this.#lost(socket, `the receiver accepted no data within ${writeTimeoutMs} ms`),
    );
    socket.write(chunk, (error) => {
      if (error || socket !== this.#socket || this.#state !== 'writing') return;
      this.#cancelTimer();
      this.#state = 'idle';
      this.#options.onIdle();
    });
  }

  end(): Promise<void> {
    const socket = this.#socket;
    const wasConnected = this.connected;
    this.#cancelTimer();
    this.#state = 'closed';
    if (socket === undefined || !wasConnected) return Promise.resolve();
    return new Promise((resolve) => {
      socket.on('close', () => resolve());
      socket.end(() => resolve());
    });
  }

  close(): void {
    this.#cancelTimer();
    this.#state = 'closed';
    this.#socket?.destroy();
  }

  #connected(socket: Socket): void {
    if (socket !== this.#socket || this.#state !== 'dialing') return;
    this.#cancelTimer();
    this.#state = 'idle';
    this.#options.onUp();
    this.#options.onIdle();
  }

  #lost(socket: Socket, reason: string): void {
    if (socket !== this.#socket || this.#state === 'closed' || this.#state === 'waiting') return;
    this.#cancelTimer();
    this.#state = 'waiting';
    this.#socket = undefined;
    socket.destroy();
    this.#cancelTimer = this.#options.timers.after(reconnectDelayMs, () => this.open());
    this.#options.onLost(reason);
  }
}
