/** The TLS listener of the gRPC port: what it offers, and whose handshake failed and why. */
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

export const tlsRefusals = [
  /** The handshake failed or took too long. */
  'tls_handshake',
  /** The client did not choose HTTP/2 by ALPN. */
  'tls_no_h2',
  /** Its certificate is good, and not of the name asked for. */
  'tls_client_name',
] as const;
export type TlsRefusal = (typeof tlsRefusals)[number];

interface FailedHandshake {
  refusal: TlsRefusal;
  problem: string;
  /** It says no more than that the connection ended. */
  isHangUp: boolean;
}

interface OpenHandshakesOptions {
  /** Hears of every failure but those of peers that went without a word, as a probe of the port does. */
  report(refusal: TlsRefusal | 'too_many_bytes', peer: string, problem: string): void;
  /** What a peer without an address is called. */
  nameless: string;
  connectionMemory: ConnectionMemory;
}

/** Not every library sends the alert for it. */
const mayBeDistrust = ", perhaps as it does not trust the server's certificate";

interface Below {
  peer: string;
  socket: Socket;
  memory: ConnectionBytes | undefined;
}

/**
 * Finds out whose handshake failed. Node reports a failure by the TLS socket, which has forgotten its peer when the
 * connection is gone, and of the end of the connection by the socket below it, which knows the peer and what went over it.
 * The two come in the same turn of the event loop and in the same order, and nothing else says that they belong together:
 * failures without a name are paired with ends as they come.
 */
class OpenHandshakes {
  readonly #options: OpenHandshakesOptions;
  /** By name: connections whose handshake goes on. */
  readonly #open = new Map<string, Below>();
  #ended: Below[] = [];
  #failed: FailedHandshake[] = [];
  #isSettling = false;

  constructor(options: OpenHandshakesOptions) {
    this.#options = options;
  }

  /** The socket below TLS, as it was accepted. */
  begun(socket: Socket): void {
    const name = peerName(socket);
    const below: Below = { peer: name ?? this.#options.nameless, socket, memory: undefined };
    // Of one without an address nobody would say when it is over.
    if (name !== undefined) this.#hold(below);
    if (name !== undefined) this.#open.set(name, below);
    socket.on('close', () => {
      below.memory?.close();
      if (name !== undefined && !this.#open.delete(name)) return;
      this.#ended.push(below);
      this.#pair();
    });
  }

  /** The handshake of this peer succeeded. One without an address ends later without a partner. */
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
        // Reported already: what else is said of its end is no news.
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

  /** What found no partner in its turn will not find one, and must not take that of another. */
  #settle(): void {
    this.#isSettling = false;
    this.#ended = [];
    for (const { refusal, problem, isHangUp } of this.#failed.splice(0)) {
      if (!isHangUp) this.#options.report(refusal, this.#options.nameless, problem);
    }
  }

  #reportOf({ peer, socket }: Below, { refusal, problem, isHangUp }: FailedHandshake): void {
    if (isHangUp && socket.bytesRead === 0) return;
    this.#options.report(
      refusal,
      peer,
      isHangUp && socket.bytesWritten > 0 ? problem + mayBeDistrust : problem,
    );
  }
}

export interface TlsOptions extends TlsFiles {
  /** DNS name, or IP address, that the certificate of a client must have. Needs `clientCaFile`. */
  clientName?: string;
  /** How often the files are looked at. Defaults to 5 s. */
  reloadIntervalMs?: number;
  /** What messages about the files name besides their paths. */
  fileSettings?: TlsFileSettings;
}

/** Those of TLS 1.2 that RFC 9113, appendix A, leaves: ephemeral keys and authenticated encryption. Then those of TLS 1.3. */
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

/** `setSecureContext` of the server takes the result, too: new connections get it. */
export function secureContextOptions(credentials: SecureContextOptions): SecureContextOptions {
  return { ...listenerCredentials(credentials), ciphers };
}

/**
 * TLS as HTTP/2 asks for it: RFC 9113, section 9.2.
 * With authorities (`ca`), clients must show a certificate of one of them.
 */
export function createTlsListener(options: {
  credentials: SecureContextOptions;
  clientName: string | undefined;
  /** On a Unix socket peers have no address. */
  isUnix: boolean;
  /** What handshakes hold is a part of it. */
  connectionMemory: ConnectionMemory;
  accept(socket: TLSSocket): void;
  refused(refusal: TlsRefusal | 'too_many_bytes', peer: string, problem: string): void;
}): { server: Server; useCredentials(credentials: SecureContextOptions): void } {
  const { credentials, clientName, isUnix, connectionMemory, accept, refused } = options;
  const needsClientCertificate = credentials.ca !== undefined;
  const nameless = isUnix ? unixPeer : 'unknown';
  const handshakes = new OpenHandshakes({ report: refused, nameless, connectionMemory });
  const server = createServer({
    ...secureContextOptions(credentials),
    ALPNProtocols: ['h2'],
    requestCert: needsClientCertificate,
    rejectUnauthorized: needsClientCertificate,
    handshakeTimeout: handshakeTimeoutMs,
    noDelay: true,
    // With half-open connections a client that goes in the midst of the handshake would stay until its timeout.
    allowHalfOpen: false,
  });
  server.on('connection', (socket: Socket) => handshakes.begun(socket));
  server.on('secureConnection', (socket: TLSSocket) => {
    handshakes.done(peerName(socket));
    const problem = refusalOf(socket, clientName);
    if (problem === undefined) {
      // A caller that only ends its own side still gets its answers.
      socket.allowHalfOpen = true;
      return accept(socket);
    }
    socket.on('error', () => {});
    refused(problem.refusal, peerName(socket) ?? nameless, problem.text);
    endSocket(socket);
  });
  server.on('tlsClientError', (error: Error & { code?: string }, socket) =>
    handshakes.failed(peerName(socket), {
      refusal: error.code === 'ERR_SSL_NO_APPLICATION_PROTOCOL' ? 'tls_no_h2' : 'tls_handshake',
      problem: handshakeProblem(error, socket),
      isHangUp: error.code === 'ECONNRESET' && !socket.authorizationError,
    }),
  );
  return { server, useCredentials: (next) => server.setSecureContext(secureContextOptions(next)) };
}

function refusalOf(
  socket: TLSSocket,
  clientName: string | undefined,
): { refusal: TlsRefusal; text: string } | undefined {
  if (socket.alpnProtocol !== 'h2') {
    return { refusal: 'tls_no_h2', text: 'the caller does not choose HTTP/2 (ALPN h2)' };
  }
  if (clientName === undefined || isOfName(socket.getPeerX509Certificate(), clientName)) return undefined;
  return { refusal: 'tls_client_name', text: `the caller's certificate is not of ${clientName}` };
}
