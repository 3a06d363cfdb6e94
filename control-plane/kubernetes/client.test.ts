import { once } from 'node:events';
import { createServer, type IncomingMessage, type RequestListener, type Server } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { KubeConfig } from '@kubernetes/client-node';
import { afterEach, describe, expect, it } from 'vitest';
import { ApiError } from './api.ts';
import { KubernetesClient } from './client.ts';

let server: Server | undefined;
let client: KubernetesClient | undefined;
const sockets: Socket[] = [];
/** What arrived, and its body. */
const requests: { request: IncomingMessage; body: string }[] = [];

afterEach(() => {
  client?.close();
  server?.closeAllConnections();
  server?.close();
  sockets.length = 0;
  requests.length = 0;
});

/** A client of an API that answers so. */
async function clientOf(
  answer: RequestListener,
  user: object = { token: 'secret\n' },
): Promise<KubernetesClient> {
  server = createServer(async (request, response) => {
    let body = '';
    for await (const chunk of request) body += chunk;
    requests.push({ request, body });
    answer(request, response);
  });
  server.on('connection', (socket) => sockets.push(socket));
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const config = new KubeConfig();
  config.loadFromClusterAndUser(
    { name: 'c', server: `http://127.0.0.1:${port}/base`, skipTLSVerify: true },
    { name: 'u', ...user },
  );
  client = new KubernetesClient({ config, userAgent: 'weir-control-plane/1', timeoutMs: 5000 });
  return client;
}

async function failure(promise: Promise<unknown>): Promise<ApiError> {
  const error = await promise.then(
    () => undefined,
    (reason: unknown) => reason,
  );
  expect(error).toBeInstanceOf(ApiError);
  return error as ApiError;
}

const path = '/api/v1/things';

describe('KubernetesClient', () => {
  it('sends method, path, query, body and its identity', async () => {
    const api = await clientOf((_, response) => response.end('{"kind":"Thing"}'));
    const answer = await api.request({
      method: 'PATCH',
      path,
      query: { force: true, fieldManager: 'weir', none: undefined },
      body: { a: 1 },
      contentType: 'application/apply-patch+yaml',
    });
    expect(answer).toEqual({ kind: 'Thing' });
    const { request, body } = requests[0] as (typeof requests)[0];
    expect(request.method).toBe('PATCH');
    expect(request.url).toBe('/base/api/v1/things?force=true&fieldManager=weir');
    expect(body).toBe('{"a":1}');
    expect(request.headers).toMatchObject({
      authorization: 'Bearer secret',
      'user-agent': 'weir-control-plane/1',
      'content-type': 'application/apply-patch+yaml',
      accept: 'application/json',
    });
  });

  it('keeps its connection, and takes another when the server ended it', async () => {
    const api = await clientOf((_, response) => response.end('{}'));
    await api.request({ path });
    await api.request({ path });
    expect(sockets.length).toBe(1);
    sockets[0]?.destroy();
    await api.request({ path });
    expect(sockets.length).toBe(2);
  });

  it('gives the server’s reason and message', async () => {
    const api = await clientOf((_, response) => {
      response.writeHead(429, { 'retry-after': '2' });
      response.end('{"kind":"Status","reason":"TooManyRequests","message":"slow down","code":429}');
    });
    expect(await failure(api.request({ path }))).toMatchObject({
      status: 429,
      reason: 'TooManyRequests',
      message: `GET ${path}: slow down`,
      retryAfterMs: 2000,
    });
  });

  it.each([
    ['404 page not found\n', `GET ${path}: 404 page not found`],
    ['', `GET ${path}: HTTP status 404`],
    [`${'x'.repeat(300)}`, `GET ${path}: ${'x'.repeat(200)}...`],
  ])('accepts a rejection that is no Status object: %j', async (body, message) => {
    const api = await clientOf((_, response) => response.writeHead(404).end(body));
    expect(await failure(api.request({ path }))).toMatchObject({ status: 404, reason: '', message });
  });

  it('rejects an answer that is not JSON', async () => {
    const api = await clientOf((_, response) => response.end('<html>'));
    expect(await failure(api.request({ path }))).toMatchObject({
      status: 0,
      reason: 'Unreadable',
      message: `GET ${path}: the answer is not JSON`,
    });
  });

  it.each([
    ['before the answer', () => {}],
    ['within it', (_: IncomingMessage, response: Parameters<RequestListener>[1]) => void response.write('{')],
  ])('gives up %s when time is up', async (_, answer) => {
    const api = await clientOf(answer);
    expect(await failure(api.request({ path, timeoutMs: 50 }))).toMatchObject({
      status: 0,
      reason: 'Timeout',
      message: `${api.server}: no answer within 50 ms`,
    });
  });

  it('gives up when its caller does', async () => {
    const api = await clientOf(() => controller.abort());
    const controller = new AbortController();
    expect(await failure(api.request({ path, signal: controller.signal }))).toMatchObject({
      reason: 'Aborted',
    });
    expect(await failure(api.request({ path, signal: controller.signal }))).toMatchObject({
      reason: 'Aborted',
    });
  });

  it('says that no server listens', async () => {
    const api = await clientOf((_, response) => response.end('{}'));
    server?.close();
    await once(server as Server, 'close');
    expect(await failure(api.request({ path }))).toMatchObject({
      status: 0,
      reason: 'Unreachable',
      message: `${api.server}: connection refused`,
    });
  });

  it('fails when the connection ends within the answer', async () => {
    const api = await clientOf((_, response) => {
      response.writeHead(200, { 'content-length': '10' });
      response.write('{', () => response.destroy());
    });
    expect(await failure(api.request({ path }))).toMatchObject({ status: 0, reason: 'Unreachable' });
  });

  it('sends nothing again that was answered when the connection is reset within the answer', async () => {
    const api = await clientOf((request, response) => {
      if (request.url === '/base/first') response.end('{}');
      else response.write('{');
    });
    await api.request({ path: '/first' });
    const stream = await api.stream({ path: '/second' });
    // The connection that the first one left.
    expect(sockets).toHaveLength(1);
    const ended = stream.follow(() => {});
    sockets[0]?.resetAndDestroy();
    await ended;
    await new Promise((resolve) => setTimeout(resolve, 50));
    expect(requests.map(({ request }) => request.url)).toEqual(['/base/first', '/base/second']);
  });

  describe('when the server closes an idle connection as a request is sent', () => {
    /** With so many kept connections; each ends with the next request over it, new ones work. */
    async function keeping(connections: number): Promise<KubernetesClient> {
      const kept = new Set<Socket>();
      const waiting: (() => void)[] = [];
      const api = await clientOf((request, response) => {
        if (kept.has(request.socket)) {
          request.socket.resetAndDestroy();
          return;
        }
        kept.add(request.socket);
        if (kept.size > connections) response.end('{}');
        else waiting.push(() => response.end('{}'));
        if (waiting.length === connections) for (const answer of waiting.splice(0)) answer();
      });
      await Promise.all(Array.from({ length: connections }, () => api.request({ path: '/first' })));
      requests.length = 0;
      return api;
    }

    it.each(['GET', 'PUT', 'PATCH', 'DELETE'] as const)('sends a %s again', async (method) => {
      const api = await keeping(1);
      expect(await api.request({ path, method })).toEqual({});
      expect(requests).toHaveLength(2);
    });

    it('does not send a POST again, which might create twice', async () => {
      const api = await keeping(1);
      expect(await failure(api.request({ path, method: 'POST', body: {} }))).toMatchObject({
        reason: 'Unreachable',
      });
      expect(requests).toHaveLength(1);
    });

    it('sends nothing a third time', async () => {
      const api = await keeping(3);
      expect(await failure(api.request({ path }))).toMatchObject({ reason: 'Unreachable' });
      expect(requests).toHaveLength(2);
    });
  });

  it('never shows what a log-in plugin printed', async () => {
    const exec = { command: 'echo', args: ['tok3n'], apiVersion: 'client.authentication.k8s.io/v1' };
    const api = await clientOf((_, response) => response.end('{}'), { exec });
    expect(await failure(api.request({ path }))).toMatchObject({
      reason: 'Credentials',
      message: `cannot log in to ${api.server}: the log-in plugin printed something other than JSON`,
    });
  });

  it('hands over a stream while it comes, and ends it when its consumer does', async () => {
    const api = await clientOf((_, response) => void response.write('{"a":1}\n'));
    const controller = new AbortController();
    const stream = await api.stream({ path, signal: controller.signal });
    const received: unknown[] = [];
    const ended = stream.follow((values) => {
      received.push(...values);
      controller.abort();
    });
    expect(await ended).toBeUndefined();
    expect(received).toEqual([{ a: 1 }]);
  });
});
