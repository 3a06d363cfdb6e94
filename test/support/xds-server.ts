import { create, toBinary } from '@bufbuild/protobuf';
import { onTestFinished } from 'vitest';
import {
  type FleetSnapshot,
  fleetSnapshot,
  hashOf,
  type LimiterReport,
} from '../../control-plane/model/fleet-snapshot.ts';
import { LimiterStreams, type LimiterStreamsOptions } from '../../control-plane/xds/limiter-streams.ts';
import { XdsServer, type XdsServerOptions } from '../../control-plane/xds/xds-server.ts';
import { RateLimitConfigSchema } from '../../gen/ratelimit/config/ratelimit/v3/rls_conf_pb.ts';
import { Health } from '../../process/grpc/health.ts';
import { systemClock, systemTimers } from '../../process/time/clock.ts';
import { type RecordedTelemetry, recordedTelemetry } from './control-plane-telemetry.ts';
import { freePort } from './free-port.ts';

export interface RunningXdsServer extends RecordedTelemetry {
  server: Pick<LimiterStreams, 'serve' | 'cutOff' | 'limiters'> & Pick<XdsServer, 'shutdown'>;
  port: number;
  health: Health;
  /** To whom a response was sent, oldest first. */
  sends: LimiterReport[];
  /** How often `changed` was reported. */
  changes(): number;
}

export type StartOptions = Partial<XdsServerOptions & LimiterStreamsOptions>;

/** A server in this process on 127.0.0.1, by default on a free port; it ends with the test. */
export async function startXdsServer(
  options: StartOptions = {},
  wantedPort?: number,
): Promise<RunningXdsServer> {
  const health = new Health();
  const telemetry = recordedTelemetry();
  const sends: LimiterReport[] = [];
  let changes = 0;
  const streams = new LimiterStreams({
    replicaName: 'replica-0',
    ...telemetry,
    changed: () => changes++,
    sent: (limiter) => sends.push(limiter),
    confirm: (then) => then(),
    clock: systemClock,
    timers: systemTimers,
    random: Math.random,
    maxStreams: 100,
    ...options,
  });
  const xds = new XdsServer({
    ...telemetry,
    streams,
    clock: systemClock,
    timers: systemTimers,
    health,
    keepaliveIntervalMs: 10_000,
    keepaliveTimeoutMs: 10_000,
    shutdownGraceMs: 500,
    allowAnonymous: true,
    ...options,
  });
  const port = wantedPort ?? (await freePort());
  await xds.listen({ host: '127.0.0.1', port });
  onTestFinished(() => xds.shutdown());
  const server = {
    serve: streams.serve.bind(streams),
    cutOff: streams.cutOff.bind(streams),
    limiters: streams.limiters.bind(streams),
    shutdown: xds.shutdown.bind(xds),
  };
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
    return { name: `team/${domain}`, domain, bytes, hash: hashOf(bytes), needs: [] };
  });
  return fleetSnapshot(fleet, resources);
}

export function fleetsOf(...snapshots: FleetSnapshot[]): Map<string, FleetSnapshot> {
  return new Map(snapshots.map((snapshot) => [snapshot.fleet, snapshot]));
}
