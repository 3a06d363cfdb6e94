/** One connection of an HTTP listener: the requests of it, one after another, and what it holds for its peer. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { ConnectionBytes, MemoryOwner } from '../net/connection-memory.ts';
import { addressGroup } from '../net/peer.ts';
import { handshakeBytes } from '../net/tls-handshake.ts';
import type { LoopTurns, TurnTaker } from '../time/loop-turns.ts';

/** What a request holds while its peer has not sent all of it, and what work it makes. */
export interface RequestMemory {
  /** So many bytes now. */
  hold(bytes: number): void;
  /** One more piece of its body, of so many bytes. False when there are too many: the request is to be refused. */
  piece(bytes: number): boolean;
  /** It is complete, and keeps so many bytes: calls back when its turn has come, if its connection is still there then. */
  whenDue(bytes: number, serve: () => void): void;
  /** Called, at most once, when that is needed: the request is to be refused. Without it the connection is closed. */
  giveUp: (() => void) | undefined;
}

/** Of a request whose connection nobody watches. */
export const unwatched = (): RequestMemory => ({
  hold: () => {},
  piece: () => true,
  whenDue: (_, serve) => serve(),
  giveUp: undefined,
});

/** Chosen: a body may come in so many pieces. Each is an event, whether it has a byte or 64 KiB. */
export const freePieces = 1000;
/** And in one more for so many bytes: senders that write a word at a time do no worse. */
export const bytesOfPiece = 16;
/** Chosen: after so many of them the connection is read on in a later turn of the loop. */
const piecesOfTurn = 256;
/** Chosen: after so many of them it is asked what the turn has taken so far. */
const piecesBetweenLooks = 32;

/** What a request beyond the first takes that was sent before its turn came, its response included; measured. */
const pipelinedBytes = 4096;
/** What a byte of an unfinished head may take: short names and values become strings of their own. */
const headFactor = 4;
/**
 * Of the head of a request, its line included: what nginx takes of a client, and twice what HAProxy does. Regular
 * expressions on headers are bounded for it: `mostTextBytes` in `rules/regex/bounds.ts`.
 */
export const mostHeadBytes = 32_768;

export function firstOf<T>(all: Iterable<T>, fits: (one: T) => boolean): T | undefined {
  for (const one of all) if (fits(one)) return one;
  return undefined;
}

interface OpenRequest extends RequestMemory {
  request: IncomingMessage;
  bytes: number;
  /** It had its turn as a whole. */
  isDue: boolean;
}

interface WaitingRequest {
  opened: OpenRequest;
  response: ServerResponse;
  serve(memory: RequestMemory): void;
}

interface HttpConnectionOptions {
  isTls: boolean;
  name: string;
  turns: LoopTurns;
  /** What came in this turn took its share. */
  readNoMore(): void;
  tooManyPieces(peer: string): void;
  shed(connection: HttpConnection): void;
}

/**
 * Serves one request at a time. While further ones wait, or after very many pieces of a body, nothing is read:
 *
 *   reading ──a request waits, or pieces──> paused ──its turn: nothing waits──> reading
 */
export class HttpConnection implements MemoryOwner, TurnTaker {
  readonly name: string;
  readonly group: string;
  /** Counts changes among all connections: larger is later. Of the last one between idle and busy. */
  since = 0;
  memory: ConnectionBytes | undefined;
  readonly #options: HttpConnectionOptions;
  readonly #accepted: Socket;
  /** Of what the peer says; the same as the accepted one without TLS. */
  #socket: Socket;
  #isShakingHands: boolean;
  /** With the responses that are not out yet, in their order. */
  readonly #requests = new Map<ServerResponse, OpenRequest>();
  /** Of those, the one that is served, and those whose turn has not come. */
  #served: ServerResponse | undefined;
  #waiting: WaitingRequest[] = [];
  /** Serves the one that is served, once its turn has come. */
  #due: (() => void) | undefined;
  #isPaused = false;
  /** It ends with the answer that it has got: nothing is read any more. */
  #isOver = false;
  #isClosed = false;
  /** Before the head that comes next. */
  #bytesBefore = 0;

  constructor(socket: Socket, options: HttpConnectionOptions) {
    this.#accepted = socket;
    this.#socket = socket;
    this.#options = options;
    this.#isShakingHands = options.isTls;
    this.name = options.name;
    this.group = addressGroup(socket.remoteAddress);
  }

  /** As one of HTTP: reads from now on. */
  open(): void {
    this.#stayPaused(this.#accepted);
    this.#accepted.resume();
  }

  get isBusy(): boolean {
    return this.#requests.size > 0;
  }

  /** Whether more has to be read of a request that the peer began. */
  get isUnfinished(): boolean {
    return firstOf(this.#requests.values(), ({ request }) => !request.complete) !== undefined;
  }

  /** Whether it is the peer that has to send it. */
  get isReceiving(): boolean {
    return !this.#isPaused && this.isUnfinished;
  }

  secured(socket: Socket): void {
    this.#socket = socket;
    this.#isShakingHands = false;
    this.#bytesBefore = socket.bytesRead;
    // Made paused, as the accepted one was, though it reads: what flows not is not stopped by a pause.
    socket.resume();
    this.#stayPaused(socket);
    this.look();
  }

  begin(request: IncomingMessage, response: ServerResponse, serve: (memory: RequestMemory) => void): void {
    const opened = this.#open(request);
    this.#requests.set(response, opened);
    if (this.#requests.size > 1) this.look();
    const { turns } = this.#options;
    if (this.#served === undefined && this.#waiting.length === 0 && !turns.isSpent()) {
      this.#served = response;
      serve(opened);
      return;
    }
    this.#waiting.push({ opened, response, serve });
    this.#pause();
    if (this.#served === undefined) turns.wait(this, this.#requests.size === 1 ? 'little' : 'much');
    this.#workedOn();
  }

  end(response: ServerResponse): void {
    const request = this.#requests.get(response);
    if (request !== undefined) request.giveUp = undefined;
    this.#requests.delete(response);
    if (this.#isClosed) return;
    this.#bytesBefore = this.#socket.bytesRead;
    this.look();
    if (this.#served !== response) return;
    this.#served = undefined;
    if (this.#waiting.length > 0) this.#options.turns.wait(this, 'much');
  }

  takeTurn(): void {
    if (this.#due !== undefined) {
      const serve = this.#due;
      this.#due = undefined;
      if (this.#isPaused) this.#options.turns.wait(this, 'read');
      serve();
      return;
    }
    if (this.#waiting.length === 0) {
      this.#resume();
      return;
    }
    // Its end will ask for a turn.
    if (this.#served !== undefined) return;
    const { opened, response, serve } = this.#waiting.shift() as WaitingRequest;
    this.#served = response;
    opened.isDue = opened.request.complete;
    if (this.#waiting.length === 0) this.#options.turns.wait(this, 'read');
    serve(opened);
  }

  /** Reads no more in this turn. */
  rest(): void {
    if (this.#isPaused || this.#isClosed) return;
    this.#pause();
    this.#options.turns.wait(this, 'read');
  }

  closed(): void {
    this.#isClosed = true;
    this.#waiting = [];
    this.#due = undefined;
    this.#options.turns.leave(this);
    this.memory?.close();
  }

  look(): void {
    this.memory?.report(this.measure());
  }

  measure(): number {
    if (this.#isShakingHands) return handshakeBytes;
    let bytes = this.#socket.writableLength;
    if (this.#requests.size === 0) {
      return bytes + headFactor * Math.min(mostHeadBytes, this.#socket.bytesRead - this.#bytesBefore);
    }
    bytes += (this.#requests.size - 1) * pipelinedBytes;
    const served = this.#served && this.#requests.get(this.#served);
    if (this.#served === undefined || served === undefined) return bytes;
    // A response that has the socket counts it as its own.
    return bytes + served.bytes + (this.#served.socket === null ? this.#served.writableLength : 0);
  }

  shed(): boolean {
    this.#options.shed(this);
    this.memory?.set(this.measure());
    return true;
  }

  /** Refuses the request that began first of those that can be. False when there is none. */
  giveUp(): boolean {
    for (const request of this.#requests.values()) {
      const { giveUp } = request;
      if (giveUp === undefined) continue;
      request.giveUp = undefined;
      request.bytes = 0;
      giveUp();
      return true;
    }
    return false;
  }

  destroy(): void {
    this.#accepted.destroy();
    this.#socket.destroy();
  }

  #open(request: IncomingMessage): OpenRequest {
    let pieces = 0;
    let bodyBytes = 0;
    const open: OpenRequest = {
      request,
      bytes: 0,
      isDue: false,
      giveUp: undefined,
      hold: (bytes) => {
        open.bytes = bytes;
        this.look();
      },
      piece: (bytes) => {
        pieces += 1;
        bodyBytes += bytes;
        if (pieces % piecesBetweenLooks === 0) this.#workedOn();
        if (pieces % piecesOfTurn === 0) {
          this.#options.turns.markExpensive(this.group);
          this.rest();
        }
        if (pieces <= freePieces + bodyBytes / bytesOfPiece) return true;
        this.#options.tooManyPieces(this.name);
        this.#isOver = true;
        if (!this.#isPaused) this.#pause();
        return false;
      },
      whenDue: (bytes, serve) => {
        if (open.isDue || !this.#options.turns.isSpent()) return serve();
        open.hold(bytes);
        // What it would hold may have been what its connection was closed for.
        if (this.#isClosed) return;
        this.#due = () => {
          open.hold(0);
          serve();
        };
        this.#options.turns.wait(this, this.#requests.size === 1 ? 'little' : 'much');
      },
    };
    return open;
  }

  #workedOn(): void {
    if (this.#options.turns.isSpent()) this.#options.readNoMore();
  }

  #pause(): void {
    this.#isPaused = true;
    this.#socket.pause();
  }

  #resume(): void {
    if (this.#isClosed || this.#isOver) return;
    this.#isPaused = false;
    this.#socket.resume();
  }

  /** Node resumes a socket whenever it wants more of a body, for each piece of it. */
  #stayPaused(socket: Socket): void {
    const { resume } = socket;
    socket.resume = () => (this.#isPaused ? socket : resume.call(socket));
  }
}
