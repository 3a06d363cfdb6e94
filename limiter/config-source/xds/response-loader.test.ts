import { create, toBinary } from '@bufbuild/protobuf';
import { describe, expect, it } from 'vitest';
import { DiscoveryResponseSchema } from '../../../gen/envoy/service/discovery/v3/discovery_pb.ts';
import { systemTimers } from '../../../process/timers.ts';
import { rateLimitConfigTypeUrl } from '../../../rules/xds/index.ts';
import { loadResources } from './load-resources.ts';
import { ResponseLoader } from './response-loader.ts';

const limits = { maxHeapMiB: 512, timeoutMs: 60_000, timers: systemTimers };
const response = create(DiscoveryResponseSchema, { versionInfo: '1', typeUrl: rateLimitConfigTypeUrl });
const request = {
  bytes: toBinary(DiscoveryResponseSchema, response),
  mergeDomains: false,
  counterKeys: 'unambiguous' as const,
  hashInForce: undefined,
};
const failure = (text: string) => {
  const place = { path: [], line: undefined, column: undefined };
  return { ok: false, errors: [{ code: 'unreadable', source: 'response', text, ...place }], total: 1 };
};

describe('ResponseLoader', () => {
  it.each([
    ['in place', 1_000],
    ['in a thread', 0],
  ])('gives the same %s', async (_, maxInPlaceBytes) => {
    const loader = new ResponseLoader({ ...limits, maxInPlaceBytes });
    expect(await loader.load(request)).toEqual(loadResources(request));
    expect(request.bytes.length).toBeGreaterThan(0);
  });

  it.each([
    ['in place', 1_000],
    ['in a thread', 0],
  ])('takes what breaks off %s for a failed load', async (_, maxInPlaceBytes) => {
    const loader = new ResponseLoader({ ...limits, maxInPlaceBytes });
    const bytes = Buffer.from('0a05', 'hex');
    expect(await loader.load({ ...request, bytes })).toEqual(failure('the load broke off: premature EOF'));
  });

  it('breaks off a load when it is closed', async () => {
    const loader = new ResponseLoader({ ...limits, maxInPlaceBytes: 0 });
    const outcome = loader.load(request);
    await loader.close();
    expect(await outcome).toEqual(failure('the load ended without a result'));
  });
});
