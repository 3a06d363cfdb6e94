import type { ConfigObject } from './config-object.ts';
import type { FleetSnapshot } from './fleet-snapshot.ts';
import type { NewerFields } from './newer-fields.ts';
import type { Reason, RejectionReason } from './reasons.ts';

/** What follows from all objects: what is served, and what is said about each object. */
export interface Decision {
  /** By fleet; only fleets that some object is served to. */
  fleets: ReadonlyMap<string, FleetSnapshot>;
  /** By uid, one for each object. */
  outcomes: ReadonlyMap<string, ObjectOutcome>;
  /** By `domainKey`: whose namespaces have rules of a domain, sorted. The same value while nothing of it changes. */
  holders: ReadonlyMap<string, readonly string[]>;
  /** By `domainKey`: overrides that are served over it. Missing: none anywhere. */
  overrides?: ReadonlyMap<string, number>;
  /** What came of fields that a newer CRD has. Missing: there are none. */
  newerFields?: NewerFields;
  /** When time alone changes it: the next end of an override, in milliseconds since 1970. Missing: never. */
  dueMs?: number | undefined;
}

export interface ObjectOutcome {
  object: ConfigObject;
  accepted: Acceptance;
  /** What is served for the object; undefined: nothing. */
  served: ServedConfig | undefined;
  /** Of an override whose spec can be read. */
  override?: OverrideText | undefined;
}

/** What is said of an override, whether it is in force or not. */
export interface OverrideText {
  /** `remote_address=203.0.113.7` */
  match: string;
  /** `100 requests a unit` */
  effect: string;
  /** Milliseconds since 1970; undefined: it has no end of its own, or nobody here knows it. */
  endsMs: number | undefined;
  /** What its owner should know though it is served. */
  notes: readonly string[];
}

export type Acceptance = { status: true } | { status: false; reason: RejectionReason; message: string };

/** In the words of the condition. */
export function acceptedRow(accepted: Acceptance): { status: boolean; reason: Reason; message: string } {
  return accepted.status ? { status: true, reason: 'Valid', message: '' } : accepted;
}

export interface ServedConfig {
  fleet: string;
  domain: string;
  /** Of the object at the time; older than `object.generation` while the newer one is not accepted. */
  generation: number;
  /** What it was read from, without fields of a newer CRD. */
  spec: unknown;
  /** Fields of a newer CRD that are left out although they do not hold their default; missing: none. */
  without?: readonly string[];
  /** Of the object's own rules, whatever they are merged with. */
  hash: string;
  /** What `hash` is of. */
  bytes: Uint8Array;
  /** Name of the resource in the fleet's snapshot that holds the rules. */
  resource: string;
  /** Rules of all levels. */
  rules: number;
  /** Fields in use that only this project's limiters know, as manifests spell them: `valueToMetric`. */
  ownFields: readonly string[];
  /** What a limiter has to obey for these rules: see `rulesVersionNeeded`, of an override `overridesRulesVersion`. */
  rulesVersion: number;
  /** Older limiters are served this generation in their place; undefined: nothing, or these rules too. */
  forOld: SpecGeneration | undefined;
}

export interface SpecGeneration {
  generation: number;
  spec: unknown;
}

/** The last spec of an object that was accepted: it stays in force while a newer one is not. */
export interface KeptSpec extends SpecGeneration {
  /** The last one before it that limiters of rules version 1 can obey, while this one is more than that. */
  forOld?: SpecGeneration | undefined;
}

/** With the name of the object that it belongs to. */
export type StoredSpec = KeptSpec & Pick<ConfigObject, 'namespace' | 'name'>;

/** Whose a domain of a fleet was last. */
export interface DomainRecord {
  /** One; with merging all that have rules of the domain. Never empty. */
  namespaces: readonly string[];
  /** Milliseconds since 1970: the domain is free and given to nobody else before; undefined while they have it. */
  heldUntilMs?: number;
}

/** By `domainKey`. */
export type DomainRecords = ReadonlyMap<string, DomainRecord>;

/** No name of a fleet has a slash. */
export function domainKey({ fleet, domain }: { fleet: string; domain: string }): string {
  return `${fleet}/${domain}`;
}

/** How many are free and kept for those who had them. */
export function heldDomains(records: DomainRecords = new Map()): number {
  return [...records.values()].filter(({ heldUntilMs }) => heldUntilMs !== undefined).length;
}
