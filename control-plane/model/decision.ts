import type { Capabilities } from '../../rules/language/capabilities.ts';
import type { ConfigObject } from './config-object.ts';
import type { FleetSnapshot } from './fleet-snapshot.ts';
import type { Reason, RejectionReason } from './reasons.ts';

/** The result for all objects: the rules for limiters, and the status of each object. */
export interface ClusterDecision {
  /** Snapshots by fleet, only for fleets that get rules from an object. */
  fleets: ReadonlyMap<string, FleetSnapshot>;
  /** One outcome for each object, by uid. */
  outcomes: ReadonlyMap<string, ObjectOutcome>;
  /** The sorted namespaces that have rules of a domain, by `domainKey`. The same value as long as nothing changes. */
  holders: ReadonlyMap<string, readonly string[]>;
  /** The number of served overrides by `domainKey`. Missing if there are none anywhere. */
  overrides?: ReadonlyMap<string, number>;
  /** The outcome of fields of a newer CRD. Missing if there are none. */
  newerFields?: NewerFields;
  /**
   * The time at which the decision changes without news: the next end of an override, in milliseconds since 1970. Missing if there is
   * none.
   */
  dueMs?: number | undefined;
}

export interface ObjectOutcome {
  object: ConfigObject;
  accepted: Acceptance;
  /** The rules that limiters get for the object. Undefined if there are none. */
  served: ServedConfig | undefined;
  /** The description of an override with a readable spec. */
  override?: OverrideText | undefined;
}

/** The description of an override, whether or not it is in force. */
export interface OverrideText {
  /** The match, such as `remote_address=203.0.113.7`. */
  match: string;
  /** The effect, such as `100 requests a unit`. */
  effect: string;
  /** The end in milliseconds since 1970. Undefined if it has no end of its own, or if the end is unknown here. */
  endsMs: number | undefined;
  /** The reason why a served override has no effect with the present rules. Undefined if it has one. */
  idle: string | undefined;
  /** A note for the owner of a served override. Empty if there is nothing to add. */
  note: string;
}

export type Acceptance = { status: true } | { status: false; reason: RejectionReason; message: string };

/** The row, with the reason and message of the condition. */
export function acceptedRow(accepted: Acceptance): { status: boolean; reason: Reason; message: string } {
  return accepted.status ? { status: true, reason: 'Valid', message: '' } : accepted;
}

export interface ServedConfig {
  fleet: string;
  domain: string;
  /** The served generation. Older than `object.generation` while the newer one is not accepted. */
  generation: number;
  /** The spec from which it was read, without fields of a newer CRD. */
  spec: unknown;
  /** Fields of a newer CRD that are left out although they do not have their default. Missing if there are none. */
  without?: readonly string[];
  /** The hash of the object's own rules, regardless of merging. */
  hash: string;
  /** The bytes that `hash` is computed from. */
  bytes: Uint8Array;
  /** The name of the resource in the fleet's snapshot that contains the rules. */
  resource: string;
  /** The number of rules on all levels. */
  rules: number;
  /** Fields in use that only Weir's limiters support, in the spelling of manifests: `valueToMetric`. */
  ownFields: readonly string[];
  /** The capabilities that a limiter needs for these rules. */
  needs: Capabilities;
  /**
   * The generation that other limiters get, if they support it. Undefined if they get nothing, or if every limiter supports these rules.
   */
  fallback: FallbackSpec | undefined;
}

export interface FallbackSpec extends SpecGeneration {
  needs: Capabilities;
}

export interface SpecGeneration {
  generation: number;
  spec: unknown;
}

/** The last spec of an object that was accepted. It stays in force while a newer one is not accepted. */
export interface LastAcceptedSpec extends SpecGeneration {
  /** An earlier accepted generation that needs fewer capabilities, if there is one: see `fallbacksOf`. */
  fallback?: SpecGeneration | undefined;
}

/** A spec with the name of its object. */
export type StoredSpec = LastAcceptedSpec & Pick<ConfigObject, 'namespace' | 'name'>;

/** A deleted object whose webhook was not delivered yet. */
export interface RemovedObject
  extends Pick<ConfigObject, 'kind' | 'namespace' | 'name' | 'uid' | 'generation'> {
  /** The last resource that was served for it. Null: none, so that no limiter runs it. */
  served: { fleet: string; domain: string; resource: string } | null;
  /** The time when the deletion was found, in milliseconds since 1970. */
  removedMs: number;
}

/** The last owners of a domain of a fleet. */
export interface DomainRecord {
  /** The namespace or, with merging, all namespaces that have rules of the domain. Never empty. */
  namespaces: readonly string[];
  /** The time until which a free domain is reserved for them, in milliseconds since 1970. Undefined while they have it. */
  heldUntilMs?: number;
}

/** Records by `domainKey`. */
export type DomainRecords = ReadonlyMap<string, DomainRecord>;

/** Returns a unique key, because no name of a fleet has a slash. */
export function domainKey({ fleet, domain }: { fleet: string; domain: string }): string {
  return `${fleet}/${domain}`;
}

/** The number of free domains that are reserved for their last owners. */
export function heldDomains(records: DomainRecords = new Map()): number {
  return [...records.values()].filter(({ heldUntilMs }) => heldUntilMs !== undefined).length;
}

/** The part of an OpenAPI schema that determines the value of a field that was not written. */
export interface FieldSchema {
  readonly default?: unknown;
  readonly properties?: Readonly<Record<string, FieldSchema>>;
  readonly items?: FieldSchema;
}

/** The schemas of `spec`, by kind. The value is replaced whenever a schema changes. */
export type PublishedSchemas = ReadonlyMap<string, FieldSchema>;

export interface UnknownField {
  /** The path, such as `spec.descriptors[0].burstMode`. */
  text: string;
  /** Whether the known schema has the field. No newer schema is then needed to judge it. */
  isPublished: boolean;
}

/** Fields of all objects that are newer than the CRD. */
export interface NewerFields {
  /** Fields that have their default, in the form `spec.descriptors[].burstMode`. They are left out. */
  ignored: ReadonlySet<string>;
  /** Fields that the schemas do not have: `RateLimitConfig spec.descriptors[].burstMode`. Newer schemas may give them a default. */
  doubts: ReadonlySet<string>;
}

export const noNewerFields: NewerFields = { ignored: new Set(), doubts: new Set() };
