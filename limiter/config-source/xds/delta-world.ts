/**
 * Resources as incremental xDS has them, by names and with versions. Pure.
 *
 * Two worlds are kept: what the server reported over the stream that is open, and what is in force. A response changes the first;
 * the domains in which the two differ are then loaded, and what of them is good is in force. So a resource that was refused is
 * tried again with every response, as what it did not go with may be gone; and of responses that come while one is loaded the
 * last one stands for all. A stream begins with what is in force, and says so.
 */
import { fromBinary } from '@bufbuild/protobuf';
import { BinaryWriter, WireType } from '@bufbuild/protobuf/wire';
import type { Any } from '@bufbuild/protobuf/wkt';
import {
  type DeltaDiscoveryResponse,
  DeltaDiscoveryResponseSchema,
} from '../../../gen/envoy/service/discovery/v3/discovery_pb.ts';
import type { CounterKeys } from '../../../rules/counter-keys.ts';
import { domainsToReview, joinedReviews, type RulesReview } from '../../../rules/review/reviewed-load.ts';
import type { RuleTable } from '../../../rules/table/rule-table.ts';
import { rateLimitConfigTypeUrl, resourceHead } from '../../../rules/xds/resource.ts';

export interface WorldResource {
  version: string;
  /** It is an override. */
  isOverride: boolean;
  /** As a field of a DiscoveryResponse. */
  field: Uint8Array;
  /** Empty: none that can be read. */
  domain: string;
}

/** By name. */
export type World = ReadonlyMap<string, WorldResource>;

export const emptyWorld: World = new Map();

/** Throws on bytes that are no such message. */
export function decodeDelta(bytes: Uint8Array): DeltaDiscoveryResponse {
  return fromBinary(DeltaDiscoveryResponseSchema, bytes, { readUnknownFields: false });
}

/** The resources of a server have more bytes together than a limiter holds. */
export class TooManyBytesError extends Error {}

/**
 * Returns the resources that the server has sent so far, with those of this response.
 * @throws TooManyBytesError where that is more than `mostBytes`, before anything is copied
 */
export function changedWorld(
  reported: World,
  { resources, removedResources }: Pick<DeltaDiscoveryResponse, 'resources' | 'removedResources'>,
  mostBytes = Number.POSITIVE_INFINITY,
): World {
  const next = new Map(reported);
  for (const name of removedResources) next.delete(name);
  let bytes = worldBytes(next);
  for (const { name, version, resource } of resources) {
    const known = next.get(name);
    if (known !== undefined) bytes -= bytesOf(name, known.version, known.field.length);
    bytes += bytesOf(name, version, resource?.value.length ?? 0);
    if (bytes > mostBytes) throw new TooManyBytesError();
    next.set(name, { version, field: resourceField(resource), ...kindOf(resource) });
  }
  return next;
}

/** Chosen: roughly what a resource takes besides its own bytes, so that a bound on bytes also bounds how many there are. */
const bytesOfEach = 512;

function bytesOf(name: string, version: string, content: number): number {
  return bytesOfEach + name.length + version.length + content;
}

/** The size of all resources of a world. */
export function worldBytes(world: World): number {
  let bytes = 0;
  for (const [name, { version, field }] of world) bytes += bytesOf(name, version, field.length);
  return bytes;
}

/** Numbers of fields. */
const responseFields = { resources: 2, typeUrl: 4 } as const;
const anyFields = { typeUrl: 1, value: 2 } as const;

function kindOf(
  resource: DeltaDiscoveryResponse['resources'][number]['resource'],
): Pick<WorldResource, 'domain' | 'isOverride'> {
  const bytes = resource?.value ?? new Uint8Array();
  try {
    return resourceHead(bytes);
  } catch {
    return { domain: '', isOverride: false };
  }
}

/** A DiscoveryResponse with these resources alone. */
export function responseBytes(resources: readonly Any[], typeUrl: string): Uint8Array {
  const type = new BinaryWriter().tag(responseFields.typeUrl, WireType.LengthDelimited).string(typeUrl);
  return Buffer.concat([...resources.map(resourceField), type.finish()]);
}

/** A copy: what it was read from may be a large response of which little is needed for long. */
function resourceField(resource: Any | undefined): Uint8Array {
  const writer = new BinaryWriter();
  writer.tag(responseFields.resources, WireType.LengthDelimited).fork();
  if (resource !== undefined) {
    writer.tag(anyFields.typeUrl, WireType.LengthDelimited).string(resource.typeUrl);
    writer.tag(anyFields.value, WireType.LengthDelimited).bytes(resource.value);
  }
  return writer.join().finish();
}

/** Chosen: what a server takes for sure. Our control plane takes requests of 4 MiB, other parts included. */
const longestClaim = 3 * 1024 * 1024;

/** The world that a stream begins with: the one that is in force, where that can be said in one request. */
export function claimableWorld(inForce: World | undefined): World {
  let length = 0;
  for (const [name, { version }] of inForce ?? emptyWorld) {
    // A character may take three bytes; tags and lengths take the rest.
    length += 3 * name.length + version.length + 16;
    if (length > longestClaim) return emptyWorld;
  }
  return inForce ?? emptyWorld;
}

export function versionsOf(world: World): Record<string, string> {
  return Object.fromEntries([...world].map(([name, { version }]) => [name, version]));
}

/** What is to be loaded of worlds of rules alone, as plain data for a thread. */
export interface WorldParts {
  /** A DiscoveryResponse with the resources in the order of their names. */
  bytes: Uint8Array;
  /** In the same order. */
  names: string[];
  /** Of each resource that is not in force as it is reported: what is in force in its place, a DiscoveryResponse with that alone. */
  former: Map<string, Uint8Array | undefined>;
  /** Undefined: these are all resources. */
  change: WorldChange | undefined;
}

/** The resources are all that are reported for these domains, and rules in force for others have nothing to do with them. */
interface WorldChange {
  domains: string[];
  /** Number of the resources that are not among them. */
  others: number;
  /** Something that is in force is not reported any more. */
  removes: boolean;
}

/**
 * Chosen: what a change may be of all, with the changes before it that were not compiled with the rest. So what is out of date
 * takes a quarter of the memory at most, and 256 changes of different domains share the cost of one load of everything.
 */
const mostShare = 1 / 4;
const mostLayers = 256;

/** What the next change of these rules may be of all. */
export function shareToChange({ layers }: Pick<RuleTable, 'layers'>): number {
  const [whole, ...over] = layers;
  if (over.length >= mostLayers) return 0;
  return mostShare - over.reduce((sum, { bytes }) => sum + bytes.byteLength, 0) / whole.bytes.byteLength;
}

/** `share`: of all bytes, at most so many in a change; else everything is loaded. */
export function worldParts(
  reported: World,
  inForce: World | undefined,
  { typeUrl, share }: { typeUrl: string; share: number },
): WorldParts {
  const { domains, former, removes } = differences(reported, inForce ?? emptyWorld);
  const part = inForce && resourcesOf(reported, typeUrl, domains);
  const isPart = part && (domains.size === 0 || part.bytes.length <= share * lengthOf(reported));
  if (!isPart) return { ...resourcesOf(reported, typeUrl), former, change: undefined };
  const others = reported.size - part.names.length;
  return { ...part, former, change: { domains: [...domains], others, removes } };
}

/** Of both worlds the domains that are not the same, which resources those are now, and whether any is gone. */
function differences(
  now: World,
  before: World,
): { domains: Set<string> } & Pick<WorldParts, 'former'> & Pick<WorldChange, 'removes'> {
  const domains = new Set<string>();
  const former = new Map<string, Uint8Array | undefined>();
  for (const [name, resource] of now) {
    const known = before.get(name);
    // Most are the very same; a server may have sent one again.
    if (known === resource || (known && Buffer.compare(known.field, resource.field) === 0)) continue;
    former.set(name, known?.field);
    domains.add(resource.domain);
    if (known !== undefined) domains.add(known.domain);
  }
  const removed = [...before].filter(([name]) => !now.has(name));
  for (const [, { domain }] of removed) domains.add(domain);
  return { domains, former, removes: removed.length > 0 };
}

function lengthOf(world: World): number {
  let length = 0;
  for (const { field } of world.values()) length += field.length;
  return length;
}

/** By their names; of these domains alone, where some are given. */
function resourcesOf(
  world: World,
  typeUrl: string,
  domains?: ReadonlySet<string>,
): Pick<WorldParts, 'bytes' | 'names'> {
  const names: string[] = [];
  for (const [name, { domain }] of world) if (domains?.has(domain) ?? true) names.push(name);
  names.sort();
  const type = new BinaryWriter().tag(responseFields.typeUrl, WireType.LengthDelimited).string(typeUrl);
  return { bytes: Buffer.concat([...names.map((name) => world.get(name)!.field), type.finish()]), names };
}

/** Resources that were looked at, and what there was to say of them. */
export interface ReviewedWorld {
  world: World;
  review: RulesReview;
}

/** What to look at of what is in force: the domains that have changed since, where that is enough; `join` adds what is known of the others. */
export function worldToReview(
  inForce: World,
  before: ReviewedWorld | undefined,
  counterKeys: CounterKeys,
): { bytes: Uint8Array; parts: Omit<WorldParts, 'bytes'>; join(found: RulesReview): RulesReview } {
  const changed = differences(inForce, before?.world ?? emptyWorld).domains;
  const all = [...inForce.values()].map(({ domain }) => domain);
  const domains = before && domainsToReview(before.review, { changed, all, counterKeys });
  const { bytes, names } = resourcesOf(inForce, rateLimitConfigTypeUrl, domains);
  const join = (found: RulesReview): RulesReview =>
    domains === undefined ? found : joinedReviews(before!.review, found, domains);
  return { bytes, parts: { names, former: new Map(), change: undefined }, join };
}

/** What is in force once all of `reported` is but what was refused. */
export function worldInForce(
  reported: World,
  before: World | undefined,
  refused: readonly { name: string }[],
): World {
  if (refused.length === 0) return reported;
  const next = new Map(reported);
  for (const { name } of refused) {
    const kept = before?.get(name);
    if (kept === undefined) next.delete(name);
    else next.set(name, kept);
  }
  return next;
}
