import { fromBinary, toBinary } from '@bufbuild/protobuf';
import { Client, credentials, type ServiceError, status } from '@grpc/grpc-js';

import {
  type RateLimitRequest,
  RateLimitRequestSchema,
  type RateLimitResponse,
  RateLimitResponseSchema,
} from '../gen/envoy/service/ratelimit/v3/rls_pb.ts';
import { shouldRateLimitPath } from '../limiter/service/should-rate-limit.ts';
import { errorText } from '../process/error-text.ts';
import { tlsTarget } from '../process/grpc/tls-target.ts';
import type { AskTls } from './ask-tls.ts';

/** The limiter gave no decision; the message names the gRPC status. */
export class CallFailed extends Error {
  override readonly name = 'CallFailed';
}

export interface AskOptions {
  /** host:port, or any target that gRPC resolves. */
  address: string;
  timeoutMs: number;
  /** Undefined: no TLS. */
  tls: AskTls | undefined;
  request: RateLimitRequest;
}

/** One call of `ShouldRateLimit` over a connection of its own. Rejects with CallFailed. */
export async function askLimiter(options: AskOptions): Promise<RateLimitResponse> {
  const client = createClient(options);
  try {
    return await new Promise<RateLimitResponse>((resolve, reject) => {
      client.makeUnaryRequest(
        shouldRateLimitPath,
        (request: RateLimitRequest) => Buffer.from(toBinary(RateLimitRequestSchema, request)),
        (bytes: Buffer) => fromBinary(RateLimitResponseSchema, bytes),
        options.request,
        { deadline: Date.now() + options.timeoutMs },
        (error: ServiceError | null, response?: RateLimitResponse) => {
          if (error) reject(new CallFailed(`${status[error.code] ?? error.code}: ${error.details}`));
          else if (response) resolve(response);
        },
      );
    });
  } finally {
    client.close();
  }
}

function createClient({ address, tls }: AskOptions): Client {
  try {
    if (tls === undefined) return new Client(address, credentials.createInsecure());
    const { ca = null, cert = null, key = null } = tls;
    const { verify, options } = tlsTarget(address);
    return new Client(address, credentials.createSsl(ca, key, cert, verify), options);
  } catch (error) {
    throw new CallFailed(errorText(error));
  }
}
