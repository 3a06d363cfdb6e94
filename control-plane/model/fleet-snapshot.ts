/** The rules of a fleet, and the known state of its limiters. */
import { createHash } from 'node:crypto';
import { z } from 'zod';
import { plainText } from '../../process/log/error-text.ts';
import type { Capabilities } from '../../rules/language/capabilities.ts';
import type { RuleSupport } from '../../rules/validate-limits.ts';
import type { ObjectVersions } from './object-versions.ts';

export interface Resource {
  /** The name in errors of limiters: `namespace/name`, or the domain for a merged resource. */
  name: string;
  domain: string;
  /** A `ratelimit.config.ratelimit.v3.RateLimitConfig`, encoded. */
  bytes: Uint8Array;
  /** The hash of `bytes`: 16 hexadecimal digits. */
  hash: string;
  /** The capabilities that a limiter needs for it. Other limiters get something else: see `resourceFor`. */
  needs: Capabilities;
  /** The resource that other limiters get, if they support it. Undefined if they get nothing instead. */
  fallback?: Resource;
  /** The resources that it was merged from. Each of them has its own fallback. */
  parts?: readonly Resource[];
}

/**
 * The served rules of one fleet: resources sorted by name, and a version that follows from them. `snapshotFor` makes the snapshot
 * for limiters that do not support all of it.
 */
export interface FleetSnapshot {
  fleet: string;
  /** The version: 16 hexadecimal digits, which are the same for the same resources on every replica. */
  version: string;
  resources: readonly Resource[];
}

export function hashOf(bytes: Uint8Array | string): string {
  return createHash('sha256').update(bytes).digest('hex').slice(0, 16);
}

/** Sorts `resources`, whose names must be unique. */
export function fleetSnapshot(fleet: string, resources: readonly Resource[]): FleetSnapshot {
  const sorted = [...resources].sort((a, b) => (a.name < b.name ? -1 : a.name > b.name ? 1 : 0));
  return { fleet, version: versionOf(sorted), resources: sorted };
}

/** Returns the version of resources that are in the order of their names: the hash of their joined lines. */
export function versionOf(sorted: readonly { name: string; hash: string }[]): string {
  return hashOf(sorted.map(versionLine).join(''));
}

export function versionLine({ name, hash }: { name: string; hash: string }): string {
  return `${name}\0${hash}\n`;
}

/** Returns the version of the snapshot with these resources, given as versions by names. */
export function versionOfResources(versions: ReadonlyMap<string, string>): string {
  const names = [...versions.keys()].sort();
  return versionOf(names.map((name) => ({ name, hash: versions.get(name)! })));
}

/** The snapshot of a fleet without objects. */
export const emptySnapshot = fleetSnapshot('', []);
export const versionOfNothing = emptySnapshot.version;

/** The known state of one limiter: one stream to one replica of the control plane. */
export interface LimiterReport {
  /** An id that differs for every stream of every replica. */
  id: string;
  /** An id that differs for every limiter process of Weir, and that is the same for all its streams. Undefined for other limiters. */
  instance: string | undefined;
  /** A readable name: the name of the pod, or else node id and address. */
  name: string;
  fleet: string;
  /** The uid of its pod, from the API server's review of its token. */
  podUid?: string | undefined;
  /** The IP address from which it is connected. Undefined if an older replica does not report it. */
  address?: string | undefined;
  /** Whether it supports Weir's own fields. */
  isWeir: boolean;
  /** Whether its counters have the Go service's keys, which can be equal for two counters. */
  countsCompatibly: boolean;
  /** The parts of rules that it can never apply with its settings. Undefined if it does not report them. */
  ruleSupport?: RuleSupport | undefined;
  /** The capabilities of the limiter that this version knows. */
  capabilities: Capabilities;
  /** The time in milliseconds since 1970. */
  connectedMs: number;
  /** The version of the snapshot that it has in force as a whole, as far as it has reported one. */
  acceptedVersion: string | undefined;
  /** The version that it was sent and has not answered. Either of these versions may be in force. */
  sentVersion?: string | undefined;
  /** The newest snapshot that it rejected. Undefined once it has accepted a later one. */
  refusal: SnapshotNack | undefined;
}

export interface SnapshotNack {
  version: string;
  message: string;
  /** The rejected part of the snapshot, if the rest is in force. Undefined if nothing of the snapshot is in force. */
  resources?: readonly RejectedResource[] | undefined;
}

/** The name of a resource, and the reason why its rules are not in force. */
export interface RejectedResource {
  name: string;
  message: string;
}

/** Returns an identity that is constant across the streams of a limiter, as far as known. A name may contain an address with its port. */
export function limiterIdentity({ fleet, instance, name }: LimiterReport): string {
  return JSON.stringify([fleet, instance ?? name.replace(/:\d+(\)?)$/, '$1')]);
}

/**
 * Identifies the limiter of a stream. A client chooses its instance itself. A client that claims the instance of another limiter,
 * for another fleet, from another address or with the token of another pod, counts as one more limiter, and does not replace the
 * other. Instances and ids have different origins, so the letter separates them.
 */
export function streamIdentity({ id, instance, fleet, podUid, address }: LimiterReport): string {
  return instance === undefined
    ? `s ${id}`
    : `i ${JSON.stringify([instance, fleet, podUid ?? ['at', address]])}`;
}

/** Returns whether the stream of `a` is newer than that of `b`, by the clocks of their replicas. */
export function isNewerStream(a: LimiterReport, b: LimiterReport): boolean {
  return a.connectedMs === b.connectedMs ? a.id > b.id : a.connectedMs > b.connectedMs;
}

/**
 * Returns whether the limiter has no rules. Weir's limiters report their version when they connect; for others without a version,
 * it is unknown.
 */
export function hasNothing(report: LimiterReport): boolean {
  const version = versionInForce(report);
  return version === versionOfNothing || (version === undefined && report.isWeir);
}

/** Returns the version in force. If a limiter rejected a part of a snapshot, the rest is in force. */
export function versionInForce({ acceptedVersion, refusal: rejection }: LimiterReport): string | undefined {
  return rejection?.resources === undefined ? acceptedVersion : rejection.version;
}

/** The state of the limiters of one replica of the control plane. */
export interface ReplicaReport {
  /** The name of the replica, which is that of its pod. */
  replica: string;
  limiters: readonly LimiterReport[];
  /**
   * The versions of objects up to which the replica had decided when this was the state of its limiters. Later it may have sent them rules
   * that follow from later versions. Undefined for the report of this process, which is never late.
   */
  decided?: ObjectVersions;
}

/** The maximum length of a reason, above that of all reasons of this version. */
const longestReason = 300;

const reason = z
  .string()
  .transform((text) => plainText(text, longestReason))
  .optional();

/** The rules that a limiter can never apply with its settings, as it reports them, and the reasons. */
export const ruleSupportSchema = z
  .object({
    admission: reason,
    groups: reason,
    reservations: reason,
    calendarMonths: z.boolean().default(false),
  })
  .transform(
    ({ admission, groups, reservations, calendarMonths }): RuleSupport => ({
      admission,
      groups,
      reservations,
      calendarMonths,
    }),
  );

/** Returns a limiter for each different report, among the limiters of the fleet that can never apply all rules. */
export function limitedOf(reports: readonly ReplicaReport[], fleet: string): LimiterReport[] {
  const found = new Map<string, LimiterReport>();
  for (const { limiters } of reports)
    for (const limiter of limiters)
      if (limiter.fleet === fleet && limiter.ruleSupport !== undefined)
        found.set(JSON.stringify(limiter.ruleSupport), limiter);
  return [...found.values()];
}
