/** `/json`: one rate limit decision for a JSON request. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { GrpcCode, type GrpcStatus, retryAfterSeconds } from '../../process/grpc/handlers.ts';
import { bytesOfPiece, freePieces } from '../../process/http/http-connection.ts';
import type { HttpCall } from '../../process/http/http-server.ts';
import { endAnswer } from '../../process/http/json-exchange.ts';
import { discardBody, readBody } from '../../process/http/request-body.ts';
import { sendError, writeDetail, writeErrorHead } from '../../process/http/text-response.ts';
import { bearerChallenge } from '../../process/net/bearer-token.ts';
import type { OmittedParts } from '../decide/messages.ts';
import { type RequestLimits, RequestTooLarge, tooManyBytes } from '../decide/request-bounds.ts';
import { encodeRateLimitResponse } from '../decide/wire-codec.ts';
import type { TooLargeRequests } from '../service/over-without-limit.ts';
import type { ShouldRateLimit } from '../service/should-rate-limit.ts';
import { type AdmissionOptions, admitted, type HttpAsker, originOf, replyTo } from './http-asker.ts';

/** Chosen: how long the limiter receives the unwanted rest of a body. */
const discardMs = 2_000;

/** Loads the codec only when it is needed, because its library takes long to load and gRPC calls do not need it. */
export function loadJsonCodec(): Promise<typeof import('./json-codec.ts')> {
  return import('./json-codec.ts');
}

export interface JsonEndpointOptions extends AdmissionOptions {
  shouldRateLimit: ShouldRateLimit;
  bounds: RequestLimits;
  /** The answers to requests beyond the bounds. */
  tooLarge: TooLargeRequests;
  /** HTTP_MAX_BODY_BYTES. */
  maxBodyBytes: number;
}

export async function answerJson(call: HttpCall, options: JsonEndpointOptions): Promise<void> {
  const { request, response, memory } = call;
  const { bounds, maxBodyBytes } = options;
  const asker = admitted(call, '/json', options);
  if ('rejected' in asker) {
    const answer = asker.asOverLimit && options.shouldRateLimit.overLimit?.();
    if (answer !== undefined) return sendExcess(call, answer);
    await rejectAtOnce(call, rejectionOf(request, response, asker.rejected), maxBodyBytes);
    return;
  }
  const storedBytes = bounds.maxBytes;
  const body = await readBody(request, { maxBytes: maxBodyBytes, storedBytes, memory });
  if (body.kind === 'aborted') return;
  if (body.kind === 'tooLong') {
    await answerTooLong(call, options);
    return;
  }
  if (body.kind === 'tooManyPieces') {
    // Receiving the rest of the body would be as expensive, so the limiter does not receive it.
    response.setHeader('Connection', 'close');
    const detail = `the body arrives in more than ${freePieces} pieces and one for every ${bytesOfPiece} bytes`;
    sendError(response, 400, 'Bad Request', detail);
    return;
  }
  if (body.kind === 'givenUp') {
    const detail = 'unfinished requests use all of CONNECTIONS_MAX_BYTES';
    await rejectUnread(call, { status: 503, text: 'Service Unavailable', detail });
    return;
  }
  if (body.kind === 'dropped') {
    await answerTooLarge(call, tooManyBytes(body.length, bounds), options);
    return;
  }
  const { requestFromJson, responseToJson } = await loadJsonCodec();
  await new Promise<void>((due) => memory.whenDue(body.bytes.length, due));
  const parsed = requestFromJson(body.bytes, bounds);
  if ('rejection' in parsed) {
    sendError(response, 400, 'Bad Request', parsed.rejection);
    return;
  }
  const outcome = await ask(options.shouldRateLimit, parsed, asker);
  if (outcome.tooLarge !== undefined) writeTooLarge(response, outcome.tooLarge);
  if ('status' in outcome) sendFailure(request, response, outcome.status);
  else sendDecision(response, responseToJson(outcome.message));
}

/** `tooLarge`: the reason why the request exceeds a bound. */
type Outcome = ({ message: Uint8Array } | { status: GrpcStatus }) & { tooLarge?: string | undefined };

function ask(
  handler: ShouldRateLimit,
  { wire, leftOut }: { wire: Uint8Array; leftOut: OmittedParts | undefined },
  asker: HttpAsker,
): Promise<Outcome> {
  return new Promise((resolve) => {
    let tooLarge: string | undefined;
    const reply = replyTo(asker, {
      noteTooLarge: (reason: string) => {
        tooLarge = reason;
      },
      send: (message: Uint8Array) => resolve({ message: new Uint8Array(message), tooLarge }),
      fail: (status: GrpcStatus) => resolve({ status }),
    });
    handler(wire, reply, leftOut);
  });
}

/** Answers before the body was read. */
async function sendExcess(call: HttpCall, message: Uint8Array): Promise<void> {
  const { overLimit, text } = (await loadJsonCodec()).responseToJson(message);
  if (overLimit) call.response.setHeader('Retry-After', retryAfterSeconds);
  await endAnswer(call, overLimit ? 429 : 200, { 'Content-Type': 'application/json' }, text);
}

function sendDecision(
  response: ServerResponse,
  { overLimit, text }: { overLimit: boolean; text: string },
): void {
  response.writeHead(overLimit ? 429 : 200, {
    'Content-Type': 'application/json',
    'Content-Length': Buffer.byteLength(text),
  });
  response.end(text);
}

/** Writes the headers that all 429 answers to requests beyond a bound share. The reason is in the header of errors. */
export function writeTooLarge(response: ServerResponse, reason: string): void {
  response.setHeader('Retry-After', retryAfterSeconds);
  writeDetail(response, reason);
}

/** Answers after the whole body was received. */
async function answerTooLarge(
  { request, response }: HttpCall,
  error: RequestTooLarge,
  { tooLarge }: JsonEndpointOptions,
): Promise<void> {
  const answer = tooLarge.answer(error, originOf(request));
  if (!('overallCode' in answer)) {
    sendError(response, 400, 'Bad Request', answer.message);
    return;
  }
  const { responseToJson } = await loadJsonCodec();
  writeTooLarge(response, error.message);
  sendDecision(response, responseToJson(encodeRateLimitResponse(answer)));
}

/** Answers before the rest of the body is received. */
async function answerTooLong(call: HttpCall, { maxBodyBytes, tooLarge }: JsonEndpointOptions): Promise<void> {
  const detail = `the body is longer than ${maxBodyBytes} bytes`;
  const error = new RequestTooLarge('HTTP_MAX_BODY_BYTES', `${detail} (HTTP_MAX_BODY_BYTES)`);
  const answer = tooLarge.answer(error, originOf(call.request));
  if (!('overallCode' in answer)) {
    await rejectUnread(call, { status: 413, text: 'Request Entity Too Large', detail });
    return;
  }
  const { responseToJson } = await loadJsonCodec();
  const { overLimit, text } = responseToJson(encodeRateLimitResponse(answer));
  writeTooLarge(call.response, error.message);
  await endAnswer(call, overLimit ? 429 : 200, { 'Content-Type': 'application/json' }, text);
}

function sendFailure(request: IncomingMessage, response: ServerResponse, status: GrpcStatus): void {
  const rejection = rejectionOf(request, response, status);
  sendError(response, rejection.status, rejection.text, rejection.detail);
}

interface JsonErrorReply {
  status: number;
  text: string;
  detail: string | undefined;
}

/** As in the Go service, errors of the store are 400, too; 500 is only for defects. */
function rejectionOf(
  request: IncomingMessage,
  response: ServerResponse,
  { code, message: detail }: GrpcStatus,
): JsonErrorReply {
  switch (code) {
    case GrpcCode.INTERNAL:
      return { status: 500, text: 'Internal Server Error', detail: undefined };
    case GrpcCode.UNAUTHENTICATED:
      response.setHeader('WWW-Authenticate', bearerChallenge(request.headers.authorization));
      return { status: 401, text: 'Unauthorized', detail };
    case GrpcCode.PERMISSION_DENIED:
      return { status: 403, text: 'Forbidden', detail };
    case GrpcCode.RESOURCE_EXHAUSTED:
      response.setHeader('Retry-After', retryAfterSeconds);
      return { status: 503, text: 'Service Unavailable', detail };
    default:
      return { status: 400, text: 'Bad Request', detail };
  }
}

/**
 * Rejects a request before its body is read. A body of allowed length is dropped while it arrives, and the connection stays open;
 * otherwise the connection ends.
 */
export async function rejectAtOnce(
  call: HttpCall,
  { status, text, detail }: JsonErrorReply,
  maxBodyBytes: number,
): Promise<void> {
  const { request, response } = call;
  const { 'content-length': length = 0, 'transfer-encoding': coding } = request.headers;
  if (coding === undefined && Number(length) <= maxBodyBytes) sendError(response, status, text, detail);
  else await rejectUnread(call, { status, text, detail });
}

/** Sends the answer at once. The response ends only when the sender has finished, because some senders read nothing before that. */
async function rejectUnread(
  { request, response, memory }: HttpCall,
  { status, text, detail }: JsonErrorReply,
): Promise<void> {
  const body = `${text}\n`;
  response.setHeader('Connection', 'close');
  response.setHeader('Content-Length', body.length);
  writeErrorHead(response, status, detail);
  response.write(body);
  await discardBody(request, { longestMs: discardMs, memory });
  response.end();
}
