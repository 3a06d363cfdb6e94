/** The TLS listener of the gRPC port: its options, and reports of failed handshakes with the peer and the reason. */
import type { Server, Socket } from 'node:net';
import { createServer, type SecureContextOptions, type TLSSocket } from 'node:tls';
import type { ConnectionBytes, ConnectionMemory } from '../../process/net/connection-memory.ts';
import { isOfName, peerName, unixPeer } from '../../process/net/peer.ts';
import {
  listenerCredentials,
  type TlsFileSettings,
  type TlsFiles,
} from '../../process/net/tls-credentials.ts';
import { handshakeBytes, handshakeProblem, handshakeTimeoutMs } from '../../process/net/tls-handshake.ts';
import { violationTexts } from '../http2/violation.ts';
import { endSocket } from './socket-transport.ts';

export const tlsRejections = [
  /** The handshake failed or took too long. */
  'tls_handshake',
  /** The client did not choose HTTP/2 by ALPN. */
  'tls_no_h2',
  /** The certificate is valid, but does not have the required name. */
  'tls_client_name',
] as const;
export type TlsRejection = (typeof tlsRejections)[number];

interface FailedHandshake {
  rejection: TlsRejection;
  problem: string;
  /** Whether only the end of the connection is known. */
  isHangUp: boolean;
}

interface OpenHandshakesOptions {
  /** Called for every failure, except those of peers that end without sending a byte, such as a probe of the port. */
  report(rejection: TlsRejection | 'too_many_bytes', peer: string, problem: string): void;
  /** The name of a peer without an address. */
  nameless: string;
  connectionMemory: ConnectionMemory;
}

/** Not every library sends the alert for this problem. */
const mayBeDistrust = ", perhaps because it does not trust the server's certificate";

interface Below {
  peer: string;
  socket: Socket;
  memory: ConnectionBytes | undefined;
}

/**
 * Finds the peer of a failed handshake. Node reports the failure with the TLS socket, which does not know its peer any more when the
 * connection is gone. It reports the end of the connection with the socket below, which knows the peer and the number of bytes. Both
 * events come in the same turn of the event loop and in the same order, and nothing else connects them. So failures without a name are
 * paired with ends in the order of their arrival.
 */
class OpenHandshakes {
  readonly #options: OpenHandshakesOptions;
  /** Connections in their handshake, by name. */
  readonly #open = new Map<string, Below>();
  #ended: Below[] = [];
  #failed: FailedHandshake[] = [];
  #isSettling = false;

  constructor(options: OpenHandshakesOptions) {
    this.#options = options;
  }

  /** Called with the accepted socket below TLS. */
  begun(socket: Socket): void {
    const name = peerName(socket);
    const below: Below = { peer: name ?? this.#options.nameless, socket, memory: undefined };
    // The end of a handshake without an address would not be reported.
    if (name !== undefined) this.#hold(below);
    if (name !== undefined) this.#open.set(name, below);
    socket.on('close', () => {
      below.memory?.close();
      if (name !== undefined && !this.#open.delete(name)) return;
      this.#ended.push(below);
      this.#pair();
    });
  }

  /** Called when the handshake of this peer succeeded. A peer without an address ends later without a partner. */
  done(name: string | undefined): void {
    if (name === undefined) return;
    this.#open.get(name)?.memory?.close();
    this.#open.delete(name);
  }

  failed(name: string | undefined, failure: FailedHandshake): void {
    const below = name === undefined ? undefined : this.#open.get(name);
    if (below === undefined) {
      this.#failed.push(failure);
      this.#pair();
      return;
    }
    this.done(name);
    this.#reportOf(below, failure);
  }

  #hold(below: Below): void {
    const { connectionMemory, report } = this.#options;
    below.memory = connectionMemory.open(below.socket.remoteAddress, {
      shed: () => {
        report('too_many_bytes', below.peer, violationTexts.too_many_bytes);
        // This is reported already, so later reports of its end are skipped.
        this.done(below.peer);
        below.socket.destroy();
        return true;
      },
    });
    below.memory.set(handshakeBytes);
  }

  #pair(): void {
    while (this.#ended.length > 0 && this.#failed.length > 0) {
      this.#reportOf(this.#ended.shift() as Below, this.#failed.shift() as FailedHandshake);
    }
    if (this.#isSettling || this.#ended.length + this.#failed.length === 0) return;
    this.#isSettling = true;
    setImmediate(() => this.#settle());
  }

  /** Drops what found no partner in its turn, so that it is not paired with an event of another connection. */
  #settle(): void {
    this.#isSettling = false;
    this.#ended = [];
    for (const { rejection, problem, isHangUp } of this.#failed.splice(0)) {
      if (!isHangUp) this.#options.report(rejection, this.#options.nameless, problem);
    }
  }

  #reportOf({ peer, socket }: Below, { rejection, problem, isHangUp }: FailedHandshake): void {
    if (isHangUp && socket.bytesRead === 0) return;
    this.#options.report(
      rejection,
      peer,
      isHangUp && socket.bytesWritten > 0 ? problem + mayBeDistrust : problem,
    );
  }
}

export interface TlsOptions extends TlsFiles {
  /** The DNS name or IP address that the certificate of a client must contain. Needs `clientCaFile`. */
  clientName?: string;
  /** The interval at which the files are checked. Defaults to 5 s. */
  reloadIntervalMs?: number;
  /** The settings that messages about the files name besides their paths. */
  fileSettings?: TlsFileSettings;
}

/** The ciphers of TLS 1.2 that RFC 9113, appendix A, permits: ephemeral keys and authenticated encryption. Then those of TLS 1.3. */
const ciphers = [
  'ECDHE-ECDSA-AES128-GCM-SHA256',
  'ECDHE-RSA-AES128-GCM-SHA256',
  'ECDHE-ECDSA-AES256-GCM-SHA384',
  'ECDHE-RSA-AES256-GCM-SHA384',
  'ECDHE-ECDSA-CHACHA20-POLY1305',
  'ECDHE-RSA-CHACHA20-POLY1305',
  'TLS_AES_128_GCM_SHA256',
  'TLS_AES_256_GCM_SHA384',
  'TLS_CHACHA20_POLY1305_SHA256',
].join(':');

/** The result also suits `setSecureContext` of the server, for new connections. */
export function secureContextOptions(credentials: SecureContextOptions): SecureContextOptions {
  return { ...listenerCredentials(credentials), ciphers };
}

/**
 * Creates a TLS listener with the options that HTTP/2 requires: RFC 9113, section 9.2. With authorities (`ca`), clients must present a
 * certificate of one of them.
 */
export function createTlsListener(options: {
  credentials: SecureContextOptions;
  clientName: string | undefined;
  /** Peers of a Unix socket have no address. */
  isUnix: boolean;
  /** The account for the memory of handshakes. */
  connectionMemory: ConnectionMemory;
  accept(socket: TLSSocket): void;
  rejected(rejection: TlsRejection | 'too_many_bytes', peer: string, problem: string): void;
}): { server: Server; useCredentials(credentials: SecureContextOptions): void } {
  const { credentials, clientName, isUnix, connectionMemory, accept, rejected } = options;
  const needsClientCertificate = credentials.ca !== undefined;
  const nameless = isUnix ? unixPeer : 'unknown';
  const handshakes = new OpenHandshakes({ report: rejected, nameless, connectionMemory });
  const server = createServer({
    ...secureContextOptions(credentials),
    ALPNProtocols: ['h2'],
    requestCert: needsClientCertificate,
    rejectUnauthorized: needsClientCertificate,
    handshakeTimeout: handshakeTimeoutMs,
    noDelay: true,
    // With half-open connections, a client that leaves during the handshake would stay until its timeout.
    allowHalfOpen: false,
  });
  server.on('connection', (socket: Socket) => handshakes.begun(socket));
  server.on('secureConnection', (socket: TLSSocket) => {
    handshakes.done(peerName(socket));
    const problem = rejectionOf(socket, clientName);
    if (problem === undefined) {
      // A caller that only ends its own side still gets its answers.
      socket.allowHalfOpen = true;
      return accept(socket);
    }
    socket.on('error', () => {});
    rejected(problem.rejection, peerName(socket) ?? nameless, problem.text);
    endSocket(socket);
  });
  server.on('tlsClientError', (error: Error & { code?: string }, socket) =>
    handshakes.failed(peerName(socket), {
      rejection: error.code === 'ERR_SSL_NO_APPLICATION_PROTOCOL' ? 'tls_no_h2' : 'tls_handshake',
      problem: handshakeProblem(error, socket),
      isHangUp: error.code === 'ECONNRESET' && !socket.authorizationError,
    }),
  );
  return { server, useCredentials: (next) => server.setSecureContext(secureContextOptions(next)) };
}

function rejectionOf(
  socket: TLSSocket,
  clientName: string | undefined,
): { rejection: TlsRejection; text: string } | undefined {
  if (socket.alpnProtocol !== 'h2') {
    return { rejection: 'tls_no_h2', text: 'the caller does not choose HTTP/2 (ALPN h2)' };
  }
  if (clientName === undefined || isOfName(socket.getPeerX509Certificate(), clientName)) return undefined;
  return { rejection: 'tls_client_name', text: `the caller's certificate does not contain ${clientName}` };
}
