/** Plain and TLS connections of limiters, for `@grpc/grpc-js`. */
import { createServer as createPlainServer, type Server, type Socket } from 'node:net';
import { createServer as createTlsServer, type SecureContextOptions, type TLSSocket } from 'node:tls';
import { listenerCredentials } from '../../process/net/tls-credentials.ts';
import { handshakeProblem, handshakeTimeoutMs } from '../../process/net/tls-handshake.ts';
import { type LimiterConnections, peerOf } from './limiter-connections.ts';

export interface TransportOptions {
  connections: LimiterConnections;
  /** Accepts a connection that is ready for HTTP/2. */
  accept(socket: Socket): void;
  handshakeFailed(peer: string, reason: string): void;
}

/**
 * The process creates the sockets itself. So binding errors are exact, TLS files change without a restart, and shutdown has a time limit.
 */
export interface XdsTransport {
  server: Server;
}

export function plainTransport({ connections, accept }: TransportOptions): XdsTransport {
  const server = createPlainServer({ noDelay: true });
  server.on('connection', (socket) => {
    connections.add(socket);
    accept(socket);
  });
  return { server };
}

export interface TlsTransport extends XdsTransport {
  /** Sets the credentials for new handshakes. Open connections stay. */
  useCredentials(credentials: SecureContextOptions): void;
}

export interface TlsTransportOptions extends TransportOptions {
  /** With `ca`, clients without a certificate are accepted, too. If a client sends a certificate, it is still verified. */
  mayShowNone: boolean;
}

/** With `ca`, clients must send a certificate of one of these authorities. */
export function tlsTransport(credentials: SecureContextOptions, options: TlsTransportOptions): TlsTransport {
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
  return { server, useCredentials: (next) => server.setSecureContext(listenerCredentials(next)) };
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
