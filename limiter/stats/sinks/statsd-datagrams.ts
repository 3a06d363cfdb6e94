/**
 * Sends to a statsd receiver by UDP, a chunk a datagram. Nobody says that one arrived: a receiver that is not there is
 * noticed only where the system says so of an earlier one, and what was sent by then is gone.
 *
 *             bound            send            sent
 *   binding ────────> idle ──────────> sending ─────> idle
 *      ^  │ no address                   │ refused
 *      │  v                              v
 *      └── waiting (3 s) <───────────────┘
 */
import { createSocket, type Socket } from 'node:dgram';
import { lookup } from 'node:dns';
import { errorText } from '../../../process/log/error-text.ts';
import { reconnectDelayMs, type StatsdConnectionOptions, type StatsdTransport } from './statsd-connection.ts';

/** What fits into a frame of Ethernet beside the headers; the Go service's statsd client takes as much. */
export const datagramBytes = 1432;
/** A refusal of the first one has come by then. */
const refusalMs = 1000;

type State = 'new' | 'binding' | 'idle' | 'sending' | 'waiting' | 'closed';

export class StatsdDatagrams implements StatsdTransport {
  readonly #options: StatsdConnectionOptions;
  #state: State = 'new';
  #socket: Socket | undefined;
  #hasSent = false;
  #cancelTimer: () => void = () => {};
  #whenSent: () => void = () => {};

  constructor(options: StatsdConnectionOptions) {
    this.#options = options;
  }

  get idle(): boolean {
    return this.#state === 'idle';
  }

  get connected(): boolean {
    return this.#state === 'idle' || this.#state === 'sending';
  }

  open(): void {
    if (this.#state !== 'new' && this.#state !== 'waiting') return;
    this.#cancelTimer();
    this.#state = 'binding';
    const { host, port } = this.#options;
    lookup(host, (error, address, family) => {
      if (this.#state !== 'binding') return;
      if (error) {
        this.#lost(undefined, errorText(error));
        return;
      }
      const socket = createSocket(family === 6 ? 'udp6' : 'udp4');
      this.#socket = socket;
      socket.on('error', (failure) => this.#lost(socket, errorText(failure)));
      socket.on('connect', () => this.#bound(socket));
      socket.connect(port, address);
    });
  }

  write(chunk: Uint8Array): void {
    const socket = this.#socket;
    if (this.#state !== 'idle' || socket === undefined) throw new Error('write to a socket that is not idle');
    this.#state = 'sending';
    socket.send(chunk, (error) => {
      this.#whenSent();
      if (socket !== this.#socket || this.#state !== 'sending') return;
      if (error) {
        this.#lost(socket, errorText(error));
        return;
      }
      this.#state = 'idle';
      if (!this.#hasSent) this.#cancelTimer = this.#options.timers.after(refusalMs, this.#options.onUp);
      this.#hasSent = true;
      this.#options.onIdle();
    });
  }

  async close(): Promise<void> {
    const isSending = this.#state === 'sending';
    this.#state = 'closed';
    if (isSending) {
      await new Promise<void>((resolve) => {
        this.#whenSent = resolve;
      });
    }
    this.destroy();
  }

  destroy(): void {
    this.#cancelTimer();
    this.#state = 'closed';
    this.#socket?.close();
    this.#socket = undefined;
  }

  #bound(socket: Socket): void {
    if (socket !== this.#socket || this.#state !== 'binding') return;
    this.#state = 'idle';
    this.#hasSent = false;
    this.#options.onIdle();
  }

  #lost(socket: Socket | undefined, reason: string): void {
    if (socket !== this.#socket || this.#state === 'closed' || this.#state === 'waiting') return;
    this.#cancelTimer();
    this.#state = 'waiting';
    this.#socket = undefined;
    socket?.close();
    this.#cancelTimer = this.#options.timers.after(reconnectDelayMs, () => this.open());
    this.#options.onLost(reason);
  }
}
