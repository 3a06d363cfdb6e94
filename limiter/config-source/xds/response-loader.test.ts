import { create, toBinary } from '@bufbuild/protobuf';
import { AnySchema } from '@bufbuild/protobuf/wkt';
import { describe, expect, it } from 'vitest';
import { DiscoveryResponseSchema } from '../../../gen/envoy/service/discovery/v3/discovery_pb.ts';
import { systemTimers } from '../../../process/time/clock.ts';
import { encodeResource, rateLimitConfigTypeUrl } from '../../../rules/reader/resource.ts';
import { eventually } from '../../../test/support/eventually.ts';
import { ManualTimers } from '../../../test/support/manual-timers.ts';
import { limit, rule, source } from '../../../test/support/rule-builder.ts';
import { type LoadedResources, loadResources } from './load-resources.ts';
import { ResponseLoader } from './response-loader.ts';

const limits = {
  maxHeapMiB: 512,
  timeoutMs: 60_000,
  reviewTimeoutMs: 60_000,
  reviewDelayMs: 0,
  timers: systemTimers,
};
const response = create(DiscoveryResponseSchema, { versionInfo: '1', typeUrl: rateLimitConfigTypeUrl });
const request = {
  bytes: toBinary(DiscoveryResponseSchema, response),
  mergeDomains: false,
  counterKeys: 'unambiguous' as const,
  sanitizeDescriptorMetricDots: false,
  hashInForce: undefined,
};
/** One domain, with a rule for any value of each key. */
function responseOf(keys: string[]): Uint8Array {
  const value = encodeResource(
    source(
      'd',
      keys.map((key) => rule({ key, rateLimit: limit() })),
    ),
  );
  const resources = [create(AnySchema, { typeUrl: rateLimitConfigTypeUrl, value })];
  return toBinary(DiscoveryResponseSchema, { ...response, resources });
}
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
    expect(await loader.load(request)).toEqual(loadResources(request).outcome);
    expect(request.bytes.length).toBeGreaterThan(0);
  });

  it.each([
    ['in place', 1_000],
    ['in a thread', 0],
  ])('takes what breaks off %s for a failed load', async (_, maxInPlaceBytes) => {
    const loader = new ResponseLoader({ ...limits, maxInPlaceBytes });
    const bytes = Buffer.from('0a05', 'hex');
    expect(await loader.load({ ...request, bytes })).toEqual(failure('the load failed: premature EOF'));
  });

  it.each([
    ['in place', 1_000],
    ['in a thread', 0],
  ])('reviews in a thread what was loaded %s, once', async (_, maxInPlaceBytes) => {
    const timers = new ManualTimers();
    const loader = new ResponseLoader({ ...limits, timers, reviewDelayMs: 1_000, maxInPlaceBytes });
    const reported: unknown[] = [];
    const compatible = { ...request, bytes: responseOf(['a', 'a_b']), counterKeys: 'compatible' as const };
    expect(await loader.load(compatible)).toMatchObject({ ok: true, rules: { sources: 1 } });
    loader.review((found) => reported.push(found));
    expect(reported).toEqual([]);
    timers.advance(1_000);
    const text = 'rule a_b of domain d counts as d_a_b_*_, which can be a key of rule a of domain d as well';
    const collisions = { count: '1', first: `d.yaml: ${text}`, identity: expect.stringContaining(text) };
    await eventually(() => expect(reported).toEqual([{ warnings: [], total: 0, collisions }]));
    const again = loadResources(compatible).outcome as LoadedResources;
    await loader.load({ ...compatible, hashInForce: again.hash });
    loader.review((found) => reported.push(found));
    timers.advance(1_000);
    expect(await loader.load({ ...compatible, bytes: responseOf(['a', 'b']) })).toMatchObject({ ok: true });
    loader.review((found) => reported.push(found));
    timers.advance(1_000);
    await eventually(() => expect(reported).toHaveLength(2));
    expect(reported[1]).toEqual({ warnings: [], total: 0, collisions: undefined });
    await loader.close();
  });

  it('reviews no rules that others replace before, and those that stay when a load breaks it off', async () => {
    const timers = new ManualTimers();
    const loader = new ResponseLoader({ ...limits, timers, reviewDelayMs: 1_000, maxInPlaceBytes: 1_000 });
    const reported: string[] = [];
    const review = (name: string) =>
      loader.review((review) =>
        reported.push(`${name} ${'total' in review ? review.total : review.problem}`),
      );
    await loader.load({ ...request, bytes: responseOf(['a']) });
    review('first');
    const bytes = responseOf(['a.b']);
    const second = await loader.load({ ...request, bytes });
    review('second');
    expect(timers.size).toBe(1);
    await loader.load({ ...request, bytes: Buffer.from('0a05', 'hex') });
    expect(timers.size).toBe(0);
    review('after a bad one');
    await loader.load({ ...request, bytes, hashInForce: (second as LoadedResources).hash });
    review('after the same');
    timers.advance(1_000);
    await eventually(() => expect(reported).toEqual(['after the same 1']));
    await loader.close();
  });

  it('breaks off a load when it is closed', async () => {
    const loader = new ResponseLoader({ ...limits, maxInPlaceBytes: 0 });
    const outcome = loader.load(request);
    await loader.close();
    expect(await outcome).toEqual(failure('the load ended without a result'));
  });
});
