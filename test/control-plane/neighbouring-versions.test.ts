/**
 * One `helm upgrade` replaces the control plane and the limiters in no order: each has to work with the other of the version before.
 * What that one says was recorded, as former-version.json tells.
 */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fromBinary } from '@bufbuild/protobuf';
import { BinaryWriter, WireType } from '@bufbuild/protobuf/wire';
import { Client, type ClientDuplexStream, credentials } from '@grpc/grpc-js';
import { describe, expect, it, onTestFinished } from 'vitest';
import {
  type DiscoveryResponse,
  DiscoveryResponseSchema,
} from '../../gen/envoy/service/discovery/v3/discovery_pb.ts';
import { decodeBytes, encodeBytes } from '../../process/grpc/grpc-js.ts';
import { decodeResource } from '../../rules/xds/resource.ts';
import { AdsServer } from '../support/ads-server.ts';
import { eventually } from '../support/eventually.ts';
import { InProcessControlPlane } from '../support/in-process-control-plane.ts';
import { LimiterClient } from '../support/limiter-client.ts';
import { startLimiter } from '../support/limiter-process.ts';
import { rateLimitConfigText } from '../support/rate-limit-config.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import former from './former-version.json' with { type: 'json' };

const method = '/envoy.service.discovery.v3.AggregatedDiscoveryService/StreamAggregatedResources';

/** Of a DiscoveryRequest. */
const fields = { version: 1, nonce: 5 } as const;

/** The recorded request as an answer to this response: of a field that comes twice the last one counts. */
function answering(recorded: string, version: string, nonce: string): Buffer {
  const writer = new BinaryWriter();
  writer.tag(fields.version, WireType.LengthDelimited).string(version);
  writer.tag(fields.nonce, WireType.LengthDelimited).string(nonce);
  return Buffer.concat([Buffer.from(recorded, 'base64'), writer.finish()]);
}

describe('a control plane', () => {
  it('serves a limiter of the version before, and hears what it accepts and refuses', async () => {
    const folder = temporaryFolder();
    const apply = (requests: number, rule = {}): void =>
      writeFileSync(
        join(folder, 'shop.yaml'),
        rateLimitConfigText({ name: 'shop', domain: 'shop', requests, rule }),
      );
    apply(3);
    const env = { SOURCE: 'DIRECTORY', MANIFESTS_DIRECTORY: folder };
    const plane = await InProcessControlPlane.start({ env });
    onTestFinished(async () => void (await plane.stop()));
    const client = new Client(`127.0.0.1:${plane.ports.xds}`, credentials.createInsecure());
    onTestFinished(() => client.close());
    const call: ClientDuplexStream<Buffer, Buffer> = client.makeBidiStreamRequest(
      method,
      encodeBytes,
      decodeBytes,
    );
    onTestFinished(() => call.cancel());
    const responses: DiscoveryResponse[] = [];
    call.on('data', (bytes: Buffer) => responses.push(fromBinary(DiscoveryResponseSchema, bytes)));
    call.on('error', () => {});
    const next = async (count: number): Promise<DiscoveryResponse> => {
      await eventually(() => expect(responses).toHaveLength(count));
      return responses[count - 1] as DiscoveryResponse;
    };
    const programmed = async () => (await plane.snapshot()).fleets[0].objects[0].programmed;

    call.write(Buffer.from(former.limiter.subscribe, 'base64'));
    const first = await next(1);
    expect(first.resources.map(({ value }) => decodeResource(value).domain)).toEqual(['shop']);
    call.write(answering(former.limiter.accept, first.versionInfo, first.nonce));
    await eventually(async () => expect(await programmed()).toMatchObject({ reason: 'AllLimiters' }));
    const { limiters } = (await plane.snapshot()).fleets[0];
    expect(limiters).toMatchObject([{ name: 'lim-0', isWeir: true, isCurrent: true }]);

    apply(9, { rateLimit: { unit: 'day', requestsPerUnit: 9, algorithm: 'SlidingWindow' } });
    await eventually(async () => expect(await programmed()).toMatchObject({ reason: 'LimiterTooOld' }));
    expect(responses).toHaveLength(1);

    apply(4);
    const second = await next(2);
    call.write(answering(former.limiter.refuse, first.versionInfo, second.nonce));
    await eventually(async () => expect(await programmed()).toMatchObject({ reason: 'Refused' }));
    expect((await programmed()).message).toContain('lim-0');
    expect((await programmed()).message).toContain('resource 1: cannot be decoded: premature EOF');
  });
});

describe('a limiter', () => {
  it('runs the rules of a control plane of the version before, which knows no incremental xDS', async () => {
    const server = await AdsServer.start({ incremental: true });
    onTestFinished(() => server.stop());
    const starting = startLimiter({
      env: {
        BACKEND_TYPE: 'memory',
        CONFIG_TYPE: 'GRPC_XDS_DELTA',
        CONFIG_GRPC_XDS_SERVER_URL: `127.0.0.1:${server.port}`,
        XDS_CLIENT_BACKOFF_INITIAL_INTERVAL: '100ms',
      },
    });
    const incremental = await server.deltaStream();
    incremental.fail(former.controlPlane.incremental);
    const stream = await server.stream();
    expect((await stream.request()).responseNonce).toBe('');
    const bytes = Buffer.from(former.controlPlane.response, 'base64');
    const { versionInfo, nonce } = fromBinary(DiscoveryResponseSchema, bytes);
    stream.send(bytes);
    expect(await stream.request()).toMatchObject({ versionInfo, responseNonce: nonce });
    const limiter = await starting;
    onTestFinished(() => limiter.stop());
    const client = new LimiterClient(limiter.ports.grpc);
    onTestFinished(() => client.close());
    const asked = [0, 1, 2, 3].map(() => client.allowed('shop', 'key', 'value'));
    expect((await Promise.all(asked)).filter(Boolean)).toHaveLength(3);
  });
});
