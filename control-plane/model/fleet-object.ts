/** A RateLimitFleet, and what it says of who should be there. */
import type { FleetSpec, FleetStatusModel } from './object-models.ts';
import type { Reason } from './reasons.ts';

export type FleetStatus = FleetStatusModel;

/** Never changed: a change of the object is a new value. */
export interface FleetObject {
  /** The fleet's. */
  name: string;
  uid: string;
  generation: number;
  /** The version of the whole object. Changes with each write. */
  resourceVersion?: string | undefined;
  spec: FleetSpec;
  /** Undefined before the first one, and if it cannot be read. */
  status: FleetStatus | undefined;
}

export interface FleetProblem {
  reason: Reason;
  message: string;
  /** The rules that apply meanwhile. */
  meanwhile: string;
}

/** A RateLimitFleet, and what its next status follows from. */
export interface FollowedFleet {
  object: FleetObject;
  /** The status that the object has once everything that is due is written. */
  written: FleetStatus | undefined;
  /** The problem with its access rules, or with its expected limiters. */
  problem: FleetProblem | undefined;
}

/** One address behind a Service, or several of one pod. */
export interface Endpoint {
  /** Constant over its life: the uid of the pod, or else the address. */
  key: string;
  /** The pod's name, else the first address. */
  name: string;
  podUid: string | undefined;
  addresses: readonly string[];
  isReady: boolean;
  isTerminating: boolean;
}

/** The limiters that should apply the rules of a fleet, beside the connected ones. */
export interface FleetExpectation {
  count: number | undefined;
  /** Undefined: there is no Service, or its endpoints are not known yet. */
  endpoints: readonly Endpoint[] | undefined;
  /** How long a disconnected limiter stays expected. */
  graceMs: number;
  /** Only connected limiters count. */
  ignoresDisconnected: boolean;
}
