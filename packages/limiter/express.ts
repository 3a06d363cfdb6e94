import './node-version.ts';
import type { Limiter, Value } from './api.ts';
import { createGate, type MiddlewareOptions, type RequestView } from './middleware.ts';

/** The properties of a request that the middleware reads. Other frameworks have them, too. */
export interface AskedRequest extends RequestView {
  readonly app?: { get(setting: string): unknown } | undefined;
}

/**
 * The properties that Express's requests have in all versions, so that no types of Express are needed. Annotate `describe` with
 * your type for more.
 */
export interface ExpressRequest extends AskedRequest {
  readonly method: string;
  readonly url: string;
  readonly originalUrl: string;
  readonly path: string;
  readonly params: Readonly<Record<string, Value>>;
  readonly query: Readonly<Record<string, Value>>;
  /** The body, if a body parser set it. */
  readonly body?: Readonly<Record<string, Value>> | undefined;
  get(header: string): string | undefined;
}

export interface ExpressResponse {
  readonly headersSent?: boolean | undefined;
  setHeader(name: string, value: string): unknown;
  status(code: number): { json(body: object): unknown };
}

/** Middleware for Express: `app.use(limitRequests(limiter, 'shop'))`. */
export function limitRequests<
  Request extends AskedRequest = ExpressRequest,
  Response extends ExpressResponse = ExpressResponse,
>(
  limiter: Limiter,
  domain: string,
  options: MiddlewareOptions<Request, Response> = {},
): (request: AskedRequest, response: object, next: (error?: unknown) => void) => void {
  const decide = createGate(limiter, domain, options, {
    setHeader: (response, name, value) => void response.setHeader(name, value),
    answer: (response, status, body) => void response.status(status).json(body),
    isAnswered: ({ headersSent }) => headersSent === true,
    trustsAnybody: (request) => request.app?.get('trust proxy') === true,
  });
  return (request, response, next) => {
    // Express passes its own objects, whatever types the options are written for.
    const decided = decide(request as Request, response as Response).then((passage) => {
      if (passage === 'pass') next();
    });
    // `next` may throw, too. Express then calls its error handlers in the same way.
    decided.catch(next);
  };
}
