/** The gRPC listener: unary methods given as handlers of bytes, and the standard health service. */
import { createServer } from 'node:net';
import { Server, ServerCredentials } from '@grpc/grpc-js';
import { bind, type ListenAddress } from '../../process/bind.ts';
import { closeOrCut } from '../../process/close-or-cut.ts';
import { type CallObserver, serveUnary } from '../../process/grpc/grpc-js-calls.ts';
import { registerHealth } from '../../process/grpc/health-methods.ts';
import { HealthService } from '../../process/grpc/health-service.ts';
import { OpenSockets } from '../../process/grpc/open-sockets.ts';
import { decodeBytes, encodeBytes } from '../../process/grpc/raw-bytes.ts';
import type { UnaryHandler } from '../../process/grpc/unary-handler.ts';
import type { HealthView } from '../../process/health.ts';

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

export function createGrpcServer(options: GrpcServerOptions): GrpcServer {
  const grpc = new Server({
    'grpc.max_receive_message_length': longestMessageBytes,
    'grpc.enable_channelz': 0,
  });
  const health = new HealthService(options.health, ['ratelimit']);
  registerHealth(grpc, health, options);
  for (const [path, handler] of options.unary) {
    grpc.register(path, serveUnary(methodName(path), handler, options), encodeBytes, decodeBytes, 'unary');
  }
  return new GrpcJsServer({ grpc, health, shutdownGraceMs: options.shutdownGraceMs });
}

/** The sockets are ours, which gives exact errors of binding and an end that no stuck peer can hold up. */
class GrpcJsServer implements GrpcServer {
  readonly #grpc: Server;
  readonly #health: HealthService;
  readonly #shutdownGraceMs: number;
  readonly #sockets = new OpenSockets();
  readonly #listener = createServer({ noDelay: true });
  #shutdown: Promise<void> | undefined;

  constructor(parts: { grpc: Server; health: HealthService; shutdownGraceMs: number }) {
    this.#grpc = parts.grpc;
    this.#health = parts.health;
    this.#shutdownGraceMs = parts.shutdownGraceMs;
    const injector = this.#grpc.createConnectionInjector(ServerCredentials.createInsecure());
    this.#listener.on('connection', (socket) => {
      this.#sockets.add(socket);
      injector.injectConnection(socket);
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
      cut: () => this.#sockets.cut(),
      graceMs: this.#shutdownGraceMs,
    });
  }
}

function methodName(path: string): string {
  return path.slice(path.lastIndexOf('/') + 1);
}
