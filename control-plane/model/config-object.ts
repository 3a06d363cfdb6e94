/** A RateLimitConfig or RateLimitOverride and its status, as all parts pass them around. */
import {
  kind as configKind,
  plural as configPlural,
  overrideKind,
  overridePlural,
} from '../../rules/language/kinds.ts';

/** As its source has it. Never changed: a change of the object is a new value. */
export interface ConfigObject {
  /** Missing: a RateLimitConfig. */
  kind?: typeof overrideKind | undefined;
  namespace: string;
  name: string;
  /** The same for one object from its creation to its deletion. */
  uid: string;
  /** Grows with every change of `spec`. */
  generation: number;
  /** Milliseconds since 1970; 0 where the source has no such time. */
  createdMs: number;
  /** When somebody last changed anything but the status; undefined where the source has no such time. */
  editedMs?: number;
  /** Of what was read, as the API has it; undefined where the source has no such thing. */
  resourceVersion?: string;
  /** Who wrote the status last, by its managed fields, but for control planes; undefined where nobody else did. */
  statusManager?: string;
  /** As it was read, unchecked. */
  spec: unknown;
  /** What the leader wrote last, as far as it can be read; undefined before the first time. */
  status: ConfigStatus | undefined;
}

/** How the API calls the kind of an object, and the list of them. */
export function kindOf({ kind }: Pick<ConfigObject, 'kind'>): { kind: string; plural: string } {
  return kind === undefined
    ? { kind: configKind, plural: configPlural }
    : { kind: overrideKind, plural: overridePlural };
}

/**
 * `namespace/name`, of a RateLimitOverride `override/namespace/name`: how messages, resources and reports name an object. No
 * part of it has a slash.
 */
export function objectKey({
  kind,
  namespace,
  name,
}: Pick<ConfigObject, 'kind' | 'namespace' | 'name'>): string {
  return `${kind === undefined ? '' : 'override/'}${namespace}/${name}`;
}

/** Stands for the spec of a manifest or a rule file that cannot be read; the object's last good spec stays in force. */
export class UnreadSpec {
  /** Where the file is wrong, and how. */
  readonly problem: string;

  constructor(problem: string) {
    this.problem = problem;
  }
}

type Aged = Pick<ConfigObject, 'createdMs' | 'namespace' | 'name'>;

/** Older objects first: by creation, then namespace, then name. */
export function byAge(a: Aged, b: Aged): number {
  return a.createdMs - b.createdMs || compare(a.namespace, b.namespace) || compare(a.name, b.name);
}

function compare(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

/** `status` of either, in the words of the API. */
export interface ConfigStatus {
  /** The generation that this status speaks of. */
  observedGeneration: number;
  /** `<namespace>/<LEASE_NAME>` of the control plane that wrote it; missing once it left the object to others. */
  controllerName?: string;
  /** What the object was last accepted for; both missing while it never was. */
  domain?: string;
  fleet?: string;
  /** Rules that are served for it, of all levels. */
  rules?: number;
  /** Hash of its rules as limiters get them; missing while none are served. */
  servedVersion?: string;
  /** The generation that is served; older than `observedGeneration` while the newer one is not accepted. */
  servedGeneration?: number;
  /** Of a RateLimitConfig: overrides in force over its domain; missing while there are none. */
  overrides?: number;
  /** Of a RateLimitOverride, for people. */
  match?: string;
  effect?: string;
  /** Of a RateLimitOverride with an end, RFC 3339. */
  endsAt?: string;
  conditions: Condition[];
}

/** As metav1.Condition. */
export interface Condition {
  type: ConditionType;
  status: 'True' | 'False' | 'Unknown';
  reason: string;
  message: string;
  /** RFC 3339, whole seconds: when `status` last changed. */
  lastTransitionTime: string;
  observedGeneration: number;
}

/**
 * `Supported` is there only while it is False: some limiter of the fleet ignores fields that only this project's
 * limiters know.
 */
export type ConditionType = 'Accepted' | 'Programmed' | 'Ready' | 'Supported';

/** Whether another control plane than the one of this name wrote it; one of a version that knew no names is no other. */
export function isOfOther(status: ConfigStatus | undefined, controllerName: string | undefined): boolean {
  return status?.controllerName !== undefined && status.controllerName !== controllerName;
}

export function findCondition(status: ConfigStatus | undefined, type: ConditionType): Condition | undefined {
  return status?.conditions.find((condition) => condition.type === type);
}
