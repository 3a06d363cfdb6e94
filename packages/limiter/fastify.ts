import type { Limiter } from './api.ts';
import { createGate, type MiddlewareOptions, type RequestView } from './middleware.ts';

/** What the hook reads of a request. */
export interface AskedRequest extends RequestView {
  /** Of Node, which Fastify takes the address from. */
  readonly raw?: object | undefined;
}

/** What Fastify's requests have in all versions, so that none of its types is needed. Annotate `describe` with yours for more. */
export interface FastifyRequest extends AskedRequest {
  readonly method: string;
  readonly url: string;
  readonly params: unknown;
  readonly query: unknown;
  readonly body: unknown;
}

export interface FastifyReply {
  readonly sent?: boolean | undefined;
  header(name: string, value: string): unknown;
  code(code: number): { send(body: object): unknown };
}

/** A hook for Fastify: `app.addHook('preHandler', limitRequests(limiter, 'shop'))`. */
export function limitRequests<
  Request extends AskedRequest = FastifyRequest,
  Reply extends FastifyReply = FastifyReply,
>(
  limiter: Limiter,
  domain: string,
  options: MiddlewareOptions<Request, Reply> = {},
): (request: AskedRequest, reply: object) => Promise<unknown> {
  const decide = createGate(limiter, domain, options, {
    setHeader: (reply, name, value) => void reply.header(name, value),
    answer: (reply, status, body) => void reply.code(status).send(body),
    isAnswered: ({ sent }) => sent === true,
    trustsAnybody,
  });
  return async (request, reply) => {
    // Fastify hands over its own, whatever type of them the options are written for.
    const passage = await decide(request as Request, reply as Reply);
    // It continues unless a hook returns the reply.
    return passage === 'answered' ? reply : undefined;
  };
}

/**
 * Fastify does not report its option `trustProxy`, so it is asked for the client of a request that came through more proxies than
 * anybody has, all of addresses that are for documents (RFC 5737): only who trusts all of them believes in the first.
 */
function trustsAnybody(request: AskedRequest): boolean {
  const first = '192.0.2.1';
  const proxies = Array.from({ length: 64 }, (_, n) => `198.51.100.${n + 1}`);
  const raw = {
    headers: { 'x-forwarded-for': [first, ...proxies].join(', ') },
    socket: { remoteAddress: '203.0.113.1' },
  };
  const asked: AskedRequest = Object.create(request, { raw: { value: raw } });
  return asked.ip === first;
}
