/** A server of aggregated discovery that does what a test reports it, and keeps what it was asked. */
import { create, fromBinary, type Message, toBinary } from '@bufbuild/protobuf';
import type { GenMessage } from '@bufbuild/protobuf/codegenv2';
import {
  ServerCredentials as Credentials,
  type Metadata,
  Server,
  type ServerCredentials,
  type ServerDuplexStream,
  type StatusObject,
} from '@grpc/grpc-js';
import {
  type DeltaDiscoveryRequest,
  DeltaDiscoveryRequestSchema,
  DeltaDiscoveryResponseSchema,
  type DiscoveryRequest,
  DiscoveryRequestSchema,
  DiscoveryResponseSchema,
} from '../../gen/envoy/service/discovery/v3/discovery_pb.ts';
import { decodeBytes, encodeBytes } from '../../process/grpc/grpc-js.ts';
import type { RuleSource } from '../../rules/model.ts';
import { encodeResource, rateLimitConfigTypeUrl } from '../../rules/reader/resource.ts';
import { freePort } from './free-port.ts';
import { machineLoad } from './machine-load.ts';
import { outOfTime } from './second-tries.ts';

const service = '/envoy.service.discovery.v3.AggregatedDiscoveryService';
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

/** One limiter's stream, in either form. */
class ServerStream<Request extends Message> {
  readonly headers: Metadata;
  /** All requests that came, the ones taken by `request` included. */
  readonly requests: Request[] = [];
  /** Settles when the stream is over. */
  readonly ended: Promise<void>;
  readonly #call: ServerDuplexStream<Buffer, Buffer>;
  readonly #queue = new Queue<Request>('request');

  constructor(call: ServerDuplexStream<Buffer, Buffer>, schema: GenMessage<Request>) {
    this.#call = call;
    this.headers = call.metadata;
    call.on('data', (bytes: Buffer) => {
      const request = fromBinary(schema, bytes);
      this.requests.push(request);
      this.#queue.put(request);
    });
    this.ended = new Promise((resolve) => {
      for (const event of ['end', 'cancelled', 'error']) call.on(event, () => resolve());
    });
  }

  /** The next request. */
  request(): Promise<Request> {
    return this.#queue.take();
  }

  /** Messages that wait until the limiter reads. */
  get unsent(): number {
    return this.#call.writableLength;
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

/** State of the world. */
export class AdsServerStream extends ServerStream<DiscoveryRequest> {
  constructor(call: ServerDuplexStream<Buffer, Buffer>) {
    super(call, DiscoveryRequestSchema);
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
}

export interface ScriptedDelta {
  /** The nonce is `nonce-<version>`. */
  version: string;
  /** By name, each with a version and its rules, or the bytes of another resource. */
  resources?: Record<string, readonly [version: string, source: RuleSource | Uint8Array]>;
  removed?: readonly string[];
}

/** Incremental. */
export class DeltaServerStream extends ServerStream<DeltaDiscoveryRequest> {
  constructor(call: ServerDuplexStream<Buffer, Buffer>) {
    super(call, DeltaDiscoveryRequestSchema);
  }

  respond({ version, resources = {}, removed = [] }: ScriptedDelta): void {
    const packed = Object.entries(resources).map(([name, [resourceVersion, source]]) => ({
      name,
      version: resourceVersion,
      resource: {
        typeUrl: rateLimitConfigTypeUrl,
        value: source instanceof Uint8Array ? source : encodeResource(source),
      },
    }));
    const response = create(DeltaDiscoveryResponseSchema, {
      systemVersionInfo: version,
      nonce: `nonce-${version}`,
      typeUrl: rateLimitConfigTypeUrl,
      resources: packed,
      removedResources: [...removed],
    });
    this.send(toBinary(DeltaDiscoveryResponseSchema, response));
  }
}

export class AdsServer {
  readonly port: number;
  readonly #server: Server;
  readonly #streams = new Queue<AdsServerStream>('stream');
  readonly #deltaStreams = new Queue<DeltaServerStream>('incremental stream');

  private constructor(server: Server, port: number) {
    this.#server = server;
    this.port = port;
  }

  /** On 127.0.0.1, without TLS, on any free port and without incremental xDS unless configured otherwise. */
  static async start(
    options: { port?: number; credentials?: ServerCredentials; incremental?: boolean } = {},
  ): Promise<AdsServer> {
    const {
      port = await freePort(),
      credentials = Credentials.createInsecure(),
      incremental = false,
    } = options;
    const server = new Server({ 'grpc.max_send_message_length': -1 });
    const register = (
      method: string,
      take: (ads: AdsServer, call: ServerDuplexStream<Buffer, Buffer>) => void,
    ) =>
      server.register(
        `${service}/${method}`,
        (call: ServerDuplexStream<Buffer, Buffer>) => take(ads, call),
        encodeBytes,
        decodeBytes,
        'bidi',
      );
    register('StreamAggregatedResources', (to, call) => to.#streams.put(new AdsServerStream(call)));
    if (incremental) {
      register('DeltaAggregatedResources', (to, call) => to.#deltaStreams.put(new DeltaServerStream(call)));
    }
    const bound = await new Promise<number>((resolve, reject) => {
      server.bindAsync(`127.0.0.1:${port}`, credentials, (error, taken) =>
        error === null ? resolve(taken) : reject(error),
      );
    });
    const ads = new AdsServer(server, bound);
    return ads;
  }

  /** The next stream that was opened. */
  stream(): Promise<AdsServerStream> {
    return this.#streams.take();
  }

  /** The same of incremental streams. */
  deltaStream(): Promise<DeltaServerStream> {
    return this.#deltaStreams.take();
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
      }, waitMs * machineLoad());
      this.#takers.push(taker);
    });
  }
}
