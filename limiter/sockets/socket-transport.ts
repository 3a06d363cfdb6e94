import type { Socket } from 'node:net';
import type { Transport } from '../http2/index.ts';

/** Ours: how long what was written may take to go out once nothing follows. `OpenSockets` bounds the time after that. */
const lastWriteMs = 10_000;

/** A socket as a connection sees it. What is asked of a socket that is gone does nothing. */
export class SocketTransport implements Transport {
  readonly #socket: Socket;
  #isEnding = false;

  constructor(socket: Socket) {
    this.#socket = socket;
  }

  write(bytes: Uint8Array): boolean {
    if (!this.#socket.writable) return true;
    return this.#socket.write(bytes);
  }

  end(): void {
    if (this.#isEnding || this.#socket.destroyed) return;
    this.#isEnding = true;
    const socket = this.#socket;
    const timer = setTimeout(() => socket.destroy(), lastWriteMs);
    socket.once('close', () => clearTimeout(timer));
    // Unread bytes would make the system answer with a reset, which can cost the peer our last frames.
    socket.resume();
    socket.end();
  }

  destroy(): void {
    this.#socket.destroy();
  }

  pause(): void {
    if (!this.#isEnding) this.#socket.pause();
  }

  resume(): void {
    this.#socket.resume();
  }
}
