import type { Limiter } from './api.ts';
import { createGate, type MiddlewareOptions, type RequestView } from './middleware.ts';

/** What is used of Fastify's, so that no version of its types is needed. */
export interface FastifyRequest extends RequestView {
  /** Of Node, which Fastify takes the address from. */
  readonly raw?: object | undefined;
}

export interface FastifyReply {
  readonly sent?: boolean | undefined;
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
    isAnswered: ({ sent }) => sent === true,
    trustsAnybody,
  });
  // Fastify goes on unless a hook gives the reply back.
  return async (request, reply) => ((await decide(request, reply)) === 'answered' ? reply : undefined);
}

/**
 * Fastify does not tell its option `trustProxy`, so it is asked for the client of a request that came through more proxies than
 * anybody has, all of addresses that are for documents (RFC 5737): only who trusts all of them believes in the first.
 */
function trustsAnybody(request: FastifyRequest): boolean {
  const first = '192.0.2.1';
  const proxies = Array.from({ length: 64 }, (_, n) => `198.51.100.${n + 1}`);
  const raw = {
    headers: { 'x-forwarded-for': [first, ...proxies].join(', ') },
    socket: { remoteAddress: '203.0.113.1' },
  };
  const asked: FastifyRequest = Object.create(request, { raw: { value: raw } });
  return asked.ip === first;
}
