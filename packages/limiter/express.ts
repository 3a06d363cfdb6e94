import type { Limiter } from './api.ts';
import { createGate, type MiddlewareOptions, type RequestView } from './middleware.ts';

/** What is used of Express's, so that no version of its types is needed. */
export interface ExpressRequest extends RequestView {
  readonly app?: { get(setting: string): unknown } | undefined;
}

export interface ExpressResponse {
  readonly headersSent?: boolean | undefined;
  setHeader(name: string, value: string): unknown;
  status(code: number): { json(body: object): unknown };
}

/** Middleware for Express: `app.use(limitRequests(limiter, 'shop'))`. */
export function limitRequests<
  Request extends ExpressRequest = ExpressRequest,
  Response extends ExpressResponse = ExpressResponse,
>(
  limiter: Limiter,
  domain: string,
  options: MiddlewareOptions<Request, Response> = {},
): (request: Request, response: Response, next: (error?: unknown) => void) => void {
  const decide = createGate<Request, Response>(limiter, domain, options, {
    setHeader: (response, name, value) => void response.setHeader(name, value),
    answer: (response, status, body) => void response.status(status).json(body),
    isAnswered: ({ headersSent }) => headersSent === true,
    trustsAnybody: (request) => request.app?.get('trust proxy') === true,
  });
  return (request, response, next) => {
    const decided = decide(request, response).then((passage) => {
      if (passage === 'pass') next();
    });
    // What comes next may throw as well; then Express tells its handlers of errors the same way.
    decided.catch(next);
  };
}
