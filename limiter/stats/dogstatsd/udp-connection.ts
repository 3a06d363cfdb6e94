/**
 * Datagrams to one receiver. UDP tells nothing of those that get lost; only a host that answers that nobody listens, and
 * one that cannot be found, are noticed. The host is looked up again from time to time, as it may have moved.
 */
import { createSocket, type Socket } from 'node:dgram';
import { lookup } from 'node:dns/promises';
import type { Timers } from '../../../process/timers.ts';

export interface UdpConnectionOptions {
  host: string;
  port: number;
  timers: Timers;
  /** What was sent for a while found no trouble, for the first time or after some. */
  onUp(): void;
  /** At each trouble. */
  onTrouble(reason: string): void;
  /** Nothing is under way any more, or the connection came or went. */
  onChange(): void;
}

/** As with statsd. */
const retryMs = 3_000;
/** Ours: a name that moved is followed within a minute. */
const lookupAgainMs = 60_000;
/** Ours: the refusal of a datagram comes with the one after it. */
const calmMs = 2_000;
/** Ours: about 1.5 MB that the system did not take yet. */
const maxUnderWay = 1_024;

export class UdpConnection {
  readonly #options: UdpConnectionOptions;
  #socket: Socket | undefined;
  #underWay = 0;
  #opening = false;
  #closed = false;
  #callOff: (() => void)[] = [];
  #callOffCalm = (): void => {};

  constructor(options: UdpConnectionOptions) {
    this.#options = options;
  }

  get connected(): boolean {
    return this.#socket !== undefined;
  }

  /** Datagrams that the system did not take yet. */
  get underWay(): number {
    return this.#underWay;
  }

  get isFull(): boolean {
    return this.#underWay >= maxUnderWay;
  }

  /** And again, until it is closed. */
  open(): void {
    const { timers } = this.#options;
    this.#callOff = [
      timers.every(retryMs, () => {
        if (this.#socket === undefined) void this.#connect();
      }),
      timers.every(lookupAgainMs, () => void this.#connect()),
    ];
    void this.#connect();
  }

  /** False, and nothing is sent, while there is no connection or too much is under way. */
  send(packet: Uint8Array): boolean {
    const socket = this.#socket;
    if (socket === undefined || this.isFull) return false;
    this.#underWay += 1;
    socket.send(packet, (error) => {
      this.#underWay -= 1;
      if (error !== null && error !== undefined) this.#fail(socket, error);
      if (this.#underWay === 0) this.#options.onChange();
    });
    return true;
  }

  close(): void {
    this.#closed = true;
    for (const stop of this.#callOff) stop();
    this.#callOffCalm();
    this.#socket?.close();
    this.#socket = undefined;
    this.#options.onChange();
  }

  async #connect(): Promise<void> {
    if (this.#opening || this.#closed) return;
    this.#opening = true;
    const { host, port } = this.#options;
    try {
      const { address, family } = await lookup(host);
      const socket = await connectedSocket(family === 6 ? 'udp6' : 'udp4', address, port);
      if (this.#closed) socket.close();
      else this.#use(socket);
    } catch (error) {
      if (!this.#closed) this.#options.onTrouble((error as Error).message);
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
    else this.#callOffCalm = this.#options.timers.after(calmMs, () => this.#options.onUp());
  }

  #fail(socket: Socket, error: Error): void {
    if (socket !== this.#socket) return;
    this.#socket = undefined;
    this.#callOffCalm();
    socket.close();
    if (!this.#closed) this.#options.onTrouble(error.message);
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
