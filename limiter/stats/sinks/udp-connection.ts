/**
 * Datagrams to one receiver. UDP does not report lost ones. Only a host that rejects them because no process listens, and a
 * host that cannot be found, are noticed. So the receiver counts as reachable if the first datagram, which may be a probe, was
 * not rejected:
 *
 *          socket, probe sent           1 s without trouble
 *   down ─────────────────────> trying ─────────────────────> connected
 *     ^                            │ rejected                      │ rejected
 *     └──────────── 3 s ───────────┴──────────────────────────────┘
 *
 * Without a probe it counts as connected at once, and datagrams sent before a rejection are lost. The host is looked up again
 * from time to time, because its address may change.
 */
import { createSocket, type Socket } from 'node:dgram';
import { lookup } from 'node:dns/promises';
import type { Timers } from '../../../process/time/clock.ts';
import { reconnectDelayMs, type StatsdTransport } from './statsd-connection.ts';

/** Returns the address of a host; rejects if there is none. */
export type LookUp = (host: string) => Promise<{ address: string; family: number }>;

export interface UdpConnectionOptions {
  host: string;
  port: number;
  timers: Timers;
  /** The first datagram, whose loss does no harm. */
  probe?: Uint8Array;
  /** Defaults to the system's resolver. */
  lookUp?: LookUp;
  /** Called when the first datagram was not rejected, initially or after a problem. */
  onUp(): void;
  /** Called for each problem. */
  onLost(reason: string): void;
  /** Called when no datagram is in flight any more, or the connection has opened or closed. */
  onChange(): void;
}

/** Chosen: a changed address is noticed within a minute. */
const lookupAgainMs = 60_000;
/** Chosen: by then a rejection of the first datagram has arrived. */
const quietMs = 1_000;
/** Chosen: about 1.5 MB that the system has not accepted yet. */
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

  /** Whether datagrams are likely to arrive. */
  get connected(): boolean {
    return this.#socket !== undefined && (this.#isQuiet || this.#options.probe === undefined);
  }

  /** Whether the first datagram is being tried. Datagrams sent meanwhile may arrive. */
  get trying(): boolean {
    return this.#socket !== undefined && !this.connected;
  }

  /** The datagrams that the system has not accepted yet. */
  get underWay(): number {
    return this.#underWay;
  }

  get idle(): boolean {
    return this.#socket !== undefined && this.#underWay === 0;
  }

  get isFull(): boolean {
    return this.#underWay >= maxUnderWay;
  }

  /** Opens the socket, repeatedly until it is closed. */
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

  /** Returns false, and sends nothing, while there is no socket or too many datagrams are in flight. */
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
      // While there is a socket, it has no known problem.
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
    // The previous socket may still send its datagrams.
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
