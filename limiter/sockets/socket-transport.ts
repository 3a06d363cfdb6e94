/**
 * A socket as a connection sees it: what it writes to, and what hands over what came, a piece at a time and in turns.
 *
 *   reading ──others have their turn──> waiting ──its turn: nothing is left──> reading
 *   any ──the peer does not read──> paused ──it reads──> reading, or waiting if something is left
 *
 * What is left waits in the socket, which takes little more from the system then.
 */
import type { Socket } from 'node:net';
import { Readable } from 'node:stream';
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

/** What one read may bring, as libuv asks for it. */
const readBytes = 65_536;

/** All sockets of a thread are read into this one, each after the other: what came is served or copied before the next read. */
const readBuffer = Buffer.allocUnsafeSlow(readBytes);

/** Called after each read. False: no more for now. */
type OnRead = (length: number, buffer: Buffer) => boolean;

/**
 * Has a socket read into `readBuffer`, as `onread` of `new net.Socket` does, which Node has for sockets that connect and not for
 * those that a server accepts: each read of those makes a buffer, and takes it through a stream, which costs more than a lone
 * call's frames. False where that is not to be had, in this Node or of this socket: then it has to be read as a stream.
 */
export function readsInPlace(socket: Socket, onRead: OnRead): boolean {
  // Elsewhere a read may be under way while there is nothing to read.
  if (process.platform === 'win32' || socket instanceof TLSSocket) return false;
  const parts = socket as unknown as Record<symbol, unknown> & {
    _handle?: { useUserBuffer?: unknown } | null;
  };
  const symbols = Object.getOwnPropertySymbols(socket);
  const buffer = symbols.find(({ description }) => description === 'kBuffer');
  const callback = symbols.find(({ description }) => description === 'kBufferCb');
  const handle = parts._handle;
  if (buffer === undefined || callback === undefined || typeof handle?.useUserBuffer !== 'function')
    return false;
  handle.useUserBuffer(readBuffer);
  parts[buffer] = readBuffer;
  parts[callback] = onRead;
  return true;
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
  /** Set once its peer has ended and that could not be determined at once. */
  #reportEnd: (() => void) | undefined;
  #isEnding = false;
  /** Else as a stream, which hands over all that it reads by itself. */
  #isReadInPlace = false;

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
    this.#isReadInPlace = readsInPlace(this.#socket, this.#read);
    if (this.#isReadInPlace) this.#socket.resume();
    else this.#socket.on('data', this.#came);
    this.#socket.on('end', () => {
      if (this.#isEnding) return;
      if (!this.#turns.isSpent()) {
        reader.peerEnded();
        return;
      }
      // Thousands may end at once.
      this.#reportEnd = () => reader.peerEnded();
      this.#turns.wait(this, 'little');
    });
  }

  takeTurn(): void {
    if (this.#reportEnd !== undefined) {
      this.#reportEnd();
      return;
    }
    this.#isWaiting = false;
    this.#isTurn = true;
    const bytes = Math.min(this.#socket.readableLength, this.#turnBytes);
    if (bytes > 0) this.#takeLeft(bytes);
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
    if (this.#isEnding || this.#reportEnd !== undefined) return;
    this.#isPaused = true;
    this.#isWaiting = false;
    this.#turns.leave(this);
    this.#holdUp();
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

  readonly #read = (length: number, buffer: Buffer): boolean => {
    const bytes = buffer.subarray(0, length);
    // Behind what is left.
    if (this.#isWaiting || this.#isPaused) return this.#socket.push(Buffer.from(bytes));
    this.#came(bytes);
    return true;
  };

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
    this.#holdUp();
    const left = bytes.subarray(at);
    this.#socket.unshift(this.#isReadInPlace ? Buffer.from(left) : left);
    if (!this.#isPaused) this.#wait();
    this.#onUnread();
  };

  // A socket that is read in place has a `pause` that takes nothing more and a `read` that takes more whatever it has: those of
  // streams let as much wait as a stream lets.

  #holdUp(): void {
    Readable.prototype.pause.call(this.#socket);
  }

  #takeLeft(length: number): void {
    const bytes: Buffer | null = Readable.prototype.read.call(this.#socket, length);
    if (this.#isReadInPlace && bytes !== null) this.#came(bytes);
  }

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
