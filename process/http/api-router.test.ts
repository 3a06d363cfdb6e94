import { connect } from 'node:net';
import { afterEach, describe, expect, it } from 'vitest';
import { eventually } from '../../test/support/eventually.ts';
import { type HttpAnswer, httpAsk } from '../../test/support/http-ask.ts';
import { ManualClock } from '../../test/support/manual-clock.ts';
import { type ApiCaller, ApiGuard, type ApiGuardOptions, type ApiRejection } from './api-guard.ts';
import { type ApiRoute, checkDomain, domainOf } from './api-route.ts';
import { ApiRouter } from './api-router.ts';
import { HttpServer } from './http-server.ts';

const cleanups: (() => unknown)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

const token = 'a-token-of-the-debug-listener';
/** Callers by the whole field. */
const callers: Record<string, { name: string; rights: string[]; domains: string[] }> = {
  'Bearer reader.x': { name: 'reader', rights: ['read'], domains: ['shop'] },
  'Bearer admin.x': { name: 'admin', rights: ['read', 'admin'], domains: ['shop'] },
  'Bearer asker.x': { name: 'asker', rights: [], domains: ['shop'] },
};

const findCaller: NonNullable<ApiGuardOptions['caller']> = (_, authorization) => {
  if (authorization === 'Bearer busy.x') return { rejected: 429, detail: 'asks too often' };
  const found = callers[authorization];
  if (found === undefined) return { rejected: 401, detail: 'the token does not belong to a caller' };
  const caller: ApiCaller = {
    name: found.name,
    hasRight: (right) => found.rights.includes(right),
    hasDomain: (domain) => found.domains.includes(domain),
  };
  return caller;
};

const route = (method: ApiRoute['method'], answer: ApiRoute['answer']): ApiRoute => ({
  method,
  path: '/v1/things',
  right: method === 'GET' ? 'read' : 'admin',
  parameters: ['domain', 'entry'],
  answer,
});

const routes: ApiRoute[] = [
  route('GET', async (call) => ({ body: { domain: domainOf(call, 'read'), by: call.actor.name } })),
  route('POST', async ({ body, actor }) => {
    checkDomain(actor, (body as { domain: string }).domain, 'admin');
    return { status: 201, body: { got: body, claims: actor.claims } };
  }),
  route('DELETE', async () => {
    throw new Error('secret reason');
  }),
  { ...route('GET', async () => ({ lines: ['{"many":[', '1,', '2]}'] })), path: '/v1/lines' },
];

interface Fixture {
  port: number;
  clock: ManualClock;
  refused: ApiRejection[];
  faults: string[];
  ask(
    path: string,
    options?: Parameters<typeof httpAsk>[2],
  ): Promise<HttpAnswer & { json: Record<string, unknown> }>;
}

async function start(options: Partial<ApiGuardOptions> = {}): Promise<Fixture> {
  const clock = new ManualClock();
  const refused: ApiRejection[] = [];
  const faults: string[] = [];
  const guard = new ApiGuard({
    token: () => undefined,
    hosts: { machine: 'Node-1.example', allowed: ['ops.example'], setting: 'DEBUG_ALLOWED_HOSTS' },
    noChanges: undefined,
    clock,
    onRejected: (one) => refused.push(one),
    ...options,
  });
  const router = new ApiRouter({
    guard,
    routes,
    maxBodyBytes: { bytes: 1_000, setting: 'MAX_BODY' },
    onFault: (error) => faults.push(String(error)),
  });
  const server = new HttpServer({
    serve: (call) => router.answer(call),
    closeGraceMs: 0,
    onFault: (error) => faults.push(`beyond: ${error}`),
  });
  const { port } = await server.listen({ host: '127.0.0.1', port: 0 });
  cleanups.push(() => server.close());
  return {
    ...{ port, clock, refused, faults },
    ask: async (path, asked) => {
      const answer = await httpAsk(port, path, asked);
      return { ...answer, json: answer.body === '' ? {} : JSON.parse(answer.body) };
    },
  };
}

const post = (body: string, headers: Record<string, string> = {}) => ({
  method: 'POST',
  headers: { 'content-type': 'application/json', ...headers },
  body,
});
const bearer = (value: string) => ({ authorization: `Bearer ${value}` });
const thing = '/v1/things?domain=shop';

describe('permitted callers', () => {
  const noChanges = 'set DEBUG_TOKEN_FILE or CALLERS_FILE';
  const table: [
    setup: string,
    options: Partial<ApiGuardOptions>,
    rows: [who: string, read: number, change: number, other: number][],
  ][] = [
    [
      'neither token nor callers, on loopback',
      {},
      [
        ['', 200, 201, 200],
        ['Bearer anything', 200, 201, 200],
      ],
    ],
    [
      'neither token nor callers, elsewhere',
      { noChanges },
      [
        ['', 200, 403, 200],
        ['Bearer anything', 200, 403, 200],
      ],
    ],
    [
      'a token',
      { token: () => token, noChanges },
      [
        ['', 401, 401, 401],
        [`Bearer ${token}`, 200, 201, 200],
        [`bearer  ${token}`, 200, 201, 200],
        [`Basic ${token}`, 401, 401, 401],
        [`Bearer ${token}x`, 401, 401, 401],
        ['Bearer admin.x', 401, 401, 401],
      ],
    ],
    [
      'callers',
      { caller: findCaller },
      [
        ['', 401, 401, 401],
        [`Bearer ${token}`, 401, 401, 401],
        ['Bearer reader.x', 200, 403, 403],
        ['Bearer admin.x', 200, 201, 403],
        ['Bearer asker.x', 403, 403, 403],
        ['Bearer busy.x', 429, 429, 429],
      ],
    ],
    [
      'token and callers',
      { caller: findCaller, token: () => token, noChanges },
      [
        ['', 401, 401, 401],
        [`Bearer ${token}`, 200, 201, 200],
        ['Bearer reader.x', 200, 403, 403],
        ['Bearer admin.x', 200, 201, 403],
      ],
    ],
  ];
  for (const [setup, options, rows] of table) {
    it.each(rows)(
      `with ${setup}: "%s" reads %i, changes %i, reads another domain %i`,
      async (who, read, change, other) => {
        const { ask } = await start(options);
        const headers: Record<string, string> = who === '' ? {} : { authorization: who };
        expect((await ask(thing, { headers })).status).toBe(read);
        const changed = await ask('/v1/things', post('{"domain":"shop"}', headers));
        expect(changed.status).toBe(change);
        if (change === 401) expect(changed.headers['www-authenticate']).toMatch(/^Bearer/);
        expect((await ask('/v1/things?domain=other', { headers })).status).toBe(other);
      },
    );
  }

  it('says what to set if no changes are allowed', async () => {
    const { ask, refused } = await start({ noChanges });
    expect((await ask('/v1/things', post('{}'))).json).toEqual({
      type: 'about:blank',
      title: 'Forbidden',
      status: 403,
      detail: noChanges,
    });
    expect(refused).toMatchObject([{ reason: 'permission_denied', detail: noChanges }]);
  });

  it('says where rights are given to a caller who lacks one', async () => {
    const { ask, refused } = await start({ caller: findCaller });
    const { json } = await ask('/v1/things', post('{"domain":"shop"}', bearer('reader.x')));
    const detail = 'caller reader does not have the right admin: CALLERS_FILE grants rights';
    expect(json['detail']).toBe(detail);
    expect(refused).toMatchObject([{ detail }]);
    expect((await ask('/v1/things?domain=other', { headers: bearer('reader.x') })).json['detail']).toBe(
      'caller reader does not have the right read for the domain "other": CALLERS_FILE grants rights and domains',
    );
  });

  it('takes two tokens in one request for none', async () => {
    const { port } = await start({ token: () => token });
    const socket = connect(port, '127.0.0.1');
    cleanups.push(() => socket.destroy());
    const field = `Authorization: Bearer ${token}\r\n`;
    socket.write(`GET ${thing} HTTP/1.1\r\nHost: 127.0.0.1\r\n${field}${field}\r\n`);
    const answer = await new Promise<string>((resolve) =>
      socket.once('data', (bytes) => resolve(`${bytes}`)),
    );
    expect(answer).toContain('401 Unauthorized');
  });

  it('slows down callers that guess, and never those with the token', async () => {
    const { ask, clock, refused } = await start({ token: () => token });
    const guess = async () => (await ask(thing, { headers: bearer('wrong') })).status;
    for (let i = 0; i < 5; i++) expect(await guess()).toBe(401);
    const slowed = await ask(thing, { headers: bearer('wrong') });
    expect(slowed).toMatchObject({ status: 429, headers: { 'retry-after': '1' } });
    expect((await ask(thing, { headers: bearer(token) })).status).toBe(200);
    expect((await ask(thing)).status).toBe(401);
    clock.ms += 1_000;
    expect(await guess()).toBe(401);
    expect(JSON.stringify(refused)).not.toContain('wrong"');
  });

  it('says no more of what is there than that it wants a token', async () => {
    const { ask } = await start({ token: () => token });
    for (const path of ['/v1/things', '/v1/nothing', '/v1']) expect((await ask(path)).status).toBe(401);
  });

  it('takes what a client says of its user without what could fake a log line, and not too much of it', async () => {
    const { ask } = await start();
    const headers = { 'x-weir-user': `ann@host\t${'x'.repeat(200)}` };
    const { json } = await ask('/v1/things', post('{"domain":"shop"}', headers));
    expect(json['claims']).toBe(`ann@host?${'x'.repeat(119)}`);
  });
});

describe('a page of another place', () => {
  it.each([
    ['127.0.0.1:6070', 200],
    ['[::1]:6070', 200],
    ['10.0.0.1', 200],
    ['localhost', 200],
    ['LocalHost:80', 200],
    ['localhost.', 200],
    ['ops.example:8443', 200],
    ['OPS.example', 200],
    ['rebound.example', 403],
    ['rebound.example:6070', 403],
    ['127.0.0.1.rebound.example', 403],
    ['localhost.rebound.example', 403],
    ['xops.example', 403],
    ['[rebound.example]', 403],
    ['a@127.0.0.1', 403],
  ])('that is known by the name %s gets %i', async (host, status) => {
    const { ask } = await start();
    expect((await ask(thing, { headers: { host } })).status).toBe(status);
  });

  it.each([
    ['http://127.0.0.1:6070', 200],
    ['https://127.0.0.1:6070', 200],
    ['https://ops.example', 200],
    ['http://127.0.0.1:6071', 403],
    ['http://localhost:6070', 403],
    ['http://evil.example', 403],
    ['null', 403],
    ['', 403],
    ['127.0.0.1:6070', 403],
  ])('with the Origin "%s" gets %i, with any token', async (origin, status) => {
    const { ask, refused } = await start({ token: () => token });
    const headers = { origin, host: '127.0.0.1:6070', ...bearer(token) };
    expect((await ask(thing, { headers })).status).toBe(status);
    expect(refused.map(({ reason }) => reason)).toEqual(status === 200 ? [] : ['foreign']);
  });

  it.each([
    ['cross-site', 403],
    ['same-site', 403],
    ['same-origin', 200],
    ['none', 200],
  ])('whose browser says Sec-Fetch-Site: %s gets %i', async (site, status) => {
    const { ask } = await start();
    expect((await ask(thing, { headers: { 'sec-fetch-site': site } })).status).toBe(status);
  });
});

describe('a request', () => {
  it('is answered with JSON that is not cached', async () => {
    const { ask } = await start();
    const answer = await ask(thing);
    expect(answer).toMatchObject({ status: 200, json: { domain: 'shop', by: 'anyone' } });
    expect(answer.headers).toMatchObject({
      'content-type': 'application/json',
      'cache-control': 'no-store',
      'x-content-type-options': 'nosniff',
    });
    expect((await ask('/v1/lines?domain=shop')).json).toEqual({ many: [1, 2] });
    expect(await ask(thing, { method: 'HEAD' })).toMatchObject({ status: 200, body: '' });
  });

  it.each([
    [
      'GET',
      '/v1/nothing',
      404,
      'there is no "/v1/nothing", there are /v1/lines, /v1/openapi.json, /v1/things',
    ],
    ['PATCH', '/v1/things', 405, '/v1/things takes GET, HEAD, POST, DELETE, not "PATCH"'],
    ['OPTIONS', '/v1/things', 405, '/v1/things takes GET, HEAD, POST, DELETE, not "OPTIONS"'],
    ['GET', '/v1/things', 400, 'domain is missing: expected ?domain=<domain>'],
    ['GET', '/v1/things?domian=shop', 400, 'unknown parameter "domian": expected domain, entry'],
    ['GET', '/v1/things?domain=a&domain=b', 400, 'the parameter domain comes more than once'],
    ['GET', '/v1/things?domain=shop&entry=a&entry=b', 200, undefined],
  ])('%s %s is answered with %i', async (method, path, status, detail) => {
    const { ask } = await start();
    const answer = await ask(path, { method });
    expect([answer.status, answer.json['detail']]).toEqual([status, detail]);
    if (status === 200) return;
    expect(answer.headers['content-type']).toBe('application/problem+json');
    if (status === 405) expect(answer.headers.allow).toBe('GET, HEAD, POST, DELETE');
  });

  it.each([
    ['', {}, 'the body is not JSON: Unexpected end of JSON input'],
    ['{"domain":', {}, /^the body is not JSON: /],
    ['{"domain":"shop"} x', {}, /^the body is not JSON: /],
    ['['.repeat(999), {}, /^the body is not JSON: /],
    [
      '{}',
      { 'content-type': 'text/plain' },
      'the body must be application/json (Content-Type), not "text/plain"',
    ],
    ['{}', { 'content-type': 'application/jsonx' }, /must be application\/json/],
    ['{}', { 'content-type': '' }, /must be application\/json/],
    ['a=b', { 'content-type': 'application/x-www-form-urlencoded' }, /must be application\/json/],
    ['x'.repeat(1_001), {}, 'the body is longer than 1000 bytes (MAX_BODY)'],
    ['x'.repeat(1_001), { 'transfer-encoding': 'chunked' }, 'the body is longer than 1000 bytes (MAX_BODY)'],
  ])('with the body %.20s and the headers %o is rejected', async (body, headers, detail) => {
    const { ask, faults } = await start();
    const { json } = await ask('/v1/things', post(body, headers));
    expect(json['detail']).toEqual(typeof detail === 'string' ? detail : expect.stringMatching(detail));
    expect(faults).toEqual([]);
  });

  it('accepts a body whose type names its encoding, and rejects bytes that are no characters', async () => {
    const { ask, port } = await start();
    const type = { 'content-type': 'Application/JSON; charset=utf-8' };
    expect((await ask('/v1/things', post('{"domain":"é"}', type))).json['got']).toEqual({ domain: 'é' });
    const socket = connect(port, '127.0.0.1');
    cleanups.push(() => socket.destroy());
    socket.write(
      'POST /v1/things HTTP/1.1\r\nHost: [::1]\r\nContent-Type: application/json\r\nContent-Length: 3\r\n\r\n',
    );
    socket.write(Buffer.from([0x22, 0xff, 0x22]));
    const answer = await new Promise<string>((resolve) =>
      socket.once('data', (bytes) => resolve(`${bytes}`)),
    );
    expect(answer).toContain('400 Bad Request');
  });

  it('leaves its connection open for the next, rejected or not', async () => {
    const { port } = await start();
    const socket = connect(port, '127.0.0.1');
    cleanups.push(() => socket.destroy());
    let received = '';
    socket.on('data', (bytes) => (received += `${bytes}`));
    const head = (path: string) => `GET ${path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n`;
    socket.write(head('/v1/nothing'));
    await eventually(() => expect(received).toContain('404 Not Found'));
    socket.write(head(thing));
    await eventually(() => expect(received).toContain('200 OK'));
    expect(received).not.toContain('Connection: close');
  });

  it('that meets a fault of ours is shown no more than that', async () => {
    const { ask, faults } = await start();
    const answer = await ask('/v1/things', { method: 'DELETE' });
    expect(answer).toMatchObject({ status: 500, json: { title: 'Internal Server Error' } });
    expect(answer.body).not.toContain('secret reason');
    expect(faults).toEqual(['Error: secret reason']);
  });

  it('gets its path by the name that is whole and clean alone', async () => {
    const { ask } = await start({ token: () => token });
    expect((await ask('/v1//things')).status).toBe(301);
    expect((await ask('/v1%2fthings?domain=shop')).status).toBe(401);
  });
});

describe('two routes', () => {
  it('cannot be the same', () => {
    const guard = {} as ApiGuard;
    const twice = () =>
      new ApiRouter({
        guard,
        routes: [routes[0]!, routes[0]!],
        maxBodyBytes: { bytes: 1, setting: '' },
        onFault: () => {},
      });
    expect(twice).toThrow('two routes for GET /v1/things');
  });
});
