import { create, fromBinary, toBinary } from '@bufbuild/protobuf';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  RateLimitQuotaResponseSchema,
  RateLimitQuotaUsageReportsSchema,
} from '../../gen/envoy/service/rate_limit_quota/v3/rlqs_pb.ts';
import { caseCount } from '../../test/support/property-cases.ts';
import {
  type BucketReport,
  entriesOf,
  type QuotaOrder,
  responseOf,
  textOf,
  UsageReports,
} from './quota-messages.ts';

const text = fc.string({ minLength: 1, maxLength: 20 }).filter((one) => one !== '__proto__');
const usage = fc.record({
  bucketId: fc.record({
    bucket: fc.dictionary(text, text, { minKeys: 1, maxKeys: 5, noNullPrototype: true }),
  }),
  timeElapsed: fc.record({ seconds: fc.bigInt({ min: -5n, max: 2n ** 40n }), nanos: fc.nat(999_999_999) }),
  numRequestsAllowed: fc.bigInt({ min: 0n, max: 2n ** 32n - 1n }),
  numRequestsDenied: fc.bigInt({ min: 0n, max: 2n ** 32n - 1n }),
});

function reportsOf(bytes: Uint8Array, max = 5): BucketReport[] {
  const reports = new UsageReports(bytes, max);
  const all: BucketReport[] = [];
  for (let one = reports.next(); one !== undefined; one = reports.next()) all.push(one);
  return all;
}

describe('reports of use', () => {
  it('are read as the generated codec writes them', () => {
    fc.assert(
      fc.property(text, fc.array(usage, { maxLength: 5 }), (domain, bucketQuotaUsages) => {
        const message = create(RateLimitQuotaUsageReportsSchema, { domain, bucketQuotaUsages });
        const bytes = toBinary(RateLimitQuotaUsageReportsSchema, message);
        expect(new UsageReports(bytes, 5).domain).toBe(domain);
        expect(
          reportsOf(bytes).map(({ id, allowed, denied }) => ({
            bucket: Object.fromEntries(entriesOf(id).map(({ key, value }) => [key, value])),
            ...{ allowed, denied },
          })),
        ).toEqual(
          bucketQuotaUsages.map(({ bucketId, numRequestsAllowed, numRequestsDenied }) => ({
            bucket: bucketId.bucket,
            ...{ allowed: Number(numRequestsAllowed), denied: Number(numRequestsDenied) },
          })),
        );
      }),
    );
  });

  it('have the entries of a bucket by their keys, whatever their order was', () => {
    const bytes = (bucket: Record<string, string>): Uint8Array =>
      toBinary(
        RateLimitQuotaUsageReportsSchema,
        create(RateLimitQuotaUsageReportsSchema, { bucketQuotaUsages: [{ bucketId: { bucket } }] }),
      );
    const [one] = reportsOf(bytes({ b: '1', a: '2' }));
    const [other] = reportsOf(bytes({ a: '2', b: '1' }));
    expect(entriesOf(one!.id)).toEqual(entriesOf(other!.id));
    expect(textOf(entriesOf(other!.id))).toBe(textOf(entriesOf(one!.id)));
    expect(textOf(entriesOf(other!.id))).toBe(other!.id);
  });

  it('are bounded in number and in their numbers', () => {
    const many = Array.from({ length: 11 }, () => ({ numRequestsAllowed: 2n ** 64n - 1n }));
    const bytes = toBinary(
      RateLimitQuotaUsageReportsSchema,
      create(RateLimitQuotaUsageReportsSchema, { bucketQuotaUsages: many }),
    );
    expect(new UsageReports(bytes, 10).leftOut).toBe(1);
    expect(reportsOf(bytes, 10)).toHaveLength(10);
    expect(reportsOf(bytes, 11)[0]!.allowed).toBe(2 ** 32 - 1);
    expect(() => reportsOf(bytes.subarray(0, 4), 11)).toThrow('ends early');
  });
});

const orderOf = (value: string, strategy: QuotaOrder['strategy']): QuotaOrder => ({
  id: textOf([{ key: 'id', value }]),
  strategy,
});

describe('responses', () => {
  it('are what the generated codec reads', () => {
    const bucket = { tokens: 300, perFill: 7, fillSeconds: 3600, isFresh: true };
    const orders = [
      orderOf('a', 'allow'),
      orderOf('b', bucket),
      orderOf('c', { ...bucket, isFresh: false }),
      orderOf('d', { ...bucket, tokens: 0, isFresh: false }),
      orderOf('e', 'abandon'),
    ];
    const { bucketAction } = fromBinary(RateLimitQuotaResponseSchema, responseOf(orders, 15));
    const reported = bucketAction.map(({ bucketId, bucketAction: { case: kind, value } }) => {
      if (kind !== 'quotaAssignmentAction') return [bucketId?.bucket['id'], kind];
      const { strategy } = value.rateLimitStrategy!;
      const ttl = Number(value.assignmentTimeToLive?.seconds);
      if (strategy.case !== 'tokenBucket') return [bucketId?.bucket['id'], strategy.value, ttl];
      const { maxTokens, tokensPerFill, fillInterval } = strategy.value;
      return [bucketId?.bucket['id'], maxTokens, tokensPerFill, Number(fillInterval?.seconds), ttl];
    });
    expect(reported).toEqual([
      ['a', 0, 15],
      ['b', 1, 15],
      ['b', 300, 7, 3600, 15],
      ['c', 300, 7, 3600, 15],
      ['d', 1, 15],
      ['e', 'abandonAction'],
    ]);
  });

  it('are the bytes that the generated codec writes', () => {
    const positive = fc.oneof(fc.integer({ min: 1, max: 300 }), fc.integer({ min: 1, max: 0xffff_ffff }));
    const fillSeconds = fc.integer({ min: 1, max: 999_999_999 });
    const order = fc.record({
      value: fc.string({ maxLength: 400 }),
      bucket: fc.option(
        fc.record({ tokens: positive, perFill: positive, fillSeconds, isFresh: fc.constant(false) }),
      ),
    });
    const ttl = fc.integer({ min: 1, max: 3_600 });
    fc.assert(
      fc.property(fc.array(order, { minLength: 1, maxLength: 40 }), ttl, (orders, ttlSeconds) => {
        const bucketAction = orders.map(({ value, bucket }) => ({
          bucketId: { bucket: { id: value } },
          bucketAction: actionOf(ttlSeconds, bucket),
        }));
        const expected = create(RateLimitQuotaResponseSchema, { bucketAction });
        const written = orders.map(({ value, bucket }) => orderOf(value, bucket ?? 'allow'));
        expect(Buffer.from(responseOf(written, ttlSeconds))).toEqual(
          Buffer.from(toBinary(RateLimitQuotaResponseSchema, expected)),
        );
      }),
      { numRuns: caseCount(100) },
    );
  });
});

type Numbers = { tokens: number; perFill: number; fillSeconds: number };

function actionOf(ttlSeconds: number, bucket: Numbers | null) {
  const value =
    bucket === null
      ? ({ case: 'blanketRule', value: 0 } as const)
      : ({
          case: 'tokenBucket',
          value: {
            maxTokens: bucket.tokens,
            tokensPerFill: bucket.perFill,
            // Envoy applies another interval only if it has other nanoseconds.
            fillInterval: { seconds: BigInt(bucket.fillSeconds), nanos: bucket.fillSeconds },
          },
        } as const);
  const rateLimitStrategy = { strategy: value };
  const assignmentTimeToLive = { seconds: BigInt(ttlSeconds) };
  return { case: 'quotaAssignmentAction', value: { assignmentTimeToLive, rateLimitStrategy } } as const;
}
