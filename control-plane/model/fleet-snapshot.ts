/** The rules that one fleet is served: resources in the order of their names, and a version that follows from them. */
import { createHash } from 'node:crypto';

export interface Resource {
  /** How a limiter's errors name it: `namespace/name`, or of a merged domain the domain. */
  name: string;
  domain: string;
  /** A `ratelimit.config.ratelimit.v3.RateLimitConfig`, encoded. */
  bytes: Uint8Array;
  /** 16 hexadecimal digits: hash of `bytes`. */
  hash: string;
}

export interface FleetSnapshot {
  fleet: string;
  /** 16 hexadecimal digits. The same for the same resources, on every replica. */
  version: string;
  resources: readonly Resource[];
}

export function hashOf(bytes: Uint8Array | string): string {
  return createHash('sha256').update(bytes).digest('hex').slice(0, 16);
}

/** Sorts `resources`, which may have to each name one only. */
export function fleetSnapshot(fleet: string, resources: readonly Resource[]): FleetSnapshot {
  const sorted = [...resources].sort((a, b) => (a.name < b.name ? -1 : a.name > b.name ? 1 : 0));
  const lines = sorted.map(({ name, hash }) => `${name}\0${hash}\n`);
  return { fleet, version: hashOf(lines.join('')), resources: sorted };
}
