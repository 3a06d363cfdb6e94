/** The gRPC listener: unary methods given as handlers of bytes, the standard health service, and reflection. */

import type { CallObserver } from '../../process/grpc/call-observer.ts';
import type { CallTracer } from '../../process/grpc/call-tracer.ts';
import type { CallerGate } from '../../process/grpc/caller-gate.ts';
import type { UnaryHandler } from '../../process/grpc/handlers.ts';
import type { HealthView } from '../../process/grpc/health.ts';
import { HealthService } from '../../process/grpc/health-service.ts';
import type { LoopTurns } from '../../process/loop-turns.ts';
import type { HeldBytes } from '../../process/net/held-bytes.ts';
import type { ListenAddress, UnixAddress } from '../../process/net/process-bind.ts';
import type { Timers } from '../../process/time/clock.ts';
import { defaultHttp2Limits, type Http2Limits } from '../http2/limits.ts';
import { type ConnectionAges, noAges } from '../sockets/connection-age.ts';
import { Http2SocketServer, type SocketServerListener } from '../sockets/socket-server.ts';
import type { TlsOptions } from '../sockets/tls-listener.ts';
import { grpcMethods, type ReflectionMethods } from './grpc-methods.ts';
import { GrpcRequestHandler } from './request-handler.ts';

export interface GrpcServerOptions extends CallObserver {
  /** By full path, for example `/package.Service/Method`. */
  unary: ReadonlyMap<string, UnaryHandler>;
  health: HealthView;
  timers: Timers;
  /** From 0 to below 1. */
  random: () => number;
  /** How long running calls may take at shutdown before they are cut. */
  shutdownGraceMs: number;
  /** The methods by which callers may ask what services there are; `reflection/` has them. Defaults to none. */
  reflection?: ReflectionMethods | undefined;
  /** What differs from `defaultHttp2Limits`. */
  limits?: Partial<Http2Limits>;
  /** Defaults to none. */
  ages?: ConnectionAges;
  /** Defaults to as many as there are. */
  maxConnections?: number;
  /** What its connections hold is a part of it. Defaults to no bound. */
  held?: HeldBytes | undefined;
  /** In which what its connections sent is served. Defaults to turns of its own. */
  turns?: LoopTurns | undefined;
  /** Defaults to no TLS. */
  tls?: TlsOptions;
  listener?: SocketServerListener;
  /** Defaults to none. */
  tracer?: CallTracer | undefined;
  /** Who may call what is no health check and no reflection. Defaults to everybody. */
  gate?: CallerGate | undefined;
}

export interface GrpcServer {
  /** How many are open. */
  readonly connections: number;
  /** Rejects with a BindError, or with a WatchedFilesError of the TLS files. A Unix socket has the port 0. */
  listen(address: ListenAddress | UnixAddress): Promise<{ port: number }>;
  /** Takes no more calls; settles when the last one ended, or was cut after the grace. */
  shutdown(): Promise<void>;
}

const silent: SocketServerListener = {
  refused: () => {},
  certificateInUse: () => {},
  certificateRefused: () => {},
};

export function createGrpcServer(options: GrpcServerOptions): GrpcServer {
  const { unary, clock, timers, random, shutdownGraceMs, reflection } = options;
  const health = new HealthService(options.health, ['ratelimit']);
  const handler = new GrpcRequestHandler({
    methods: grpcMethods({ unary, health, reflection }),
    clock,
    timers,
    onCall: options.onCall,
    onFault: options.onFault,
    tracer: options.tracer,
    gate: options.gate,
  });
  const sockets = new Http2SocketServer({
    handler,
    limits: { ...defaultHttp2Limits, ...options.limits },
    ages: options.ages ?? noAges,
    maxConnections: options.maxConnections ?? Number.POSITIVE_INFINITY,
    held: options.held,
    turns: options.turns,
    tls: options.tls,
    clock,
    timers,
    random,
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
