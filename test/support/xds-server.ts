import { create, toBinary } from '@bufbuild/protobuf';
import { onTestFinished } from 'vitest';
import {
  type FleetSnapshot,
  fleetSnapshot,
  hashOf,
  type LimiterReport,
} from '../../control-plane/model/fleet-snapshot.ts';
import { XdsServer, type XdsServerOptions } from '../../control-plane/xds/xds-server.ts';
import { RateLimitConfigSchema } from '../../gen/ratelimit/config/ratelimit/v3/rls_conf_pb.ts';
import { Health } from '../../process/grpc/health.ts';
import { systemClock, systemTimers } from '../../process/time/clock.ts';
import { type RecordedTelemetry, recordedTelemetry } from './control-plane-telemetry.ts';

export interface RunningXdsServer extends RecordedTelemetry {
  server: XdsServer;
  port: number;
  health: Health;
  /** To whom a response was sent, oldest first. */
  sends: LimiterReport[];
  /** How often `changed` was told. */
  changes(): number;
}

/** A server in this process on 127.0.0.1, by default on a free port; it ends with the test. */
export async function startXdsServer(
  options: Partial<XdsServerOptions> = {},
  wantedPort = 0,
): Promise<RunningXdsServer> {
  const health = new Health();
  const telemetry = recordedTelemetry();
  const sends: LimiterReport[] = [];
  let changes = 0;
  const server = new XdsServer({
    replicaName: 'replica-0',
    ...telemetry,
    changed: () => changes++,
    sent: (limiter) => sends.push(limiter),
    clock: systemClock,
    timers: systemTimers,
    health,
    maxStreams: 100,
    keepaliveIntervalMs: 10_000,
    keepaliveTimeoutMs: 10_000,
    shutdownGraceMs: 500,
    allowAnonymous: true,
    ...options,
  });
  const { port } = await server.listen({ host: '127.0.0.1', port: wantedPort });
  onTestFinished(() => server.shutdown());
  return { ...telemetry, server, port, health, sends, changes: () => changes };
}

/** A fleet with one resource for each domain; `padding` makes them larger. */
export function testSnapshot(fleet: string, domains: readonly string[], padding = 0): FleetSnapshot {
  const resources = domains.map((domain) => {
    const descriptors = padding === 0 ? [] : [{ key: 'k', value: 'x'.repeat(padding) }];
    const bytes = toBinary(
      RateLimitConfigSchema,
      create(RateLimitConfigSchema, { name: `team/${domain}`, domain, descriptors }),
    );
    return { name: `team/${domain}`, domain, bytes, hash: hashOf(bytes) };
  });
  return fleetSnapshot(fleet, resources);
}

export function fleetsOf(...snapshots: FleetSnapshot[]): Map<string, FleetSnapshot> {
  return new Map(snapshots.map((snapshot) => [snapshot.fleet, snapshot]));
}
