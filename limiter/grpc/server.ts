/** A gRPC server: its methods by path, and the listener that answers them. */
import type { CallerGate, CallObserver, CallTracer, UnaryHandler } from '../../process/grpc/handlers.ts';
import type { HealthView } from '../../process/grpc/health.ts';
import { HealthService } from '../../process/grpc/health-service.ts';
import type { ListenAddress, UnixAddress } from '../../process/net/bind.ts';
import { defaultHttp2Limits, type Http2Limits } from '../http2/limits.ts';
import {
  Http2SocketServer,
  type Http2SocketServerOptions,
  type SocketServerListener,
} from '../sockets/socket-server.ts';
import { type GrpcMethod, GrpcRequestHandler } from './request-handler.ts';

/** Creates further methods by path. It is given the paths that are already served. */
type FurtherMethods = (servedPaths: readonly string[]) => ReadonlyMap<string, GrpcMethod>;

type SocketOptions = Omit<Http2SocketServerOptions, 'handler' | 'limits' | 'listener' | 'onFault'>;

/** Options without description are those of sockets. */
export interface GrpcServerOptions extends CallObserver, SocketOptions {
  /** Methods by full path, for example `/package.Service/Method`. */
  unary: ReadonlyMap<string, UnaryHandler>;
  health: HealthView;
  /** How long calls may continue at shutdown before the server ends them. */
  shutdownGraceMs: number;
  /** Services of capabilities. Defaults to none. */
  further?: FurtherMethods | undefined;
  /** Differences from `defaultHttp2Limits`. */
  limits?: Partial<Http2Limits>;
  listener?: SocketServerListener;
  /** Defaults to none. */
  tracer?: CallTracer | undefined;
  /** Decides who may call methods that require a right. Defaults to all callers. */
  gate?: CallerGate | undefined;
}

/** The methods that a server answers, by path. */
export function grpcMethods({
  unary,
  health,
  further,
}: Pick<GrpcServerOptions, 'unary' | 'further'> & { health: HealthService }): Map<string, GrpcMethod> {
  const methods = new Map<string, GrpcMethod>();
  for (const [path, handler] of unary) {
    methods.set(path, { kind: 'unary', name: methodName(path), handler, isFree: false });
  }
  const healthPath = '/grpc.health.v1.Health/';
  methods.set(`${healthPath}Check`, { kind: 'unary', name: 'Check', handler: health.check, isFree: true });
  methods.set(`${healthPath}List`, { kind: 'unary', name: 'List', handler: health.list, isFree: true });
  methods.set(`${healthPath}Watch`, { kind: 'stream', name: 'Watch', handler: health.watch, isFree: true });
  return further === undefined ? methods : new Map([...methods, ...further([...methods.keys()])]);
}

function methodName(path: string): string {
  return path.slice(path.lastIndexOf('/') + 1);
}

export interface GrpcServer {
  /** The number of open connections. */
  readonly connections: number;
  /** Rejects with a BindError, or with a WatchedFilesError of the TLS files. A Unix socket has the port 0. */
  listen(address: ListenAddress | UnixAddress): Promise<{ port: number }>;
  /** Accepts no more calls. Resolves when the last call has ended, or was cut after the grace period. */
  shutdown(): Promise<void>;
}

const silent: SocketServerListener = {
  rejected: () => {},
  certificateInUse: () => {},
  certificateRejected: () => {},
};

/** Creates the gRPC listener: unary methods from handlers of bytes, the standard health service, and the services of capabilities. */
export function createGrpcServer(options: GrpcServerOptions): GrpcServer {
  const { unary, clock, timers, further, shutdownGraceMs } = options;
  const health = new HealthService(options.health, ['ratelimit']);
  const methods = grpcMethods({ unary, health, further });
  const handler = new GrpcRequestHandler({
    methods,
    clock,
    timers,
    callsOf: options.callsOf,
    onFault: options.onFault,
    tracer: options.tracer,
    gate: options.gate,
  });
  const sockets = new Http2SocketServer({
    ...options,
    handler,
    limits: { ...defaultHttp2Limits, ...options.limits },
    listener: options.listener ?? silent,
    onFault: (error) => options.onFault('HTTP/2', error),
  });
  return {
    get connections() {
      return sockets.connections;
    },
    listen: (address) => sockets.listen(address),
    shutdown: async () => {
      health.stop();
      await sockets.close(shutdownGraceMs);
      handler.close();
    },
  };
}
