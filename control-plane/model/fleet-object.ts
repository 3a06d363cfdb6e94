/** A RateLimitFleet, and what it says of who should be there. */
import type { FleetSpec, FleetStatusModel } from './object-models.ts';

export type FleetStatus = FleetStatusModel;

/** Never changed: a change of the object is a new value. */
export interface FleetObject {
  /** The fleet's. */
  name: string;
  uid: string;
  generation: number;
  /** Of the whole object; changes with each write to it. */
  resourceVersion?: string | undefined;
  spec: FleetSpec;
  /** Undefined before the first time, and where it cannot be read. */
  status: FleetStatus | undefined;
}

/** One address behind a Service, or several of one pod. */
export interface Endpoint {
  /** The same over its life: of the pod, else the address. */
  key: string;
  /** The pod's name, else the first address. */
  name: string;
  podUid: string | undefined;
  addresses: readonly string[];
  isReady: boolean;
  isTerminating: boolean;
}

/** Who is expected to run the rules of a fleet besides those that are connected. */
export interface FleetExpectation {
  count: number | undefined;
  /** Undefined: of no Service, or they are not known yet. */
  endpoints: readonly Endpoint[] | undefined;
  /** How long one that went away is expected. */
  graceMs: number;
  /** Only who is connected counts. */
  ignoresDisconnected: boolean;
}
