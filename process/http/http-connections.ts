/**
 * The connections of an HTTP listener: how many there may be, which one makes room for a further one, and what each holds
 * for a peer that has not done its part.
 *
 *   accepted ──> idle ──request──> busy ──last response is over──> idle
 *
 * The one that is idle longest makes room, a head of a request that does not end included; where none is idle, the one whose
 * request began first.
 */
import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { Server as TlsServer } from 'node:https';
import type { Socket } from 'node:net';
import type { HeldBytes, Holder, Holding } from '../held-bytes.ts';
import { peerName } from '../peer.ts';
import { handshakeBytes } from '../tls-handshake.ts';

export const httpRefusals = ['too_many_connections', 'too_many_bytes'] as const;
export type HttpRefusal = (typeof httpRefusals)[number];

/** In words what each says. */
export const httpRefusalTexts: Readonly<Record<HttpRefusal, string>> = {
  too_many_connections: 'as many connections as may be are open, and it was idle longest',
  too_many_bytes: 'it held most of what all connections may hold for what their peers have not done yet',
};

export interface HttpConnectionsOptions {
  maxConnections: number;
  held: HeldBytes;
  /** One more is open, or one less. */
  changed(by: 1 | -1): void;
  /** A connection was closed, or a request of it refused. */
  refused(reason: HttpRefusal, peer: string): void;
}

/** What a request holds while its peer has not sent all of it. */
export interface RequestHolding {
  /** So many bytes now. */
  hold(bytes: number): void;
  /** Called, at most once, when that is needed: the request is to be refused. Without it the connection is closed. */
  giveUp: (() => void) | undefined;
}

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

  constructor(options: HttpConnectionsOptions) {
    this.#options = options;
  }

  get size(): number {
    return this.#idle.size + this.#busy.size;
  }

  watch(server: Server | TlsServer): void {
    const isTls = 'setSecureContext' in server;
    server.on('connection', (socket: Socket) => this.#accept(socket, isTls));
    if (isTls) server.on('secureConnection', (socket: Socket) => this.#find(socket)?.secured(socket));
  }

  /** A request's head is complete. */
  begin(request: IncomingMessage, response: ServerResponse): RequestHolding {
    const connection = this.#find(request.socket);
    if (connection === undefined) return { hold: () => {}, giveUp: undefined };
    this.#idle.delete(connection);
    this.#busy.add(connection);
    const holding = connection.begin(response);
    response.once('close', () => {
      connection.end(response, holding);
      if (connection.isBusy || !this.#busy.delete(connection)) return;
      this.#idle.add(connection);
    });
    return holding;
  }

  #accept(socket: Socket, isTls: boolean): void {
    const name = peerName(socket);
    // It is gone already.
    if (name === undefined) return;
    if (this.size >= this.#options.maxConnections) this.#makeRoom();
    const connection = new HttpConnection(socket, isTls, name, (one, reason) => this.#refuse(one, reason));
    connection.holding = this.#options.held.open(socket.remoteAddress, connection);
    connection.look();
    this.#byName.set(name, connection);
    this.#idle.add(connection);
    this.#options.changed(1);
    socket.once('close', () => this.#forget(connection));
  }

  #makeRoom(): void {
    for (const connection of this.#idle.size > 0 ? this.#idle : this.#busy) {
      this.#refuse(connection, 'too_many_connections');
      return;
    }
  }

  #refuse(connection: HttpConnection, reason: HttpRefusal): void {
    this.#options.refused(reason, connection.name);
    if (reason === 'too_many_bytes' && connection.giveUp()) return;
    connection.destroy();
    this.#forget(connection);
  }

  #forget(connection: HttpConnection): void {
    connection.holding?.close();
    if (!this.#idle.delete(connection) && !this.#busy.delete(connection)) return;
    this.#options.changed(-1);
    if (this.#byName.get(connection.name) === connection) this.#byName.delete(connection.name);
  }

  #find(socket: Socket): HttpConnection | undefined {
    const name = peerName(socket);
    return name === undefined ? undefined : this.#byName.get(name);
  }
}

interface OpenRequest extends RequestHolding {
  bytes: number;
}

class HttpConnection implements Holder {
  readonly name: string;
  holding: Holding | undefined;
  readonly #accepted: Socket;
  readonly #refuse: (connection: HttpConnection, reason: HttpRefusal) => void;
  /** Of what the peer says; the same as the accepted one without TLS. */
  #socket: Socket;
  #isShakingHands: boolean;
  /** With the responses that are not out yet, in their order. */
  readonly #requests = new Map<ServerResponse, OpenRequest>();
  /** Before the head that comes next. */
  #bytesBefore = 0;

  constructor(
    socket: Socket,
    isTls: boolean,
    name: string,
    refuse: (connection: HttpConnection, reason: HttpRefusal) => void,
  ) {
    this.#accepted = socket;
    this.#socket = socket;
    this.#isShakingHands = isTls;
    this.name = name;
    this.#refuse = refuse;
  }

  get isBusy(): boolean {
    return this.#requests.size > 0;
  }

  secured(socket: Socket): void {
    this.#socket = socket;
    this.#isShakingHands = false;
    this.#bytesBefore = socket.bytesRead;
    this.look();
  }

  begin(response: ServerResponse): RequestHolding {
    const request: OpenRequest = {
      bytes: 0,
      giveUp: undefined,
      hold: (bytes) => {
        request.bytes = bytes;
        this.look();
      },
    };
    this.#requests.set(response, request);
    if (this.#requests.size > 1) this.look();
    return request;
  }

  end(response: ServerResponse, request: RequestHolding): void {
    request.giveUp = undefined;
    this.#requests.delete(response);
    this.#bytesBefore = this.#socket.bytesRead;
    this.look();
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
    for (const [response, request] of this.#requests) {
      bytes += request.bytes;
      // One that has the socket counts it as its own.
      if (response.socket === null) bytes += response.writableLength;
    }
    return bytes;
  }

  shed(): boolean {
    this.#refuse(this, 'too_many_bytes');
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
}
