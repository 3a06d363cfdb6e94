import { fromBinary, toBinary } from '@bufbuild/protobuf';
import { Client, credentials, Metadata, type ServiceError, status } from '@grpc/grpc-js';
import {
  type RateLimitRequest,
  RateLimitRequestSchema,
  type RateLimitResponse,
  RateLimitResponseSchema,
} from '../../gen/envoy/service/ratelimit/v3/rls_pb.ts';
import { shouldRateLimitPath } from '../../limiter/service/should-rate-limit.ts';
import { tlsTarget } from '../../process/grpc/tls-target.ts';
import { errorText } from '../../process/log/process-error-text.ts';
import type { AskAddress } from './ask-address.ts';
import type { Trouble } from './ask-diagnosis.ts';
import type { AskTls } from './ask-tls.ts';
import { diagnose } from './cli-ask-diagnosis.ts';

/** The limiter gave no decision; the message names the gRPC status. */
export class CallFailed extends Error {
  override readonly name = 'CallFailed';
  /** What to do about it, where that is known. */
  readonly hint: string | undefined;

  constructor(message: string, hint?: string) {
    super(message);
    this.hint = hint;
  }
}

export interface AskOptions {
  address: AskAddress;
  timeoutMs: number;
  /** Undefined: no TLS. */
  tls: AskTls | undefined;
  /** Undefined: none is shown. */
  token: string | undefined;
  request: RateLimitRequest;
}

/** One call of `ShouldRateLimit` over a connection of its own. Rejects with CallFailed. */
export async function askLimiter(options: AskOptions): Promise<RateLimitResponse> {
  const client = createClient(options);
  try {
    return await call(client, options);
  } catch (error) {
    const { code, details } = error as ServiceError;
    const trouble = await troubleBehind(code, options);
    const text = trouble?.reason ?? withoutEmptyNote(details);
    throw new CallFailed(`${status[code] ?? code}: ${text}`, trouble?.hint);
  } finally {
    client.close();
  }
}

/** Rejects with a ServiceError. */
function call(client: Client, { request, timeoutMs, token }: AskOptions): Promise<RateLimitResponse> {
  const metadata = new Metadata();
  if (token !== undefined) metadata.set('authorization', `Bearer ${token}`);
  return new Promise<RateLimitResponse>((resolve, reject) => {
    client.makeUnaryRequest(
      shouldRateLimitPath,
      (message: RateLimitRequest) => Buffer.from(toBinary(RateLimitRequestSchema, message)),
      (bytes: Buffer) => fromBinary(RateLimitResponseSchema, bytes),
      request,
      metadata,
      { deadline: Date.now() + timeoutMs },
      (error: ServiceError | null, response?: RateLimitResponse) => {
        if (error) reject(error);
        else if (response) resolve(response);
      },
    );
  });
}

/** How long a second look at the limiter may take. */
const diagnosisMs = 2_000;

/** Only where the connection may be what failed: the library does not say reliably why it did. */
async function troubleBehind(
  code: number,
  { address, tls, timeoutMs }: AskOptions,
): Promise<Trouble | undefined> {
  if (address.endpoint === undefined) return undefined;
  if (code !== status.UNAVAILABLE && code !== status.DEADLINE_EXCEEDED) return undefined;
  return diagnose(address.endpoint, tls, Math.min(timeoutMs, diagnosisMs));
}

/** The library appends notes of its resolver also when there are none. */
function withoutEmptyNote(details: string): string {
  return details.replace(/\.? *Resolution note: *$/, '');
}

function createClient({ address: { target }, tls }: AskOptions): Client {
  try {
    if (tls === undefined) return new Client(target, credentials.createInsecure());
    const { ca = null, cert = null, key = null } = tls;
    const { verify, options } = tlsTarget(target);
    return new Client(target, credentials.createSsl(ca, key, cert, verify), options);
  } catch (error) {
    throw new CallFailed(errorText(error));
  }
}
