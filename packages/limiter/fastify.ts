import type { Limiter } from './api.ts';
import { createGate, type MiddlewareOptions, type RequestView } from './middleware.ts';

/** What is used of Fastify's, so that no version of its types is needed. */
export interface FastifyRequest extends RequestView {
  readonly server?: { readonly initialConfig?: object } | undefined;
}

export interface FastifyReply {
  header(name: string, value: string): unknown;
  code(code: number): { send(body: object): unknown };
}

/** A hook for Fastify: `app.addHook('preHandler', limitRequests(limiter, 'shop'))`. */
export function limitRequests<
  Request extends FastifyRequest = FastifyRequest,
  Reply extends FastifyReply = FastifyReply,
>(
  limiter: Limiter,
  domain: string,
  options: MiddlewareOptions<Request, Reply> = {},
): (request: Request, reply: Reply) => Promise<unknown> {
  const decide = createGate<Request, Reply>(limiter, domain, options, {
    setHeader: (reply, name, value) => void reply.header(name, value),
    answer: (reply, status, body) => void reply.code(status).send(body),
    trustsAnybody: ({ server }) =>
      (server?.initialConfig as { trustProxy?: unknown } | undefined)?.trustProxy === true,
  });
  // Fastify goes on unless a hook gives the reply back.
  return async (request, reply) => ((await decide(request, reply)) === 'answered' ? reply : undefined);
}
