/** What limiter and control plane send each other, as base64, made by this version. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { create, fromBinary, toBinary } from '@bufbuild/protobuf';
import type { Any } from '@bufbuild/protobuf/wkt';
import { Client, type ClientDuplexStream, credentials } from '@grpc/grpc-js';
import { expect, onTestFinished } from 'vitest';
import type { ObjectRow } from '../../control-plane/http/snapshot-page.ts';
import type { Node } from '../../gen/envoy/config/core/v3/base_pb.ts';
import {
  DeltaDiscoveryRequestSchema,
  type DeltaDiscoveryResponse,
  DeltaDiscoveryResponseSchema,
  DiscoveryRequestSchema,
  type DiscoveryResponse,
  DiscoveryResponseSchema,
} from '../../gen/envoy/service/discovery/v3/discovery_pb.ts';
import { RateLimitConfigSchema } from '../../gen/ratelimit/config/ratelimit/v3/rls_conf_pb.ts';
import { decodeBytes, encodeBytes } from '../../process/grpc/grpc-js.ts';
import { resourceHead } from '../../rules/reader/resource.ts';
import { AdsServer } from '../support/ads-server.ts';
import { eventually } from '../support/eventually.ts';
import { InProcessControlPlane } from '../support/in-process-control-plane.ts';
import { startLimiterHere } from '../support/in-process-limiter.ts';
import { rateLimitConfigText } from '../support/rate-limit-config.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

export type XdsForm = 'world' | 'delta';

/**
 * A limiter's first request, its answers to the resources of `controlPlaneOfShop`, to damaged ones, and to a damaged override among
 * them. A control plane's first response to a limiter with all capabilities, and to a limiter without capabilities.
 */
export interface XdsMessages {
  limiter: Record<XdsForm, { subscribe: string; accept: string; reject: string; rejectOverride: string }>;
  controlPlane: Record<XdsForm, { all: string; fallback: string }>;
}

export const methods = {
  world: '/envoy.service.discovery.v3.AggregatedDiscoveryService/StreamAggregatedResources',
  delta: '/envoy.service.discovery.v3.AggregatedDiscoveryService/DeltaAggregatedResources',
} as const;

const base64 = (bytes: Uint8Array): string => Buffer.from(bytes).toString('base64');

/** A stream of raw messages to a control plane, until the test ends. */
export function rawStream(port: number, form: XdsForm): ClientDuplexStream<Buffer, Buffer> {
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

/** Rules that need the capability `algorithms`. */
export const slidingDay = (requestsPerUnit: number) => ({
  rateLimit: { unit: 'day', requestsPerUnit, algorithm: 'SlidingWindow' },
});

/**
 * A control plane with rules of `shop` for all limiters, rules of `zone` that not every limiter supports, with an older generation for
 * the others, and an override of `shop`, which has none. `apply` changes `shop`, and `applySale` the
 * override.
 */
export async function controlPlaneOfShop() {
  const folder = temporaryFolder();
  const write = (name: string, text: string): void => writeFileSync(join(folder, `${name}.yaml`), text);
  const apply = (requests: number, more = {}): void =>
    write('shop', rateLimitConfigText({ name: 'shop', domain: 'shop', requests, rule: more }));
  const applyZone = (requests: number, more = {}): void =>
    write('zone', rateLimitConfigText({ name: 'zone', domain: 'zone', requests, rule: more }));
  apply(3);
  applyZone(2);
  const plane = await InProcessControlPlane.start({
    env: { SOURCE: 'DIRECTORY', MANIFESTS_DIRECTORY: folder },
  });
  onTestFinished(async () => void (await plane.stop()));
  const objectsAre = (wanted: [name: string, needs: string[], fallback: number | null][]) =>
    eventually(async () => {
      const objects: ObjectRow[] = (await plane.snapshot()).fleets[0].objects;
      expect(objects.map(({ name, served }) => [name, served?.needs, served?.fallbackGeneration])).toEqual(
        wanted,
      );
    });
  await objectsAre([
    ['default/shop', [], null],
    ['default/zone', [], null],
  ]);
  applyZone(4, slidingDay(4));
  const applySale = (requestsPerUnit: number): void => {
    const match = [{ key: 'key', value: 'sale' }];
    const spec = { domain: 'shop', match, requestsPerUnit, permanent: true, reason: 'a sale' };
    const metadata = { name: 'sale', namespace: 'default' };
    const apiVersion = 'ratelimit.weir.dev/v1alpha1';
    write('sale', JSON.stringify({ apiVersion, kind: 'RateLimitOverride', metadata, spec }));
  };
  applySale(5);
  await objectsAre([
    ['default/shop', [], null],
    ['default/zone', ['algorithms'], 1],
    ['override/default/sale', ['overrides'], null],
  ]);
  return { plane, apply, applySale };
}

type Response = DiscoveryResponse | DeltaDiscoveryResponse;

export function responseIn(message: string, form: XdsForm): Response {
  const bytes = Buffer.from(message, 'base64');
  return form === 'delta'
    ? fromBinary(DeltaDiscoveryResponseSchema, bytes)
    : fromBinary(DiscoveryResponseSchema, bytes);
}

/** The next response after this one: the same resources with other values. Its version is its nonce. */
export function damaged(
  response: Response,
  nonce: string,
  damage: (value: Uint8Array) => Uint8Array = () => new Uint8Array([10]),
): Uint8Array {
  const changed = (resource: Any): Any => ({ ...resource, value: damage(resource.value) });
  if (response.$typeName === 'envoy.service.discovery.v3.DiscoveryResponse') {
    const resources = response.resources.map(changed);
    return toBinary(DiscoveryResponseSchema, { ...response, resources, versionInfo: nonce, nonce });
  }
  const resources = response.resources.map((one) => ({
    ...one,
    version: nonce,
    resource: changed(one.resource!),
  }));
  return toBinary(DeltaDiscoveryResponseSchema, { ...response, resources, nonce });
}

/** An override without an effect, in place of each override. */
function withoutEffect(value: Uint8Array): Uint8Array {
  if (!resourceHead(value).isOverride) return value;
  const { name, domain } = fromBinary(RateLimitConfigSchema, value);
  return toBinary(RateLimitConfigSchema, create(RateLimitConfigSchema, { name, domain, override: {} }));
}

async function recordedMessages(form: XdsForm) {
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
  const stream = await (form === 'delta' ? server.deltaStream() : server.stream());
  const next = async (): Promise<string> => {
    const request = await stream.request();
    return base64(
      request.$typeName === 'envoy.service.discovery.v3.DiscoveryRequest'
        ? toBinary(DiscoveryRequestSchema, request)
        : toBinary(DeltaDiscoveryRequestSchema, request),
    );
  };
  const answerTo = (bytes: Uint8Array): Promise<string> => {
    stream.send(bytes);
    return next();
  };
  const subscribe = await next();
  const all = await controlPlaneMessage(form, subscribe);
  const fallback = await controlPlaneMessage(form, withoutCapabilities(subscribe, form));
  const response = responseIn(all, form);
  const accept = await answerTo(Buffer.from(all, 'base64'));
  const reject = await answerTo(damaged(response, 'damaged'));
  const rejectOverride = await answerTo(damaged(response, 'without-effect', withoutEffect));
  const limiter = await starting;
  await limiter.stop();
  return { limiter: { subscribe, accept, reject, rejectOverride }, controlPlane: { all, fallback } };
}

async function controlPlaneMessage(form: XdsForm, subscribe: string): Promise<string> {
  const { plane } = await controlPlaneOfShop();
  const call = rawStream(plane.ports.xds, form);
  const first = new Promise<Buffer>((resolve) => call.once('data', resolve));
  call.write(Buffer.from(subscribe, 'base64'));
  return base64(await first);
}

export async function makeXdsMessages(): Promise<XdsMessages> {
  const world = await recordedMessages('world');
  const delta = await recordedMessages('delta');
  return {
    limiter: { world: world.limiter, delta: delta.limiter },
    controlPlane: { world: world.controlPlane, delta: delta.controlPlane },
  };
}

/** The same message of a limiter that reports nothing of what it can do, as envoyproxy/ratelimit and other builds do. */
export function withoutCapabilities(message: string, form: XdsForm): string {
  return withMetadata(message, form, (given) =>
    Object.fromEntries(Object.entries(given).filter(([name]) => name === 'pod' || name === 'instance')),
  );
}

/** The same message of an earlier Weir, which supports the first of the capabilities alone. */
export function withFirstCapability(message: string, form: XdsForm): string {
  return withMetadata(message, form, (given) => ({
    ...given,
    capabilities: (given['capabilities'] as string[]).slice(0, 1),
  }));
}

type Metadata = NonNullable<Node['metadata']>;

function withMetadata(message: string, form: XdsForm, change: (given: Metadata) => Metadata): string {
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
