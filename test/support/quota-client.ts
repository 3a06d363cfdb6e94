/** A quota client that reports what a test says, and remembers what it is sent. */
import { create, fromBinary, toBinary } from '@bufbuild/protobuf';
import {
  type ChannelCredentials,
  Client,
  type ClientDuplexStream,
  credentials,
  status as grpcStatus,
  Metadata,
  type ServiceError,
} from '@grpc/grpc-js';
import {
  RateLimitQuotaResponseSchema,
  RateLimitQuotaUsageReportsSchema,
} from '../../gen/envoy/service/rate_limit_quota/v3/rlqs_pb.ts';
import { quotaPath } from '../../limiter/quota-service/quota-messages.ts';
import { decodeBytes, encodeBytes } from '../../process/grpc/grpc-js.ts';

/** Requests since the last report, by the values of the bucket's entries: `{ 'name=x': { allowed: 3, denied: 0 } }`. */
export type QuotaReports = Readonly<Record<string, { allowed?: number; denied?: number }>>;

/** One stream on a connection of its own. */
export class QuotaClient {
  /** `name=x 40`, `name=x allow`, `name=x deny` or `name=x abandoned`, in their order. */
  readonly answers: string[] = [];
  /** Seconds that assignments hold, in their order. */
  readonly ttls: number[] = [];
  /** `OK`, or `NAME words`. */
  readonly ended: Promise<string>;
  readonly #client: Client;
  readonly #stream: ClientDuplexStream<Buffer, Buffer>;

  constructor(
    port: number,
    metadata: Readonly<Record<string, string>> = {},
    channel: ChannelCredentials = credentials.createInsecure(),
  ) {
    this.#client = new Client(`127.0.0.1:${port}`, channel, {
      'grpc.use_local_subchannel_pool': 1,
      'grpc.ssl_target_name_override': 'localhost',
    });
    const sent = new Metadata();
    for (const [name, value] of Object.entries(metadata)) sent.set(name, value);
    this.#stream = this.#client.makeBidiStreamRequest(quotaPath, encodeBytes, decodeBytes, sent);
    this.#stream.on('data', (bytes: Buffer) => this.#take(bytes));
    this.#stream.on('error', () => {});
    this.ended = new Promise((resolve) => {
      this.#stream.on('status', ({ code, details }: Pick<ServiceError, 'code' | 'details'>) =>
        resolve(code === grpcStatus.OK ? 'OK' : `${grpcStatus[code]} ${details}`),
      );
    });
  }

  report(domain: string, reports: QuotaReports): void {
    const message = create(RateLimitQuotaUsageReportsSchema, {
      domain,
      bucketQuotaUsages: Object.entries(reports).map(([bucket, { allowed = 0, denied = 0 }]) => ({
        bucketId: {
          bucket: Object.fromEntries(bucket.split(',').map((entry) => entry.split('=') as [string, string])),
        },
        ...{ numRequestsAllowed: BigInt(allowed), numRequestsDenied: BigInt(denied) },
      })),
    });
    this.#stream.write(Buffer.from(toBinary(RateLimitQuotaUsageReportsSchema, message)));
  }

  #take(bytes: Buffer): void {
    for (const { bucketId, bucketAction } of fromBinary(RateLimitQuotaResponseSchema, bytes).bucketAction) {
      const bucket = Object.entries(bucketId?.bucket ?? {}).map(([key, value]) => `${key}=${value}`);
      const name = bucket.join(',');
      if (bucketAction.case !== 'quotaAssignmentAction') {
        this.answers.push(`${name} abandoned`);
        continue;
      }
      const { assignmentTimeToLive, rateLimitStrategy } = bucketAction.value;
      const strategy = rateLimitStrategy?.strategy;
      const what =
        strategy?.case === 'tokenBucket'
          ? String(strategy.value.maxTokens)
          : ['allow', 'deny'][Number(strategy?.value)];
      this.answers.push(`${name} ${what}`);
      this.ttls.push(Number(assignmentTimeToLive?.seconds ?? 0));
    }
  }

  close(): void {
    this.#stream.cancel();
    this.#client.close();
  }
}
