/** A client of incremental aggregated discovery that says what a test reports it, and keeps what it was sent. */
import { create, fromBinary, type JsonObject, type MessageInitShape, toBinary } from '@bufbuild/protobuf';
import { anyPack } from '@bufbuild/protobuf/wkt';
import { Client, type ClientDuplexStream, credentials } from '@grpc/grpc-js';
import { onTestFinished } from 'vitest';
import {
  DeltaDiscoveryRequestSchema,
  type DeltaDiscoveryResponse,
  DeltaDiscoveryResponseSchema,
} from '../../gen/envoy/service/discovery/v3/discovery_pb.ts';
import { RefusedResourcesSchema } from '../../gen/weir/xds/v1/refused_resources_pb.ts';
import { eventually } from './eventually.ts';
import { rateLimitConfigType } from './xds-client.ts';

const method = '/envoy.service.discovery.v3.AggregatedDiscoveryService/DeltaAggregatedResources';

export interface ReceivedDelta {
  version: string;
  nonce: string;
  /** Of resources that came. */
  names: string[];
  removed: string[];
  bytes: number;
}

export class DeltaClient {
  readonly received: ReceivedDelta[] = [];
  /** What it has by all that came: versions by names. */
  readonly world = new Map<string, string>();
  /** How the stream ended: `14 UNAVAILABLE: ...`. */
  end: string | undefined;
  readonly #node: { id: string; userAgentName: string; metadata: JsonObject };
  readonly #client: Client;
  readonly #call: ClientDuplexStream<Uint8Array, Buffer>;
  readonly #accepts: boolean;

  /** Ends with the test. `accepts`: each response is answered at once. `metadata`: more of the node. */
  constructor(
    port: number,
    {
      pod = 'p',
      accepts = true,
      metadata = {},
    }: { pod?: string; accepts?: boolean; metadata?: JsonObject } = {},
  ) {
    const who = { pod, instance: `${pod}-1`, ...metadata };
    this.#node = { id: 'default', userAgentName: 'weir', metadata: who };
    this.#accepts = accepts;
    this.#client = new Client(`127.0.0.1:${port}`, credentials.createInsecure(), {
      'grpc.use_local_subchannel_pool': 1,
      'grpc.max_receive_message_length': -1,
    });
    this.#call = this.#client.makeBidiStreamRequest(
      method,
      (bytes: Uint8Array) => Buffer.from(bytes),
      (bytes: Buffer) => bytes,
    );
    this.#call.on('data', (bytes: Buffer) => this.#receive(bytes));
    this.#call.on('error', ({ message }) => {
      this.end = message;
    });
    onTestFinished(() => this.close());
  }

  get last(): ReceivedDelta | undefined {
    return this.received.at(-1);
  }

  request(fields: Omit<MessageInitShape<typeof DeltaDiscoveryRequestSchema>, '$typeName'> = {}): void {
    const request = create(DeltaDiscoveryRequestSchema, {
      node: this.#node,
      typeUrl: rateLimitConfigType,
      ...fields,
    });
    this.#call.write(toBinary(DeltaDiscoveryRequestSchema, request));
  }

  accept(): void {
    this.request({ responseNonce: this.last?.nonce ?? '' });
  }

  /** Without `resources` the response as a whole. */
  refuse(message: string, resources?: readonly { name: string; message: string }[]): void {
    const listed = create(RefusedResourcesSchema, { resources: [...(resources ?? [])] });
    const details = resources === undefined ? [] : [anyPack(RefusedResourcesSchema, listed)];
    this.request({ responseNonce: this.last?.nonce ?? '', errorDetail: { message, details } });
  }

  /** Settles when so many responses came in all. */
  async responses(count: number): Promise<ReceivedDelta> {
    await eventually(() => {
      if (this.received.length < count)
        throw new Error(`${this.received.length} responses; ${this.end ?? 'open'}`);
    });
    return this.received[count - 1] as ReceivedDelta;
  }

  close(): void {
    this.#call.cancel();
    this.#client.close();
  }

  #receive(bytes: Buffer): void {
    const { systemVersionInfo, nonce, resources, removedResources }: DeltaDiscoveryResponse = fromBinary(
      DeltaDiscoveryResponseSchema,
      bytes,
    );
    for (const { name, version } of resources) this.world.set(name, version);
    for (const name of removedResources) this.world.delete(name);
    const names = resources.map(({ name }) => name);
    this.received.push({
      version: systemVersionInfo,
      nonce,
      names,
      removed: removedResources,
      bytes: bytes.length,
    });
    if (this.#accepts) this.accept();
  }
}
