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
import type { Clock, Timers } from '../../process/time/clock.ts';
import { FlushTurn, LoopTurns } from '../../process/time/loop-turns.ts';
import { Http2Connection } from '../http2/connection.ts';
import type { Http2Limits } from '../http2/limits.ts';
import type { RequestHandler } from '../http2/request-handler.ts';
import { type ViolationReason, violationReasons, violationTexts } from '../http2/violation.ts';
import { SocketTransport } from './socket-transport.ts';
import { createTlsListener, type TlsOptions, type TlsRefusal, tlsRefusals } from './tls-listener.ts';

/**
 * How old a connection may become, so that callers that keep theirs for ever find new limiters after all:
 *
 *   open ──age, up to a tenth sooner or later──> draining (GOAWAY) ──grace──> cut
 */
export interface ConnectionAges {
  /** `Infinity`: never. */
  maxAgeMs: number;
  /** `Infinity`: its calls may take as long as they take. */
  graceMs: number;
}

const noAges: ConnectionAges = { maxAgeMs: Infinity, graceMs: Infinity };

/** As gRPC's own servers spread it, so that connections opened together do not end together. */
const jitter = 0.1;

/** What is due now. */
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

type ConnectionRefusal =
  | ViolationReason
  | TlsRefusal
  | 'too_many_connections'
  | 'max_connection_age'
  | 'unfinished_request';

/** Why connections are not served, or served no longer: what is counted, and what is said of it. */
export const connectionRefusals: readonly ConnectionRefusal[] = [
  'too_many_connections',
  /** Its calls outlasted the grace after its age. */
  'max_connection_age',
  /** One call alone: its request was not complete in time. */
  'unfinished_request',
  ...tlsRefusals,
  ...violationReasons,
];

/** One connection and its end. */
export interface RefusedConnection {
  reason: ConnectionRefusal;
  /** Address and port, `unix socket`, or `unknown` of one that is gone already. */
  peer: string;
  /** The reason in words; of a handshake one of many. */
  problem: string;
}

/** In words what `reason` says, where there is nothing more exact. */
function refusalText(reason: Exclude<ConnectionRefusal, TlsRefusal>): string {
  if (reason === 'too_many_connections') return 'as many connections as may be are open';
  if (reason === 'max_connection_age') return 'its calls outlasted the grace after its greatest age';
  if (reason === 'unfinished_request') return 'it began a request and did not end it in time';
  return violationTexts[reason];
}

export function isTlsRefusal(reason: ConnectionRefusal): boolean {
  return (tlsRefusals as readonly string[]).includes(reason);
}

export interface SocketServerListener extends CertificateListener {
  refused(connection: RefusedConnection): void;
}

export interface Http2SocketServerOptions {
  handler: RequestHandler;
  limits: Http2Limits;
  /** Defaults to none. */
  ages?: ConnectionAges | undefined;
  /** Further ones are closed at once. Defaults to no bound. */
  maxConnections?: number | undefined;
  /** What the connections hold is a part of it. Defaults to an account of its own without a bound. */
  connectionMemory?: ConnectionMemory | undefined;
  /** In which what the connections sent is served. Defaults to turns of its own. */
  turns?: LoopTurns | undefined;
  /** When answers are written that did not come at once. Defaults to one of its own. */
  flushTurn?: FlushTurn | undefined;
  /** Undefined: no TLS. */
  tls?: TlsOptions | undefined;
  clock: Clock;
  timers: Timers;
  /** From 0 to below 1. */
  random: () => number;
  listener: SocketServerListener;
  /** A defect of ours ended a connection (`internal_error`). */
  onFault: (error: unknown) => void;
}

/** Chosen: how exact the times of `Http2Limits` and of ages are. */
const tickMs = 250;

interface OpenConnection {
  http2: Http2Connection;
  age: ConnectionAge;
  transport: SocketTransport;
  peer: string;
  memory: ConnectionBytes;
}

/**
 * Listens, and gives every connection that is accepted its HTTP/2. One timer serves them all; what one peer does, or
 * fails to do, ends its own connection and nothing else.
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

  /** That speak HTTP/2, or are about to. */
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
      this.#refused('too_many_connections', this.#nameOf(peer ?? {}));
    });
    try {
      const bound = 'path' in address ? await bindPath(server, address) : await bind(server, address);
      // Of one connection that could not be accepted, for want of file descriptors for example.
      server.on('error', () => {});
      this.#server = server;
      // The end came while it opened.
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

  /** Takes no more connections and reports to those there are; settles when the last one ended, or was cut after the grace. */
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
        ...(reloadIntervalMs === undefined ? {} : { reloadIntervalMs }),
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
      refused: (reason, peer, problem) => listener.refused({ reason, peer, problem }),
    });
    use = useCredentials;
    // While it shakes hands a connection is not among ours yet, and must not hold up the end.
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
        this.#refused(reason, peer);
        if (reason === 'internal_error') this.#options.onFault(error);
      },
      onUnfinishedRequest: () => this.#refused('unfinished_request', peer),
      onShed: () => this.#refused('too_many_bytes', peer),
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
    // A reset and the like: 'close' follows.
    socket.on('error', () => {});
    socket.on('close', () => {
      transport.closed();
      this.#closed(connection);
      http2.lost();
      memory.close();
    });
    // Accepted when the end had begun.
    if (this.#closing !== undefined) http2.drain();
  }

  /** Asked at once: a socket that its peer reset has no address any more. */
  #nameOf(socket: { remoteAddress?: string | undefined; remotePort?: number | undefined }): string {
    return this.#isUnix ? unixPeer : (peerName(socket) ?? 'unknown');
  }

  #refused(reason: Exclude<ConnectionRefusal, TlsRefusal>, peer: string): void {
    this.#options.listener.refused({ reason, peer, problem: refusalText(reason) });
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
      // The system hands over a little more of what waits, and reports nobody.
      if (transport.unreadBytes > 0) memory.report(http2.bufferedBytes + transport.unreadBytes);
      const step = age.due(nowMs);
      if (step === 'nothing') continue;
      if (step === 'drain') http2.ageOut();
      else {
        this.#refused('max_connection_age', peer);
        transport.destroy();
      }
    }
  }
}

async function bindPath(server: Server, address: UnixAddress): Promise<{ port: number }> {
  await bindUnix(server, address);
  return { port: 0 };
}
