import './node-version.ts';
import type { Limiter } from './api.ts';
import { createGate, type MiddlewareOptions, type RequestView } from './middleware.ts';

/** The properties of a request that the hook reads. */
export interface AskedRequest extends RequestView {
  /** Node's request, from which Fastify takes the address. */
  readonly raw?: object | undefined;
}

/**
 * The properties that Fastify's requests have in all versions, so that no types of Fastify are needed. Annotate `describe` with
 * your type for more.
 */
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
    // Fastify passes its own objects, whatever types the options are written for.
    const passage = await decide(request as Request, reply as Reply);
    // The request continues unless a hook returns the reply.
    return passage === 'answered' ? reply : undefined;
  };
}

/**
 * Returns whether Fastify trusts all proxies. Fastify does not report its option `trustProxy`. So the hook asks it for the client
 * of a request through more proxies than any deployment has, all with documentation addresses (RFC 5737). Only a Fastify that
 * trusts all of them returns the first address.
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
