/** Opens the gRPC listener from settings. */
import type { UnaryHandler } from '../../process/grpc/handlers.ts';
import type { ListenAddress, UnixAddress } from '../../process/net/bind.ts';
import { createGrpcServer, type GrpcServer, type GrpcServerOptions } from '../grpc/server.ts';
import { lines } from '../log/lines.ts';
import { shouldRateLimitPath } from '../service/should-rate-limit.ts';
import type { LimiterSettings } from '../settings/settings.ts';
import { grpcCallStats, type Latencies } from '../stats/registry/call-stats.ts';
import { connectionListener, type ListenerParts, serverTls, shutdownGraceMs } from './connections.ts';
import type { LimiterContext } from './context.ts';

export function openGrpc(
  context: LimiterContext,
  parts: ListenerParts & {
    shouldRateLimit: UnaryHandler;
    further: GrpcServerOptions['further'];
    latencies: Latencies;
  },
): GrpcServer {
  const { settings, health, clock, timers, random, registry, log } = context;
  const { shouldRateLimit, connections, tracer, gate, further, reportsCertificates, latencies } = parts;
  const server = createGrpcServer({
    unary: new Map([[shouldRateLimitPath, shouldRateLimit]]),
    health,
    clock,
    timers,
    random,
    shutdownGraceMs,
    tracer,
    gate,
    further,
    limits: {
      idleTimeoutMs: orNever(settings.grpcMaxConnectionIdleMs),
      keepaliveMs: orNever(settings.grpcKeepaliveTimeMs),
      keepaliveTimeoutMs: settings.grpcKeepaliveTimeoutMs,
    },
    ages: {
      maxAgeMs: orNever(settings.grpcMaxConnectionAgeMs),
      graceMs: orNever(settings.grpcMaxConnectionAgeGraceMs),
    },
    maxConnections: settings.grpcMaxConnections,
    connectionMemory: connections.connectionMemory,
    turns: connections.turns,
    flushTurn: connections.flushTurn,
    tls: serverTls(settings, 'grpc'),
    listener: connectionListener(context, {
      connections: () => server.connections,
      reportsCertificates: reportsCertificates && settings.grpcServerUseTls,
    }),
    callsOf: grpcCallStats(registry, { ShouldRateLimit: latencies }),
    onFault: (method, error) => lines.callFault(log, { call: method, error }),
  });
  return server;
}

/** The address of the gRPC listener. */
export function grpcAddress(settings: LimiterSettings): ListenAddress | UnixAddress {
  const { grpcUds: path, grpcUdsMode: mode, grpcHost: host, grpcPort: port } = settings;
  return path === '' ? { host, port } : { path, mode };
}

/** Replaces 0, which disables a bound. */
function orNever(ms: number): number {
  return ms === 0 ? Number.POSITIVE_INFINITY : ms;
}
