/**
 * A socket as a connection sees it: what it writes to, and what hands over what came, a piece at a time and in turns.
 *
 *   reading ──others have their turn──> waiting ──its turn: nothing is left──> reading
 *   any ──the peer does not read──> paused ──it reads──> reading, or waiting if something is left
 *
 * What is left waits in the socket, which takes little more from the system then.
 */
import type { Socket } from 'node:net';
import { TLSSocket } from 'node:tls';
import { addressGroup } from '../../process/net/peer.ts';
import type { Clock } from '../../process/time/clock.ts';
import type { FlushTurn, LoopTurns, TurnTaker } from '../../process/time/loop-turns.ts';
import type { Transport } from '../http2/request-handler.ts';

/** Chosen: how long what was written may take to go out once nothing follows. `OpenSockets` bounds the time after that. */
const lastWriteMs = 10_000;

/** Chosen: so much is handed over before it is asked whose turn it is. Of the smallest requests that is a millisecond. */
const pieceBytes = 16_384;

/** Sends what was written, then ends. */
export function endSocket(socket: Socket): void {
  if (socket.destroyed) return;
  // Nothing more can come, and all is out.
  if (socket.readableEnded && socket.writableLength === 0 && !(socket instanceof TLSSocket)) {
    socket.destroy();
    return;
  }
  const timer = setTimeout(() => socket.destroy(), lastWriteMs);
  socket.once('close', () => clearTimeout(timer));
  // Unread bytes would make the system answer with a reset, which can cost the peer our last frames.
  socket.resume();
  socket.end();
}

/** Chosen: who has no more to say goes before those that have: some fifteen of the smallest requests. */
const littleBytes = 1024;

export interface SocketTransportOptions {
  turns: LoopTurns;
  flushTurn: FlushTurn;
  clock: Pick<Clock, 'monotonicMs'>;
}

/** Of what came. */
export interface SocketReader {
  /** `bytes` are only valid until it returns. */
  receive(bytes: Uint8Array, nowMs: number): void;
  /** The peer sends no more. */
  peerEnded(): void;
}

/** What is asked of a socket that is gone does nothing. */
export class SocketTransport implements Transport, TurnTaker {
  readonly group: string;
  readonly #socket: Socket;
  readonly #turns: LoopTurns;
  readonly #flushTurn: FlushTurn;
  readonly #clock: Pick<Clock, 'monotonicMs'>;
  #reader: SocketReader | undefined;
  #onUnread = (): void => {};
  /** For its turn. */
  #isWaiting = false;
  #isTurn = false;
  /** How much is handed over in its turn at most. */
  #turnBytes = 0;
  /** For its peer, which does not read. */
  #isPaused = false;
  /** Set once its peer has ended and that could not be told at once. */
  #tellEnd: (() => void) | undefined;
  #isEnding = false;

  constructor(socket: Socket, { turns, flushTurn, clock }: SocketTransportOptions) {
    this.#socket = socket;
    this.#turns = turns;
    this.#flushTurn = flushTurn;
    this.#clock = clock;
    this.group = addressGroup(socket.remoteAddress);
  }

  /** What came and was not handed over yet. */
  get unreadBytes(): number {
    return this.#isWaiting || this.#isPaused ? this.#socket.readableLength : 0;
  }

  /** From now on all that comes, until it ends itself. `onUnread` is called when `unreadBytes` are others. */
  read(reader: SocketReader, onUnread: () => void): void {
    this.#reader = reader;
    this.#onUnread = onUnread;
    this.#socket.on('data', this.#came);
    this.#socket.on('end', () => {
      if (this.#isEnding) return;
      if (!this.#turns.isSpent()) {
        reader.peerEnded();
        return;
      }
      // Thousands may end at once.
      this.#tellEnd = () => reader.peerEnded();
      this.#turns.wait(this, 'little');
    });
  }

  takeTurn(): void {
    if (this.#tellEnd !== undefined) {
      this.#tellEnd();
      return;
    }
    this.#isWaiting = false;
    this.#isTurn = true;
    const bytes = Math.min(this.#socket.readableLength, this.#turnBytes);
    if (bytes > 0) this.#socket.read(bytes);
    this.#isTurn = false;
    if (!this.#isPaused) this.#readOn();
    this.#onUnread();
  }

  write(bytes: Uint8Array): boolean {
    if (!this.#socket.writable) return true;
    return this.#socket.write(bytes);
  }

  end(): void {
    if (this.#isEnding) return;
    this.closed();
    endSocket(this.#socket);
  }

  destroy(): void {
    this.closed();
    this.#socket.destroy();
  }

  pause(): void {
    if (this.#isEnding || this.#tellEnd !== undefined) return;
    this.#isPaused = true;
    this.#isWaiting = false;
    this.#turns.leave(this);
    this.#socket.pause();
  }

  resume(): void {
    this.#isPaused = false;
    this.#readOn();
  }

  /** Nothing is handed over any more. */
  closed(): void {
    this.#isEnding = true;
    this.#isWaiting = false;
    this.#isPaused = false;
    this.#turns.leave(this);
  }

  readonly #came = (bytes: Buffer): void => {
    const reader = this.#reader;
    if (this.#isEnding || reader === undefined) return;
    let nowMs = this.#clock.monotonicMs();
    let at = 0;
    while (this.#isTurn || !this.#turns.isSpent(nowMs)) {
      const piece = at === 0 && bytes.length <= pieceBytes ? bytes : bytes.subarray(at, at + pieceBytes);
      this.#flushTurn.begin();
      reader.receive(piece, nowMs);
      this.#flushTurn.end();
      at += piece.length;
      if (at === bytes.length || this.#isEnding) return;
      if (this.#isPaused) break;
      nowMs = this.#clock.monotonicMs();
    }
    this.#socket.pause();
    this.#socket.unshift(bytes.subarray(at));
    if (!this.#isPaused) this.#wait();
    this.#onUnread();
  };

  #readOn(): void {
    if (this.#isEnding) return;
    if (this.#socket.readableLength > 0) this.#wait();
    else this.#socket.resume();
  }

  #wait(): void {
    const isLittle = this.#socket.readableLength <= littleBytes;
    this.#isWaiting = true;
    this.#turnBytes = isLittle ? littleBytes : pieceBytes;
    this.#turns.wait(this, isLittle ? 'little' : 'much');
  }
}
