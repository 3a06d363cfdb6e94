/** One connection of an HTTP listener: its requests, one after another, and the memory it holds for its peer. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { ConnectionBytes, MemoryOwner } from '../net/connection-memory.ts';
import { addressGroup } from '../net/peer.ts';
import { handshakeBytes } from '../net/tls-handshake.ts';
import type { LoopTurns, TurnTaker } from '../queues/loop-turns.ts';

/** The memory of a request while its peer has not sent all of it, and the work that it causes. */
export interface RequestMemory {
  /** Sets the bytes that it holds now. */
  hold(bytes: number): void;
  /**
   * Counts one more piece of its body with this number of bytes. Returns false if there are too many, so that the request must be
   * rejected.
   */
  piece(bytes: number): boolean;
  /** Called when the request is complete and holds this number of bytes. Calls back in its turn, if its connection still exists. */
  whenDue(bytes: number, serve: () => void): void;
  /** Called at most once, when memory is needed: the request must be rejected. If it is undefined, the connection is closed. */
  giveUp: (() => void) | undefined;
}

/** The memory of a request on a connection that is not bounded. */
export const unwatched = (): RequestMemory => ({
  hold: () => {},
  piece: () => true,
  whenDue: (_, serve) => serve(),
  giveUp: undefined,
});

/** Chosen: the pieces that a body may have. Each is an event, with one byte or with 64 KiB. */
export const freePieces = 1000;
/** One more piece is allowed for this number of bytes, so that senders that write a word at a time are not affected. */
export const bytesOfPiece = 16;
/** Chosen: after this number of pieces, the rest of the connection is read in a later turn of the loop. */
const piecesOfTurn = 256;
/** Chosen: after this number of pieces, the duration of the turn is checked. */
const piecesBetweenLooks = 32;

/** The measured memory of a further request that was sent before its turn, including its response. */
const pipelinedBytes = 4096;
/** The memory for a byte of an unfinished head: short names and values become separate strings. */
const headFactor = 4;
/**
 * The longest head of a request, including its line: nginx's limit for clients, and twice that of HAProxy. It bounds regular expressions
 * on headers: `maxTextBytes` in `process/regex/expression.ts`.
 */
export const maxHeadBytes = 32_768;

export function firstOf<T>(all: Iterable<T>, fits: (one: T) => boolean): T | undefined {
  for (const one of all) if (fits(one)) return one;
  return undefined;
}

interface OpenRequest extends RequestMemory {
  request: IncomingMessage;
  bytes: number;
  /** Whether the complete request has had its turn. */
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
  /** Called when input has used up its share of this turn. */
  readNoMore(): void;
  tooManyPieces(peer: string): void;
  shed(connection: HttpConnection): void;
}

/**
 * Serves one request at a time. While others wait, or after very many pieces of a body, nothing is read:
 *
 *   reading ──a request waits, or pieces──> paused ──its turn: nothing waits──> reading
 */
export class HttpConnection implements MemoryOwner, TurnTaker {
  readonly name: string;
  readonly group: string;
  /** The number, over all connections, of the last change between idle and busy. Larger is later. */
  since = 0;
  memory: ConnectionBytes | undefined;
  readonly #options: HttpConnectionOptions;
  readonly #accepted: Socket;
  /** The socket with the peer's data. Without TLS it is the accepted one. */
  #socket: Socket;
  #isShakingHands: boolean;
  /** Requests by the responses that are not sent yet, in their order. */
  readonly #requests = new Map<ServerResponse, OpenRequest>();
  /** The response of the request being served; the next field holds requests whose turn has not come. */
  #served: ServerResponse | undefined;
  #waiting: WaitingRequest[] = [];
  /** Serves the current request when its turn comes. */
  #due: (() => void) | undefined;
  #isPaused = false;
  /** The connection ends with its current answer, so nothing more is read. */
  #isOver = false;
  #isClosed = false;
  /** The bytes before the next head. */
  #bytesBefore = 0;

  constructor(socket: Socket, options: HttpConnectionOptions) {
    this.#accepted = socket;
    this.#socket = socket;
    this.#options = options;
    this.#isShakingHands = options.isTls;
    this.name = options.name;
    this.group = addressGroup(socket.remoteAddress);
  }

  /** Starts to read HTTP. */
  open(): void {
    this.#stayPaused(this.#accepted);
    this.#accepted.resume();
  }

  get isBusy(): boolean {
    return this.#requests.size > 0;
  }

  /** Whether a request that the peer began is not read completely. */
  get isUnfinished(): boolean {
    return firstOf(this.#requests.values(), ({ request }) => !request.complete) !== undefined;
  }

  /** Whether that is because the peer has not sent it. */
  get isReceiving(): boolean {
    return !this.#isPaused && this.isUnfinished;
  }

  secured(socket: Socket): void {
    this.#socket = socket;
    this.#isShakingHands = false;
    this.#bytesBefore = socket.bytesRead;
    // The TLS socket is created paused, like the accepted one, although it reads: a pause has no effect on a socket that does not flow.
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
    // The end of the current request asks for a turn.
    if (this.#served !== undefined) return;
    const { opened, response, serve } = this.#waiting.shift() as WaitingRequest;
    this.#served = response;
    opened.isDue = opened.request.complete;
    if (this.#waiting.length === 0) this.#options.turns.wait(this, 'read');
    serve(opened);
  }

  /** Stops reading in this turn. */
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
      return bytes + headFactor * Math.min(maxHeadBytes, this.#socket.bytesRead - this.#bytesBefore);
    }
    bytes += (this.#requests.size - 1) * pipelinedBytes;
    const served = this.#served && this.#requests.get(this.#served);
    if (this.#served === undefined || served === undefined) return bytes;
    // A response that has the socket counts its bytes with the socket's.
    return bytes + served.bytes + (this.#served.socket === null ? this.#served.writableLength : 0);
  }

  shed(): boolean {
    this.#options.shed(this);
    this.memory?.set(this.measure());
    return true;
  }

  /** Rejects the oldest request that can be rejected. Returns false if there is none. */
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
        // The held bytes may have caused the end of this connection.
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

  /** Keeps a paused socket paused: Node resumes it whenever it wants more of a body, at each piece. */
  #stayPaused(socket: Socket): void {
    const { resume } = socket;
    socket.resume = () => (this.#isPaused ? socket : resume.call(socket));
  }
}
