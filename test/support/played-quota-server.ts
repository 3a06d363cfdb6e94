/** A rate limit quota service that decides nothing: a test reads what proxies report, and sends what they shall do. */
import { create, fromBinary, type MessageInitShape, toBinary } from '@bufbuild/protobuf';
import { type Metadata, Server, ServerCredentials, type ServerDuplexStream } from '@grpc/grpc-js';
import {
  RateLimitQuotaResponseSchema,
  RateLimitQuotaUsageReportsSchema,
} from '../../gen/envoy/service/rate_limit_quota/v3/rlqs_pb.ts';
import { RateLimitStrategy_BlanketRule as BlanketRule } from '../../gen/envoy/type/v3/ratelimit_strategy_pb.ts';
import { decodeBytes, encodeBytes } from '../../process/grpc/grpc-js.ts';
import { eventually } from './eventually.ts';

type ResponseInit = MessageInitShape<typeof RateLimitQuotaResponseSchema>;
export type BucketAction = NonNullable<ResponseInit['bucketAction']>[number];
type Assignment = Extract<
  NonNullable<NonNullable<BucketAction['bucketAction']>>,
  { case: 'quotaAssignmentAction' }
>['value'];
type Strategy = NonNullable<NonNullable<Assignment['rateLimitStrategy']>['strategy']>;

/** What one proxy said of one bucket, once. */
export interface SeenReport {
  atMs: number;
  stream: number;
  bucket: Readonly<Record<string, string>>;
  allowed: number;
  denied: number;
  elapsed: { seconds: bigint; nanos: number } | undefined;
}

export interface SeenStream {
  domain: string;
  metadata: Metadata;
  /** Of its first message. */
  firstMessage: Uint8Array;
}

/** Buckets of the tests have one entry: `name`. */
export class PlayedQuotaServer {
  readonly reports: SeenReport[] = [];
  readonly streams: SeenStream[] = [];
  #server: Server | undefined;
  #call: ServerDuplexStream<Buffer, Buffer> | undefined;
  #port = 0;

  get port(): number {
    return this.#port;
  }

  /** On the port of the time before, if there was one. */
  async start(): Promise<void> {
    const server = new Server();
    server.addService(
      {
        StreamRateLimitQuotas: {
          path: '/envoy.service.rate_limit_quota.v3.RateLimitQuotaService/StreamRateLimitQuotas',
          requestStream: true,
          responseStream: true,
          requestSerialize: encodeBytes,
          requestDeserialize: decodeBytes,
          responseSerialize: encodeBytes,
          responseDeserialize: decodeBytes,
        },
      },
      { StreamRateLimitQuotas: (call: ServerDuplexStream<Buffer, Buffer>) => this.#serve(call) },
    );
    this.#port = await new Promise<number>((resolve, reject) =>
      server.bindAsync(`127.0.0.1:${this.#port}`, ServerCredentials.createInsecure(), (error, port) =>
        error === null ? resolve(port) : reject(error),
      ),
    );
    this.#server = server;
  }

  /** Connections are cut. */
  stop(): void {
    this.#server?.forceShutdown();
    this.#server = undefined;
    this.#call = undefined;
  }

  reportsOf(name: string): SeenReport[] {
    return this.reports.filter(({ bucket }) => bucket['name'] === name);
  }

  /** Waits until a bucket was reported so many times. */
  async reported(name: string, times: number): Promise<SeenReport[]> {
    await eventually(
      () => {
        if (this.reportsOf(name).length < times) throw new Error(`fewer than ${times} reports of ${name}`);
      },
      { timeoutMs: 15_000 + 6_000 * times, intervalMs: 10 },
    );
    return this.reportsOf(name);
  }

  /** Sends actions, in one response. */
  send(...bucketAction: BucketAction[]): void {
    if (this.#call === undefined) throw new Error('no stream is open');
    this.#call.write(
      Buffer.from(
        toBinary(RateLimitQuotaResponseSchema, create(RateLimitQuotaResponseSchema, { bucketAction })),
      ),
    );
  }

  #serve(call: ServerDuplexStream<Buffer, Buffer>): void {
    this.#call = call;
    const stream = this.streams.length;
    let isFirst = true;
    // Of a connection that was cut.
    call.on('error', () => {});
    call.on('end', () => call.end());
    call.on('data', (bytes: Buffer) => {
      const { domain, bucketQuotaUsages } = fromBinary(RateLimitQuotaUsageReportsSchema, bytes);
      if (isFirst) this.streams.push({ domain, metadata: call.metadata, firstMessage: bytes });
      isFirst = false;
      for (const usage of bucketQuotaUsages) {
        this.reports.push({
          atMs: performance.now(),
          stream,
          bucket: usage.bucketId?.bucket ?? {},
          allowed: Number(usage.numRequestsAllowed),
          denied: Number(usage.numRequestsDenied),
          elapsed: usage.timeElapsed,
        });
      }
    });
  }
}

const strategies = {
  allow: { case: 'blanketRule', value: BlanketRule.ALLOW_ALL },
  deny: { case: 'blanketRule', value: BlanketRule.DENY_ALL },
} satisfies Record<string, Strategy>;

/** `ttl` is in seconds. */
export function assign(
  name: string,
  what: 'allow' | 'deny' | Strategy,
  ttl: number | 'none' = 600,
): BucketAction {
  return {
    bucketId: { bucket: { name } },
    bucketAction: {
      case: 'quotaAssignmentAction',
      value: {
        ...(ttl !== 'none' && { assignmentTimeToLive: duration(ttl) }),
        rateLimitStrategy: { strategy: typeof what === 'string' ? strategies[what] : what },
      },
    },
  };
}

/** By default one that gets nothing more for as long as a test takes. */
export function tokens(maxTokens: number, tokensPerFill = 1, fillSeconds = 3600): Strategy {
  return {
    case: 'tokenBucket',
    value: { maxTokens, tokensPerFill, fillInterval: duration(fillSeconds) },
  };
}

export function abandon(name: string): BucketAction {
  return { bucketId: { bucket: { name } }, bucketAction: { case: 'abandonAction', value: {} } };
}

function duration(seconds: number): { seconds: bigint; nanos: number } {
  return { seconds: BigInt(Math.floor(seconds)), nanos: Math.round((seconds % 1) * 1e9) };
}
