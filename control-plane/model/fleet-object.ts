/** A RateLimitFleet, and the limiters that it says should be connected. */
import type { FleetSpec, FleetStatusModel } from './object-models.ts';
import type { Reason } from './reasons.ts';

export type FleetStatus = FleetStatusModel;

/** A fleet object. It is immutable: a change of the object is a new value. */
export interface FleetObject {
  /** The fleet's. */
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
  /** A key that is constant over its life: the uid of the pod, or else the address. */
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
  /** Undefined if there is no Service, or if its endpoints are not known yet. */
  endpoints: readonly Endpoint[] | undefined;
  /** The time for which a disconnected limiter stays expected. */
  graceMs: number;
  /** Whether only connected limiters count. */
  ignoresDisconnected: boolean;
}
