/**
 * The connections of an HTTP listener: their maximum number, which one makes room for another one, and what each holds
 * for a peer that has not done its part.
 *
 *   accepted ──> idle ──request──> busy ──last response is over──> idle
 *
 * A connection makes room if its address has most connections that wait for their peer, idle or with an unfinished request,
 * and it waits longest of them. If none waits, it is the one whose request began first at the address with most requests.
 */
import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { Server as TlsServer } from 'node:https';
import type { Socket } from 'node:net';
import type { ConnectionMemory } from '../net/connection-memory.ts';
import { addressGroup, peerName } from '../net/peer.ts';
import { FairQueue } from '../queues/fair-queue.ts';
import { LoopTurns, type TurnTaker } from '../queues/loop-turns.ts';
import { HttpConnection, type RequestMemory, unwatched } from './http-connection.ts';

/** Reasons for closing a connection, or rejecting a request on it, and their texts. */
export const httpRejectionTexts = {
  too_many_connections:
    'the maximum number of connections is open: of the address with most connections, this one was idle or unfinished for longest',
  too_many_bytes: 'it used most of the memory that all connections may use for unfinished work',
  too_many_pieces: 'its body arrived in too many pieces',
  too_many_header_bytes: 'the line and headers of its request are longer than 32 KiB',
} as const;
export type HttpRejection = keyof typeof httpRejectionTexts;
export const httpRejections = Object.keys(httpRejectionTexts) as HttpRejection[];

export interface HttpConnectionsOptions {
  maxConnections: number;
  connectionMemory: ConnectionMemory;
  /** The turns of all listeners of the thread. Defaults to separate ones. */
  turns?: LoopTurns | undefined;
  /** Called when a connection was opened or closed. */
  changed(by: 1 | -1): void;
  /** Called when a connection was closed, or a request on it rejected. */
  rejected(reason: HttpRejection, peer: string): void;
}

export class HttpConnections {
  readonly #options: HttpConnectionsOptions;
  /** Connections by address and port, because TLS has two sockets: one that is accepted, and one that requests name. */
  readonly #byName = new Map<string, HttpConnection>();
  /** Connections by address, in the order in which they became idle or busy. */
  readonly #idle = new FairQueue<HttpConnection>();
  readonly #busy = new FairQueue<HttpConnection>();
  /** Connections that have sent more than one request at once. */
  readonly #eager = new Set<HttpConnection>();
  readonly #turns: LoopTurns;
  /** Connections that were accepted but not opened yet. */
  readonly #comers = new FairQueue<WaitingConnection>();
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
    // Sockets are not read before they are opened. This is an option of every net.Server, but not of the types of HTTP servers.
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

  /** Called when a request's head is complete. Calls `serve` in its turn, unless its connection ends before. */
  begin(request: IncomingMessage, response: ServerResponse, serve: (memory: RequestMemory) => void): void {
    const connection = this.#find(request.socket);
    if (connection === undefined) {
      // A connection that was rejected during a read has no entry any more for later requests of the same read.
      if (!request.socket.destroyed) serve(unwatched());
      return;
    }
    if (this.#idle.remove(connection)) {
      this.#moved(connection);
      this.#busy.add(connection);
    }
    response.once('close', () => {
      connection.end(response);
      if (connection.isBusy || !this.#busy.remove(connection)) return;
      this.#moved(connection);
      this.#idle.add(connection);
    });
    if (connection.isBusy) {
      this.#eager.add(connection);
      this.#turns.markExpensive(connection.group);
    }
    connection.begin(request, response, serve);
  }

  /** Accepts a socket. `open` starts HTTP on it, which is most of the cost, so it waits for a turn. */
  #accept(socket: Socket, isTls: boolean, open: () => void): void {
    const turns = this.#turns;
    turns.accepted();
    const group = addressGroup(socket.remoteAddress);
    if (turns.mayBeRead(group)) {
      this.#open(socket, isTls, open);
      return;
    }
    const comer: WaitingConnection = {
      group,
      socket,
      takeTurn: () => {
        this.#comers.remove(comer);
        this.#open(socket, isTls, open);
      },
    };
    if (this.#comers.size >= this.#options.maxConnections) this.#shedComer('too_many_connections');
    this.#comers.add(comer);
    turns.wait(comer, 'read');
  }

  /** Called when no more connections are accepted. Those that were not opened yet end, as Node ends connections without a request. */
  close(): void {
    while (this.#comers.size > 0) this.#shedComer();
  }

  /** Ends all connections by force, including those in a handshake, which Node does not know. */
  cut(): void {
    this.close();
    for (const connection of [...this.#idle, ...this.#busy]) connection.destroy();
  }

  /** Drops the first unopened connection of the address that has most of them. */
  #shedComer(rejection?: HttpRejection): void {
    const comer = this.#comers.shed();
    if (comer === undefined) return;
    this.#turns.leave(comer);
    if (rejection !== undefined) this.#options.rejected(rejection, peerName(comer.socket) ?? 'unknown');
    comer.socket.destroy();
  }

  #open(socket: Socket, isTls: boolean, open: () => void): void {
    const name = peerName(socket);
    if (name === undefined) {
      // The peer is already gone.
      socket.destroy();
      return;
    }
    if (this.size >= this.#options.maxConnections) this.#makeRoom();
    const connection = new HttpConnection(socket, {
      isTls,
      name,
      turns: this.#turns,
      readNoMore: () => this.#readNoMore(),
      tooManyPieces: (peer) => this.#options.rejected('too_many_pieces', peer),
      shed: (one) => this.#reject(one, 'too_many_bytes'),
    });
    connection.memory = this.#options.connectionMemory.open(socket.remoteAddress, connection);
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
    const idle = [...this.#idle.groups()].map(([group, members]) => ({ group, ...crowdOf(members) }));
    const waiting = new Map(idle.map((crowd) => [crowd.group, crowd]));
    for (const [group, members] of this.#busy.groups()) {
      const unfinished = [...members].filter((connection) => connection.isUnfinished);
      if (unfinished.length === 0) continue;
      // For requests that wait for their turn it is unknown how much their peers have sent meanwhile.
      const slow = unfinished.find((connection) => connection.isReceiving) ?? unfinished[0]!;
      const { first = slow, count = 0 } = waiting.get(group) ?? {};
      const longest = slow.since < first.since ? slow : first;
      waiting.set(group, { group, count: count + unfinished.length, first: longest });
    }
    const busy = [...this.#busy.groups()].map(([, members]) => crowdOf(members));
    const connection = firstOfLargest(waiting.values()) ?? firstOfLargest(busy);
    if (connection !== undefined) this.#reject(connection, 'too_many_connections');
  }

  /** Postpones reading: connections with requests, or that sent many at once, are read in turns. Others are read at once for a while. */
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

  #reject(connection: HttpConnection, reason: HttpRejection): void {
    this.#options.rejected(reason, connection.name);
    if (reason === 'too_many_bytes' && connection.giveUp()) return;
    connection.destroy();
    this.#forget(connection);
  }

  #forget(connection: HttpConnection): void {
    connection.closed();
    this.#eager.delete(connection);
    if (!this.#idle.remove(connection) && !this.#busy.remove(connection)) return;
    this.#options.changed(-1);
    if (this.#byName.get(connection.name) === connection) this.#byName.delete(connection.name);
  }

  #find(socket: Socket): HttpConnection | undefined {
    const name = peerName(socket);
    return name === undefined ? undefined : this.#byName.get(name);
  }
}

/** Connections of one address. */
interface Crowd {
  count: number;
  first: HttpConnection;
}

function crowdOf(members: ReadonlySet<HttpConnection>): Crowd {
  const [first] = members;
  return { count: members.size, first: first! };
}

/** Returns the first connection of the largest crowd; among equals, that of the crowd whose first one has waited longest. */
function firstOfLargest(crowds: Iterable<Crowd>): HttpConnection | undefined {
  let largest: Crowd | undefined;
  for (const crowd of crowds) {
    const lead = crowd.count - (largest?.count ?? 0);
    if (lead > 0 || (lead === 0 && crowd.first.since < largest!.first.since)) largest = crowd;
  }
  return largest?.first;
}

interface WaitingConnection extends TurnTaker {
  readonly socket: Socket;
}
