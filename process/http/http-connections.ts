/**
 * The connections of an HTTP listener: how many there may be, which one makes room for a further one, and what each holds
 * for a peer that has not done its part.
 *
 *   accepted ──> idle ──request──> busy ──last response is over──> idle
 *
 * Of the address with most connections that wait for their peer, idle or with a request that does not end, the one that
 * waits longest makes room. Where none waits: of the address with most requests, the one whose request began first.
 */
import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { Server as TlsServer } from 'node:https';
import type { Socket } from 'node:net';
import type { ConnectionMemory } from '../net/connection-memory.ts';
import { addressGroup, peerName } from '../net/peer.ts';
import { LoopTurns, type TurnTaker, WaitingLine } from '../time/loop-turns.ts';
import { HttpConnection, type RequestMemory, unwatched } from './http-connection.ts';

/** Why a connection was closed, or a request of it refused, and what that says in words. */
export const httpRefusalTexts = {
  too_many_connections:
    'as many connections as may be are open, and of the address that has most of them it was idle, or its request unfinished, longest',
  too_many_bytes: 'it held most of what all connections may hold for what their peers have not done yet',
  too_many_pieces: 'its body came in more pieces than its bytes justify',
  too_many_header_bytes: 'the line and headers of its request are longer than 32 KiB',
} as const;
export type HttpRefusal = keyof typeof httpRefusalTexts;
export const httpRefusals = Object.keys(httpRefusalTexts) as HttpRefusal[];

export interface HttpConnectionsOptions {
  maxConnections: number;
  connectionMemory: ConnectionMemory;
  /** Shared with the other listeners of the thread. Defaults to turns of its own. */
  turns?: LoopTurns | undefined;
  /** One more is open, or one less. */
  changed(by: 1 | -1): void;
  /** A connection was closed, or a request of it refused. */
  refused(reason: HttpRefusal, peer: string): void;
}

export class HttpConnections {
  readonly #options: HttpConnectionsOptions;
  /** By address and port: of TLS there is one socket to accept and another one to ask. */
  readonly #byName = new Map<string, HttpConnection>();
  /** Each by address, in the order in which they became so. */
  readonly #idle = new WaitingLine<HttpConnection>();
  readonly #busy = new WaitingLine<HttpConnection>();
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
  begin(request: IncomingMessage, response: ServerResponse, serve: (memory: RequestMemory) => void): void {
    const connection = this.#find(request.socket);
    if (connection === undefined) {
      // One that was refused in the middle of a read has none any more for what else came with it.
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
    if (this.#comers.size >= this.#options.maxConnections) this.#shedComer('too_many_connections');
    this.#comers.add(comer);
    turns.wait(comer, 'read');
  }

  /** No more come: those that were not opened yet end, as Node ends those that never asked. */
  close(): void {
    while (this.#comers.size > 0) this.#shedComer();
  }

  /** Ends all by force, in the midst of a handshake as well: Node knows none of those. */
  cut(): void {
    this.close();
    for (const connection of [...this.#idle, ...this.#busy]) connection.destroy();
  }

  /** The first one of the address that has most of them. */
  #shedComer(refusal?: HttpRefusal): void {
    const comer = this.#comers.shed();
    if (comer === undefined) return;
    this.#turns.leave(comer);
    if (refusal !== undefined) this.#options.refused(refusal, peerName(comer.socket) ?? 'unknown');
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
      // What those have sent meanwhile that wait for their turn is not known.
      const slow = unfinished.find((connection) => connection.isReceiving) ?? unfinished[0]!;
      const { first = slow, count = 0 } = waiting.get(group) ?? {};
      const longest = slow.since < first.since ? slow : first;
      waiting.set(group, { group, count: count + unfinished.length, first: longest });
    }
    const busy = [...this.#busy.groups()].map(([, members]) => crowdOf(members));
    const connection = firstOfLargest(waiting.values()) ?? firstOfLargest(busy);
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

/** Of addresses with as many, the one whose first came so earliest. */
function firstOfLargest(crowds: Iterable<Crowd>): HttpConnection | undefined {
  let largest: Crowd | undefined;
  for (const crowd of crowds) {
    const lead = crowd.count - (largest?.count ?? 0);
    if (lead > 0 || (lead === 0 && crowd.first.since < largest!.first.since)) largest = crowd;
  }
  return largest?.first;
}

interface Comer extends TurnTaker {
  readonly socket: Socket;
}
