/** The messages of xDS on the wire. Unlike other clients, the node goes with every request, as envoyproxy/ratelimit has it. */
import { create, fromBinary, type JsonObject, toBinary } from '@bufbuild/protobuf';
import type { Any } from '@bufbuild/protobuf/wkt';
import { type Node, NodeSchema } from '../../../gen/envoy/config/core/v3/base_pb.ts';
import {
  DiscoveryRequestSchema,
  DiscoveryResponseSchema,
} from '../../../gen/envoy/service/discovery/v3/discovery_pb.ts';
import { StatusSchema } from '../../../gen/google/rpc/status_pb.ts';
import { rateLimitConfigTypeUrl } from '../../../rules/xds/resource.ts';
import type { FailedLoad } from '../config-source.ts';
import type { SessionRequest } from './xds-session.ts';

/** Who the limiter says it is. */
export interface XdsNode {
  id: string;
  metadata: JsonObject;
  /** Of this program. */
  version: string;
}

export interface DiscoveryAnswer {
  version: string;
  nonce: string;
  typeUrl: string;
  /** Views of the bytes that were read. */
  resources: Any[];
}

/** Method of the stream: aggregated discovery, state of the world. */
export const adsPath = '/envoy.service.discovery.v3.AggregatedDiscoveryService/StreamAggregatedResources';

export function nodeMessage({ id, metadata, version }: XdsNode): Node {
  return create(NodeSchema, { id, metadata, userAgentName: 'weir', userAgentVersion: version });
}

export function encodeRequest(node: Node, { version, nonce, error }: SessionRequest): Uint8Array {
  const request = create(DiscoveryRequestSchema, {
    versionInfo: version,
    node,
    typeUrl: rateLimitConfigTypeUrl,
    responseNonce: nonce,
  });
  if (error !== undefined) request.errorDetail = create(StatusSchema, { message: error });
  return toBinary(DiscoveryRequestSchema, request);
}

/** Throws on bytes that are no such message. */
export function decodeAnswer(bytes: Uint8Array): DiscoveryAnswer {
  const response = fromBinary(DiscoveryResponseSchema, bytes, { readUnknownFields: false });
  const { versionInfo: version, nonce, typeUrl, resources } = response;
  return { version, nonce, typeUrl, resources };
}

/** Chosen: enough to mend a rule by, little enough for the status of a Kubernetes object. */
const maxErrors = 10;
const maxLength = 4_096;

/** What a refused response is answered with: the first error in the Go service's words and form, then the others. */
export function refusalMessage({ errors, total }: FailedLoad): string {
  const listed = errors.slice(0, maxErrors).map(({ source, text }) => `${source}: ${text}`);
  const more = total > listed.length ? [`and ${total - listed.length} more errors`] : [];
  const message = [...listed, ...more].join('; ');
  return message.length > maxLength ? `${message.slice(0, maxLength).toWellFormed()}...` : message;
}
