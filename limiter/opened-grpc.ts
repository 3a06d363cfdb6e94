/** From settings to the gRPC listener, with what is logged and counted of its connections. */
import type { ListenAddress, UnixAddress } from '../process/bind.ts';
import type { CallTracer } from '../process/call-tracer.ts';
import type { Clock } from '../process/clock.ts';
import type { UnaryHandler } from '../process/grpc/unary-handler.ts';
import type { HealthView } from '../process/health.ts';
import type { Logger } from '../process/logger.ts';
import { Seldom } from '../process/seldom.ts';
import type { Timers } from '../process/timers.ts';
import { createGrpcServer, type GrpcServer } from './grpc/index.ts';
import * as lines from './log-lines.ts';
import type { LimiterSettings } from './settings.ts';
import { connectionRefusals, type SocketServerListener, type TlsOptions } from './sockets/index.ts';
import { createCertificateStats, createConnectionStats, createGrpcCallStats } from './stats/limiter-stats.ts';
import type { StatsRegistry } from './stats/stats-registry.ts';

export interface OpenedGrpcParts {
  settings: LimiterSettings;
  unary: ReadonlyMap<string, UnaryHandler>;
  health: HealthView;
  clock: Clock;
  timers: Timers;
  random: () => number;
  registry: StatsRegistry;
  log: Logger;
  shutdownGraceMs: number;
  /** Undefined where tracing is off. */
  tracer: CallTracer | undefined;
}

/** Handshakes that fail are logged at most so often. */
const seldomMs = 60_000;

export function openGrpc(parts: OpenedGrpcParts): GrpcServer {
  const { settings, registry, log, unary, health, clock, timers, random, shutdownGraceMs } = parts;
  const tls = tlsOptions(settings);
  const server = createGrpcServer({
    unary,
    health,
    clock,
    timers,
    random,
    shutdownGraceMs,
    tracer: parts.tracer,
    reflection: settings.grpcReflection,
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
    ...(tls === undefined ? {} : { tls }),
    listener: connectionListener(parts, () => server.connections),
    onCall: createGrpcCallStats(registry, ['ShouldRateLimit', 'Check', 'List']),
    onFault: (method, error) => lines.callFault(log, method, error),
  });
  return server;
}

/** Where gRPC is to be answered. */
export function grpcAddress(settings: LimiterSettings): ListenAddress | UnixAddress {
  const { grpcUds: path, grpcUdsMode: mode, grpcHost: host, grpcPort: port } = settings;
  return path === '' ? { host, port } : { path, mode };
}

function tlsOptions(settings: LimiterSettings): TlsOptions | undefined {
  if (!settings.grpcServerUseTls) return undefined;
  const { grpcClientTlsCaCert, grpcClientTlsSan } = settings;
  return {
    certFile: settings.grpcServerTlsCert,
    keyFile: settings.grpcServerTlsKey,
    ...(grpcClientTlsCaCert === '' ? {} : { clientCaFile: grpcClientTlsCaCert }),
    ...(grpcClientTlsSan === '' ? {} : { clientName: grpcClientTlsSan }),
  };
}

function connectionListener(parts: OpenedGrpcParts, connections: () => number): SocketServerListener {
  const { settings, registry, clock, log } = parts;
  const refused = createConnectionStats(registry, connectionRefusals, connections);
  const certificates = settings.grpcServerUseTls ? createCertificateStats(registry) : undefined;
  const handshakes = new Seldom<{ peer: string; reason: string }>(clock, seldomMs, (failure, times) =>
    lines.handshakeFailed(log, { ...failure, times }),
  );
  return {
    refused,
    handshakeFailed: (peer, reason) => handshakes.note({ peer, reason }),
    certificateChanged: () => {
      certificates?.loaded();
      lines.certificateChanged(log);
    },
    certificateRefused: (reason) => {
      certificates?.failed();
      lines.certificateRefused(log, reason);
    },
  };
}

/** 0 switches a bound off. */
function orNever(ms: number): number {
  return ms === 0 ? Number.POSITIVE_INFINITY : ms;
}
