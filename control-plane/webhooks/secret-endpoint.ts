/** `GET /v1/webhooks/default/secret`: the signing secret, for whoever has the token. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { bearerChallenge, bearerToken, isSameToken } from '../../process/bearer-token.ts';
import type { HttpCall } from '../../process/http/http-server.ts';
import { sendError, sendNotFound } from '../../process/http/text-response.ts';

export const secretPath = '/v1/webhooks/default/secret';

/** Comes before everything else about a request: whoever has no token learns nothing, not even which paths there are. */
export function admit(request: IncomingMessage, response: ServerResponse, token: string): boolean {
  response.setHeader('Cache-Control', 'no-store');
  const given = bearerToken(request.headers.authorization);
  if (given !== undefined && isSameToken(given, token)) return true;
  response.setHeader('WWW-Authenticate', bearerChallenge(request.headers.authorization));
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
