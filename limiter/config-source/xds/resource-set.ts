/**
 * Resources of incremental xDS, by name and with versions. Pure.
 *
 * The limiter stores two sets: the resources that the server has sent over the current stream, and the resources in force. A response
 * changes the first set. The limiter then loads the domains in which both sets differ and puts the good resources in force. So
 * each response also tries a rejected resource again, because a resource that it conflicted with may be gone. If several
 * responses arrive during a load, one load of the latest set covers them all. The first request of a stream lists the resources in force.
 */

import { fromBinary } from '@bufbuild/protobuf';
import { BinaryWriter, WireType } from '@bufbuild/protobuf/wire';
import type { Any } from '@bufbuild/protobuf/wkt';
import {
  type DeltaDiscoveryResponse,
  DeltaDiscoveryResponseSchema,
} from '../../../gen/envoy/service/discovery/v3/discovery_pb.ts';
import type { CounterKeys } from '../../../rules/counter-keys.ts';
import { rateLimitConfigTypeUrl, resourceHead } from '../../../rules/reader/resource.ts';
import type { RuleTable } from '../../../rules/table/rule-table.ts';
import { domainsToReview, joinedReviews, type RulesReview } from '../load-review.ts';

export interface NamedResource {
  version: string;
  /** Whether the resource is an override; otherwise it holds rules. */
  isOverride: boolean;
  /** The resource, encoded as a field of a DiscoveryResponse. */
  field: Uint8Array;
  /** Empty if the resource names no domain or cannot be decoded. */
  domain: string;
}

/** Resources by name. */
export type ResourceSet = ReadonlyMap<string, NamedResource>;

export const noResources: ResourceSet = new Map();

/** @throws if the bytes are not a DeltaDiscoveryResponse */
export function decodeDelta(bytes: Uint8Array): DeltaDiscoveryResponse {
  return fromBinary(DeltaDiscoveryResponseSchema, bytes, { readUnknownFields: false });
}

/** All resources of the server together are larger than the limiter's bound. */
export class TooManyBytesError extends Error {}

/**
 * Returns the resources that the server has sent so far, including this response.
 * @throws TooManyBytesError if they have more than `maxBytes`; nothing is copied in that case
 */
export function withChanges(
  reported: ResourceSet,
  { resources, removedResources }: Pick<DeltaDiscoveryResponse, 'resources' | 'removedResources'>,
  maxBytes = Number.POSITIVE_INFINITY,
): ResourceSet {
  const next = new Map(reported);
  for (const name of removedResources) next.delete(name);
  let bytes = sizeOfResources(next);
  for (const { name, version, resource } of resources) {
    const known = next.get(name);
    if (known !== undefined) bytes -= bytesOf(name, known.version, known.field.length);
    bytes += bytesOf(name, version, resource?.value.length ?? 0);
    if (bytes > maxBytes) throw new TooManyBytesError();
    next.set(name, { version, field: resourceField(resource), ...kindOf(resource) });
  }
  return next;
}

/** Chosen: the approximate overhead of a resource, so that a bound on bytes also bounds the number of resources. */
const bytesOfEach = 512;

function bytesOf(name: string, version: string, content: number): number {
  return bytesOfEach + name.length + version.length + content;
}

/** The size of all resources, in bytes, with the overhead of each. */
export function sizeOfResources(resources: ResourceSet): number {
  let bytes = 0;
  for (const [name, { version, field }] of resources) bytes += bytesOf(name, version, field.length);
  return bytes;
}

/** Field numbers of DiscoveryResponse and Any. */
const responseFields = { resources: 2, typeUrl: 4 } as const;
const anyFields = { typeUrl: 1, value: 2 } as const;

function kindOf(
  resource: DeltaDiscoveryResponse['resources'][number]['resource'],
): Pick<NamedResource, 'domain' | 'isOverride'> {
  const bytes = resource?.value ?? new Uint8Array();
  try {
    return resourceHead(bytes);
  } catch {
    return { domain: '', isOverride: false };
  }
}

/** Encodes a DiscoveryResponse with only these resources. */
export function responseBytes(resources: readonly Any[], typeUrl: string): Uint8Array {
  const type = new BinaryWriter().tag(responseFields.typeUrl, WireType.LengthDelimited).string(typeUrl);
  return Buffer.concat([...resources.map(resourceField), type.finish()]);
}

/** Copies the resource, so that a large response is not held in memory for the few resources that stay. */
function resourceField(resource: Any | undefined): Uint8Array {
  const writer = new BinaryWriter();
  writer.tag(responseFields.resources, WireType.LengthDelimited).fork();
  if (resource !== undefined) {
    writer.tag(anyFields.typeUrl, WireType.LengthDelimited).string(resource.typeUrl);
    writer.tag(anyFields.value, WireType.LengthDelimited).bytes(resource.value);
  }
  return writer.join().finish();
}

/** Chosen: a list of this size fits into a request that any server accepts. Our control plane accepts requests of 4 MiB. */
const longestClaim = 3 * 1024 * 1024;

/** Returns the resources that the first request of a stream lists: those in force, or none if the list is too long for one request. */
export function claimableResources(inForce: ResourceSet | undefined): ResourceSet {
  let length = 0;
  for (const [name, { version }] of inForce ?? noResources) {
    // A character may take three bytes; tags and lengths take the rest.
    length += 3 * name.length + version.length + 16;
    if (length > longestClaim) return noResources;
  }
  return inForce ?? noResources;
}

export function versionsOf(resources: ResourceSet): Record<string, string> {
  return Object.fromEntries([...resources].map(([name, { version }]) => [name, version]));
}

/** The rules to load after a response, as plain data for a thread. */
export interface PartsToLoad {
  /** A DiscoveryResponse with the resources in the order of their names. */
  bytes: Uint8Array;
  /** The names of the resources, in the same order. */
  names: string[];
  /** For each resource that differs from the one in force: a DiscoveryResponse with only the resource in force, if there is one. */
  former: Map<string, Uint8Array | undefined>;
  /** Undefined if these are all resources. */
  change: PartialChange | undefined;
}

/** A load of all resources of some domains. The rules of other domains stay in force unchanged. */
interface PartialChange {
  domains: string[];
  /** The number of resources of other domains. */
  others: number;
  /** Whether a resource in force was removed. */
  removes: boolean;
}

/**
 * Chosen: the largest change that is loaded separately, as a share of all rules. Earlier changes that were loaded separately count too.
 * So outdated rules take at most a quarter of the memory, and 256 changes of different domains share the cost of one full load.
 */
const maxShare = 1 / 4;
const maxLayers = 256;

/** Returns how large the next change may be to be loaded separately, as a share of all rules. */
export function shareToChange({ layers }: Pick<RuleTable, 'layers'>): number {
  const [whole, ...over] = layers;
  if (over.length >= maxLayers) return 0;
  return maxShare - over.reduce((sum, { bytes }) => sum + bytes.byteLength, 0) / whole.bytes.byteLength;
}

/** `share`: a change that exceeds this share of all bytes loads everything. */
export function partsToLoad(
  reported: ResourceSet,
  inForce: ResourceSet | undefined,
  { typeUrl, share }: { typeUrl: string; share: number },
): PartsToLoad {
  const { domains, former, removes } = differences(reported, inForce ?? noResources);
  const part = inForce && resourcesOf(reported, typeUrl, domains);
  const isPart = part && (domains.size === 0 || part.bytes.length <= share * lengthOf(reported));
  if (!isPart) return { ...resourcesOf(reported, typeUrl), former, change: undefined };
  const others = reported.size - part.names.length;
  return { ...part, former, change: { domains: [...domains], others, removes } };
}

/** Compares two sets: the domains that differ, the resources of `now` that differ, and whether one was removed. */
function differences(
  now: ResourceSet,
  before: ResourceSet,
): { domains: Set<string> } & Pick<PartsToLoad, 'former'> & Pick<PartialChange, 'removes'> {
  const domains = new Set<string>();
  const former = new Map<string, Uint8Array | undefined>();
  for (const [name, resource] of now) {
    const known = before.get(name);
    // Most resources are the same object. A server may also send the same bytes again.
    if (known === resource || (known && Buffer.compare(known.field, resource.field) === 0)) continue;
    former.set(name, known?.field);
    domains.add(resource.domain);
    if (known !== undefined) domains.add(known.domain);
  }
  const removed = [...before].filter(([name]) => !now.has(name));
  for (const [, { domain }] of removed) domains.add(domain);
  return { domains, former, removes: removed.length > 0 };
}

function lengthOf(resources: ResourceSet): number {
  let length = 0;
  for (const { field } of resources.values()) length += field.length;
  return length;
}

/** Sorts resources by name. With `domains`, returns only their resources. */
function resourcesOf(
  resources: ResourceSet,
  typeUrl: string,
  domains?: ReadonlySet<string>,
): Pick<PartsToLoad, 'bytes' | 'names'> {
  const names: string[] = [];
  for (const [name, { domain }] of resources) if (domains?.has(domain) ?? true) names.push(name);
  names.sort();
  const type = new BinaryWriter().tag(responseFields.typeUrl, WireType.LengthDelimited).string(typeUrl);
  return { bytes: Buffer.concat([...names.map((name) => resources.get(name)!.field), type.finish()]), names };
}

/** Resources, and the result of their review. */
export interface ReviewedResources {
  resources: ResourceSet;
  review: RulesReview;
}

/**
 * Returns the resources to review: only the domains that changed since the last review, if that is enough. `join` adds the results
 * of the other domains.
 */
export function partsToReview(
  inForce: ResourceSet,
  before: ReviewedResources | undefined,
  counterKeys: CounterKeys,
): { bytes: Uint8Array; parts: Omit<PartsToLoad, 'bytes'>; join(found: RulesReview): RulesReview } {
  const changed = differences(inForce, before?.resources ?? noResources).domains;
  const all = [...inForce.values()].map(({ domain }) => domain);
  const domains = before && domainsToReview(before.review, { changed, all, counterKeys });
  const { bytes, names } = resourcesOf(inForce, rateLimitConfigTypeUrl, domains);
  const join = (found: RulesReview): RulesReview =>
    domains === undefined ? found : joinedReviews(before!.review, found, domains);
  return { bytes, parts: { names, former: new Map(), change: undefined }, join };
}

/** Returns the resources in force after a load of `reported` in which the resources of `rejected` were invalid. */
export function resourcesInForce(
  reported: ResourceSet,
  before: ResourceSet | undefined,
  rejected: readonly { name: string }[],
): ResourceSet {
  if (rejected.length === 0) return reported;
  const next = new Map(reported);
  for (const { name } of rejected) {
    const kept = before?.get(name);
    if (kept === undefined) next.delete(name);
    else next.set(name, kept);
  }
  return next;
}
