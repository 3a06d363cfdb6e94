/**
 * The requests and responses of the two forms of aggregated discovery. The rest of a stream is the same in both: see `LimiterStream`.
 *
 * State of the world: each response contains all resources, and a request names the version in force.
 * Incremental: a response contains the resources that differ from those that were sent over this stream, and resources have versions.
 * A resource counts as sent even if the limiter rejects it. The limiter stores it beside the one in force, and tries it again with the
 * next response. See "Incremental xDS" in Envoy's description of the xDS protocol.
 */
import { hash } from 'node:crypto';
import { fromBinary, type Message } from '@bufbuild/protobuf';
import type { GenMessage } from '@bufbuild/protobuf/codegenv2';
import { BinaryReader, WireType } from '@bufbuild/protobuf/wire';
import type { Any } from '@bufbuild/protobuf/wkt';
import type { Node } from '../../gen/envoy/config/core/v3/base_pb.ts';
import {
  type DeltaDiscoveryRequest,
  DeltaDiscoveryRequestSchema,
  DiscoveryRequestSchema,
} from '../../gen/envoy/service/discovery/v3/discovery_pb.ts';
import type { Status } from '../../gen/google/rpc/status_pb.ts';
import { RefusedResourcesSchema } from '../../gen/weir/xds/v1/refused_resources_pb.ts';
import { rateLimitConfigTypeUrl } from '../../rules/reader/resource.ts';
import { type RejectedResource, versionOfResources } from '../model/fleet-snapshot.ts';
import {
  type FleetResponse,
  nothingSent,
  type ResourceVersions,
  type SentResources,
  versionsOf,
} from './fleet-response.ts';

/** A request, in either form. */
export interface StreamRequest {
  node: Node | undefined;
  typeUrl: string;
  nonce: string;
  rejection: RequestRejection | undefined;
}

export interface RequestRejection {
  message: string;
  /** Undefined if the whole response is rejected. */
  resources: readonly RejectedResource[] | undefined;
}

/** The form of one stream. */
export interface DiscoveryForm {
  readonly longestFirstRequestBytes: number;
  /** Reads a request. Returns undefined if the bytes are not a request. Its other fields are stored until the next request. */
  read(bytes: Uint8Array): StreamRequest | undefined;
  /**
   * Applies the subscription of the last request. In the first request for our type, also applies the limiter's resources. Returns
   * whether to send a response to it, regardless of the version that was sent last, or a problem.
   */
  subscribe(isFirst: boolean): boolean | { problem: string };
  /** The version that the limiter claimed in its first request. Empty: none, or unknown. */
  readonly claimedVersion: string;
  /** Returns the message to send, without a nonce. */
  bytesOf(response: FleetResponse): Uint8Array;
  /** Called when the response was sent. */
  sent(response: FleetResponse): void;
}

/** Ignores `resource_names`, because a limiter gets all rules of its fleet. */
export class StateOfTheWorld implements DiscoveryForm {
  readonly longestFirstRequestBytes = 1024 * 1024;
  claimedVersion = '';
  #version = '';

  read(bytes: Uint8Array): StreamRequest | undefined {
    const request = isBounded(bytes, sotwFields) ? decode(DiscoveryRequestSchema, bytes) : undefined;
    if (request === undefined) return undefined;
    const { node, typeUrl, responseNonce: nonce, errorDetail, versionInfo } = request;
    if (typeUrl === rateLimitConfigTypeUrl) this.#version = versionInfo;
    const rejection = errorDetail && { message: errorDetail.message, resources: undefined };
    return { node, typeUrl, nonce, rejection };
  }

  subscribe(isFirst: boolean): boolean {
    // A longer text is not a version of this control plane, so a bounded copy is enough.
    if (isFirst) this.claimedVersion = Buffer.from(this.#version.slice(0, longestName)).toString();
    this.#version = '';
    return isFirst;
  }

  bytesOf(response: FleetResponse): Uint8Array {
    return response.bytes;
  }

  sent(): void {}
}

/** Chosen: the size of the names of 30,000 resources with their versions. Clients of Weir list up to 3 MiB. */
export const longestRequestBytes = 4 * 1024 * 1024;
/** Chosen: a client that wants more resources wants all of them. */
const maxNames = 1_000;
/** The number of resources that Weir's limiter lists before it rejects everything. */
const maxRejected = 1_000;
/** Chosen: the same bound as in Weir's limiter. The message is shown in a condition. */
const longestMessage = 1_024;
/** Chosen: in a rollout, the limiters of a fleet reject in at most two ways. */
const maxLists = 64;
/**
 * Chosen: the name of a merged domain of 253 characters takes up to 513 (with `domain ` before it, and two for some characters),
 * and the name of an object 317.
 */
const longestName = 520;

/** Without names, a limiter subscribes to all resources. If it subscribes to all (`*`) and to names, the names add nothing. */
export class Incremental implements DiscoveryForm {
  /** The maximum size of the first request, which may list all resources. */
  readonly longestFirstRequestBytes = longestRequestBytes;
  #request: DeltaDiscoveryRequest | undefined;
  #wantsAll = false;
  #names: ReadonlySet<string> = new Set();
  /** The resources that were reported to the limiter. A name that does not exist has an empty version. */
  #reported: SentResources = nothingSent;
  claimedVersion = '';
  readonly #rejected: RejectedLists;

  constructor(rejected = new RejectedLists()) {
    this.#rejected = rejected;
  }

  read(bytes: Uint8Array): StreamRequest | undefined {
    const request = isBounded(bytes, deltaFields) ? decode(DeltaDiscoveryRequestSchema, bytes) : undefined;
    if (request === undefined) return undefined;
    this.#request = request.typeUrl === rateLimitConfigTypeUrl ? request : undefined;
    const { node, typeUrl, responseNonce: nonce, errorDetail } = request;
    return { node, typeUrl, nonce, rejection: errorDetail && this.#rejectionOf(errorDetail) };
  }

  subscribe(isFirst: boolean): boolean | { problem: string } {
    const request = this.#request as DeltaDiscoveryRequest;
    this.#request = undefined;
    const { resourceNamesSubscribe: more, resourceNamesUnsubscribe: less } = request;
    const long = more.find(({ length }) => length > longestName);
    if (long !== undefined) {
      return {
        problem: `subscribes to a name of ${long.length} characters, the bound is ${longestName}`,
      };
    }
    if (isFirst) this.#begin(request);
    else if (more.includes('*')) this.#wantsAll = true;
    if (less.includes('*')) this.#wantsAll = false;
    const names = new Set(this.#names);
    for (const name of less) names.delete(name);
    for (const name of more) if (name !== '*') names.add(name);
    if (names.size > maxNames) {
      return {
        problem: `subscribes to ${names.size} names of resources, the bound is ${maxNames}: subscribe to * for all of them`,
      };
    }
    this.#names = names;
    if (isFirst) return true;
    // A limiter that subscribes again requests the resource again.
    if (more.length > 0) this.#reported = unsure(versionsOf(this.#reported), more);
    return more.length > 0;
  }

  bytesOf(response: FleetResponse): Uint8Array {
    if (this.#wantsAll) return response.changeSince(this.#reported);
    return response.changeOf(this.#names, versionsOf(this.#reported));
  }

  sent(response: FleetResponse): void {
    this.#reported = this.#wantsAll
      ? response.resources
      : new Map([...this.#names].map((name) => [name, response.versions.get(name) ?? '']));
  }

  #rejectionOf({ message, details }: Status): RequestRejection {
    return { message, resources: this.#rejected.of(details) };
  }

  #begin({ resourceNamesSubscribe, initialResourceVersions }: DeltaDiscoveryRequest): void {
    this.#wantsAll = resourceNamesSubscribe.length === 0 || resourceNamesSubscribe.includes('*');
    const versions = new Map(Object.entries(initialResourceVersions));
    if (versions.size === 0) return;
    this.#reported = versions;
    if (this.#wantsAll) this.claimedVersion = versionOfResources(versions);
  }
}

/** A version that differs from all others, so that the resource, or its removal, is sent again. */
const unsureVersion = '\0';

function unsure(reported: ResourceVersions, names: readonly string[]): ResourceVersions {
  const known = names.filter((name) => reported.has(name));
  if (known.length === 0) return reported;
  return new Map([...reported, ...known.map((name) => [name, unsureVersion] as const)]);
}

/**
 * The lists of resources that limiters rejected. All limiters of a fleet reject the same resources in the same bytes, so one list serves
 * all of them, here and in the reports of replicas.
 */
export class RejectedLists {
  /** Lists by a hash of the bytes. The most recently used list is at the end. */
  readonly #kept = new Map<string, readonly RejectedResource[] | undefined>();

  /** Returns undefined if everything is rejected. */
  of(details: readonly Any[]): readonly RejectedResource[] | undefined {
    const { typeName } = RefusedResourcesSchema;
    const listed = details.filter(({ typeUrl }) => typeUrl.endsWith(`/${typeName}`));
    const key = hash('sha256', Buffer.concat(listed.map(({ value }) => value)));
    const list = this.#kept.has(key) ? this.#kept.get(key) : readLists(listed);
    this.#kept.delete(key);
    this.#kept.set(key, list);
    if (this.#kept.size > maxLists) this.#kept.delete(this.#kept.keys().next().value as string);
    return list;
  }
}

function readLists(details: readonly Any[]): RejectedResource[] | undefined {
  const listed = details.map(({ value }) =>
    fieldCount(value) <= maxRejected ? decode(RefusedResourcesSchema, value) : undefined,
  );
  const resources = listed.flatMap((list) => list?.resources ?? []);
  // The name must be complete, because it is compared with the names of resources. With a shortened name, its object would stay
  // Programmed.
  const isBad = ({ name }: RejectedResource) => name === '' || name.length > longestName;
  const isNoList = listed.includes(undefined) || resources.length === 0 || resources.some(isBad);
  if (isNoList || resources.length > maxRejected) return undefined;
  return resources.map(({ name, message }) => ({ name, message: message.slice(0, longestMessage + 3) }));
}

/** Field numbers of both requests. */
interface BoundedFields {
  node: number;
  error: number;
}
const sotwFields: BoundedFields = { node: 2, error: 6 };
const deltaFields: BoundedFields = { node: 1, error: 7 };

/** Chosen: more than a limiter claims in one request. A decoded small field takes many times its size in bytes. */
const maxFields = 100_000;
/** Chosen: the node of an Envoy, which lists its extensions, has about 80 KiB. */
const longestNodeBytes = 256 * 1024;
/** Chosen: the number of fields of an error. */
const maxErrorFields = 100;

/** Returns whether a request can be decoded in a short time. It only scans the request. */
function isBounded(bytes: Uint8Array, { node, error }: BoundedFields): boolean {
  const count = fieldCount(bytes, (number, value) => {
    if (number === node) return value.length <= longestNodeBytes;
    return number !== error || fieldCount(value) <= maxErrorFields;
  });
  return count <= maxFields;
}

/** Returns the number of fields. Infinity for bytes that are not a message, or that have a bad field. */
function fieldCount(bytes: Uint8Array, isGood?: (number: number, value: Uint8Array) => boolean): number {
  const reader = new BinaryReader(bytes);
  let count = 0;
  try {
    for (; reader.pos < reader.len && count <= maxFields; count += 1) {
      const [number, type] = reader.tag();
      if (isGood === undefined || type !== WireType.LengthDelimited) reader.skip(type, number);
      else if (!isGood(number, reader.bytes())) return Number.POSITIVE_INFINITY;
    }
    return count;
  } catch {
    return Number.POSITIVE_INFINITY;
  }
}

function decode<M extends Message>(schema: GenMessage<M>, bytes: Uint8Array): M | undefined {
  try {
    return fromBinary(schema, bytes);
  } catch {
    return undefined;
  }
}
