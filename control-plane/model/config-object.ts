/** A RateLimitConfig or RateLimitOverride with its status, and a RateLimitFleet with its limiters, in the form that all parts use. */
import type { z } from 'zod';
import {
  kind as configKind,
  plural as configPlural,
  fleetKind,
  fleetPlural,
  overrideKind,
  overridePlural,
} from '../../rules/language/kinds.ts';
import type {
  conditionModel,
  FleetSpec,
  fleetStatusModel,
  overrideStatusModel,
  statusModel,
} from './object-models.ts';
import type { Reason } from './reasons.ts';

/** An object in the form of its source. Immutable: a change of the object creates a new value. */
export interface ConfigObject {
  /** The kind. Missing for a RateLimitConfig. */
  kind?: typeof overrideKind | undefined;
  namespace: string;
  name: string;
  /** Constant from the creation of the object to its deletion. */
  uid: string;
  /** Grows with every change of `spec`. */
  generation: number;
  /** The time of creation, in milliseconds since 1970. 0 if the source has no such time. */
  createdMs: number;
  /** The time when anything except the status was last changed. Undefined if the source has no such time. */
  editedMs?: number;
  /** The `resourceVersion` of the API. Undefined if the source has none. */
  resourceVersion?: string;
  /** The last writer of the status that is not a control plane, according to the object's managed fields. Undefined if there is none. */
  statusManager?: string;
  /** The unchecked value. */
  spec: unknown;
  /** The readable parts of the leader's last status. Undefined before the first status. */
  status: ConfigStatus | undefined;
}

/** An object with a status that this control plane writes. */
export type StatusObject = ConfigObject | FleetObject;

interface OfKind {
  kind?: StatusObject['kind'] | typeof configKind;
}

const kinds = {
  [configKind]: { plural: configPlural, prefix: '' },
  [overrideKind]: { plural: overridePlural, prefix: 'override/' },
  [fleetKind]: { plural: fleetPlural, prefix: 'fleet/' },
};

/** The names of a kind and of its list in the API. */
export function kindOf({ kind = configKind }: OfKind): { kind: string; plural: string } {
  return { kind, plural: kinds[kind].plural };
}

/**
 * Returns `namespace/name`, or `override/namespace/name` for a RateLimitOverride. Messages, resources and reports use this name. No part
 * of it contains a slash.
 */
export function objectKey({
  kind = configKind,
  namespace,
  name,
}: OfKind & Pick<ConfigObject, 'namespace' | 'name'>): string {
  return `${kinds[kind].prefix}${namespace}/${name}`;
}

/** The spec of a manifest or a rule file that cannot be read. The object's last good spec stays in force. */
export class UnreadSpec {
  /** The error in the file, with its place. */
  readonly problem: string;

  constructor(problem: string) {
    this.problem = problem;
  }
}

/** Returns a text of an unchecked spec. Undefined if it has none. */
export function textIn(spec: unknown, field: 'domain' | 'fleet'): string | undefined {
  const value = (spec as Record<string, unknown> | null | undefined)?.[field];
  return typeof value === 'string' ? value : undefined;
}

type Aged = Pick<ConfigObject, 'createdMs' | 'namespace' | 'name'>;

/** Sorts older objects first: by creation, then namespace, then name. */
export function byAge(a: Aged, b: Aged): number {
  return a.createdMs - b.createdMs || compare(a.namespace, b.namespace) || compare(a.name, b.name);
}

function compare(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

/** The `status` of both kinds. */
export type ConfigStatus = z.infer<typeof statusModel> & z.infer<typeof overrideStatusModel>;
export type Condition = z.infer<typeof conditionModel>;
/** `Supported` exists only while it is False: a limiter of the fleet ignores fields that only Weir's limiters support. */
export type ConditionType = Condition['type'];

/**
 * Returns whether a control plane with another name wrote the status. A status of a version without names does not count as another's.
 */
export function isOfOther(status: ConfigStatus | undefined, controllerName: string | undefined): boolean {
  return status?.controllerName !== undefined && status.controllerName !== controllerName;
}

export function findCondition(status: ConfigStatus | undefined, type: ConditionType): Condition | undefined {
  return status?.conditions.find((condition) => condition.type === type);
}

export type FleetStatus = z.infer<typeof fleetStatusModel>;

/** A fleet object. It is immutable: a change of the object is a new value. */
export interface FleetObject {
  kind: typeof fleetKind;
  namespace: string;
  name: string;
  uid: string;
  generation: number;
  /** The version of the whole object. Changes with each write. */
  resourceVersion?: string | undefined;
  /** The last readable spec if this one is unreadable, or the defaults if there was none. */
  spec: FleetSpec;
  /** The reason why the spec cannot be read: a CRD of a newer version may allow values that this version does not know. */
  unreadable?: string | undefined;
  /** Undefined before the first status, and if the status cannot be read. */
  status: FleetStatus | undefined;
}

export interface FleetProblem {
  reason: Reason;
  message: string;
  /** The rules that apply meanwhile. */
  meanwhile: string;
}

/** A RateLimitFleet, and a fact that its status reports. */
export interface FollowedFleet {
  /** The object as the watch shows it. */
  object: FleetObject;
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
