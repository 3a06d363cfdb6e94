/** The common parts of `/v1` paths on every listener: a JSON body as input, and a problem (RFC 9457) as an answer. */
import { bearerChallenge } from '../net/bearer-token.ts';
import { ApiProblem, shown } from './api-route.ts';
import { bytesOfPiece, freePieces } from './http-connection.ts';
import type { HttpCall } from './http-server.ts';
import { STATUS_CODES } from './node-http.ts';
import { discardBody, readBody } from './request-body.ts';

/** Chosen: the time for which the unwanted rest of a body is received. */
const discardMs = 2_000;
/** Chosen: an unread body of this length is dropped while it arrives, and the connection stays open. */
const droppedBytes = 64 * 1024;

export interface JsonBodyBounds {
  readonly bytes: number;
  /** The setting with this bound. */
  readonly setting: string;
  /** A longer body is not stored while it arrives. Defaults to `bytes`. */
  readonly storedBytes?: number;
}

/**
 * Returns the bytes of a JSON body. No other type is accepted, because a browser asks first before a foreign page may send this one.
 * Throws an `ApiProblem`, with 413 if the body is too long.
 */
export async function readJsonBody(
  { request, memory }: HttpCall,
  { bytes: maxBytes, setting, storedBytes = maxBytes }: JsonBodyBounds,
): Promise<Uint8Array | { droppedBytes: number }> {
  const type = request.headers['content-type'] ?? '';
  if (!/^application\/json\s*(;|$)/i.test(type)) {
    throw new ApiProblem(415, `the body must be application/json (Content-Type), not ${shown(type)}`);
  }
  const body = await readBody(request, { maxBytes, storedBytes, memory });
  switch (body.kind) {
    case 'whole':
      return body.bytes;
    case 'dropped':
      return { droppedBytes: body.length };
    case 'tooManyPieces':
      throw new ApiProblem(
        400,
        `the body arrives in more than ${freePieces} pieces and one for every ${bytesOfPiece} bytes`,
      );
    case 'givenUp':
      throw new ApiProblem(503, 'unfinished requests use all of CONNECTIONS_MAX_BYTES');
    case 'aborted':
      throw new ApiProblem(400, 'the body ended early');
    case 'tooLong':
      throw new ApiProblem(413, `the body is longer than ${maxBytes} bytes (${setting})`);
  }
}

export function parseJson(bytes: Uint8Array): unknown {
  try {
    return JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(bytes));
  } catch (error) {
    throw new ApiProblem(400, `the body is not JSON: ${(error as Error).message}`);
  }
}

export async function sendProblem(
  call: HttpCall,
  { status, message: detail, members }: ApiProblem,
): Promise<void> {
  const { request, response } = call;
  if (response.destroyed) return;
  if (status === 401) response.setHeader('WWW-Authenticate', bearerChallenge(request.headers.authorization));
  if (status === 415) response.setHeader('Accept', 'application/json');
  const { retryAfterSeconds } = members;
  if (retryAfterSeconds !== undefined) response.setHeader('Retry-After', `${retryAfterSeconds}`);
  const title = STATUS_CODES[status] ?? 'Error';
  const body = `${JSON.stringify({ type: 'about:blank', title, status, detail, ...members })}\n`;
  await endAnswer(call, status, { 'Content-Type': 'application/problem+json' }, body);
}

/** Answers a request whose body may be unread. The body is dropped, or the connection ends. */
export async function endAnswer(
  { request, response, memory }: HttpCall,
  status: number,
  headers: Readonly<Record<string, string>>,
  body = '',
): Promise<void> {
  const { 'content-length': length = 0, 'transfer-encoding': coding } = request.headers;
  const isUnread = request.readableFlowing === null && coding === undefined;
  const goesOn = request.complete || (isUnread && Number(length) <= droppedBytes);
  // The unread rest would be taken for the next request.
  if (!goesOn) response.setHeader('Connection', 'close');
  response.writeHead(status, { ...headers, 'Content-Length': Buffer.byteLength(body) });
  if (goesOn) {
    response.end(body);
    return;
  }
  if (body === '') response.flushHeaders();
  else response.write(body);
  await discardBody(request, { longestMs: discardMs, memory });
  response.end();
}
