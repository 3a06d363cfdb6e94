/** Load on a limiter from a process of its own: streams of quota clients that speak the protocol, or unary calls. */
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { create, toBinary } from '@bufbuild/protobuf';
import { Client, type ClientDuplexStream, credentials } from '@grpc/grpc-js';
import { envoyCalls } from '../../bench/http2-frames.ts';
import { runLoad } from '../../bench/http2-load.ts';
import { RateLimitQuotaUsageReportsSchema } from '../../gen/envoy/service/rate_limit_quota/v3/rlqs_pb.ts';
import { RateLimitRequestSchema } from '../../gen/envoy/service/ratelimit/v3/rls_pb.ts';
import { quotaPath } from '../../limiter/quota-service/quota-messages.ts';
import { shouldRateLimitPath } from '../../limiter/service/should-rate-limit.ts';
import { decodeBytes, encodeBytes } from '../../process/grpc/grpc-js.ts';

export interface LoadOrder {
  readonly port: number;
  readonly seconds: number;
  /** Each reports its buckets every 5 s, so many requests for each. */
  readonly reports?: { readonly streams: number; readonly buckets: number; readonly allowed: number };
  /** Calls a second. */
  readonly calls?: number;
}

/** Sent once each stream has reported, and at the end. */
export type LoadNews = { readonly begun: true } | { readonly sent: number; readonly failed: number };

const reportMs = 5_000;

function message(count: number, allowed: number): Uint8Array {
  const bucketQuotaUsages = Array.from({ length: count }, (_, n) => ({
    bucketId: { bucket: { name: `bucket-${n}` } },
    ...{ timeElapsed: { seconds: 5n }, numRequestsAllowed: BigInt(allowed) },
  }));
  return toBinary(
    RateLimitQuotaUsageReportsSchema,
    create(RateLimitQuotaUsageReportsSchema, { domain: 'edge', bucketQuotaUsages }),
  );
}

async function report({ port, seconds, reports }: LoadOrder): Promise<void> {
  const { streams: count, buckets, allowed } = reports!;
  const streams: ClientDuplexStream<Uint8Array, Buffer>[] = [];
  let failed = 0;
  for (let n = 0; n < count; n++) {
    // Each has a connection of its own, as Envoys have.
    const client = new Client(`127.0.0.1:${port}`, credentials.createInsecure(), {
      'grpc.use_local_subchannel_pool': 1,
    });
    const stream = client.makeBidiStreamRequest(quotaPath, encodeBytes, decodeBytes);
    stream.on('data', () => {});
    stream.on('error', () => {
      failed += 1;
    });
    streams.push(stream);
  }
  const [first, next] = [message(buckets, 0), message(buckets, allowed)];
  const turn = async (bytes: Uint8Array): Promise<void> => {
    const beginMs = performance.now();
    for (const [n, stream] of streams.entries()) {
      const dueMs = beginMs + (n * reportMs) / count;
      await sleep(Math.max(1, dueMs - performance.now()));
      stream.write(bytes);
    }
    await sleep(Math.max(0, beginMs + reportMs - performance.now()));
  };
  await turn(first);
  // Demand is known, and all have what they need.
  for (let n = 0; n < 4; n++) await turn(next);
  process.send!({ begun: true } satisfies LoadNews);
  let sent = 0;
  for (let n = 0; n < (seconds * 1_000) / reportMs; n++) {
    await turn(next);
    sent += count;
  }
  process.send!({ sent, failed } satisfies LoadNews);
}

async function call({ port, seconds, calls = 0 }: LoadOrder): Promise<void> {
  const descriptors = [{ entries: [{ key: 'name', value: 'bucket-0' }] }];
  const request = create(RateLimitRequestSchema, { domain: 'edge', descriptors });
  const load = {
    ...envoyCalls(shouldRateLimitPath, [toBinary(RateLimitRequestSchema, request)]),
    ...{ port, sequence: Uint32Array.of(0), connections: 3, streams: 200 },
    ...{ perSecond: calls, oneWriteACall: true },
  };
  await runLoad({ ...load, durationMs: 3_000 });
  process.send!({ begun: true } satisfies LoadNews);
  const { answered, failed } = await runLoad({ ...load, durationMs: seconds * 1_000 });
  process.send!({ sent: answered, failed } satisfies LoadNews);
}

const [order] = (await once(process, 'message')) as [LoadOrder];
await (order.reports === undefined ? call(order) : report(order));
process.exit();
