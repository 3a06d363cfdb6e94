/**
 * A row for each reason that the control plane reports. The reasons are named after the observed fact. To add a reason, add its row and
 * the code that observes the fact. Metrics, events, admission and docs/status.md follow from the row.
 */
import type { Condition } from './config-object.ts';

export interface ReasonRow {
  /** The conditions that use it, of an object or, after `Fleet`, of a RateLimitFleet. Empty: only events or webhooks use it. */
  of: readonly (Condition['type'] | 'Fleet Ready' | 'Fleet Progressing')[];
  /** The condition's status. */
  status: Condition['status'];
  /** The meaning of its message, for docs/status.md. */
  text: string;
  /** The type of its Kubernetes event. Missing: the reason is temporary and has no event. */
  event?: 'Normal' | 'Warning';
  /** Set if an object with this reason is not accepted. */
  rejects?: {
    /** The kind of object, for the metrics. */
    kind: 'RateLimitConfig' | 'RateLimitOverride' | 'both';
    /**
     * The answer of admission: this HTTP status, or a warning. It is a warning if the reason depends on other objects and may change
     * soon, or if users apply the same object again from a repository.
     */
    admission: 403 | 422 | 'warning';
  };
  /** Whether the object has ended, which is not an error. Every condition says so, and only one event is sent. */
  isEnd?: true;
  /** Whether the object cannot be read. */
  isUnread?: true;
  /** Whether only a correction ends it, so that waiting does not help: the object has the condition Stalled. */
  isStalled?: true;
}

/** The reasons, in the order of docs/status.md. */
export const reasons = {
  NotWatched: {
    of: ['Accepted', 'Programmed', 'Ready'],
    status: 'False',
    text: 'its class or labels no longer match this control plane: none of its rules are in force',
    event: 'Warning',
  },
  Valid: { of: ['Accepted'], status: 'True', text: 'the rules are served', event: 'Normal' },
  NoMatchingRule: {
    of: ['Accepted'],
    status: 'True',
    text: 'why the [override](overrides.md#objects-in-kubernetes) has no effect: no rule, or no limit, of the domain has its match',
  },
  Invalid: {
    of: ['Accepted', 'Fleet Ready'],
    status: 'False',
    text: 'every error, each with its path in the object',
    event: 'Warning',
    rejects: { kind: 'both', admission: 422 },
    isUnread: true,
    isStalled: true,
  },
  UnknownField: {
    of: ['Accepted'],
    status: 'False',
    text: 'the fields of a [newer CRD](versions.md#fields-of-a-newer-crd), the version of the control plane, and what is in force: the last accepted spec, or this one without these fields',
    event: 'Warning',
    rejects: { kind: 'both', admission: 'warning' },
  },
  DomainConflict: {
    of: ['Accepted'],
    status: 'False',
    text: 'the object that has the domain, or the same key in a merged domain; or the namespace that the domain is held for, and until when',
    event: 'Warning',
    rejects: { kind: 'RateLimitConfig', admission: 'warning' },
  },
  DomainNotAllowed: {
    of: ['Accepted'],
    status: 'False',
    text: 'the namespace may not use the domain: `DOMAIN_OWNERS` or the RateLimitFleet gives it to others or to no namespace',
    event: 'Warning',
    rejects: { kind: 'both', admission: 403 },
    isStalled: true,
  },
  FleetNotAllowed: {
    of: ['Accepted'],
    status: 'False',
    text: 'the namespace may not use the fleet',
    event: 'Warning',
    rejects: { kind: 'both', admission: 'warning' },
  },
  Conflicted: {
    of: ['Accepted'],
    status: 'False',
    text: 'the older [override](overrides.md#objects-in-kubernetes) that has the same match',
    event: 'Warning',
    rejects: { kind: 'RateLimitOverride', admission: 'warning' },
  },
  Expired: {
    of: ['Accepted', 'Programmed', 'Ready'],
    status: 'False',
    text: 'when the override ended',
    event: 'Normal',
    rejects: { kind: 'RateLimitOverride', admission: 'warning' },
    isEnd: true,
  },
  AllLimiters: {
    of: ['Programmed', 'Fleet Ready'],
    status: 'True',
    text: 'every [expected](fleets.md#the-ratelimitfleet) limiter of the fleet applies this generation, or an earlier one with the same rules',
    event: 'Normal',
  },
  Pending: {
    of: ['Programmed', 'Fleet Ready'],
    status: 'False',
    text: 'the limiters that have not answered yet, and since when: `waiting for lim-0 since 12:00:01Z`',
  },
  Refused: {
    of: ['Programmed', 'Fleet Ready'],
    status: 'False',
    text: 'the limiter that rejected the rules, since when, and its message',
    event: 'Warning',
    isStalled: true,
  },
  LimiterTooOld: {
    of: ['Programmed', 'Fleet Ready'],
    status: 'False',
    text: 'the limiters that do not [support these rules](versions.md#which-rules-a-limiter-obeys), since when they are connected, and the generation that they get instead',
    event: 'Warning',
  },
  Disconnected: {
    of: ['Programmed', 'Fleet Ready'],
    status: 'Unknown',
    text: 'an expected limiter disconnected before it had these rules, or never connected: its name, and since when',
  },
  NoLimiters: {
    of: ['Programmed', 'Fleet Ready'],
    status: 'False',
    text: 'no limiter of the fleet is connected',
    event: 'Warning',
  },
  NotAccepted: {
    of: ['Programmed'],
    status: 'False',
    text: 'this generation is not served; an older one may be in force',
  },
  Ready: {
    of: ['Ready'],
    status: 'True',
    text: 'accepted and programmed. Otherwise, reason and message are those of the condition that fails',
  },
  UnknownFields: {
    of: ['Supported'],
    status: 'False',
    text: 'limiters other than Weir ignore fields that the object uses. The condition exists only if something is wrong',
    event: 'Warning',
  },
  SnapshotTooLarge: {
    of: ['Supported'],
    status: 'False',
    text: 'the rules of the fleet are larger than 4 MiB, the default limit of gRPC clients',
    event: 'Warning',
  },
  NamespacesUnknown: {
    of: ['Fleet Ready'],
    status: 'False',
    text: 'why the control plane cannot follow the labels of namespaces, and what applies until it can',
  },
  EndpointsUnknown: {
    of: ['Fleet Ready'],
    status: 'False',
    text: 'why the control plane cannot follow the endpoints of the Service, and what applies until it can',
  },
  NoRules: {
    of: ['Fleet Ready'],
    status: 'False',
    text: 'the fleet has no rules: no accepted object names it',
  },
  Joining: { of: ['Fleet Progressing'], status: 'True', text: 'the limiters that are joining' },
  Changing: { of: ['Fleet Progressing'], status: 'True', text: 'the version that limiters are loading' },
  Settled: { of: ['Fleet Progressing'], status: 'False', text: 'no limiter is joining or loading' },
  Removed: {
    of: [],
    status: 'False',
    text: 'the object was deleted, and no limiter applies its rules any more',
  },
  StatusOverwritten: {
    of: [],
    status: 'False',
    text: 'another client changed the status; the control plane restored it',
    event: 'Warning',
  },
  ClassConflict: {
    of: [],
    status: 'False',
    text: 'another control plane writes to objects of this class: see [two control planes](control-plane.md#two-control-planes)',
    event: 'Warning',
  },
  CountersCanMeet: {
    of: [],
    status: 'False',
    text: 'a counter of this object and one of an older object of the fleet, or two of this one, [could have the same key](store.md#names-of-counters) in the store',
    event: 'Warning',
  },
} as const satisfies Record<string, ReasonRow>;

export type Reason = keyof typeof reasons;

/** The reason why an object is not accepted. */
export type RejectionReason = {
  [Name in Reason]: (typeof reasons)[Name] extends { rejects: object } ? Name : never;
}[Reason];

const rows: ReadonlyMap<string, ReasonRow> = new Map(Object.entries(reasons));

/** The row of a reason in a status, which another version may have written. */
export function reasonRow(reason: string): ReasonRow | undefined {
  return rows.get(reason);
}

export function hasReason(condition: Condition | undefined, reason: Reason): boolean {
  return condition?.reason === reason;
}

/** Returns whether the object has ended. */
export function isEndReason(reason: string | undefined): boolean {
  return reason !== undefined && reasonRow(reason)?.isEnd === true;
}

/** The reasons of `Accepted` for a kind of object, acceptance first. */
export function acceptedReasons(kind: 'RateLimitConfig' | 'RateLimitOverride'): string[] {
  const rejecting = [...rows].filter(([, { rejects }]) => rejects?.kind === kind || rejects?.kind === 'both');
  return ['Valid', ...rejecting.map(([name]) => name)];
}

/** A condition without times and generations. Its status follows from the reason. */
export function newCondition<Type extends string>(
  type: Type,
  reason: Reason,
  message: string,
): { type: Type; status: Condition['status']; reason: Reason; message: string } {
  return { type, status: reasons[reason].status, reason, message };
}
