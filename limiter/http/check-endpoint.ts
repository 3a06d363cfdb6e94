/** `POST /v1/check`: one decision for a backend without a proxy in front of it, with all details. */
import type { ServerResponse } from 'node:http';
import { retryAfterSeconds } from '../../process/grpc/handlers.ts';
import { ApiProblem } from '../../process/http/api-route.ts';
import type { HttpCall } from '../../process/http/http-server.ts';
import { endAnswer, readJsonBody } from '../../process/http/json-exchange.ts';
import { writeDetail } from '../../process/http/text-response.ts';
import { limitJson } from '../../rules/describe.ts';
import { Code } from '../decide/messages.ts';
import { type RequestLimits, RequestTooLarge, tooManyBytes } from '../decide/request-bounds.ts';
import type { ExcessResponses } from '../service/over-without-limit.ts';
import { readCheckBody } from './check-body.ts';
import { type HttpAsker, originOf, problemOf } from './http-asker.ts';
import type { DecideForHttp, DescriptorAnswer } from './http-decision.ts';
import { type JsonEndpointOptions, writeTooLarge } from './json-endpoint.ts';

export interface CheckEndpointOptions extends Pick<JsonEndpointOptions, 'tooLarge' | 'maxBodyBytes'> {
  decide: DecideForHttp;
  excess: ExcessResponses;
  bounds: RequestLimits;
}

/** Rejects with an `ApiProblem` if the question is invalid. */
export async function answerCheck(
  call: HttpCall,
  asker: HttpAsker,
  options: CheckEndpointOptions,
): Promise<void> {
  const bytes = await readPost(call, options);
  if (bytes instanceof RequestTooLarge) return answerTooLarge(call, bytes, options);
  const decision = await options.decide(readCheckBody(bytes, asker), asker);
  if ('failure' in decision) throw problemOf(decision.failure);
  const { code, descriptors, headers, tooLarge, warnings } = decision;
  for (const [name, value] of headers) call.response.setHeader(name, value);
  if (tooLarge !== undefined) writeTooLarge(call.response, tooLarge);
  const body = { code, descriptors: descriptors.map(answerJson), ...(warnings && { warnings }) };
  sendJson(call.response, code === 'OVER_LIMIT' ? 429 : 200, body);
}

/** Answers a body that was not decoded. */
async function answerTooLarge(
  call: HttpCall,
  error: RequestTooLarge,
  { tooLarge }: CheckEndpointOptions,
): Promise<void> {
  const answer = tooLarge.answer(error, originOf(call.request));
  if (!('overallCode' in answer)) throw problemOfBody(error);
  writeTooLarge(call.response, error.message);
  await answerUnread(call, answer.overallCode);
}

/** Answers a request that exceeds the rate of its caller, for this `reason`. The body is not read. */
export function answerExcessCheck(call: HttpCall, excess: ExcessResponses, reason: string): Promise<void> {
  const code = excess.code();
  writeDetail(call.response, reason);
  if (code === Code.OVER_LIMIT) call.response.setHeader('Retry-After', retryAfterSeconds);
  return answerUnread(call, code);
}

function answerUnread(call: HttpCall, code: Code): Promise<void> {
  const isOver = code === Code.OVER_LIMIT;
  const body = `${JSON.stringify({ code: isOver ? 'OVER_LIMIT' : 'OK', descriptors: [] })}\n`;
  return endAnswer(call, isOver ? 429 : 200, { 'Content-Type': 'application/json' }, body);
}

export function sendJson(response: ServerResponse, status: number, body: object): void {
  const text = `${JSON.stringify(body)}\n`;
  response.writeHead(status, {
    'Content-Type': 'application/json',
    'Content-Length': Buffer.byteLength(text),
  });
  response.end(text);
}

export type PostOptions = Pick<CheckEndpointOptions, 'bounds' | 'tooLarge' | 'maxBodyBytes'>;

/** Returns the problem of a body that is longer than REQUEST_MAX_BYTES or HTTP_MAX_BODY_BYTES. */
export function problemOfBody(error: RequestTooLarge): ApiProblem {
  return new ApiProblem(error.setting === 'HTTP_MAX_BODY_BYTES' ? 413 : 400, error.message);
}

/** Reads the body of a POST when the request's turn comes. Rejects with an `ApiProblem`. */
export async function readPost(call: HttpCall, options: PostOptions): Promise<Uint8Array | RequestTooLarge> {
  const body = await bodyOf(call, options);
  if (body instanceof Uint8Array) await new Promise<void>((due) => call.memory.whenDue(body.length, due));
  return body;
}

async function bodyOf(
  call: HttpCall,
  { bounds, maxBodyBytes }: PostOptions,
): Promise<Uint8Array | RequestTooLarge> {
  const setting = 'HTTP_MAX_BODY_BYTES';
  const storedBytes = bounds.maxBytes;
  try {
    const body = await readJsonBody(call, { bytes: maxBodyBytes, setting, storedBytes });
    return body instanceof Uint8Array ? body : tooManyBytes(body.droppedBytes, bounds);
  } catch (error) {
    if (error instanceof ApiProblem && error.status === 413)
      return new RequestTooLarge(setting, error.message);
    throw error;
  }
}

function answerJson({ code, rule, limit, used, left, resetSeconds, warnings }: DescriptorAnswer): object {
  return {
    code,
    rule: rule ?? null,
    limit: limit === undefined ? null : limitJson(limit),
    used: used ?? null,
    left: left ?? null,
    reset: resetSeconds ?? null,
    ...(warnings.length === 0 ? {} : { warnings }),
  };
}
