import { createRequire } from 'node:module';
import type { AddressInfo, Server } from 'node:net';
import fastify, { type FastifyRequest, type InjectOptions } from 'fastify';
import { afterEach, describe, expect, it } from 'vitest';
import type { LimiterEvent, LimiterOptions } from './api.ts';
import { type ExpressRequest, type ExpressResponse, limitRequests as expressLimit } from './express.ts';
import { limitRequests as fastifyLimit } from './fastify.ts';
import { createLimiter } from './index.ts';
import type { MiddlewareOptions, RequestView } from './middleware.ts';

/** Express has no types of its own. */
interface Application {
  set(name: string, value: unknown): void;
  get(
    path: string,
    handler: (request: ExpressRequest, response: { send(body: string): unknown }) => void,
  ): void;
  use(handler: ReturnType<typeof expressLimit>): void;
  use(
    handler: (error: unknown, request: ExpressRequest, response: ExpressResponse, next: unknown) => void,
  ): void;
  listen(port: number, host: string): Server;
}
const express: () => Application = createRequire(import.meta.url)('express');

const rules = {
  domain: 'shop',
  descriptors: ['remote_address', 'account'].map((key) => ({
    key,
    rate_limit: { unit: 'year', requests_per_unit: 1 },
  })),
};

type Asked = (headers?: Record<string, string>, path?: string) => Promise<Response>;
interface Started {
  ask: Asked;
  warnings: () => string[];
}
/** Anything of a request and its answer that both frameworks have. */
interface Request {
  readonly headers: Record<string, string | string[] | undefined>;
  readonly ip?: string | undefined;
  readonly socket: { readonly remoteAddress?: string | undefined };
}
type Options = MiddlewareOptions<Request, { statusCode: number }> & {
  trust?: boolean | string;
  limiter?: Partial<LimiterOptions>;
};

const closing: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0)) await close();
});

async function limiterOf({ limiter: more }: Options) {
  const events: LimiterEvent[] = [];
  const limiter = await createLimiter({ rules, onEvent: (event) => events.push(event), ...more });
  closing.push(() => limiter.close());
  const warnings = () => events.flatMap((event) => (event.type === 'warning' ? [event.message] : []));
  return { limiter, warnings };
}

/** Those of the middleware. */
function own({ trust: _trust, limiter: _limiter, ...options }: Options): object {
  return options;
}

function asking(server: Server | undefined): Asked {
  const { port } = server!.address() as AddressInfo;
  return (headers = {}) => fetch(`http://127.0.0.1:${port}/`, { headers });
}

const frameworks: Record<string, (options: Options) => Promise<Started>> = {
  async Express(options) {
    const { limiter, warnings } = await limiterOf(options);
    const app = express();
    app.set('trust proxy', options.trust ?? false);
    app.use(expressLimit(limiter, 'shop', own(options)));
    app.get('/', (_request, response) => void response.send('hello'));
    const failed = (_error: unknown, _request: ExpressRequest, response: ExpressResponse, _next: unknown) =>
      void response.status(500).json({});
    app.use(failed);
    const server = app.listen(0, '127.0.0.1');
    closing.push(() => server.close());
    await new Promise((listening) => server.once('listening', listening));
    return { ask: asking(server), warnings };
  },
  async Fastify(options) {
    const { limiter, warnings } = await limiterOf(options);
    const app = fastify({ trustProxy: options.trust ?? false });
    app.addHook('preHandler', fastifyLimit(limiter, 'shop', own(options)));
    app.get('/', async () => 'hello');
    await app.listen({ port: 0, host: '127.0.0.1' });
    closing.push(() => app.close());
    return { ask: asking(app.server), warnings };
  },
};

describe.each(Object.entries(frameworks))('middleware for %s', (_name, start) => {
  it('counts clients by their addresses, and sets the standard headers', async () => {
    const { ask, warnings } = await start({});
    const first = await ask();
    expect([first.status, await first.text()]).toEqual([200, 'hello']);
    expect(first.headers.get('ratelimit-remaining')).toBe('0');
    const second = await ask();
    expect([second.status, await second.json()]).toEqual([429, { error: 'too many requests' }]);
    expect(Number(second.headers.get('retry-after'))).toBeGreaterThan(0);
    expect(warnings()).toEqual([]);
  });

  it('describes requests later, skips some, and lets others answer', async () => {
    const { ask } = await start({
      describe: async ({ headers }) =>
        headers['account'] === undefined ? undefined : { account: headers['account'] },
      skip: ({ headers }) => headers['skip'] === 'yes',
      onLimited: (_request, response, { reason }) => {
        response.statusCode = reason === 'limit' ? 420 : 500;
        (response as unknown as { send(body: string): void; end(): void }).send('later');
      },
    });
    const statuses = [];
    for (const headers of [{}, {}, { account: 'a' }, { account: 'a', skip: 'yes' }, { account: 'a' }])
      statuses.push((await ask(headers as Record<string, string>)).status);
    expect(statuses).toEqual([200, 200, 200, 200, 420]);
  });

  it.each([
    ['allow', 200],
    ['deny', 503],
    ['throw', 500],
  ] as const)('does with errors what it is sent: %s', async (onError, status) => {
    const describe = () => {
      throw new Error('broken');
    };
    const { ask, warnings } = await start({ onError, describe });
    for (const _ of [1, 2]) expect((await ask()).status).toBe(status);
    const reported = [expect.stringContaining('because its decision failed: broken.')];
    expect(warnings()).toEqual(onError === 'throw' ? [] : reported);
  });

  it('answers 503 if the store fails and no request may pass', async () => {
    const store = { redis: '127.0.0.1:1', timeoutMs: 20 };
    const { ask } = await start({ limiter: { store, onError: 'deny' } });
    expect((await ask()).status).toBe(503);
  });

  it('counts an IPv6 client by its network', async () => {
    const { ask, warnings } = await start({ trust: 'loopback' });
    const from = async (address: string) => (await ask({ 'X-Forwarded-For': address })).status;
    expect(await from('2001:db8:1:200::1')).toBe(200);
    expect(await from('2001:db8:1:2ff::2')).toBe(429);
    expect(await from('2001:db8:1:300::1')).toBe(200);
    expect(await from('::ffff:192.0.2.1')).toBe(200);
    expect(await from('192.0.2.1')).toBe(429);
    expect(warnings()).toEqual([]);
  });

  it('warns once of addresses that clients choose, and of a proxy that is not trusted', async () => {
    const byHeader = await start({
      describe: ({ headers }) => ({ remote_address: headers['x-forwarded-for'] }),
    });
    for (const _ of [1, 2]) await byHeader.ask({ 'X-Forwarded-For': '192.0.2.1' });
    expect(byHeader.warnings()).toEqual([
      expect.stringMatching(/^an address is read from the header x-forwarded-for/),
    ]);
    const shared = await start({});
    await shared.ask({ 'X-Forwarded-For': '192.0.2.1' });
    expect(shared.warnings()).toEqual([expect.stringMatching(/all its clients share one counter/)]);
  });

  it('warns of a framework that takes every proxy’s word, and of no other', async () => {
    const from = { 'X-Forwarded-For': '192.0.2.1' };
    const believing = await start({ trust: true });
    for (const _ of [1, 2]) await believing.ask(from);
    expect(believing.warnings()).toEqual([expect.stringMatching(/^every proxy is trusted/)]);
    const careful = await start({ trust: 'loopback' });
    await careful.ask(from);
    expect(careful.warnings()).toEqual([]);
  });

  it('checks its options', async () => {
    await expect(start({ ipv6Prefix: 0 })).rejects.toThrow('ipv6Prefix is from 1 to 128, not 0');
    await expect(start({ onError: 'x' as 'deny' })).rejects.toThrow('onError is allow, deny or throw, not x');
  });
});

const response = { setHeader: () => {}, status: () => ({ json: () => {} }) };

function passes(limit: ReturnType<typeof expressLimit>, request: RequestView): Promise<boolean> {
  return new Promise((resolve) => {
    const refused = () => ({ json: () => resolve(false) });
    limit(request, { ...response, status: refused }, () => resolve(true));
  });
}

describe('middleware', () => {
  it('is described with the request of the framework', async () => {
    const { limiter } = await limiterOf({});
    const app = fastify();
    const byPath = fastifyLimit(limiter, 'shop', { describe: ({ url }) => ({ account: url }) });
    const byBody = fastifyLimit(limiter, 'shop', {
      describe: ({ body }: FastifyRequest<{ Body: { account: string } }>) => ({ account: body.account }),
    });
    app.get('/a', { preHandler: byPath }, async () => 'ok');
    app.post('/b', { preHandler: byBody }, async () => 'ok');
    const statusOf = async (request: InjectOptions) => (await app.inject(request)).statusCode;
    expect([await statusOf({ url: '/a' }), await statusOf({ url: '/a' })]).toEqual([200, 429]);
    const post = { method: 'POST', url: '/b', payload: { account: '/a' } } as const;
    expect(await statusOf(post)).toBe(429);
    await app.close();
  });

  it('has no other options', async () => {
    const { limiter } = await limiterOf({});
    const misspelled: object = { descibe: () => undefined };
    expect(() => expressLimit(limiter, 'shop', misspelled)).toThrow(
      "limitRequests has no option 'descibe'; it has describe, skip, onLimited, onError, ipv6Prefix",
    );
    const wrong: object = { describe: 5 };
    expect(() => expressLimit(limiter, 'shop', wrong)).toThrow('describe is a function, not number');
  });

  it('needs a limiter and a domain', async () => {
    const { limiter } = await limiterOf({});
    const open: unknown = createLimiter({ rules });
    const none: unknown = undefined;
    const express = (...given: [limiter: unknown, domain: unknown]) =>
      expressLimit(given[0] as typeof limiter, given[1] as string);
    const fastify = (...given: [limiter: unknown, domain: unknown]) =>
      fastifyLimit(given[0] as typeof limiter, given[1] as string);
    for (const limit of [express, fastify]) {
      expect(() => limit(open, 'shop')).toThrow('await its promise first');
      expect(() => limit(none, 'shop')).toThrow('limitRequests takes a limiter');
      expect(() => limit(limiter, none)).toThrow('domain is text, not undefined');
    }
    await ((await open) as typeof limiter).close();
  });

  it('warns of a header that is counted as it came, whole or in part', async () => {
    for (const taken of ['192.0.2.7, 192.0.2.8', '192.0.2.8', ['192.0.2.7']]) {
      const { limiter, warnings } = await limiterOf({});
      const limit = expressLimit(limiter, 'shop', { describe: () => ({ remote_address: taken }) });
      const headers = { 'x-forwarded-for': '192.0.2.7, 192.0.2.8' };
      expect(await passes(limit, { headers, ip: '192.0.2.1' })).toBe(true);
      expect(warnings()).toEqual([
        expect.stringMatching(/^an address is read from the header x-forwarded-for/),
      ]);
    }
  });

  it('rejects a description that is none', async () => {
    const { limiter } = await limiterOf({});
    const nothing: unknown = null;
    const limit = expressLimit(limiter, 'shop', { describe: () => nothing as undefined, onError: 'deny' });
    expect(await passes(limit, { headers: {}, ip: '192.0.2.1' })).toBe(false);
  });
});

describe('middleware of a framework without addresses of its own', () => {
  it('takes the address of the socket', async () => {
    const { limiter, warnings } = await limiterOf({});
    const limit = expressLimit(limiter, 'shop');
    const by = (remoteAddress: string) => passes(limit, { headers: {}, socket: { remoteAddress } });
    expect([await by('192.0.2.1'), await by('192.0.2.1'), await by('192.0.2.2')]).toEqual([
      true,
      false,
      true,
    ]);
    expect(warnings()).toEqual([]);
  });

  it('warns once if there is none', async () => {
    const { limiter, warnings } = await limiterOf({});
    const limit = expressLimit(limiter, 'shop');
    for (const allowed of [true, false])
      expect(await passes(limit, { headers: {}, socket: {} })).toBe(allowed);
    expect(warnings()).toEqual([expect.stringMatching(/^requests come without an address/)]);
  });

  it('adds nothing to an answer that was given meanwhile', async () => {
    const { limiter } = await limiterOf({});
    const reported: string[] = [];
    const late = {
      ...{ headersSent: true, sent: true },
      ...{ setHeader: () => void reported.push('header'), header: () => void reported.push('header') },
      ...{ status: () => ({ json: () => void reported.push('json') }), code: () => ({ send: () => {} }) },
    };
    const request = { headers: {}, ip: '192.0.2.9' };
    expressLimit(limiter, 'shop')(request, late, () => void reported.push('next'));
    expect(await fastifyLimit(limiter, 'shop')(request, late)).toBe(late);
    expect(reported).toEqual([]);
  });

  it('hands on what comes next throws', async () => {
    const { limiter } = await limiterOf({});
    const limit = expressLimit(limiter, 'shop', { skip: () => true });
    const error = new Error('next');
    const handed = await new Promise((resolve) => {
      limit({ headers: {} }, response, (given) => {
        if (given === undefined) throw error;
        resolve(given);
      });
    });
    expect(handed).toBe(error);
  });
});
