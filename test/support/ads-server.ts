/** A server of aggregated discovery that does what a test tells it, and keeps what it was asked. */
import { create, fromBinary, toBinary } from '@bufbuild/protobuf';
import {
  ServerCredentials as Credentials,
  type Metadata,
  Server,
  type ServerCredentials,
  type ServerDuplexStream,
  type StatusObject,
} from '@grpc/grpc-js';
import {
  type DiscoveryRequest,
  DiscoveryRequestSchema,
  DiscoveryResponseSchema,
} from '../../gen/envoy/service/discovery/v3/discovery_pb.ts';
import { decodeBytes, encodeBytes } from '../../process/grpc/grpc-js.ts';
import type { RuleSource } from '../../rules/model.ts';
import { encodeResource, rateLimitConfigTypeUrl } from '../../rules/xds/resource.ts';
import { outOfTime } from './second-tries.ts';

const path = '/envoy.service.discovery.v3.AggregatedDiscoveryService/StreamAggregatedResources';
const waitMs = 20_000;

export interface ScriptedResponse {
  version: string;
  /** Defaults to `nonce-<version>`. */
  nonce?: string;
  sources?: readonly RuleSource[];
  /** Instead of sources. */
  resources?: readonly { typeUrl: string; value: Uint8Array }[];
  /** Of the response. */
  typeUrl?: string;
}

/** One limiter's stream. */
export class AdsServerStream {
  readonly headers: Metadata;
  /** All requests that came, the ones taken by `request` included. */
  readonly requests: DiscoveryRequest[] = [];
  /** Settles when the stream is over. */
  readonly ended: Promise<void>;
  readonly #call: ServerDuplexStream<Buffer, Buffer>;
  readonly #queue = new Queue<DiscoveryRequest>('request');

  constructor(call: ServerDuplexStream<Buffer, Buffer>) {
    this.#call = call;
    this.headers = call.metadata;
    call.on('data', (bytes: Buffer) => {
      const request = fromBinary(DiscoveryRequestSchema, bytes);
      this.requests.push(request);
      this.#queue.put(request);
    });
    this.ended = new Promise((resolve) => {
      for (const event of ['end', 'cancelled', 'error']) call.on(event, () => resolve());
    });
  }

  /** The next request. */
  request(): Promise<DiscoveryRequest> {
    return this.#queue.take();
  }

  respond({ version, nonce = `nonce-${version}`, sources = [], resources, typeUrl }: ScriptedResponse): void {
    const packed = sources.map((source) => ({
      typeUrl: rateLimitConfigTypeUrl,
      value: encodeResource(source),
    }));
    const response = create(DiscoveryResponseSchema, {
      versionInfo: version,
      nonce,
      typeUrl: typeUrl ?? rateLimitConfigTypeUrl,
      resources: [...(resources ?? packed)],
    });
    this.send(toBinary(DiscoveryResponseSchema, response));
  }

  /** Any bytes as a message. */
  send(bytes: Uint8Array): void {
    this.#call.write(encodeBytes(bytes));
  }

  end(): void {
    this.#call.end();
  }

  fail(status: Partial<StatusObject>): void {
    this.#call.emit('error', status);
  }
}

export class AdsServer {
  readonly port: number;
  readonly #server: Server;
  readonly #streams: Queue<AdsServerStream>;

  private constructor(server: Server, streams: Queue<AdsServerStream>, port: number) {
    this.#server = server;
    this.#streams = streams;
    this.port = port;
  }

  /** On 127.0.0.1, without TLS and on any free port unless told otherwise. */
  static async start(options: { port?: number; credentials?: ServerCredentials } = {}): Promise<AdsServer> {
    const { port = 0, credentials = Credentials.createInsecure() } = options;
    const streams = new Queue<AdsServerStream>('stream');
    const server = new Server({ 'grpc.max_send_message_length': -1 });
    const definition = {
      path,
      requestStream: true,
      responseStream: true,
      requestSerialize: encodeBytes,
      requestDeserialize: decodeBytes,
      responseSerialize: encodeBytes,
      responseDeserialize: decodeBytes,
    } as const;
    server.addService(
      { StreamAggregatedResources: definition },
      {
        StreamAggregatedResources: (call: ServerDuplexStream<Buffer, Buffer>) => {
          streams.put(new AdsServerStream(call));
        },
      },
    );
    const bound = await new Promise<number>((resolve, reject) => {
      server.bindAsync(`127.0.0.1:${port}`, credentials, (error, taken) =>
        error === null ? resolve(taken) : reject(error),
      );
    });
    return new AdsServer(server, streams, bound);
  }

  /** The next stream that was opened. */
  stream(): Promise<AdsServerStream> {
    return this.#streams.take();
  }

  /** How many streams were opened and not yet taken by `stream`. */
  get waiting(): number {
    return this.#streams.size;
  }

  /** Ends every connection at once, as a killed process does. */
  async stop(): Promise<void> {
    this.#server.forceShutdown();
  }
}

/** What came is kept until it is taken. */
class Queue<T> {
  readonly #what: string;
  readonly #items: T[] = [];
  readonly #takers: ((item: T) => void)[] = [];

  constructor(what: string) {
    this.#what = what;
  }

  get size(): number {
    return this.#items.length;
  }

  put(item: T): void {
    const taker = this.#takers.shift();
    if (taker === undefined) this.#items.push(item);
    else taker(item);
  }

  take(): Promise<T> {
    const item = this.#items.shift();
    if (item !== undefined) return Promise.resolve(item);
    return new Promise((resolve, reject) => {
      const taker = (taken: T): void => {
        clearTimeout(timer);
        resolve(taken);
      };
      const timer = setTimeout(() => {
        this.#takers.splice(this.#takers.indexOf(taker), 1);
        reject(outOfTime(new Error(`no ${this.#what} came`)));
      }, waitMs);
      this.#takers.push(taker);
    });
  }
}
