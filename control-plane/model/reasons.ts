/**
 * Each reason that the control plane gives, a row each, named after the fact observed. A new reason is a row, and the code that
 * observes its fact: metrics, events, admission and docs/status.md follow from the row.
 */
import type { Condition } from './config-object.ts';

export interface ReasonRow {
  /** Where it stands: conditions of an object or, after `Fleet`, of a RateLimitFleet. Empty: in an event or a webhook alone. */
  of: readonly (Condition['type'] | 'Fleet Ready' | 'Fleet Progressing')[];
  /** What it makes of the condition. */
  status: Condition['status'];
  /** What the message says, for docs/status.md. */
  text: string;
  /** The type of its Kubernetes event. Missing: it passes by itself, and is no event. */
  event?: 'Normal' | 'Warning';
  /** Why an object is not accepted. Missing: it is no such reason. */
  rejects?: {
    /** Which kind of object, for the metrics. */
    kind: 'RateLimitConfig' | 'RateLimitOverride' | 'both';
    /**
     * What admission says: the HTTP status of its refusal, or a warning. A warning is for what follows from other objects
     * and may be otherwise in a moment, and for what somebody applies again who keeps it in a repository.
     */
    admission: 403 | 422 | 'warning';
  };
  /** The object is over, which is no fault: every condition says so, and it is news once. */
  isEnd?: true;
}

/** In the order of docs/status.md. */
export const reasons = {
  NotWatched: {
    of: ['Accepted', 'Programmed', 'Ready'],
    status: 'False',
    text: 'its class or its labels are not those of this control plane any more: nothing of it is in force',
    event: 'Warning',
  },
  Valid: { of: ['Accepted'], status: 'True', text: 'the rules are served', event: 'Normal' },
  Invalid: {
    of: ['Accepted', 'Fleet Ready'],
    status: 'False',
    text: 'every error, each with its path in the object',
    event: 'Warning',
    rejects: { kind: 'both', admission: 422 },
  },
  UnknownField: {
    of: ['Accepted'],
    status: 'False',
    text: 'which fields come from a [newer CRD](versions.md#fields-of-a-newer-crd), the version of the control plane, and what is in force: the last accepted spec, or this one without these fields',
    event: 'Warning',
    rejects: { kind: 'both', admission: 'warning' },
  },
  DomainConflict: {
    of: ['Accepted'],
    status: 'False',
    text: 'which object has the domain, or the same key in a merged one; or for which namespace it is held, and until when',
    event: 'Warning',
    rejects: { kind: 'RateLimitConfig', admission: 'warning' },
  },
  DomainNotAllowed: {
    of: ['Accepted'],
    status: 'False',
    text: 'the namespace may not use the domain: `DOMAIN_OWNERS` or the RateLimitFleet gives it to others, or nobody does',
    event: 'Warning',
    rejects: { kind: 'both', admission: 403 },
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
    text: 'which older [override](overrides.md#objects-in-kubernetes) has the same match',
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
    text: 'every [expected](fleets.md#the-ratelimitfleet) limiter of the fleet has this generation in force, or the same rules since before',
    event: 'Normal',
  },
  Pending: {
    of: ['Programmed', 'Fleet Ready'],
    status: 'False',
    text: 'who has not answered yet, and since when: `waiting for lim-0 since 12:00:01Z`',
  },
  Refused: {
    of: ['Programmed', 'Fleet Ready'],
    status: 'False',
    text: 'which limiter refused the rules, since when, and its own words',
    event: 'Warning',
  },
  LimiterTooOld: {
    of: ['Programmed', 'Fleet Ready'],
    status: 'False',
    text: 'which limiters cannot [obey these rules](versions.md#which-rules-a-limiter-obeys), since when they are there, and which generation they are served in their place',
    event: 'Warning',
  },
  Disconnected: {
    of: ['Programmed', 'Fleet Ready'],
    status: 'Unknown',
    text: 'an expected limiter went away before it had these rules, or never came: its name, and since when',
  },
  NoLimiters: {
    of: ['Programmed', 'Fleet Ready'],
    status: 'False',
    text: 'no limiter of that fleet is connected',
    event: 'Warning',
  },
  NotAccepted: {
    of: ['Programmed'],
    status: 'False',
    text: 'this generation is not served; an older one may be',
  },
  Ready: {
    of: ['Ready'],
    status: 'True',
    text: 'accepted and programmed; where it is not, the reason and the words are those of the condition that says why',
  },
  UnknownFields: {
    of: ['Supported'],
    status: 'False',
    text: "limiters that are not Weir's ignore fields in use; the condition is only there when something is wrong",
    event: 'Warning',
  },
  SnapshotTooLarge: {
    of: ['Supported'],
    status: 'False',
    text: 'the rules of the fleet take over 4 MiB, more than clients of gRPC take unless they are told otherwise',
    event: 'Warning',
  },
  NamespacesUnknown: {
    of: ['Fleet Ready'],
    status: 'False',
    text: 'why the labels of namespaces cannot be followed, and what holds meanwhile',
  },
  EndpointsUnknown: {
    of: ['Fleet Ready'],
    status: 'False',
    text: 'why the endpoints of its Service cannot be followed, and what holds meanwhile',
  },
  NoRules: { of: ['Fleet Ready'], status: 'False', text: 'no object is served to the fleet' },
  Joining: { of: ['Fleet Progressing'], status: 'True', text: 'which limiters are joining' },
  Changing: { of: ['Fleet Progressing'], status: 'True', text: 'which version limiters are taking' },
  Settled: { of: ['Fleet Progressing'], status: 'False', text: 'nobody is waited for' },
  Removed: {
    of: [],
    status: 'False',
    text: 'the object was deleted, and no limiter runs its rules any more',
  },
  StatusOverwritten: {
    of: [],
    status: 'False',
    text: 'somebody else changed the status; the control plane wrote it again',
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

/** Why an object is not accepted. */
export type RejectionReason = {
  [Name in Reason]: (typeof reasons)[Name] extends { rejects: object } ? Name : never;
}[Reason];

const rows: ReadonlyMap<string, ReasonRow> = new Map(Object.entries(reasons));

/** Of a reason as a status has it, which another version may have written. */
export function reasonRow(reason: string): ReasonRow | undefined {
  return rows.get(reason);
}

export function says(condition: Condition | undefined, reason: Reason): boolean {
  return condition?.reason === reason;
}

/** Whether the object is over. */
export function isEnd(reason: string | undefined): boolean {
  return reason !== undefined && rows.get(reason)?.isEnd === true;
}

/** What `Accepted` may say of objects of a kind, acceptance first. */
export function acceptedReasons(kind: 'RateLimitConfig' | 'RateLimitOverride'): string[] {
  const rejecting = [...rows].filter(([, { rejects }]) => rejects?.kind === kind || rejects?.kind === 'both');
  return ['Valid', ...rejecting.map(([name]) => name)];
}

/** A condition without the times and generations, as its reason makes it. */
export function finding<Type extends string>(
  type: Type,
  reason: Reason,
  message: string,
): { type: Type; status: Condition['status']; reason: Reason; message: string } {
  return { type, status: reasons[reason].status, reason, message };
}
