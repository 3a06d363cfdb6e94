/** The gRPC listener: unary methods given as handlers of bytes, and the standard health service. */
import { createServer, type Socket } from 'node:net';
import { Server, ServerCredentials } from '@grpc/grpc-js';
import { bind, type ListenAddress } from '../../process/bind.ts';
import { closeOrCut } from '../../process/close-or-cut.ts';
import type { HealthView } from '../../process/health.ts';
import type { UnaryHandler } from '../unary-handler.ts';
import { type CallObserver, serveStream, serveUnary } from './grpc-js-calls.ts';
import { HealthService } from './health-service.ts';

export interface GrpcServerOptions extends CallObserver {
  /** By full path, for example `/package.Service/Method`. */
  unary: ReadonlyMap<string, UnaryHandler>;
  health: HealthView;
  /** How long running calls may take at shutdown before they are cut. */
  shutdownGraceMs: number;
}

export interface GrpcServer {
  /** Rejects with a BindError. */
  listen(address: ListenAddress): Promise<{ port: number }>;
  /** Takes no more calls; settles when the last one ended, or was cut after the grace. */
  shutdown(): Promise<void>;
}

/** As gRPC's other servers have it. */
const longestMessageBytes = 4 * 1024 * 1024;

/** How long a peer may take to hang up after we did: a reset at once could cost it our last frames. */
const lingerMs = 500;

export function createGrpcServer(options: GrpcServerOptions): GrpcServer {
  const grpc = new Server({
    'grpc.max_receive_message_length': longestMessageBytes,
    'grpc.enable_channelz': 0,
  });
  const health = new HealthService(options.health);
  const unary = new Map(options.unary);
  unary.set('/grpc.health.v1.Health/Check', health.check).set('/grpc.health.v1.Health/List', health.list);
  for (const [path, handler] of unary) {
    grpc.register(path, serveUnary(methodName(path), handler, options), encode, decode, 'unary');
  }
  const watch = serveStream('Watch', health.watch, options);
  grpc.register('/grpc.health.v1.Health/Watch', watch, encode, decode, 'serverStream');
  return new GrpcJsServer({ grpc, health, shutdownGraceMs: options.shutdownGraceMs });
}

/** The sockets are ours, which gives exact errors of binding and an end that no stuck peer can hold up. */
class GrpcJsServer implements GrpcServer {
  readonly #grpc: Server;
  readonly #health: HealthService;
  readonly #shutdownGraceMs: number;
  readonly #sockets = new Set<Socket>();
  readonly #listener = createServer({ noDelay: true });
  #shutdown: Promise<void> | undefined;

  constructor(parts: { grpc: Server; health: HealthService; shutdownGraceMs: number }) {
    this.#grpc = parts.grpc;
    this.#health = parts.health;
    this.#shutdownGraceMs = parts.shutdownGraceMs;
    const injector = this.#grpc.createConnectionInjector(ServerCredentials.createInsecure());
    this.#listener.on('connection', (socket) => {
      this.#watchSocket(socket);
      injector.injectConnection(socket);
    });
  }

  #watchSocket(socket: Socket): void {
    this.#sockets.add(socket);
    let linger: NodeJS.Timeout | undefined;
    socket.on('finish', () => {
      linger = setTimeout(() => socket.destroy(), lingerMs);
    });
    socket.on('close', () => {
      clearTimeout(linger);
      this.#sockets.delete(socket);
    });
  }

  listen(address: ListenAddress): Promise<{ port: number }> {
    return bind(this.#listener, address);
  }

  shutdown(): Promise<void> {
    this.#shutdown ??= this.#stop();
    return this.#shutdown;
  }

  #stop(): Promise<void> {
    this.#health.stop();
    return closeOrCut({
      close: (closed) => {
        this.#listener.close(() => closed());
        this.#grpc.tryShutdown(() => {});
      },
      cut: () => {
        for (const socket of this.#sockets) socket.destroy();
      },
      graceMs: this.#shutdownGraceMs,
    });
  }
}

function methodName(path: string): string {
  return path.slice(path.lastIndexOf('/') + 1);
}

function encode(message: Uint8Array): Buffer {
  return Buffer.isBuffer(message)
    ? message
    : Buffer.from(message.buffer, message.byteOffset, message.byteLength);
}

function decode(message: Buffer): Buffer {
  return message;
}
