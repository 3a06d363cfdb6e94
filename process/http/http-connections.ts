/**
 * The connections of an HTTP listener: how many there may be, which one makes room for a further one, and what each holds
 * for a peer that has not done its part.
 *
 *   accepted ──> idle ──request──> busy ──last response is over──> idle
 *
 * The one that waits for its peer longest makes room: idle, or with a request that does not end. Where none does, the one
 * whose request began first.
 */
import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { Server as TlsServer } from 'node:https';
import type { Socket } from 'node:net';
import type { HeldBytes, Holder, Holding } from '../net/held-bytes.ts';
import { addressGroup, peerName } from '../net/peer.ts';
import { handshakeBytes } from '../net/tls-handshake.ts';
import { LoopTurns, type TurnTaker, WaitingLine } from '../time/loop-turns.ts';

/** Why a connection was closed, or a request of it refused, and what that says in words. */
export const httpRefusalTexts = {
  too_many_connections:
    'as many connections as may be are open, and it was idle, or its request unfinished, longest',
  too_many_bytes: 'it held most of what all connections may hold for what their peers have not done yet',
  too_many_pieces: 'its body came in more pieces than its bytes justify',
} as const;
export type HttpRefusal = keyof typeof httpRefusalTexts;
export const httpRefusals = Object.keys(httpRefusalTexts) as HttpRefusal[];

export interface HttpConnectionsOptions {
  maxConnections: number;
  held: HeldBytes;
  /** Shared with the other listeners of the thread. Defaults to turns of its own. */
  turns?: LoopTurns | undefined;
  /** One more is open, or one less. */
  changed(by: 1 | -1): void;
  /** A connection was closed, or a request of it refused. */
  refused(reason: HttpRefusal, peer: string): void;
}

/** What a request holds while its peer has not sent all of it, and what work it makes. */
export interface RequestHolding {
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
export const unwatched = (): RequestHolding => ({
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
/** As Node's own bound (`maxHeaderSize`). */
const mostHeadBytes = 16_384;

export class HttpConnections {
  readonly #options: HttpConnectionsOptions;
  /** By address and port: of TLS there is one socket to accept and another one to ask. */
  readonly #byName = new Map<string, HttpConnection>();
  /** Each in the order in which they became so. */
  readonly #idle = new Set<HttpConnection>();
  readonly #busy = new Set<HttpConnection>();
  /** That have sent more than a request at once. */
  readonly #eager = new Set<HttpConnection>();
  readonly #turns: LoopTurns;
  /** Accepted and not opened yet. */
  readonly #comers = new WaitingLine<Comer>();
  #moves = 0;

  constructor(options: HttpConnectionsOptions) {
    this.#options = options;
    this.#turns = options.turns ?? new LoopTurns();
  }

  get size(): number {
    return this.#idle.size + this.#busy.size;
  }

  watch(server: Server | TlsServer): void {
    const isTls = 'setSecureContext' in server;
    // Read no sooner than they are opened. An option of every net.Server, which those of HTTP have no name for.
    Object.assign(server, { pauseOnConnect: true });
    const opened = server.listeners('connection');
    server.removeAllListeners('connection');
    server.on('connection', (socket: Socket) =>
      this.#accept(socket, isTls, () => {
        for (const listener of opened) Reflect.apply(listener, server, [socket]);
      }),
    );
    if (isTls) server.on('secureConnection', (socket: Socket) => this.#find(socket)?.secured(socket));
  }

  /** A request's head is complete. Calls `serve` when its turn has come: not at all if its connection ends before. */
  begin(request: IncomingMessage, response: ServerResponse, serve: (holding: RequestHolding) => void): void {
    const connection = this.#find(request.socket);
    if (connection === undefined) {
      // One that was refused in the middle of a read has none any more for what else came with it.
      if (!request.socket.destroyed) serve(unwatched());
      return;
    }
    if (this.#idle.delete(connection)) this.#moved(connection);
    this.#busy.add(connection);
    response.once('close', () => {
      connection.end(response);
      if (connection.isBusy || !this.#busy.delete(connection)) return;
      this.#moved(connection);
      this.#idle.add(connection);
    });
    if (connection.isBusy) {
      this.#eager.add(connection);
      this.#turns.markDear(connection.group);
    }
    connection.begin(request, response, serve);
  }

  /** `open` makes it one of HTTP: all that is most of what it costs, and has its turn. */
  #accept(socket: Socket, isTls: boolean, open: () => void): void {
    const turns = this.#turns;
    turns.accepted();
    const group = addressGroup(socket.remoteAddress);
    if (turns.mayBeRead(group)) {
      this.#open(socket, isTls, open);
      return;
    }
    const comer: Comer = {
      group,
      socket,
      takeTurn: () => {
        this.#comers.remove(comer);
        this.#open(socket, isTls, open);
      },
    };
    if (this.#comers.size >= this.#options.maxConnections) this.#refuseComer();
    this.#comers.add(comer);
    turns.wait(comer, 'read');
  }

  /** The first one of the address that has most of them. */
  #refuseComer(): void {
    const comer = this.#comers.shed();
    if (comer === undefined) return;
    this.#turns.leave(comer);
    this.#options.refused('too_many_connections', peerName(comer.socket) ?? 'unknown');
    comer.socket.destroy();
  }

  #open(socket: Socket, isTls: boolean, open: () => void): void {
    const name = peerName(socket);
    if (name === undefined) {
      // It is gone already.
      socket.destroy();
      return;
    }
    if (this.size >= this.#options.maxConnections) this.#makeRoom();
    const connection = new HttpConnection(socket, {
      isTls,
      name,
      turns: this.#turns,
      readNoMore: () => this.#readNoMore(),
      tooManyPieces: (peer) => this.#options.refused('too_many_pieces', peer),
      shed: (one) => this.#refuse(one, 'too_many_bytes'),
    });
    connection.holding = this.#options.held.open(socket.remoteAddress, connection);
    connection.look();
    this.#byName.set(name, connection);
    this.#moved(connection);
    this.#idle.add(connection);
    this.#options.changed(1);
    socket.once('close', () => this.#forget(connection));
    open();
    connection.open();
  }

  #makeRoom(): void {
    const [idle] = this.#idle;
    const [busy] = this.#busy;
    // Of those that wait for their turn nobody knows what they have sent meanwhile.
    const slow =
      firstOf(this.#busy, (connection) => connection.isReceiving) ??
      firstOf(this.#busy, (connection) => connection.isUnfinished);
    const isSlowFirst = slow !== undefined && (idle === undefined || slow.since < idle.since);
    const connection = (isSlowFirst ? slow : idle) ?? busy;
    if (connection !== undefined) this.#refuse(connection, 'too_many_connections');
  }

  /** Those with requests, or with many before, have turns of their own to be read; any other one is read at once, for a while. */
  #readNoMore(): void {
    for (const connection of this.#busy) connection.rest();
    for (const connection of this.#eager) connection.rest();
    if (!this.#turns.isOverdrawn()) return;
    for (const connection of this.#idle) connection.rest();
  }

  #moved(connection: HttpConnection): void {
    this.#moves += 1;
    connection.since = this.#moves;
  }

  #refuse(connection: HttpConnection, reason: HttpRefusal): void {
    this.#options.refused(reason, connection.name);
    if (reason === 'too_many_bytes' && connection.giveUp()) return;
    connection.destroy();
    this.#forget(connection);
  }

  #forget(connection: HttpConnection): void {
    connection.closed();
    this.#eager.delete(connection);
    if (!this.#idle.delete(connection) && !this.#busy.delete(connection)) return;
    this.#options.changed(-1);
    if (this.#byName.get(connection.name) === connection) this.#byName.delete(connection.name);
  }

  #find(socket: Socket): HttpConnection | undefined {
    const name = peerName(socket);
    return name === undefined ? undefined : this.#byName.get(name);
  }
}

function firstOf<T>(all: Iterable<T>, fits: (one: T) => boolean): T | undefined {
  for (const one of all) if (fits(one)) return one;
  return undefined;
}

interface Comer extends TurnTaker {
  readonly socket: Socket;
}

interface OpenRequest extends RequestHolding {
  request: IncomingMessage;
  bytes: number;
  /** It had its turn as a whole. */
  isDue: boolean;
}

interface WaitingRequest {
  holding: OpenRequest;
  response: ServerResponse;
  serve(holding: RequestHolding): void;
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
class HttpConnection implements Holder, TurnTaker {
  readonly name: string;
  readonly group: string;
  /** Counts changes among all connections: larger is later. Of the last one between idle and busy. */
  since = 0;
  holding: Holding | undefined;
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
    this.#stayPaused(socket);
    this.look();
  }

  begin(request: IncomingMessage, response: ServerResponse, serve: (holding: RequestHolding) => void): void {
    const holding = this.#open(request);
    this.#requests.set(response, holding);
    if (this.#requests.size > 1) this.look();
    const { turns } = this.#options;
    if (this.#served === undefined && this.#waiting.length === 0 && !turns.isSpent()) {
      this.#served = response;
      serve(holding);
      return;
    }
    this.#waiting.push({ holding, response, serve });
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
    const { holding, response, serve } = this.#waiting.shift() as WaitingRequest;
    this.#served = response;
    holding.isDue = holding.request.complete;
    if (this.#waiting.length === 0) {
      this.#options.turns.wait(this, 'read');
    }
    serve(holding);
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
    this.holding?.close();
  }

  look(): void {
    this.holding?.report(this.measure());
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
    this.holding?.set(this.measure());
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
          this.#options.turns.markDear(this.group);
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
