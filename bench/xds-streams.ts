/**
 * Simulates a fleet of limiters for the control plane: xDS streams on separate connections, each of which accepts every response. It
 * reads only the fields that a measurement needs.
 */
import { create, toBinary } from '@bufbuild/protobuf';
import { BinaryReader } from '@bufbuild/protobuf/wire';
import { Client, type ClientDuplexStream, credentials } from '@grpc/grpc-js';
import {
  DeltaDiscoveryRequestSchema,
  DiscoveryRequestSchema,
} from '../gen/envoy/service/discovery/v3/discovery_pb.ts';
import { rateLimitConfigTypeUrl } from '../rules/reader/resource.ts';

const service = '/envoy.service.discovery.v3.AggregatedDiscoveryService';

interface Answered {
  version: string;
  nonce: string;
}

/**
 * Reads two fields that both forms have. It skips resources, because reading 5,000 of them a thousand times takes longer than the
 * measurement.
 */
function answeredOf(bytes: Uint8Array): Answered {
  const reader = new BinaryReader(bytes);
  const answered = { version: '', nonce: '' };
  while (reader.pos < reader.len) {
    const [field, wireType] = reader.tag();
    if (field === 1) answered.version = reader.string();
    else if (field === 5) answered.nonce = reader.string();
    else reader.skip(wireType, field);
  }
  return answered;
}

/** The bytes to write to a stream. */
const forms = {
  stateOfTheWorld: {
    method: `${service}/StreamAggregatedResources`,
    write: (node: object, { version, nonce }: Answered): Uint8Array => {
      const request = { node, versionInfo: version, responseNonce: nonce, typeUrl: rateLimitConfigTypeUrl };
      return toBinary(DiscoveryRequestSchema, create(DiscoveryRequestSchema, request));
    },
  },
  incremental: {
    method: `${service}/DeltaAggregatedResources`,
    write: (node: object, { nonce }: Answered): Uint8Array => {
      const request = { node, responseNonce: nonce, typeUrl: rateLimitConfigTypeUrl };
      return toBinary(DeltaDiscoveryRequestSchema, create(DeltaDiscoveryRequestSchema, request));
    },
  },
} as const;
export type StreamForm = keyof typeof forms;

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
  readonly #form: (typeof forms)[StreamForm];

  constructor(form: StreamForm, onArrival: (arrival: Arrival) => void) {
    this.#form = forms[form];
    this.#onArrival = onArrival;
  }

  /** Opens one stream. Its first response arrives like all others. */
  open(port: number, fleet: string, name: string): void {
    const client = new Client(`127.0.0.1:${port}`, credentials.createInsecure(), {
      'grpc.use_local_subchannel_pool': 1,
      'grpc.max_receive_message_length': -1,
    });
    const { method, write } = this.#form;
    const stream = client.makeBidiStreamRequest(
      method,
      (bytes: Uint8Array) => Buffer.from(bytes),
      (bytes: Buffer) => bytes,
    );
    const node = { id: name, userAgentName: 'weir', metadata: { fleet, pod: name, instance: name } };
    stream.on('data', (bytes: Buffer) => {
      const atMs = performance.now();
      const answered = answeredOf(bytes);
      this.#onArrival({ fleet, version: answered.version, bytes: bytes.length, atMs });
      stream.write(write(node, answered));
    });
    stream.on('error', () => {});
    stream.write(write(node, { version: '', nonce: '' }));
    this.#clients.push(client);
    this.#streams.push(stream);
  }

  close(): void {
    for (const stream of this.#streams) stream.cancel();
    for (const client of this.#clients) client.close();
  }
}
