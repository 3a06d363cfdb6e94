/** Connections of limiters, plain or by TLS, on their way to `@grpc/grpc-js`. */
import { createServer as createPlainServer, type Server, type Socket } from 'node:net';
import { createServer as createTlsServer, type SecureContextOptions, type TLSSocket } from 'node:tls';
import { OpenSockets } from '../../process/net/bind.ts';
import { handshakeProblem, handshakeTimeoutMs } from '../../process/net/tls-handshake.ts';

export interface TransportOptions {
  /** Takes a connection that is ready for HTTP/2. */
  accept(socket: Socket): void;
  handshakeFailed(peer: string, reason: string): void;
}

/** The sockets are ours, which gives exact errors of binding, TLS without a restart, and an end that is bounded. */
export interface Transport {
  server: Server;
  sockets: OpenSockets;
  /** Destroys the connection from this address and port, if it is still there. */
  cut(peer: string): void;
}

export function plainTransport(options: TransportOptions): Transport {
  const server = createPlainServer({ noDelay: true });
  const connections = new Connections();
  server.on('connection', (socket) => {
    connections.add(socket);
    options.accept(socket);
  });
  return { server, sockets: connections.sockets, cut: (peer) => connections.cut(peer) };
}

export interface TlsTransport extends Transport {
  /** For the handshakes from now on; connections that are open stay. */
  useCredentials(credentials: SecureContextOptions): void;
}

export interface TlsTransportOptions extends TransportOptions {
  /** With `ca`: whoever shows no certificate is taken, too. One that is shown is verified all the same. */
  mayShowNone: boolean;
}

/** With `ca`, clients must show a certificate of one of these authorities. */
export function tlsTransport(credentials: SecureContextOptions, options: TlsTransportOptions): TlsTransport {
  const needsClientCertificate = credentials.ca !== undefined;
  const server = createTlsServer({
    ...credentials,
    ALPNProtocols: ['h2'],
    requestCert: needsClientCertificate,
    rejectUnauthorized: needsClientCertificate && !options.mayShowNone,
    handshakeTimeout: handshakeTimeoutMs,
    noDelay: true,
  });
  const connections = new Connections();
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
  return {
    server,
    sockets: connections.sockets,
    cut: (peer) => connections.cut(peer),
    useCredentials: (next) => server.setSecureContext(next),
  };
}

/** Of one that was shown and is not good; TLS itself passed it. */
function certificateProblem(socket: TLSSocket, isVerified: boolean): string | undefined {
  if (!isVerified || socket.authorized || Object.keys(socket.getPeerCertificate()).length === 0)
    return undefined;
  return `the caller's certificate is not good (${socket.authorizationError})`;
}

function protocolProblem({ alpnProtocol }: TLSSocket): string | undefined {
  return alpnProtocol === 'h2' ? undefined : 'the client does not speak HTTP/2';
}

class Connections {
  readonly sockets = new OpenSockets();
  readonly #byPeer = new Map<string, Socket>();

  add(socket: Socket): void {
    const peer = peerOf(socket);
    this.sockets.add(socket);
    this.#byPeer.set(peer, socket);
    // Before HTTP/2 has taken over; the connection closes by itself.
    socket.on('error', () => {});
    socket.on('close', () => {
      if (this.#byPeer.get(peer) === socket) this.#byPeer.delete(peer);
    });
  }

  cut(peer: string): void {
    this.#byPeer.get(peer)?.destroy();
  }
}

/** As grpc-js names it. */
function peerOf({ remoteAddress, remotePort }: Socket): string {
  return remoteAddress === undefined ? 'unknown' : `${remoteAddress}:${remotePort}`;
}
