/**
 * A fleet of limiters as the control plane sees them: streams of xDS on connections of their own, each of which accepts
 * what it gets. Only what a measurement needs is read of a response.
 */
import { create, fromBinary, toBinary } from '@bufbuild/protobuf';
import { Client, type ClientDuplexStream, credentials } from '@grpc/grpc-js';
import {
  DiscoveryRequestSchema,
  DiscoveryResponseSchema,
} from '../gen/envoy/service/discovery/v3/discovery_pb.ts';
import { rateLimitConfigTypeUrl } from '../rules/xds/resource.ts';

const method = '/envoy.service.discovery.v3.AggregatedDiscoveryService/StreamAggregatedResources';

export interface Arrival {
  fleet: string;
  version: string;
  bytes: number;
  atMs: number;
}

export class XdsStreams {
  readonly #clients: Client[] = [];
  readonly #streams: ClientDuplexStream<Uint8Array, Buffer>[] = [];
  readonly #onArrival: (arrival: Arrival) => void;

  constructor(onArrival: (arrival: Arrival) => void) {
    this.#onArrival = onArrival;
  }

  /** Opens one stream; the first response arrives as any other. */
  open(port: number, fleet: string, name: string): void {
    const client = new Client(`127.0.0.1:${port}`, credentials.createInsecure(), {
      'grpc.use_local_subchannel_pool': 1,
      'grpc.max_receive_message_length': -1,
    });
    const stream = client.makeBidiStreamRequest(
      method,
      (bytes: Uint8Array) => Buffer.from(bytes),
      (bytes: Buffer) => bytes,
    );
    const node = { id: name, userAgentName: 'weir', metadata: { fleet, pod: name, instance: name } };
    const answer = (versionInfo: string, responseNonce: string): void => {
      const request = { node, versionInfo, responseNonce, typeUrl: rateLimitConfigTypeUrl };
      stream.write(toBinary(DiscoveryRequestSchema, create(DiscoveryRequestSchema, request)));
    };
    stream.on('data', (bytes: Buffer) => {
      const atMs = performance.now();
      const { versionInfo, nonce } = fromBinary(DiscoveryResponseSchema, bytes);
      this.#onArrival({ fleet, version: versionInfo, bytes: bytes.length, atMs });
      answer(versionInfo, nonce);
    });
    stream.on('error', () => {});
    answer('', '');
    this.#clients.push(client);
    this.#streams.push(stream);
  }

  close(): void {
    for (const stream of this.#streams) stream.cancel();
    for (const client of this.#clients) client.close();
  }
}
