/**
 * Clients of aggregated discovery that do what a test reports them. One plays the Go service's client: it shares its node
 * id with its siblings, and when it connects again it repeats the version and the nonce that it received last, also of
 * a response that it rejected. The other plays this project's limiter: it says who it is, and what it has in force.
 */

import { create, fromBinary, type JsonObject, toBinary } from '@bufbuild/protobuf';
import {
  type ChannelCredentials,
  Client,
  type ClientDuplexStream,
  credentials,
  Metadata,
} from '@grpc/grpc-js';
import {
  type DiscoveryRequest,
  DiscoveryRequestSchema,
  type DiscoveryResponse,
  DiscoveryResponseSchema,
} from '../../gen/envoy/service/discovery/v3/discovery_pb.ts';
import {
  type RateLimitConfig,
  RateLimitConfigSchema,
} from '../../gen/ratelimit/config/ratelimit/v3/rls_conf_pb.ts';
import type { Capabilities } from '../../rules/language/capabilities.ts';
import { eventually } from './eventually.ts';

/** Of an override that changes one, else of the first rule. */
export function limitIn({ override, descriptors: [rule] }: RateLimitConfig): number {
  if (override?.effect.case === 'changedLimit') return override.effect.value.requestsPerUnit;
  return rule?.rateLimit?.requestsPerUnit ?? 0;
}

const method = '/envoy.service.discovery.v3.AggregatedDiscoveryService/StreamAggregatedResources';
export const rateLimitConfigType = 'type.googleapis.com/ratelimit.config.ratelimit.v3.RateLimitConfig';

/** After a stream was lost. */
const reconnectMs = 100;

export interface ScriptedXdsClientOptions {
  port: number;
  nodeId?: string;
  metadata?: JsonObject;
  /** `weir` for this project's limiter; it then also connects as one. */
  userAgentName?: string;
  credentials?: ChannelCredentials;
  /** Shown with each stream: asked for anew each time. */
  authorization?: () => string;
  /** Defaults to what clients usually take: 4 MiB. */
  maxMessageBytes?: number;
  /** What it has in force when it connects for the first time. */
  claims?: string;
  /** It rejects what comes, with these words. */
  refuses?: string;
  /** Defaults to true: a stream that is lost is opened again. */
  reconnects?: boolean;
}

export interface ReceivedResponse {
  version: string;
  nonce: string;
  /** Of its resources. */
  names: string[];
  /** Of its resources. */
  domains: string[];
  /** Of its resources, by domain: the limit of the first rule, or of an override. */
  limits: Map<string, number>;
  /** Of overrides, by domain: when they end, in milliseconds since 1970; missing: never. */
  ends: Map<string, number>;
  /** `performance.now()` of its arrival. */
  atMs: number;
}

type RequestFields = Partial<Pick<DiscoveryRequest, 'versionInfo' | 'responseNonce' | 'typeUrl' | 'node'>> & {
  refusal?: string;
};

export class ScriptedXdsClient {
  /** Over all streams, oldest first. */
  readonly received: ReceivedResponse[] = [];
  /** How streams ended: `14 UNAVAILABLE: ...`. */
  readonly ends: string[] = [];
  /** What it takes for accepted. */
  acceptedVersion = '';
  readonly #options: ScriptedXdsClientOptions;
  #client: Client;
  #call: ClientDuplexStream<Uint8Array, DiscoveryResponse> | undefined;
  #refusal: string | undefined;
  #isSilent = false;
  #isClosed = false;
  #timer: NodeJS.Timeout | undefined;

  constructor(options: ScriptedXdsClientOptions) {
    this.#options = options;
    this.acceptedVersion = options.claims ?? '';
    this.#refusal = options.refuses;
    this.#client = this.#createClient();
    this.#open();
  }

  get last(): ReceivedResponse | undefined {
    return this.received.at(-1);
  }

  /** From the next response on. */
  rejectWith(message: string): void {
    this.#refusal = message;
  }

  acceptAgain(): void {
    this.#refusal = undefined;
    this.#isSilent = false;
  }

  /** Leaves the next responses unanswered. */
  fallSilent(): void {
    this.#isSilent = true;
  }

  /** Answers the response that came last. */
  answer(): void {
    const { version, nonce } = this.last ?? { version: '', nonce: '' };
    if (this.#refusal === undefined) this.acceptedVersion = version;
    const refusal = this.#refusal === undefined ? {} : { refusal: this.#refusal };
    this.request({ versionInfo: this.acceptedVersion, responseNonce: nonce, ...refusal });
  }

  request({ refusal, ...fields }: RequestFields): void {
    const { nodeId, metadata, userAgentName = '' } = this.#options;
    const request = create(DiscoveryRequestSchema, {
      node: { id: nodeId ?? '', userAgentName, ...(metadata === undefined ? {} : { metadata }) },
      typeUrl: rateLimitConfigType,
      ...fields,
      ...(refusal === undefined ? {} : { errorDetail: { message: refusal } }),
    });
    this.#call?.write(toBinary(DiscoveryRequestSchema, request));
  }

  /** No further request will come over this stream. */
  halfClose(): void {
    this.#call?.end();
  }

  /** Gives up the connection and makes another one. */
  reconnect(): void {
    const call = this.#call;
    this.#call = undefined;
    call?.cancel();
    this.#client.close();
    this.#client = this.#createClient();
    this.#open();
  }

  close(): void {
    this.#isClosed = true;
    clearTimeout(this.#timer);
    this.#call?.cancel();
    this.#client.close();
  }

  #createClient(): Client {
    const { port, maxMessageBytes } = this.#options;
    // Channels of one process share their connections by default.
    return new Client(`127.0.0.1:${port}`, this.#options.credentials ?? credentials.createInsecure(), {
      'grpc.use_local_subchannel_pool': 1,
      'grpc.enable_channelz': 0,
      'grpc.ssl_target_name_override': 'localhost',
      ...(maxMessageBytes === undefined ? {} : { 'grpc.max_receive_message_length': maxMessageBytes }),
    });
  }

  #open(): void {
    const encode = (bytes: Uint8Array): Buffer => Buffer.from(bytes);
    const decode = (bytes: Buffer): DiscoveryResponse => fromBinary(DiscoveryResponseSchema, bytes);
    const metadata = new Metadata();
    const { authorization } = this.#options;
    if (authorization !== undefined) metadata.set('authorization', authorization());
    const call = this.#client.makeBidiStreamRequest(method, encode, decode, metadata, {});
    this.#call = call;
    call.on('data', (response: DiscoveryResponse) => this.#receive(response));
    call.on('error', (error) => this.#lost(call, error.message));
    call.on('end', () => this.#lost(call, 'ended'));
    this.#subscribe();
  }

  #subscribe(): void {
    if (this.#options.userAgentName === 'weir') {
      this.request({ versionInfo: this.acceptedVersion });
      return;
    }
    // The Go client takes what it received last for accepted when it connects again.
    this.acceptedVersion = this.last?.version ?? '';
    this.request({ versionInfo: this.acceptedVersion, responseNonce: this.last?.nonce ?? '' });
  }

  #receive({ versionInfo, nonce, resources }: DiscoveryResponse): void {
    const configs = resources.map(({ value }) => fromBinary(RateLimitConfigSchema, value));
    this.received.push({
      version: versionInfo,
      nonce,
      names: configs.map(({ name }) => name),
      domains: configs.map(({ domain }) => domain),
      limits: new Map(configs.map((config) => [config.domain, limitIn(config)])),
      ends: new Map(
        configs.flatMap(({ domain, override }) =>
          override?.endsMs === undefined ? [] : [[domain, Number(override.endsMs)] as const],
        ),
      ),
      atMs: performance.now(),
    });
    if (!this.#isSilent) this.answer();
  }

  #lost(call: unknown, reason: string): void {
    if (this.#call !== call || this.#isClosed) return;
    this.#call = undefined;
    this.ends.push(reason);
    if (this.#options.reconnects === false) return;
    this.#timer = setTimeout(() => this.reconnect(), reconnectMs);
  }
}

/** Resolves when it has answered its first response. */
export async function startGoLikeClient(options: ScriptedXdsClientOptions): Promise<ScriptedXdsClient> {
  return withFirstResponse(new ScriptedXdsClient({ nodeId: 'default', ...options }));
}

export interface WeirLikeClientOptions extends ScriptedXdsClientOptions {
  pod: string;
  fleet?: string;
  /** Of the process. Defaults to one of its pod. */
  instance?: string;
  /** Defaults to none: an old one. */
  capabilities?: Capabilities;
}

/** As `startGoLikeClient`. */
export async function startWeirLikeClient(options: WeirLikeClientOptions): Promise<ScriptedXdsClient> {
  const { pod, fleet, instance = `${pod}-1`, capabilities, ...rest } = options;
  const listed = capabilities === undefined ? {} : { capabilities: [...capabilities] };
  const metadata = { pod, instance, ...listed, ...(fleet === undefined ? {} : { fleet }) };
  return withFirstResponse(
    new ScriptedXdsClient({ nodeId: 'default', metadata, userAgentName: 'weir', ...rest }),
  );
}

async function withFirstResponse(client: ScriptedXdsClient): Promise<ScriptedXdsClient> {
  try {
    await eventually(() => {
      if (client.last === undefined)
        throw new Error(`no response came; ${client.ends.at(-1) ?? 'connected'}`);
    });
    return client;
  } catch (error) {
    client.close();
    throw error;
  }
}
