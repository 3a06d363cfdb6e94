/** `GET /v1/webhooks/default/secret`: the signing secret, for whoever has the token. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { HttpCall } from '../../process/http/http-server.ts';
import { sendError, sendNotFound } from '../../process/http/text-response.ts';
import { bearerToken, isSameToken } from './api-token.ts';

export const secretPath = '/v1/webhooks/default/secret';

/** Comes before everything else about a request: whoever has no token learns nothing, not even which paths there are. */
export function admit(request: IncomingMessage, response: ServerResponse, token: string): boolean {
  response.setHeader('Cache-Control', 'no-store');
  const given = bearerToken(request.headers.authorization);
  if (given !== undefined && isSameToken(given, token)) return true;
  // RFC 6750, section 3.1: no error code for a request that brings no credentials.
  const isMissing = request.headers.authorization === undefined;
  response.setHeader('WWW-Authenticate', isMissing ? 'Bearer' : 'Bearer error="invalid_token"');
  sendError(response, 401, 'Unauthorized');
  return false;
}

/** `secret` is undefined when webhooks are off: then the path does not exist. */
export function answerSecret({ target, request, response }: HttpCall, secret: string | undefined): void {
  if (target.path !== secretPath || secret === undefined) {
    sendNotFound(response);
  } else if (request.method !== 'GET') {
    response.setHeader('Allow', 'GET');
    sendError(response, 405, 'Method Not Allowed');
  } else {
    const body = JSON.stringify({ key: secret });
    response.writeHead(200, { 'Content-Type': 'application/json', 'Content-Length': body.length });
    response.end(body);
  }
}
