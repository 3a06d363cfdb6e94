import { create, fromBinary, type MessageInitShape, toBinary } from '@bufbuild/protobuf';
import { Client, credentials, type ServiceError, status } from '@grpc/grpc-js';

import {
  RateLimitRequestSchema,
  type RateLimitResponse,
  RateLimitResponse_Code,
  RateLimitResponseSchema,
} from '../../gen/envoy/service/ratelimit/v3/rls_pb.ts';

import {
  HealthCheckRequestSchema,
  type HealthCheckResponse,
  HealthCheckResponseSchema,
} from '../../gen/grpc/health/v1/health_pb.ts';
import { machineLoad } from './machine-load.ts';
import { outOfTime } from './second-tries.ts';

const method = '/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit';

/** A caller of a limiter with one connection of its own; rejects with the gRPC error of a call. */
export class LimiterClient {
  readonly #client: Client;

  constructor(port: number) {
    // Channels of one process share their connections by default.
    this.#client = new Client(`127.0.0.1:${port}`, credentials.createInsecure(), {
      'grpc.use_local_subchannel_pool': 1,
    });
  }

  /** Without `timeoutMs` an answer has 20 s, multiplied by the machine's load. */
  ask(
    request: MessageInitShape<typeof RateLimitRequestSchema>,
    { timeoutMs = 20_000 * machineLoad() }: { timeoutMs?: number } = {},
  ): Promise<RateLimitResponse> {
    return new Promise((resolve, reject) => {
      this.#client.makeUnaryRequest(
        method,
        (bytes: Uint8Array) => Buffer.from(bytes),
        (bytes: Buffer) => fromBinary(RateLimitResponseSchema, bytes),
        toBinary(RateLimitRequestSchema, create(RateLimitRequestSchema, request)),
        { deadline: Date.now() + timeoutMs },
        (error: ServiceError | null, response?: RateLimitResponse) => {
          if (response !== undefined) resolve(response);
          else if (error?.code === status.DEADLINE_EXCEEDED) reject(outOfTime(error));
          else reject(error ?? new Error('no answer'));
        },
      );
    });
  }

  /** Asks for one descriptor of one entry; true when the answer is OK. */
  async allowed(domain: string, key: string, value: string): Promise<boolean> {
    const response = await this.ask({ domain, descriptors: [{ entries: [{ key, value }] }] });
    return response.overallCode === RateLimitResponse_Code.OK;
  }

  /** Calls back with each health status of the service; settles when the stream ends, however. */
  watchHealth(service: string, onStatus: (status: number) => void): Promise<void> {
    const call = this.#client.makeServerStreamRequest(
      '/grpc.health.v1.Health/Watch',
      (bytes: Uint8Array) => Buffer.from(bytes),
      (bytes: Buffer) => fromBinary(HealthCheckResponseSchema, bytes),
      toBinary(HealthCheckRequestSchema, create(HealthCheckRequestSchema, { service })),
    );
    call.on('data', ({ status }: HealthCheckResponse) => onStatus(status));
    return new Promise((resolve) => {
      call.on('error', () => resolve());
      call.on('end', () => resolve());
    });
  }

  close(): void {
    this.#client.close();
  }
}
