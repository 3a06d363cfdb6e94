/**
 * The socket of a connection. It writes the output, and hands over the input in pieces and in turns.
 *
 *   reading ──others have their turn──> waiting ──its turn: nothing is left──> reading
 *   any ──the peer does not read──> paused ──it reads──> reading, or waiting if something is left
 *
 * The rest waits in the socket, which then takes little more from the system.
 */
import type { Socket } from 'node:net';
import { Readable } from 'node:stream';
import { TLSSocket } from 'node:tls';
import { addressGroup } from '../../process/net/peer.ts';
import type { FlushTurn, LoopTurns, TurnTaker } from '../../process/queues/loop-turns.ts';
import type { Clock } from '../../process/time/clock.ts';
import type { Transport } from '../http2/request-handler.ts';

/** Chosen: the time for sending the rest of the output. `OpenSockets` bounds the time after that. */
const lastWriteMs = 10_000;

/** Chosen: the bytes that are handed over before the turn is checked. With the smallest requests they take a millisecond. */
const pieceBytes = 16_384;

/** Sends the written bytes, then ends. */
export function endSocket(socket: Socket): void {
  if (socket.destroyed) return;
  // No more input can arrive, and all output is sent.
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

/** Chosen: sockets with no more than this go before others: about fifteen of the smallest requests. */
const littleBytes = 1024;

export interface SocketTransportOptions {
  turns: LoopTurns;
  flushTurn: FlushTurn;
  clock: Pick<Clock, 'monotonicMs'>;
}

/** Receives the input. */
export interface SocketReader {
  /** `bytes` is only valid until this returns. */
  receive(bytes: Uint8Array, nowMs: number): void;
  /** Called when the peer sends no more. */
  peerEnded(): void;
}

/** The most bytes of one read, as libuv requests them. */
const readBytes = 65_536;

/** The buffer for all sockets of a thread, one after the other: input is served or copied before the next read. */
const readBuffer = Buffer.allocUnsafeSlow(readBytes);

/** Called after each read. Returns false to pause. */
type OnRead = (length: number, buffer: Buffer) => boolean;

/**
 * Makes a socket read into `readBuffer`, like `onread` of `new net.Socket`. Node has this option for sockets that connect but not for
 * those that a server accepts. Each read of the latter allocates a buffer and passes it through a stream, which costs more than the
 * frames of a single call. Returns false if this Node or this socket does not support it; then the socket must be read as a stream.
 */
export function readsInPlace(socket: Socket, onRead: OnRead): boolean {
  // On other systems a read may be pending while there is nothing to read.
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

/** Calls after the socket has closed have no effect. */
export class SocketTransport implements Transport, TurnTaker {
  readonly group: string;
  readonly #socket: Socket;
  readonly #turns: LoopTurns;
  readonly #flushTurn: FlushTurn;
  readonly #clock: Pick<Clock, 'monotonicMs'>;
  #reader: SocketReader | undefined;
  #onUnread = (): void => {};
  /** Whether it waits for its turn. */
  #isWaiting = false;
  #isTurn = false;
  /** The most bytes that are handed over in its turn. */
  #turnBytes = 0;
  /** Whether it waits for its peer, which does not read. */
  #isPaused = false;
  /** Set after its peer has ended if the end could not be reported at once. */
  #reportEnd: (() => void) | undefined;
  #isEnding = false;
  /** Otherwise it is read as a stream, which hands over everything by itself. */
  #isReadInPlace = false;

  constructor(socket: Socket, { turns, flushTurn, clock }: SocketTransportOptions) {
    this.#socket = socket;
    this.#turns = turns;
    this.#flushTurn = flushTurn;
    this.#clock = clock;
    this.group = addressGroup(socket.remoteAddress);
  }

  /** The bytes that arrived and were not handed over yet. */
  get unreadBytes(): number {
    return this.#isWaiting || this.#isPaused ? this.#socket.readableLength : 0;
  }

  /** Hands over all input from now on, until it ends. `onUnread` is called when `unreadBytes` has changed. */
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
      // The end waits for a turn, because thousands may end at once.
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

  /** Nothing is handed over after this. */
  closed(): void {
    this.#isEnding = true;
    this.#isWaiting = false;
    this.#isPaused = false;
    this.#turns.leave(this);
  }

  readonly #read = (length: number, buffer: Buffer): boolean => {
    const bytes = buffer.subarray(0, length);
    // The bytes follow those that wait.
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

  // For a socket that is read in place, `pause` takes no more input at all, and `read` takes more whatever is waiting. The methods of
  // streams let as much wait as a stream does.

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
