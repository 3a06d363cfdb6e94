import { setTimeout as sleep } from 'node:timers/promises';
import { create, fromBinary, toBinary, toJsonString } from '@bufbuild/protobuf';
import { Client, credentials, Metadata, type ServiceError, status } from '@grpc/grpc-js';
import {
  RateLimitResponse_Code as Code,
  type RateLimitResponse_DescriptorStatus as DescriptorStatus,
  type RateLimitRequest,
  RateLimitRequestSchema,
  type RateLimitResponse,
  RateLimitResponseSchema,
} from '../../gen/envoy/service/ratelimit/v3/rls_pb.ts';
import { shouldRateLimitPath } from '../../limiter/service/should-rate-limit.ts';
import { tlsTarget } from '../../process/grpc/grpc-js.ts';
import { errorText } from '../../process/log/error-text.ts';
import { isLoopback } from '../../process/net/bind.ts';
import { type Entry, maxUint32, Unit, unitName } from '../../rules/model.ts';
import { LimitersClient, limitersAt, limitersOfEnvironment, tokenOf } from '../operate/limiters.ts';
import {
  choiceOf,
  commandOf,
  type ParsedFlags,
  printProblem,
  timeoutMs,
  UsageError,
  wholeNumber,
} from '../shared/flags.ts';
import { io } from '../shared/io.ts';
import { outputForm as outputFormat } from '../shared/report.ts';
import { type GivenRequest, readEntry, readRequest } from '../shared/request.ts';
import { dataText, perUnit } from '../shared/text.ts';
import { diagnose } from './ask-diagnosis.ts';
import { type AskAddress, type AskTls, askTls, askToken, endpointText, parseAddress } from './ask-target.ts';

const help = `Usage: weir ask <domain> <key=value> ... [+ <key=value> ...] [flags]

Asks a limiter over gRPC for one decision, as a proxy does. The limiter counts the hits. Put a + between two descriptors.

  --dial-string <host:port>     the limiter (default localhost:8081), or its Unix socket: unix:/path, or the path
  --hits-addend <n>             hits to count for each descriptor (default 1). 0 reads the counters without counting, and -3 refunds 3 hits
  --timeout <t>                 how long to wait for the answer (default 5s)
  --until-over-limit <s>        repeat until the answer is OVER_LIMIT, for at most this many seconds; each request counts
  -o, --output <form>           how to print the answer: table (default), json or yaml
  --token-file <path>           a file with a token made by weir callers token, for a limiter that has CALLERS_FILE (default: the token in the variable WEIR_TOKEN)
  --grpc-use-tls                use TLS, for a limiter that has GRPC_SERVER_USE_TLS
  --grpc-server-ca-file <path>  the certificate authority of the limiter, in PEM (default: the system's)
  --grpc-cert-file <path>       the client certificate, in PEM, for a limiter that has GRPC_CLIENT_TLS_CACERT
  --grpc-key-file <path>        the key of the client certificate, in PEM

  weir ask shop remote_address=203.0.113.7
  weir ask mail tenant=acme + contract=b --hits-addend 0

The flags of the Go client work as well: -dial_string, -domain, -descriptors key=value,key2=value2 (for each descriptor), -grpc-use-tls;
-oltp-protocol is accepted, but the command sends no spans.
Exit status: 0 when the limiter answered (OK or OVER_LIMIT). 1 when it did not, or when --until-over-limit never got OVER_LIMIT. 2 for a wrong command line.
`;

const protocols = ['http', 'grpc'];
/** Flags of the Go client that repeat arguments of this command, or have no effect. */
const goFlags = {
  domain: { type: 'string' },
  descriptors: { type: 'string', multiple: true },
  'oltp-protocol': { type: 'string', values: protocols },
} as const;

export const askCommand = commandOf(
  help,
  async (flags) => {
    const output = outputFormat(flags);
    const address = parseAddress(flags.text('dial-string') ?? 'localhost:8081');
    const hits = wholeNumber(flags, 'hits-addend', { default: 1, min: -maxUint32, max: maxUint32 });
    const counted = { hitsAddend: BigInt(Math.abs(hits)), isNegativeHits: hits < 0 };
    const asked = requestOf(flags);
    if (flags.text('oltp-protocol') !== '') choiceOf(flags, 'oltp-protocol', protocols);
    const descriptors = asked.descriptors.map((entries) => ({ entries, ...counted }));
    const tls = askTls(flags);
    const token = askToken(flags.text('token-file'));
    const request = create(RateLimitRequestSchema, { domain: asked.domain, descriptors });
    const untilSeconds = wholeNumber(flags, 'until-over-limit', { default: 0, min: 1, max: 86_400 });
    try {
      const call = { address, timeoutMs: timeoutMs(flags), tls, token };
      const response = await (untilSeconds === 0
        ? askLimiter(request, call)
        : askUntilOverLimit(request, call, untilSeconds));
      const json = `${toJsonString(RateLimitResponseSchema, response)}\n`;
      io().stdout.write(output === 'text' ? describeAnswer(request, response) : dataText(json, output));
      const unlimited = asked.descriptors.filter((_, index) => isWithoutRule(response.statuses[index]));
      if (unlimited.length > 0)
        for (const hint of await hintsFor(address, asked.domain, unlimited)) printProblem(hint);
      return 0;
    } catch (error) {
      if (!(error instanceof CallFailed)) throw error;
      io().stderr.write(`request error: ${error.message}\n`);
      // A TLS handshake that never ends would keep the process alive.
      io().exit(1);
      return 1;
    }
  },
  { flags: goFlags },
);

/** The limiter gave no decision. The message names the gRPC status and, if known, what to do about it in a second line. */
class CallFailed extends Error {
  override readonly name = 'CallFailed';
  /** The gRPC status; undefined if no call was made. */
  readonly code: status | undefined;

  constructor(message: string, code?: status) {
    super(message);
    this.code = code;
  }
}

interface Call {
  address: AskAddress;
  tls: AskTls | undefined;
  timeoutMs: number;
  token: string | undefined;
}

/** Pause between repeated requests: short enough to reach a low limit soon, long enough not to flood a limiter that is starting. */
const pauseMs = 200;

/** Statuses that a second request does not change. */
const finalCodes = new Set([status.INVALID_ARGUMENT, status.UNAUTHENTICATED, status.PERMISSION_DENIED]);

/** Repeats the request until the answer is OVER_LIMIT, and waits for a limiter or rules that are not ready. Rejects with CallFailed. */
async function askUntilOverLimit(
  request: RateLimitRequest,
  call: Call,
  seconds: number,
): Promise<RateLimitResponse> {
  const endMs = performance.now() + seconds * 1000;
  let last = 'no limiter answered';
  for (let asked = 1; ; asked++) {
    const leftMs = Math.max(1, endMs - performance.now());
    try {
      const response = await askLimiter(request, { ...call, timeoutMs: Math.min(call.timeoutMs, leftMs) });
      if (response.overallCode === Code.OVER_LIMIT) return response;
      last = describeAnswer(request, response).trim();
    } catch (error) {
      if (!(error instanceof CallFailed) || finalCodes.has(error.code as status)) throw error;
      // The last request has less time than the others, so its timeout says less than the answer before it.
      const isCut = leftMs < call.timeoutMs && error.code === status.DEADLINE_EXCEEDED;
      if (!isCut || asked === 1) last = error.message;
    }
    if (performance.now() + pauseMs >= endMs) {
      throw new CallFailed(`not OVER_LIMIT within ${seconds} s, asked ${asked} times; at last: ${last}`);
    }
    await sleep(pauseMs);
  }
}

/** The time limit of a diagnosis. */
const diagnosisMs = 2_000;

/** Makes one `ShouldRateLimit` call over a new connection, without TLS if `tls` is undefined. Rejects with CallFailed. */
async function askLimiter(
  request: RateLimitRequest,
  { address, tls, timeoutMs, token }: Call,
): Promise<RateLimitResponse> {
  const client = createClient(address.target, tls);
  const metadata = new Metadata();
  if (token !== undefined) metadata.set('authorization', `Bearer ${token}`);
  const answer = Promise.withResolvers<RateLimitResponse>();
  client.makeUnaryRequest(
    shouldRateLimitPath,
    (message: RateLimitRequest) => Buffer.from(toBinary(RateLimitRequestSchema, message)),
    (bytes: Buffer) => fromBinary(RateLimitResponseSchema, bytes),
    request,
    metadata,
    { deadline: Date.now() + timeoutMs },
    (error, response) => (error ? answer.reject(error) : response && answer.resolve(response)),
  );
  try {
    return await answer.promise;
  } catch (error) {
    const { code, details } = error as ServiceError;
    // The connection itself may have failed.
    const isDoubtful = code === status.UNAVAILABLE || code === status.DEADLINE_EXCEEDED;
    const trouble =
      isDoubtful && address.endpoint
        ? await diagnose(address.endpoint, tls, Math.min(timeoutMs, diagnosisMs))
        : undefined;
    // grpc-js appends a note about its resolver even if it is empty.
    const words = trouble ?? details.replace(/\.? *Resolution note: *$/, '');
    throw new CallFailed(`${status[code] ?? code}: ${words}`, code);
  } finally {
    client.close();
  }
}

function createClient(target: string, tls: AskTls | undefined): Client {
  try {
    if (tls === undefined) return new Client(target, credentials.createInsecure());
    const { ca = null, cert = null, key = null } = tls;
    const { verify, options } = tlsTarget(target);
    return new Client(target, credentials.createSsl(ca, key, cert, verify), options);
  } catch (error) {
    throw new CallFailed(errorText(error));
  }
}

/** Formats the answer for people: the overall code, then a line for each descriptor. */
export function describeAnswer(request: RateLimitRequest, response: RateLimitResponse): string {
  const lines = [codeName(response.overallCode)];
  response.statuses.forEach((status, index) => {
    const entries = request.descriptors[index]?.entries ?? [];
    const descriptor = entries.map(({ key, value }) => `${key}=${value}`).join(',');
    lines.push(`  ${descriptor}: ${codeName(status.code)}, ${describeLimit(status)}`);
  });
  const headers = [...response.responseHeadersToAdd, ...response.requestHeadersToAdd];
  for (const { key, value } of headers) lines.push(`  ${key}: ${value}`);
  return `${lines.join('\n')}\n`;
}

function isWithoutRule(status: DescriptorStatus | undefined): boolean {
  return status?.currentLimit === undefined && status?.limitRemaining !== maxUint32;
}

function describeLimit(status: DescriptorStatus): string {
  if (isWithoutRule(status)) return 'no rule limits it ("weir explain" shows why)';
  const limit = status.currentLimit;
  if (limit === undefined) return 'unlimited';
  const name = limit.name === '' ? '' : ` (${limit.name})`;
  // If the window is not a unit, only the limit headers of the limiter say what it is.
  const unit = limit.unit === Unit.UNKNOWN ? '' : ` ${perUnit(unitName(limit.unit) ?? `unit ${limit.unit}`)}`;
  const { requestsPerUnit } = limit;
  const reset =
    status.durationUntilReset === undefined ? '' : `, resets in ${status.durationUntilReset.seconds} s`;
  // Not "1 of 10": a bucket's remaining hits count toward its burst, which the answer does not report.
  return `${atLeast(status.limitRemaining)} left, limit ${atLeast(requestsPerUnit)}${unit}${name}${reset}`;
}

/** The protocol has no larger numbers. */
function atLeast(count: number): string {
  return count === maxUint32 ? `${count} or more` : String(count);
}

function codeName(code: Code): string {
  if (code === Code.OK) return 'OK';
  return code === Code.OVER_LIMIT ? 'OVER_LIMIT' : `code ${code}`;
}

/** Reads the request, in the spelling of all commands or from the flags of the Go client. @throws UsageError */
function requestOf(flags: ParsedFlags): GivenRequest {
  const ofGo = { domain: flags.text('domain'), descriptors: flags.list('descriptors') };
  const isOfGo = ofGo.domain !== undefined || ofGo.descriptors.length > 0;
  if (isOfGo && flags.positionals.length > 0)
    throw new UsageError('ask takes a request once: <domain> <key=value> ..., or -domain and -descriptors');
  const request = isOfGo
    ? { domain: ofGo.domain ?? '', descriptors: ofGo.descriptors.map(parseDescriptor) }
    : readRequest(flags.positionals, 'ask');
  if (request.descriptors.length > 0) return request;
  throw new UsageError('ask needs a domain and the entries of a descriptor: <domain> <key=value> ...');
}

/** Reads one descriptor of the Go client's flag, `key=value,key2=value2`. Its values cannot hold a comma. */
function parseDescriptor(text: string): Entry[] {
  try {
    return text.split(',').map(readEntry);
  } catch (error) {
    if (!(error instanceof UsageError)) throw error;
    throw new UsageError(`invalid value "${text}" for --descriptors: ${error.message}`);
  }
}

/** Chosen: the answer is known already, so a hint must not delay it for long. */
const hintMs = 1_000;

/**
 * Returns a sentence for each descriptor with a key or domain that is probably misspelled. gRPC answers do not show it; the debug
 * listener does. Never rejects.
 */
async function hintsFor(
  address: AskAddress,
  domain: string,
  descriptors: readonly (readonly Entry[])[],
): Promise<string[]> {
  const names = limitersOfEnvironment() ?? debugAddress(address);
  try {
    const limiters = await limitersAt(names, hintMs);
    const asking = { token: tokenOf(undefined), timeoutMs: hintMs };
    const found = await new LimitersClient(limiters, asking).found();
    const hints = await Promise.all(descriptors.map((entries) => found.misspelled(domain, entries)));
    return [...new Set(hints.filter((hint) => hint !== undefined))];
  } catch {
    return [];
  }
}

/** Returns the debug listener of a limiter on this machine with the default ports. */
function debugAddress({ endpoint }: AskAddress): string[] {
  if (endpoint === undefined || 'path' in endpoint) return [];
  const { host, port } = endpoint;
  return port === 8081 && isLoopback(host) ? [endpointText({ host, port: 6070 })] : [];
}
