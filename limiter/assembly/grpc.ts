/** From settings to the gRPC listener, with what is logged and counted of its connections. */

import type { CallerGate, CallTracer, UnaryHandler } from '../../process/grpc/handlers.ts';
import type { HealthView } from '../../process/grpc/health-service.ts';
import type { Logger } from '../../process/log/logger.ts';
import type { ListenAddress, UnixAddress } from '../../process/net/bind.ts';
import type { HeldBytes } from '../../process/net/held-bytes.ts';
import type { Clock, Timers } from '../../process/time/clock.ts';
import type { LoopTurns } from '../../process/time/loop-turns.ts';
import { createGrpcServer, type GrpcServer } from '../grpc/server.ts';
import * as lines from '../log/lines.ts';
import { grpcSettings } from '../settings/grpc-settings.ts';
import type { LimiterSettings } from '../settings/settings.ts';
import type { TlsOptions } from '../sockets/tls-listener.ts';
import { createGrpcCallStats } from '../stats/registry/limiter-stats.ts';
import type { StatsRegistry } from '../stats/registry/stats-registry.ts';
import { connectionListener } from './connections.ts';
import type { OptionalParts } from './optional-parts.ts';

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
  held: HeldBytes;
  turns: LoopTurns;
  optional: Pick<OptionalParts, 'reflection'>;
  /** Undefined where tracing is off. */
  tracer: CallTracer | undefined;
  /** Undefined: whoever reaches the port may ask. */
  gate: CallerGate | undefined;
  /** Whether this thread counts and logs what becomes of the TLS files. */
  tellsOfCertificates: boolean;
}

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
    gate: parts.gate,
    reflection: parts.optional.reflection?.reflectionMethods,
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
    held: parts.held,
    turns: parts.turns,
    ...(tls === undefined ? {} : { tls }),
    listener: connectionListener({
      ...{ registry, clock, log },
      connections: () => server.connections,
      tellsOfCertificates: parts.tellsOfCertificates && settings.grpcServerUseTls,
    }),
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
    fileSettings: {
      certFile: grpcSettings.grpcServerTlsCert.name,
      keyFile: grpcSettings.grpcServerTlsKey.name,
      clientCaFile: grpcSettings.grpcClientTlsCaCert.name,
    },
    ...(grpcClientTlsCaCert === '' ? {} : { clientCaFile: grpcClientTlsCaCert }),
    ...(grpcClientTlsSan === '' ? {} : { clientName: grpcClientTlsSan }),
  };
}

/** 0 switches a bound off. */
function orNever(ms: number): number {
  return ms === 0 ? Number.POSITIVE_INFINITY : ms;
}
