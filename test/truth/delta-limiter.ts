/** A limiter of incremental xDS that keeps out of what it is sent what the test wants, and has the rest in force. */

import { create, fromBinary, type MessageInitShape, toBinary } from '@bufbuild/protobuf';
import { anyPack } from '@bufbuild/protobuf/wkt';
import { Client, type ClientDuplexStream, credentials, Metadata } from '@grpc/grpc-js';
import {
  DeltaDiscoveryRequestSchema,
  type DeltaDiscoveryResponse,
  DeltaDiscoveryResponseSchema,
} from '../../gen/envoy/service/discovery/v3/discovery_pb.ts';
import { RateLimitConfigSchema } from '../../gen/ratelimit/config/ratelimit/v3/rls_conf_pb.ts';
import { RefusedResourcesSchema } from '../../gen/weir/xds/v1/refused_resources_pb.ts';
import { capabilities } from '../../rules/language/capabilities.ts';
import { limitIn, rateLimitConfigType } from '../support/xds-client.ts';
import type { LimiterPod, RunningLimiter } from './limiters.ts';

const method = '/envoy.service.discovery.v3.AggregatedDiscoveryService/DeltaAggregatedResources';
const reconnectMs = 200;

interface Rules {
  version: string;
  domain: string;
  number: number;
  /** Of an override that ends. */
  endsMs: number | undefined;
}

export class PartlyRejectingLimiter implements RunningLimiter {
  readonly hasDied = false;
  refuses = false;
  isOld = false;
  readonly #pod: LimiterPod;
  /** By the names of resources: in force, and those that came last and are not. */
  #inForce = new Map<string, Rules>();
  #withheld = new Map<string, Rules>();
  #hasRules = false;
  #starts = 0;
  #client: Client | undefined;
  #call: ClientDuplexStream<Uint8Array, Buffer> | undefined;

  constructor(pod: LimiterPod) {
    this.#pod = pod;
    this.restart();
  }

  get isReady(): boolean {
    return this.#hasRules && this.#client !== undefined;
  }

  answers(): Promise<ReadonlyMap<string, number> | undefined> {
    const limits = [...this.#inForce.values()]
      .filter(({ endsMs = Number.POSITIVE_INFINITY }) => endsMs > Date.now())
      .map(({ domain, number }) => [domain, number] as const);
    return Promise.resolve(this.isReady ? new Map(limits) : undefined);
  }

  refuse(does: boolean): void {
    this.refuses = does;
  }

  kill(): Promise<void> {
    this.#client?.close();
    this.#client = undefined;
    this.#call?.cancel();
    return Promise.resolve();
  }

  /** Another process that has what this one had, or nothing. */
  restart(claims: 'nothing' | 'what it has' = 'nothing'): void {
    if (claims === 'nothing') {
      this.#inForce = new Map();
      this.#hasRules = false;
    }
    this.#withheld = new Map();
    this.#starts += 1;
    this.#connect();
  }

  async stop(): Promise<void> {
    await this.kill();
  }

  #connect(): void {
    const client = new Client(`127.0.0.1:${this.#pod.proxy.port}`, credentials.createInsecure(), {
      'grpc.use_local_subchannel_pool': 1,
    });
    this.#client = client;
    const metadata = new Metadata();
    metadata.set('authorization', `Bearer ${this.#pod.token}`);
    const call = client.makeBidiStreamRequest(
      method,
      (bytes: Uint8Array) => Buffer.from(bytes),
      (bytes: Buffer) => bytes,
      metadata,
    );
    this.#call = call;
    call.on('data', (bytes: Buffer) => this.#receive(fromBinary(DeltaDiscoveryResponseSchema, bytes)));
    call.on('error', () => {
      client.close();
      setTimeout(() => this.#client === client && this.#connect(), reconnectMs).unref();
    });
    const versions = [...this.#inForce].map(([name, { version }]) => [name, version]);
    this.#request({ initialResourceVersions: Object.fromEntries(versions) });
  }

  #request(fields: Omit<MessageInitShape<typeof DeltaDiscoveryRequestSchema>, '$typeName'>): void {
    const { name, fleet } = this.#pod;
    const instance = `${name}-${this.#starts}`;
    const metadata = {
      pod: name,
      instance,
      fleet,
      ...(this.isOld ? {} : { capabilities: [...capabilities] }),
    };
    const node = { id: 'default', userAgentName: 'weir', metadata };
    const request = create(DeltaDiscoveryRequestSchema, { node, typeUrl: rateLimitConfigType, ...fields });
    this.#call?.write(toBinary(DeltaDiscoveryRequestSchema, request));
  }

  /** What was kept out before is tried again. */
  #receive({ nonce, resources, removedResources }: DeltaDiscoveryResponse): void {
    const came = this.#withheld;
    for (const { name, version, resource } of resources) {
      const config = fromBinary(RateLimitConfigSchema, resource?.value ?? new Uint8Array());
      const { domain, override } = config;
      const endsMs = override?.endsMs === undefined ? undefined : Number(override.endsMs);
      came.set(name, { version, domain, number: limitIn(config), endsMs });
    }
    for (const name of removedResources) {
      came.delete(name);
      this.#inForce.delete(name);
    }
    this.#withheld = new Map();
    const taken = [...came].filter(([, { number }]) => !this.refuses || number % 2 === 1);
    for (const [name] of taken) this.#inForce.delete(name);
    const domains = new Set([...this.#inForce.values()].map(({ domain }) => domain));
    for (const [name, rules] of taken) if (!domains.has(rules.domain)) this.#inForce.set(name, rules);
    for (const [name, rules] of came) if (this.#inForce.get(name) !== rules) this.#withheld.set(name, rules);
    this.#hasRules = true;
    const refused = [...this.#withheld.keys()].map((name) => ({ name, message: 'I take odd numbers' }));
    const details = [anyPack(RefusedResourcesSchema, create(RefusedResourcesSchema, { resources: refused }))];
    const error = refused.length === 0 ? {} : { errorDetail: { message: 'not all', details } };
    this.#request({ responseNonce: nonce, ...error });
  }
}
