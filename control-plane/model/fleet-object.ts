/** A RateLimitFleet, and the limiters that it expects to be connected. */
import type { z } from 'zod';
import type { FleetSpec, fleetStatusModel } from './object-models.ts';
import type { Reason } from './reasons.ts';

export type FleetStatus = z.infer<typeof fleetStatusModel>;

/** A fleet object. It is immutable: a change of the object is a new value. */
export interface FleetObject {
  name: string;
  uid: string;
  generation: number;
  /** The version of the whole object. Changes with each write. */
  resourceVersion?: string | undefined;
  spec: FleetSpec;
  /** Undefined before the first status, and if the status cannot be read. */
  status: FleetStatus | undefined;
}

export interface FleetProblem {
  reason: Reason;
  message: string;
  /** The rules that apply meanwhile. */
  meanwhile: string;
}

/** A RateLimitFleet, and the facts that determine its next status. */
export interface FollowedFleet {
  object: FleetObject;
  /** The status that the object has once all pending writes are done. */
  written: FleetStatus | undefined;
  /** The problem with its access rules, or with its expected limiters. */
  problem: FleetProblem | undefined;
}

/** An address behind a Service, or several addresses of one pod. */
export interface Endpoint {
  /** A key that never changes: the uid of the pod, or else the address. */
  key: string;
  /** The pod's name, or else its first address. */
  name: string;
  podUid: string | undefined;
  addresses: readonly string[];
  isReady: boolean;
  isTerminating: boolean;
}

/** The limiters that should apply the rules of a fleet, in addition to the connected ones. */
export interface FleetExpectation {
  count: number | undefined;
  /** Undefined if there is no Service, or if its endpoints are not known yet. */
  endpoints: readonly Endpoint[] | undefined;
  /** How long a disconnected limiter stays expected. */
  graceMs: number;
  /** Whether only connected limiters count. */
  ignoresDisconnected: boolean;
}
