/** A RateLimitConfig or RateLimitOverride and its status, as all parts pass them around. */
import {
  kind as configKind,
  plural as configPlural,
  overrideKind,
  overridePlural,
} from '../../rules/language/kinds.ts';

/** An object as its source has it. Immutable: a change of the object is a new value. */
export interface ConfigObject {
  /** Missing: a RateLimitConfig. */
  kind?: typeof overrideKind | undefined;
  namespace: string;
  name: string;
  /** Constant for an object from its creation to its deletion. */
  uid: string;
  /** Grows with every change of `spec`. */
  generation: number;
  /** Milliseconds since 1970; 0 where the source has no such time. */
  createdMs: number;
  /** When somebody last changed anything but the status; undefined where the source has no such time. */
  editedMs?: number;
  /** The `resourceVersion` of the API. Undefined if the source has none. */
  resourceVersion?: string;
  /** The last writer of the status other than a control plane, by its managed fields. Undefined if there is none. */
  statusManager?: string;
  /** The unchecked value. */
  spec: unknown;
  /** The readable parts of the leader's last status. Undefined before the first one. */
  status: ConfigStatus | undefined;
}

/** The names of a kind and of its list in the API. */
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
  /** The error in the file, with its place. */
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
  /** The domain and fleet that the object was last accepted for. Both are missing if it never was. */
  domain?: string;
  fleet?: string;
  /** Rules that are served for it, of all levels. */
  rules?: number;
  /** Hash of its rules as limiters get them; missing while none are served. */
  servedVersion?: string;
  /** The generation that is served; older than `observedGeneration` while the newer one is not accepted. */
  servedGeneration?: number;
  /** For a RateLimitConfig: the number of overrides in force in its domain. Missing: none. */
  overrides?: number;
  /** For a RateLimitOverride: its effect in words. */
  match?: string;
  effect?: string;
  /** For a RateLimitOverride with an end: RFC 3339. */
  endsAt?: string;
  conditions: Condition[];
}

/** The same fields as in metav1.Condition. */
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

/** Returns whether another control plane than the one of this name wrote it; one of a version that knew no names is no other. */
export function isOfOther(status: ConfigStatus | undefined, controllerName: string | undefined): boolean {
  return status?.controllerName !== undefined && status.controllerName !== controllerName;
}

export function findCondition(status: ConfigStatus | undefined, type: ConditionType): Condition | undefined {
  return status?.conditions.find((condition) => condition.type === type);
}
