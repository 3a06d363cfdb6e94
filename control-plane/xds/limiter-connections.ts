/**
 * The connections of limiters for `@grpc/grpc-js`, with and without TLS, and the memory that each of them uses for a peer that does not
 * cooperate: incomplete requests, and responses that the peer does not read.
 */
import { createServer as createPlainServer, type Server, type Socket } from 'node:net';
import type { Readable } from 'node:stream';
import {
  createServer as createTlsServer,
  type SecureContextOptions,
  type TLSSocket,
  type Server as TlsServer,
} from 'node:tls';
import {
  ServerInterceptingCall,
  type ServerInterceptingCallInterface,
  type ServerInterceptor,
} from '@grpc/grpc-js';
import { OpenSockets } from '../../process/net/bind.ts';
import {
  type ConnectionBytes,
  ConnectionMemory,
  type MemoryOwner,
} from '../../process/net/connection-memory.ts';
import { addressGroup } from '../../process/net/peer.ts';
import { listenerCredentials } from '../../process/net/tls-credentials.ts';
import { handshakeProblem, handshakeTimeoutMs } from '../../process/net/tls-handshake.ts';
import { FairQueue } from '../../process/queues/fair-queue.ts';
import type { Timers } from '../../process/time/clock.ts';
import type { ConnectionCut } from '../telemetry/metric-set.ts';

export interface LimiterConnectionsOptions {
  timers: Timers;
  /** Called for each connection that is cut because of a bound. */
  wasCut(reason: ConnectionCut, peer: string): void;
  /** The maximum number of connections without a discovery stream. Defaults to 1,000. */
  maxIdle?: number;
  /** The maximum memory of all connections together. Defaults to 128 MiB. */
  maxBufferedBytes?: number;
}

/** Chosen: room for new connections and those of health checks. */
const defaultMaxIdle = 1_000;
/** Chosen: a sixth of the memory that the chart allows. */
const defaultMaxBufferedBytes = 128 * 1024 * 1024;

export class LimiterConnections {
  readonly sockets = new OpenSockets();
  readonly #options: LimiterConnectionsOptions;
  readonly #connectionMemory: ConnectionMemory;
  readonly #byPeer = new Map<string, LimiterConnection>();
  /** The connections without a discovery stream, by address. The connection that has been idle longest is first. */
  readonly #idle = new FairQueue<LimiterConnection>();

  constructor(options: LimiterConnectionsOptions) {
    const { timers, maxBufferedBytes: maxBytes = defaultMaxBufferedBytes } = options;
    this.#options = options;
    this.#connectionMemory = new ConnectionMemory({ maxBytes, timers });
  }

  add(socket: Socket): void {
    const peer = peerOf(socket);
    this.sockets.add(socket);
    const { maxIdle = defaultMaxIdle } = this.#options;
    if (this.#idle.size >= maxIdle) this.#idle.shed()?.cut('idle');
    const wasCut = (reason: ConnectionCut) => this.#options.wasCut(reason, peer);
    const connection = new LimiterConnection(socket, { idle: this.#idle, wasCut });
    connection.memory = this.#connectionMemory.open(socket.remoteAddress, connection);
    this.#byPeer.set(peer, connection);
    this.#idle.add(connection);
    // Handles errors before HTTP/2 takes over. The connection closes itself.
    socket.on('error', () => {});
    socket.on('close', () => {
      connection.memory?.close();
      this.#idle.remove(connection);
      if (this.#byPeer.get(peer) === connection) this.#byPeer.delete(peer);
    });
  }

  /** Returns the connection from this address and port. Undefined if it has closed. */
  of(peer: string): LimiterConnection | undefined {
    return this.#byPeer.get(peer);
  }

  /** Closes: no more connections are accepted. */
  close(): void {
    this.#connectionMemory.close();
  }
}

/** After its end, a connection neither counts nor holds memory. */
export class LimiterConnection implements MemoryOwner {
  readonly group: string;
  memory: ConnectionBytes | undefined;
  readonly #socket: Socket;
  readonly #idle: FairQueue<LimiterConnection>;
  readonly #wasCut: (reason: ConnectionCut) => void;
  #streams = 0;
  #bytes = 0;

  constructor(
    socket: Socket,
    { idle, wasCut }: { idle: FairQueue<LimiterConnection>; wasCut(reason: ConnectionCut): void },
  ) {
    this.group = addressGroup(socket.remoteAddress);
    this.#socket = socket;
    this.#idle = idle;
    this.#wasCut = wasCut;
  }

  /** Counts streams. Call it with 1 when a discovery stream begins, and with -1 when it has ended. */
  countStream(by: 1 | -1): void {
    this.#streams += by;
    if (this.#socket.destroyed) return;
    if (this.#streams === 0) this.#idle.add(this);
    else this.#idle.remove(this);
  }

  /** The connection holds this number of bytes more, or fewer if it is negative. */
  hold(bytes: number): void {
    this.#bytes += bytes;
    if (!this.#socket.destroyed) this.memory?.report(this.#bytes);
  }

  shed(): boolean {
    this.cut('memory');
    this.memory?.set(0);
    return true;
  }

  cut(reason: ConnectionCut): void {
    if (this.#socket.destroyed) return;
    this.#wasCut(reason);
    this.destroy();
  }

  destroy(): void {
    this.#socket.destroy();
  }
}

/** Returns the address in the form that grpc-js uses. */
export function peerOf({ remoteAddress, remotePort }: Socket): string {
  return remoteAddress === undefined ? 'unknown' : `${remoteAddress}:${remotePort}`;
}

/**
 * Counts the unfinished messages of a peer as memory of its connection. grpc-js stores the parts of a message until the message is
 * complete, for each stream of each connection.
 */
export function watchUnfinishedMessages(connections: LimiterConnections): ServerInterceptor {
  return (_method, call) => {
    const stream = streamOf(call);
    const connection = connections.of(call.getPeer());
    const message = new UnfinishedMessage();
    let held = 0;
    const hold = (bytes: number): void => {
      if (bytes !== held) connection?.hold(bytes - held);
      held = bytes;
    };
    stream.on('data', (chunk: Buffer) => {
      message.take(chunk);
      hold(message.held);
    });
    stream.once('close', () => hold(0));
    return new ServerInterceptingCall(call);
  };
}

/** Returns the stream of a call. grpc-js offers no other access to the bytes of a call. */
function streamOf(call: ServerInterceptingCallInterface): Readable {
  const { stream } = call as unknown as { stream?: Readable };
  if (stream === undefined) throw new Error('grpc-js keeps the stream of a call elsewhere');
  return stream;
}

const prefixBytes = 5;

/** Follows length-prefixed messages, and reports the received part of the last message while it is incomplete. */
export class UnfinishedMessage {
  #prefix = Buffer.alloc(prefixBytes);
  #inPrefix = 0;
  #length = 0;
  #came = 0;

  get held(): number {
    return this.#inPrefix + this.#came;
  }

  take(chunk: Uint8Array): void {
    for (let at = 0; at < chunk.length; ) {
      if (this.#inPrefix < prefixBytes) {
        this.#prefix[this.#inPrefix] = chunk[at] as number;
        this.#inPrefix += 1;
        at += 1;
        if (this.#inPrefix === prefixBytes) this.#length = this.#prefix.readUInt32BE(1);
      } else {
        const part = Math.min(this.#length - this.#came, chunk.length - at);
        this.#came += part;
        at += part;
      }
      if (this.#inPrefix < prefixBytes || this.#came < this.#length) continue;
      this.#inPrefix = 0;
      this.#came = 0;
    }
  }
}

export interface TransportOptions {
  connections: LimiterConnections;
  /** Accepts a connection that is ready for HTTP/2. */
  accept(socket: Socket): void;
  handshakeFailed(peer: string, reason: string): void;
}

/**
 * Creates the server of a port. The process creates the sockets itself. So binding errors are exact, TLS files change without a restart,
 * and shutdown has a time limit.
 */
export function plainServer({ connections, accept }: TransportOptions): Server {
  const server = createPlainServer({ noDelay: true });
  server.on('connection', (socket) => {
    connections.add(socket);
    accept(socket);
  });
  return server;
}

/**
 * Creates the server of a port with TLS. `setSecureContext` sets the credentials for new handshakes. With `ca`, clients must send a
 * certificate of one of these authorities. With `mayShowNone`, a client need not send one, but a certificate is still verified.
 */
export function tlsServer(
  credentials: SecureContextOptions,
  options: TransportOptions & { mayShowNone: boolean },
): TlsServer {
  const needsClientCertificate = credentials.ca !== undefined;
  const { connections } = options;
  const server = createTlsServer({
    ...listenerCredentials(credentials),
    ALPNProtocols: ['h2'],
    requestCert: needsClientCertificate,
    rejectUnauthorized: needsClientCertificate && !options.mayShowNone,
    handshakeTimeout: handshakeTimeoutMs,
    noDelay: true,
  });
  server.on('connection', (socket: Socket) => connections.add(socket));
  server.on('secureConnection', (socket: TLSSocket) => {
    connections.sockets.add(socket);
    const problem = certificateProblem(socket, needsClientCertificate) ?? protocolProblem(socket);
    if (problem === undefined) return options.accept(socket);
    options.handshakeFailed(peerOf(socket), problem);
    socket.destroy();
  });
  server.on('tlsClientError', (error, socket) =>
    options.handshakeFailed(peerOf(socket), handshakeProblem(error, socket)),
  );
  return server;
}

/** Returns the problem of a certificate that is invalid although TLS itself accepted it. */
function certificateProblem(socket: TLSSocket, isVerified: boolean): string | undefined {
  if (!isVerified || socket.authorized || Object.keys(socket.getPeerCertificate()).length === 0)
    return undefined;
  return `the caller's certificate is not valid (${socket.authorizationError})`;
}

function protocolProblem({ alpnProtocol }: TLSSocket): string | undefined {
  return alpnProtocol === 'h2' ? undefined : 'the client does not speak HTTP/2';
}
