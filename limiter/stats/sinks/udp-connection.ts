/**
 * Datagrams to one receiver. UDP says nothing of those that get lost; only a host that answers that nobody listens, and
 * one that cannot be found, are noticed. So the receiver is known to be there when nobody refused the first datagram, which
 * may be a probe:
 *
 *          socket, probe sent           1 s without trouble
 *   down ─────────────────────> trying ─────────────────────> connected
 *     ^                            │ refused                      │ refused
 *     └──────────── 3 s ───────────┴──────────────────────────────┘
 *
 * Without a probe it counts as connected at once: what is sent until a refusal comes is gone. The host is looked up again
 * from time to time, as it may have moved.
 */
import { createSocket, type Socket } from 'node:dgram';
import { lookup } from 'node:dns/promises';
import type { Timers } from '../../../process/time/clock.ts';
import { reconnectDelayMs, type StatsdTransport } from './statsd-connection.ts';

/** The address that a name stands for; rejects when there is none. */
export type LookUp = (host: string) => Promise<{ address: string; family: number }>;

export interface UdpConnectionOptions {
  host: string;
  port: number;
  timers: Timers;
  /** What is sent first, whose loss hurts nobody. */
  probe?: Uint8Array;
  /** Defaults to the system's. */
  lookUp?: LookUp;
  /** The first datagram met no trouble, at the first time or after some. */
  onUp(): void;
  /** At each trouble. */
  onLost(reason: string): void;
  /** Nothing is under way any more, or the connection came or went. */
  onChange(): void;
}

/** Chosen: a name that moved is followed within a minute. */
const lookupAgainMs = 60_000;
/** Chosen: the refusal of the first datagram has come by then. */
const quietMs = 1_000;
/** Chosen: about 1.5 MB that the system did not take yet. */
const maxUnderWay = 1_024;

export class UdpConnection implements StatsdTransport {
  readonly #options: UdpConnectionOptions;
  #socket: Socket | undefined;
  #isQuiet = false;
  #underWay = 0;
  #opening = false;
  #closed = false;
  #callOff: (() => void)[] = [];
  #callOffQuiet: (() => void) | undefined;

  constructor(options: UdpConnectionOptions) {
    this.#options = options;
  }

  /** Whether what is sent is likely to arrive. */
  get connected(): boolean {
    return this.#socket !== undefined && (this.#isQuiet || this.#options.probe === undefined);
  }

  /** Whether it is about to be known. What is sent meanwhile may arrive. */
  get trying(): boolean {
    return this.#socket !== undefined && !this.connected;
  }

  /** Datagrams that the system did not take yet. */
  get underWay(): number {
    return this.#underWay;
  }

  get idle(): boolean {
    return this.#socket !== undefined && this.#underWay === 0;
  }

  get isFull(): boolean {
    return this.#underWay >= maxUnderWay;
  }

  /** And again, until it is closed. */
  open(): void {
    const { timers } = this.#options;
    if (this.#callOff.length === 0) {
      this.#callOff = [
        timers.every(reconnectDelayMs, () => {
          if (this.#socket === undefined) void this.#connect();
        }),
        timers.every(lookupAgainMs, () => void this.#connect()),
      ];
    }
    void this.#connect();
  }

  /** False, and nothing is sent, while there is no socket or too much is under way. */
  send(packet: Uint8Array): boolean {
    if (this.#socket === undefined || this.isFull) return false;
    this.#sendBy(this.#socket, packet);
    return true;
  }

  close(): void {
    this.#closed = true;
    for (const stop of this.#callOff) stop();
    this.#callOffQuiet?.();
    this.#socket?.close();
    this.#socket = undefined;
    this.#options.onChange();
  }

  async #connect(): Promise<void> {
    if (this.#opening || this.#closed) return;
    this.#opening = true;
    const { host, port, lookUp = lookup } = this.#options;
    try {
      const { address, family } = await lookUp(host);
      const socket = await connectedSocket(family === 6 ? 'udp6' : 'udp4', address, port);
      if (this.#closed) socket.close();
      else this.#use(socket);
    } catch (error) {
      // While there is a socket, nothing is known to be wrong with it.
      if (!this.#closed && this.#socket === undefined) this.#options.onLost((error as Error).message);
    } finally {
      this.#opening = false;
      this.#options.onChange();
    }
  }

  #use(socket: Socket): void {
    const before = this.#socket;
    this.#socket = socket;
    socket.on('error', (error) => this.#fail(socket, error));
    // What the socket before still has to send may go out.
    if (before !== undefined) setImmediate(() => before.close());
    const { probe } = this.#options;
    if (!this.#isQuiet && probe !== undefined) this.#sendBy(socket, probe);
  }

  #sendBy(socket: Socket, packet: Uint8Array): void {
    this.#underWay += 1;
    socket.send(packet, (error) => {
      this.#underWay -= 1;
      if (error !== null && error !== undefined) this.#fail(socket, error);
      else if (!this.#isQuiet && socket === this.#socket) this.#awaitQuiet();
      if (this.#underWay === 0) this.#options.onChange();
    });
  }

  #awaitQuiet(): void {
    this.#callOffQuiet ??= this.#options.timers.after(quietMs, () => {
      this.#isQuiet = true;
      this.#options.onUp();
      this.#options.onChange();
    });
  }

  #fail(socket: Socket, error: Error): void {
    if (socket !== this.#socket) return;
    this.#socket = undefined;
    this.#isQuiet = false;
    this.#callOffQuiet?.();
    this.#callOffQuiet = undefined;
    socket.close();
    if (!this.#closed) this.#options.onLost(error.message);
    this.#options.onChange();
  }
}

function connectedSocket(type: 'udp4' | 'udp6', address: string, port: number): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const socket = createSocket(type);
    socket.once('error', reject);
    socket.connect(port, address, () => {
      socket.off('error', reject);
      resolve(socket);
    });
  });
}
