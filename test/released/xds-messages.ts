/** What limiter and control plane send each other, as base64, made by this version. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { create, fromBinary, toBinary } from '@bufbuild/protobuf';
import { Client, type ClientDuplexStream, credentials } from '@grpc/grpc-js';
import { onTestFinished } from 'vitest';
import type { Node } from '../../gen/envoy/config/core/v3/base_pb.ts';
import {
  DeltaDiscoveryRequestSchema,
  DiscoveryRequestSchema,
} from '../../gen/envoy/service/discovery/v3/discovery_pb.ts';
import { decodeBytes, encodeBytes } from '../../process/grpc/grpc-js.ts';
import { AdsServer } from '../support/ads-server.ts';
import { InProcessControlPlane } from '../support/in-process-control-plane.ts';
import { startLimiterHere } from '../support/in-process-limiter.ts';
import { rateLimitConfigText } from '../support/rate-limit-config.ts';
import { rule } from '../support/rule-builder.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

/** What a limiter sends at first, as it accepts, and as it rejects; and what a control plane sends at first. */
export interface XdsMessages {
  limiter: Record<'world' | 'delta', { subscribe: string; accept: string; reject: string }>;
  controlPlane: Record<'world' | 'delta', string>;
}

export const methods = {
  world: '/envoy.service.discovery.v3.AggregatedDiscoveryService/StreamAggregatedResources',
  delta: '/envoy.service.discovery.v3.AggregatedDiscoveryService/DeltaAggregatedResources',
} as const;

const base64 = (bytes: Uint8Array): string => Buffer.from(bytes).toString('base64');

/** A stream of raw messages to a control plane, until the test ends. */
export function rawStream(port: number, form: keyof typeof methods): ClientDuplexStream<Buffer, Buffer> {
  const client = new Client(`127.0.0.1:${port}`, credentials.createInsecure());
  const call: ClientDuplexStream<Buffer, Buffer> = client.makeBidiStreamRequest(
    methods[form],
    encodeBytes,
    decodeBytes,
  );
  call.on('error', () => {});
  onTestFinished(() => {
    call.cancel();
    client.close();
  });
  return call;
}

/** A control plane with one object; `apply` changes it. */
export async function controlPlaneOfShop() {
  const folder = temporaryFolder();
  const apply = (requests: number, more = {}): void =>
    writeFileSync(
      join(folder, 'shop.yaml'),
      rateLimitConfigText({ name: 'shop', domain: 'shop', requests, rule: more }),
    );
  apply(3);
  const plane = await InProcessControlPlane.start({
    env: { SOURCE: 'DIRECTORY', MANIFESTS_DIRECTORY: folder },
  });
  onTestFinished(async () => void (await plane.stop()));
  return { plane, apply };
}

const shop = { name: 'shop', domain: 'shop', descriptors: [rule({ key: 'key' })] };

async function limiterMessages(form: 'world' | 'delta') {
  const server = await AdsServer.start({ incremental: form === 'delta' });
  onTestFinished(() => server.stop());
  const starting = startLimiterHere({
    env: {
      BACKEND_TYPE: 'memory',
      CONFIG_TYPE: form === 'delta' ? 'GRPC_XDS_DELTA' : 'GRPC_XDS_SOTW',
      CONFIG_GRPC_XDS_SERVER_URL: `127.0.0.1:${server.port}`,
      POD_NAME: 'limiter-0',
    },
  });
  const bad = {
    typeUrl: 'type.googleapis.com/ratelimit.config.ratelimit.v3.RateLimitConfig',
    value: Buffer.from([10]),
  };
  const messages: Uint8Array[] = [];
  if (form === 'world') {
    const stream = await server.stream();
    const next = async () => messages.push(toBinary(DiscoveryRequestSchema, await stream.request()));
    await next();
    stream.respond({ version: '1', sources: [shop] });
    await next();
    stream.respond({ version: '2', resources: [bad] });
    await next();
  } else {
    const stream = await server.deltaStream();
    const next = async () => messages.push(toBinary(DeltaDiscoveryRequestSchema, await stream.request()));
    await next();
    // Under the name that a control plane gives it: the limiter repeats that name when it rejects the resource.
    stream.respond({ version: '1', resources: { 'default/shop': ['1', shop] } });
    await next();
    stream.respond({ version: '2', resources: { 'default/shop': ['2', bad.value] } });
    await next();
  }
  const limiter = await starting;
  await limiter.stop();
  const [subscribe = '', accept = '', reject = ''] = messages.map(base64);
  return { subscribe, accept, reject };
}

async function controlPlaneMessage(form: 'world' | 'delta', subscribe: string): Promise<string> {
  const { plane } = await controlPlaneOfShop();
  const call = rawStream(plane.ports.xds, form);
  const first = new Promise<Buffer>((resolve) => call.once('data', resolve));
  call.write(Buffer.from(subscribe, 'base64'));
  return base64(await first);
}

export async function makeXdsMessages(): Promise<XdsMessages> {
  const limiter = { world: await limiterMessages('world'), delta: await limiterMessages('delta') };
  return {
    limiter,
    controlPlane: {
      world: await controlPlaneMessage('world', limiter.world.subscribe),
      delta: await controlPlaneMessage('delta', limiter.delta.subscribe),
    },
  };
}

/** The same message of a limiter that reports nothing of what it can do, as envoyproxy/ratelimit and other builds do. */
export function withoutCapabilities(message: string, form: keyof typeof methods): string {
  return withMetadata(message, form, (given) =>
    Object.fromEntries(Object.entries(given).filter(([name]) => name === 'pod' || name === 'instance')),
  );
}

/** The same message of an earlier Weir, which supports the first of the capabilities alone. */
export function withFirstCapability(message: string, form: keyof typeof methods): string {
  return withMetadata(message, form, (given) => ({
    ...given,
    capabilities: (given['capabilities'] as string[]).slice(0, 1),
  }));
}

type Metadata = NonNullable<Node['metadata']>;

function withMetadata(
  message: string,
  form: keyof typeof methods,
  change: (given: Metadata) => Metadata,
): string {
  const changed = (node: Node | undefined) =>
    node && (node.metadata === undefined ? node : { ...node, metadata: change(node.metadata) });
  const bytes = Buffer.from(message, 'base64');
  if (form === 'world') {
    const request = fromBinary(DiscoveryRequestSchema, bytes);
    const next = create(DiscoveryRequestSchema, { ...request, node: changed(request.node) });
    return base64(toBinary(DiscoveryRequestSchema, next));
  }
  const request = fromBinary(DeltaDiscoveryRequestSchema, bytes);
  const next = create(DeltaDiscoveryRequestSchema, { ...request, node: changed(request.node) });
  return base64(toBinary(DeltaDiscoveryRequestSchema, next));
}
