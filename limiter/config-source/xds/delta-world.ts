/**
 * Resources as incremental xDS has them, by names and with versions. Pure.
 *
 * Two worlds are kept: what the server told over the stream that is open, and what is in force. A response changes the first;
 * the whole of that is then loaded, and what of it is good is in force. So a resource that was refused is tried again with every
 * response, as what it did not go with may be gone; and of responses that come while one is loaded the last one stands for all.
 * A stream begins with what is in force, and says so.
 */
import { fromBinary } from '@bufbuild/protobuf';
import { BinaryWriter, WireType } from '@bufbuild/protobuf/wire';
import {
  type DeltaDiscoveryResponse,
  DeltaDiscoveryResponseSchema,
} from '../../../gen/envoy/service/discovery/v3/discovery_pb.ts';

interface WorldResource {
  version: string;
  /** As a field of a DiscoveryResponse. */
  field: Uint8Array;
}

/** By name. */
export type World = ReadonlyMap<string, WorldResource>;

export const emptyWorld: World = new Map();

/** Throws on bytes that are no such message. */
export function decodeDelta(bytes: Uint8Array): DeltaDiscoveryResponse {
  return fromBinary(DeltaDiscoveryResponseSchema, bytes, { readUnknownFields: false });
}

/** What the server has told once it has sent this. */
export function changedWorld(
  told: World,
  { resources, removedResources }: Pick<DeltaDiscoveryResponse, 'resources' | 'removedResources'>,
): World {
  const next = new Map(told);
  for (const name of removedResources) next.delete(name);
  for (const { name, version, resource } of resources) {
    next.set(name, { version, field: resourceField(resource) });
  }
  return next;
}

/** Numbers of fields. */
const responseFields = { resources: 2, typeUrl: 4 } as const;
const anyFields = { typeUrl: 1, value: 2 } as const;

/** A copy: what it was read from may be a large response of which little is needed for long. */
function resourceField(resource: DeltaDiscoveryResponse['resources'][number]['resource']): Uint8Array {
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

/** What is to be loaded, as plain data for a thread. */
export interface WorldParts {
  /** A DiscoveryResponse with all resources in the order of their names. */
  bytes: Uint8Array;
  /** In the same order. */
  names: string[];
  /** Of each resource that is not in force as it is told: what is in force in its place, a DiscoveryResponse with that alone. */
  former: Map<string, Uint8Array | undefined>;
}

export function worldParts(told: World, inForce: World | undefined, typeUrl: string): WorldParts {
  const names = [...told.keys()].sort();
  const former = new Map<string, Uint8Array | undefined>();
  for (const name of names) {
    const before = inForce?.get(name);
    if (before !== told.get(name)) former.set(name, before?.field);
  }
  const type = new BinaryWriter().tag(responseFields.typeUrl, WireType.LengthDelimited).string(typeUrl);
  const bytes = Buffer.concat([...names.map((name) => told.get(name)!.field), type.finish()]);
  return { bytes, names, former };
}

/** What is in force once all of `told` is but what was refused. */
export function worldInForce(
  told: World,
  before: World | undefined,
  refused: readonly { name: string }[],
): World {
  if (refused.length === 0) return told;
  const next = new Map(told);
  for (const { name } of refused) {
    const kept = before?.get(name);
    if (kept === undefined) next.delete(name);
    else next.set(name, kept);
  }
  return next;
}
