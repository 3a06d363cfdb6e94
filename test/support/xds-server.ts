import { create, toBinary } from '@bufbuild/protobuf';
import { onTestFinished } from 'vitest';
import {
  type FleetSnapshot,
  fleetSnapshot,
  hashOf,
  type LimiterReport,
} from '../../control-plane/model/fleet-snapshot.ts';
import type { XdsListener } from '../../control-plane/xds/xds-happenings.ts';
import {
  createXdsServer,
  type XdsServer,
  type XdsServerOptions,
} from '../../control-plane/xds/xds-server.ts';
import { RateLimitConfigSchema } from '../../gen/ratelimit/config/ratelimit/v3/rls_conf_pb.ts';
import { Health } from '../../process/grpc/health-service.ts';
import { systemClock, systemTimers } from '../../process/time/clock.ts';

export type XdsEvent = {
  [Name in keyof XdsListener]: [Name, ...Parameters<XdsListener[Name]>];
}[keyof XdsListener];

export interface RunningXdsServer {
  server: XdsServer;
  port: number;
  health: Health;
  /** What the listener was told, without `changed` and `sent`. */
  events: XdsEvent[];
  /** To whom a response was sent, oldest first. */
  sends: LimiterReport[];
  /** How often `changed` was told. */
  changes(): number;
  /** Names of the events, in order. */
  eventNames(): string[];
}

/** A server in this process on 127.0.0.1, by default on a free port; it ends with the test. */
export async function startXdsServer(
  options: Partial<XdsServerOptions> = {},
  wantedPort = 0,
): Promise<RunningXdsServer> {
  const health = new Health();
  const { events, sends, listener, changes } = recorder();
  const server = createXdsServer({
    replicaName: 'replica-0',
    listener,
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
  return { server, port, health, events, sends, changes, eventNames: () => events.map(([name]) => name) };
}

function recorder(): Pick<RunningXdsServer, 'events' | 'sends' | 'changes'> & { listener: XdsListener } {
  const events: XdsEvent[] = [];
  const sends: LimiterReport[] = [];
  let changes = 0;
  const record = (name: keyof XdsListener, details: unknown[]): void => {
    if (name === 'changed') changes++;
    else if (name === 'sent') sends.push(details[0] as LimiterReport);
    else events.push([name, ...details] as XdsEvent);
  };
  const listener = new Proxy({} as XdsListener, {
    get:
      (_, name) =>
      (...details: unknown[]) =>
        record(name as keyof XdsListener, details),
  });
  return { events, sends, listener, changes: () => changes };
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
