import { readFileSync } from 'node:fs';
import { createSecureContext } from 'node:tls';
import { fromBinary, toBinary } from '@bufbuild/protobuf';
import { Client, credentials, Metadata, type ServiceError, status } from '@grpc/grpc-js';
import {
  type RateLimitRequest,
  RateLimitRequestSchema,
  type RateLimitResponse,
  RateLimitResponseSchema,
} from '../../gen/envoy/service/ratelimit/v3/rls_pb.ts';
import { shouldRateLimitPath } from '../../limiter/service/should-rate-limit.ts';
import { tlsTarget } from '../../process/grpc/grpc-js-calls.ts';
import { errorText, systemErrorReason } from '../../process/log/error-text.ts';
import { type FlagTypes, type ParsedFlags, UsageError } from '../shared/flags.ts';
import { type AskAddress, diagnose, type Trouble } from './ask-diagnosis.ts';

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

/** What a TLS connection is made with, PEM. */
export interface AskTls {
  /** Undefined: the authorities that Node knows. */
  ca: Buffer | undefined;
  /** With `key`, or neither. */
  cert: Buffer | undefined;
  key: Buffer | undefined;
}

/** As the Go client names them. */
export const askTlsFlags = {
  'grpc-use-tls': { type: 'boolean' },
  'grpc-server-ca-file': { type: 'string' },
  'grpc-cert-file': { type: 'string' },
  'grpc-key-file': { type: 'string' },
} as const satisfies FlagTypes;

/** Undefined without --grpc-use-tls, which the others need. @throws UsageError when a file is not what it must be. */
export function askTls(flags: ParsedFlags): AskTls | undefined {
  const files = ['grpc-server-ca-file', 'grpc-cert-file', 'grpc-key-file'] as const;
  if (!flags.on('grpc-use-tls')) {
    const idle = files.find((name) => flags.text(name) !== undefined);
    if (idle === undefined) return undefined;
    throw new UsageError(`--${idle} has no effect without --grpc-use-tls`);
  }
  const [ca, cert, key] = files.map((name) => readPem(name, flags.text(name)));
  if ((cert === undefined) !== (key === undefined)) {
    throw new UsageError('--grpc-cert-file and --grpc-key-file need each other');
  }
  checked('--grpc-server-ca-file', { ca });
  checked('--grpc-cert-file and --grpc-key-file', { cert, key });
  return { ca, cert, key };
}

function readPem(flag: string, path: string | undefined): Buffer | undefined {
  if (path === undefined) return undefined;
  let pem: Buffer;
  try {
    pem = readFileSync(path);
  } catch (error) {
    throw new UsageError(`--${flag}: ${path}: ${systemErrorReason(error)}`);
  }
  // OpenSSL takes authorities without any certificate among them, and then trusts nobody.
  if (!pem.includes('-----BEGIN ')) throw new UsageError(`--${flag}: ${path}: is not PEM`);
  return pem;
}

function checked(flags: string, credentials: Parameters<typeof createSecureContext>[0]): void {
  try {
    createSecureContext(credentials);
  } catch (error) {
    throw new UsageError(`${flags}: ${errorText(error)}`);
  }
}
