/** What a fleet is served, and what is known of the limiters that it is served to. */
import { createHash } from 'node:crypto';
import { budgetsRulesVersion, overridesRulesVersion } from '../../rules/model.ts';
import type { RuleSupport } from '../../rules/validate-limits.ts';

export interface Resource {
  /** How a limiter's errors name it: `namespace/name`, or of a merged domain the domain. */
  name: string;
  domain: string;
  /** A `ratelimit.config.ratelimit.v3.RateLimitConfig`, encoded. */
  bytes: Uint8Array;
  /** 16 hexadecimal digits: hash of `bytes`. */
  hash: string;
}

/** The rules that one fleet is served: resources in the order of their names, and a version that follows from them. */
export interface FleetSnapshot {
  fleet: string;
  /** 16 hexadecimal digits. The same for the same resources, on every replica. */
  version: string;
  resources: readonly Resource[];
  /** For limiters that obey less than `rulesVersion`, where that is something else. */
  forOld?: FleetSnapshot;
  /** What a limiter has to obey to be served it and not `forOld`; 2 where there is one and nothing is said. */
  rulesVersion?: number;
}

/** All that `servedTo` distinguishes. */
export const rulesVersions = [1, 2, overridesRulesVersion, budgetsRulesVersion] as const;

/** What a limiter is served that obeys rules up to this version. */
export function servedTo(snapshot: FleetSnapshot, rulesVersion = oldRulesVersion): FleetSnapshot {
  const { forOld } = snapshot;
  return forOld !== undefined && rulesVersion < neededFor(snapshot)
    ? servedTo(forOld, rulesVersion)
    : snapshot;
}

/** What a limiter has to obey for all of it. */
export function neededFor({ forOld, rulesVersion = 2 }: FleetSnapshot): number {
  return forOld === undefined ? oldRulesVersion : rulesVersion;
}

/** Of limiters that say nothing of it: rules as they were before versions of them were distinguished. */
export const oldRulesVersion = 1;

/** Of rules: all limiters obey them. Of a limiter: it obeys no others. */
export function isOld(rulesVersion = oldRulesVersion): boolean {
  return rulesVersion <= oldRulesVersion;
}

export function hashOf(bytes: Uint8Array | string): string {
  return createHash('sha256').update(bytes).digest('hex').slice(0, 16);
}

/** Sorts `resources`, which may have to each name one only. */
export function fleetSnapshot(fleet: string, resources: readonly Resource[]): FleetSnapshot {
  const sorted = [...resources].sort((a, b) => (a.name < b.name ? -1 : a.name > b.name ? 1 : 0));
  return { fleet, version: versionOf(sorted), resources: sorted };
}

/** Of resources in the order of their names. */
function versionOf(sorted: readonly { name: string; hash: string }[]): string {
  return versionOfText(sorted.map(versionLine).join(''));
}

export function versionLine({ name, hash }: { name: string; hash: string }): string {
  return `${name}\0${hash}\n`;
}

/** Of `versionLine`s in the order of the names, one after the other. */
export function versionOfText(lines: string): string {
  return hashOf(lines);
}

/** Of the snapshot that has these resources: versions by names. */
export function versionOfResources(versions: ReadonlyMap<string, string>): string {
  const names = [...versions.keys()].sort();
  return versionOf(names.map((name) => ({ name, hash: versions.get(name)! })));
}

/** Of a snapshot without resources: what a limiter of a fleet without objects is served. */
export const versionOfNothing = versionOf([]);

/** What is known of one limiter: one stream to one replica of the control plane. */
export interface LimiterReport {
  /** Different for every stream of every replica. */
  id: string;
  /** Different for every process of Weir's limiter, the same over its streams; undefined for other limiters. */
  instance: string | undefined;
  /** For people: the pod's name, else node id and address. */
  name: string;
  fleet: string;
  /** Of its pod, as the API server says of its token. */
  podUid?: string | undefined;
  /** The IP address that it is connected from; undefined where a replica of before does not say it. */
  address?: string | undefined;
  /** Whether it knows Weir's own fields. */
  isWeir: boolean;
  /** Whether its counters have the Go service's keys, in which two of them could meet. */
  countsCompatibly: boolean;
  /** What of rules it can never obey as it is set; undefined: it says nothing of that. */
  ruleSupport?: RuleSupport | undefined;
  /** Up to which version it obeys rules; undefined: a replica of before does not say it, and serves what all obey. */
  rulesVersion?: number | undefined;
  /** Milliseconds since 1970. */
  connectedMs: number;
  /** Version of the snapshot that it has in force as a whole, as far as it said so. */
  acceptedVersion: string | undefined;
  /** It was sent this one and has not answered: it may have either in force. */
  sentVersion?: string | undefined;
  /** The newest snapshot it refused, while it has accepted none since. */
  refusal: Refusal | undefined;
}

export interface Refusal {
  version: string;
  message: string;
  /** What it refused of the snapshot, the rest of which it has in force. Undefined: it has nothing new of it. */
  resources?: readonly RefusedResource[] | undefined;
}

/** A resource by its name, and why its rules are not in force. */
export interface RefusedResource {
  name: string;
  message: string;
}

/** The same over the streams of one limiter, as far as that can be known: a name may hold an address and its port. */
export function limiterIdentity({ fleet, instance, name }: LimiterReport): string {
  return JSON.stringify([fleet, instance ?? name.replace(/:\d+(\)?)$/, '$1')]);
}

/** What one replica of the control plane knows of its limiters. */
export interface ReplicaReport {
  /** Name of the replica: its pod. */
  replica: string;
  limiters: readonly LimiterReport[];
}
