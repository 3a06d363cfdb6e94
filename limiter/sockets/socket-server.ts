import { createServer, type Server, type Socket } from 'node:net';
import type { SecureContextOptions } from 'node:tls';
import {
  bind,
  bindUnix,
  closeOrCut,
  type ListenAddress,
  OpenSockets,
  type UnixAddress,
} from '../../process/net/bind.ts';
import { type ConnectionBytes, ConnectionMemory } from '../../process/net/connection-memory.ts';
import { peerName, SocketPeer, unixPeer } from '../../process/net/peer.ts';
import { type CertificateListener, watchCertificate } from '../../process/net/tls-credentials.ts';
import { FlushTurn, LoopTurns } from '../../process/queues/loop-turns.ts';
import type { Clock, Timers } from '../../process/time/clock.ts';
import { Http2Connection } from '../http2/connection.ts';
import type { Http2Limits } from '../http2/limits.ts';
import type { RequestHandler } from '../http2/request-handler.ts';
import { type ViolationReason, violationReasons, violationTexts } from '../http2/violation.ts';
import { SocketTransport } from './socket-transport.ts';
import { createTlsListener, type TlsOptions, type TlsRejection, tlsRejections } from './tls-listener.ts';

/**
 * The maximum age of connections, so that callers that keep theirs forever find new limiters nevertheless:
 *
 *   open ──age, up to a tenth sooner or later──> draining (GOAWAY) ──grace──> cut
 */
export interface ConnectionAges {
  /** `Infinity`: no maximum. */
  maxAgeMs: number;
  /** The time that calls have after that age. `Infinity`: no limit. */
  graceMs: number;
}

const noAges: ConnectionAges = { maxAgeMs: Infinity, graceMs: Infinity };

/** The spread of gRPC's own servers, so that connections opened together do not end together. */
const jitter = 0.1;

/** The step that is due now. */
export type AgeStep = 'nothing' | 'drain' | 'cut';

/** The age of one connection. Each step is due once. */
export class ConnectionAge {
  readonly #graceMs: number;
  #nextMs: number;
  #isDraining = false;

  /** `random` is from 0 to below 1. */
  constructor({ maxAgeMs, graceMs }: ConnectionAges, nowMs: number, random: number) {
    this.#graceMs = graceMs;
    this.#nextMs = nowMs + maxAgeMs * (1 - jitter + 2 * jitter * random);
  }

  due(nowMs: number): AgeStep {
    if (nowMs < this.#nextMs) return 'nothing';
    if (this.#isDraining) {
      this.#nextMs = Infinity;
      return 'cut';
    }
    this.#isDraining = true;
    this.#nextMs = nowMs + this.#graceMs;
    return 'drain';
  }
}

type ConnectionRejection =
  | ViolationReason
  | TlsRejection
  | 'too_many_connections'
  | 'max_connection_age'
  | 'unfinished_request';

/** Reasons for rejecting or ending connections, which are counted and logged. */
export const connectionRejections: readonly ConnectionRejection[] = [
  'too_many_connections',
  /** Its calls outlasted the grace period after its maximum age. */
  'max_connection_age',
  /** This concerns only one call: its request was not complete in time. */
  'unfinished_request',
  ...tlsRejections,
  ...violationReasons,
];

/** One connection and its end. */
export interface RejectedConnection {
  reason: ConnectionRejection;
  /** Address and port, `unix socket`, or `unknown` if the peer is already gone. */
  peer: string;
  /** The reason as text; for a handshake one of many. */
  problem: string;
}

/** Returns the text for `reason` if there is none that is more exact. */
function rejectionText(reason: Exclude<ConnectionRejection, TlsRejection>): string {
  if (reason === 'too_many_connections') return 'the maximum number of connections is open';
  if (reason === 'max_connection_age') return 'its calls took longer than the grace after its maximum age';
  if (reason === 'unfinished_request') return 'it did not complete a request in time';
  return violationTexts[reason];
}

export function isTlsRejection(reason: ConnectionRejection): boolean {
  return (tlsRejections as readonly string[]).includes(reason);
}

export interface SocketServerListener extends CertificateListener {
  rejected(connection: RejectedConnection): void;
}

export interface Http2SocketServerOptions {
  handler: RequestHandler;
  limits: Http2Limits;
  /** Defaults to none. */
  ages?: ConnectionAges | undefined;
  /** Further connections are closed at once. Defaults to no bound. */
  maxConnections?: number | undefined;
  /** The account of all connections' memory. Defaults to a separate one without a bound. */
  connectionMemory?: ConnectionMemory | undefined;
  /** The turns in which input is served. Defaults to separate ones. */
  turns?: LoopTurns | undefined;
  /** The queue for answers that were not available at once. Defaults to a separate one. */
  flushTurn?: FlushTurn | undefined;
  /** Undefined: no TLS. */
  tls?: TlsOptions | undefined;
  clock: Clock;
  timers: Timers;
  /** Returns a number from 0 to below 1. */
  random: () => number;
  listener: SocketServerListener;
  /** Called when a defect ended a connection (`internal_error`). */
  onFault: (error: unknown) => void;
}

/** Chosen: the precision of the times of `Http2Limits` and of ages. */
const tickMs = 250;

interface OpenConnection {
  http2: Http2Connection;
  age: ConnectionAge;
  transport: SocketTransport;
  peer: string;
  memory: ConnectionBytes;
}

/**
 * Listens, and serves HTTP/2 on every accepted connection. One timer serves all. Whatever a peer does or fails to do ends only its own
 * connection.
 */
export class Http2SocketServer {
  readonly #options: Http2SocketServerOptions;
  readonly #connectionMemory: ConnectionMemory;
  readonly #turns: LoopTurns;
  readonly #sockets = new OpenSockets();
  readonly #connections = new Set<OpenConnection>();
  readonly #flushTurn: FlushTurn;
  #server: Server | undefined;
  /** Set while there are connections. */
  #endTicks: (() => void) | undefined;
  #endWatch = (): void => {};
  #closing: Promise<void> | undefined;
  #isUnix = false;

  constructor(options: Http2SocketServerOptions) {
    this.#options = options;
    this.#connectionMemory =
      options.connectionMemory ??
      new ConnectionMemory({ maxBytes: Number.POSITIVE_INFINITY, timers: options.timers });
    this.#turns = options.turns ?? new LoopTurns();
    this.#flushTurn = options.flushTurn ?? new FlushTurn();
  }

  /** The connections that speak HTTP/2, or are about to. */
  get connections(): number {
    return this.#connections.size;
  }

  /** Rejects with a BindError, or with a WatchedFilesError of the TLS files. A Unix socket has the port 0. */
  async listen(address: ListenAddress | UnixAddress): Promise<{ port: number }> {
    const { tls, maxConnections = Number.POSITIVE_INFINITY } = this.#options;
    this.#isUnix = 'path' in address;
    const server = tls === undefined ? this.#plainServer() : await this.#tlsServer(tls);
    server.maxConnections = maxConnections;
    server.on('connection', () => this.#turns.accepted());
    server.on('drop', (peer) => {
      this.#turns.accepted();
      this.#rejected('too_many_connections', this.#nameOf(peer ?? {}));
    });
    try {
      const bound = 'path' in address ? await bindPath(server, address) : await bind(server, address);
      // This error concerns one connection that could not be accepted, for lack of file descriptors for example.
      server.on('error', () => {});
      this.#server = server;
      // `close` was called while it opened.
      if (this.#closing !== undefined) {
        this.#endWatch();
        server.close();
      }
      return bound;
    } catch (error) {
      this.#endWatch();
      throw error;
    }
  }

  /** Accepts no more connections and notifies the open ones. Resolves when the last one ended, or was cut after the grace period. */
  close(graceMs: number): Promise<void> {
    this.#closing ??= this.#close(graceMs);
    return this.#closing;
  }

  async #close(graceMs: number): Promise<void> {
    this.#endWatch();
    const server = this.#server;
    if (server === undefined) return;
    await closeOrCut({
      close: (closed) => {
        server.close(() => closed());
        for (const { http2 } of this.#connections) http2.drain();
      },
      cut: () => this.#sockets.cut(),
      graceMs,
    });
    this.#stopTicks();
  }

  #plainServer(): Server {
    const server = createServer({ noDelay: true, allowHalfOpen: true });
    return server.on('connection', (socket) => this.#accept(socket));
  }

  async #tlsServer(tls: TlsOptions): Promise<Server> {
    const { timers, listener } = this.#options;
    const { clientName, reloadIntervalMs, fileSettings, ...files } = tls;
    let use = (_credentials: SecureContextOptions): void => {};
    const { first, close } = await watchCertificate(
      {
        files,
        ...(fileSettings === undefined ? {} : { settings: fileSettings }),
        timers,
        reloadIntervalMs,
      },
      listener,
      (credentials) => use(credentials),
    );
    this.#endWatch = close;
    const { server, useCredentials } = createTlsListener({
      credentials: first,
      clientName,
      isUnix: this.#isUnix,
      connectionMemory: this.#connectionMemory,
      accept: (socket) => this.#accept(socket),
      rejected: (reason, peer, problem) => listener.rejected({ reason, peer, problem }),
    });
    use = useCredentials;
    // A connection in its handshake is not counted yet, and must not delay the end.
    return server.on('connection', (socket) => this.#sockets.add(socket));
  }

  #accept(socket: Socket): void {
    const { clock, handler, limits, ages = noAges, random } = this.#options;
    this.#sockets.add(socket);
    const transport = new SocketTransport(socket, { turns: this.#turns, flushTurn: this.#flushTurn, clock });
    const peer = this.#nameOf(socket);
    const nowMs = clock.monotonicMs();
    const http2 = new Http2Connection({
      handler,
      transport,
      peer: new SocketPeer(socket, peer),
      limits,
      nowMs,
      scheduleFlush: this.#flushTurn.schedule,
      onViolation: (reason, error) => {
        this.#rejected(reason, peer);
        if (reason === 'internal_error') this.#options.onFault(error);
      },
      onUnfinishedRequest: () => this.#rejected('unfinished_request', peer),
      onShed: () => this.#rejected('too_many_bytes', peer),
      onBufferedBytes: (bytes) => memory.report(bytes + transport.unreadBytes),
    });
    const memory = this.#connectionMemory.open(socket.remoteAddress, {
      shed: () => {
        const isLess = http2.shed(transport.unreadBytes > 0);
        memory.set(http2.bufferedBytes + transport.unreadBytes);
        return isLess;
      },
    });
    const connection = { http2, transport, peer, memory, age: new ConnectionAge(ages, nowMs, random()) };
    this.#opened(connection);
    transport.read(http2, () => memory.report(http2.bufferedBytes + transport.unreadBytes));
    socket.on('drain', () => http2.onDrain());
    // 'close' follows a reset or another error.
    socket.on('error', () => {});
    socket.on('close', () => {
      transport.closed();
      this.#closed(connection);
      http2.lost();
      memory.close();
    });
    // The connection was accepted after `close` was called.
    if (this.#closing !== undefined) http2.drain();
  }

  /** Returns the peer's name. Call it at once: a socket that its peer reset has no address any more. */
  #nameOf(socket: { remoteAddress?: string | undefined; remotePort?: number | undefined }): string {
    return this.#isUnix ? unixPeer : (peerName(socket) ?? 'unknown');
  }

  #rejected(reason: Exclude<ConnectionRejection, TlsRejection>, peer: string): void {
    this.#options.listener.rejected({ reason, peer, problem: rejectionText(reason) });
  }

  #opened(connection: OpenConnection): void {
    this.#connections.add(connection);
    this.#endTicks ??= this.#options.timers.every(tickMs, () => this.#tick());
  }

  #closed(connection: OpenConnection): void {
    this.#connections.delete(connection);
    if (this.#connections.size === 0) this.#stopTicks();
  }

  #stopTicks(): void {
    this.#endTicks?.();
    this.#endTicks = undefined;
  }

  #tick(): void {
    const nowMs = this.#options.clock.monotonicMs();
    for (const { http2, age, transport, peer, memory } of this.#connections) {
      http2.tick(nowMs);
      // The system may hand over a little more of waiting input without an event.
      if (transport.unreadBytes > 0) memory.report(http2.bufferedBytes + transport.unreadBytes);
      const step = age.due(nowMs);
      if (step === 'nothing') continue;
      if (step === 'drain') http2.ageOut();
      else {
        this.#rejected('max_connection_age', peer);
        transport.destroy();
      }
    }
  }
}

async function bindPath(server: Server, address: UnixAddress): Promise<{ port: number }> {
  await bindUnix(server, address);
  return { port: 0 };
}
