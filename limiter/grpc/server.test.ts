import { connect as connectHttp2 } from 'node:http2';
import { connect as connectTcp } from 'node:net';
import { create, fromBinary, toBinary } from '@bufbuild/protobuf';
import {
  Client,
  type ClientReadableStream,
  credentials,
  type ServiceError,
  status as Status,
} from '@grpc/grpc-js';
import { afterEach, describe, expect, it } from 'vitest';
import {
  HealthCheckRequestSchema,
  HealthCheckResponseSchema,
  HealthListResponseSchema,
  HealthCheckResponse_ServingStatus as ServingStatus,
} from '../../gen/grpc/health/v1/health_pb.ts';
import {
  ServerReflectionRequestSchema,
  ServerReflectionResponseSchema,
} from '../../gen/grpc/reflection/v1/reflection_pb.ts';
import { GrpcCode, type UnaryHandler, type UnaryReply } from '../../process/grpc/handlers.ts';
import { Health } from '../../process/grpc/health.ts';
import { BindError } from '../../process/net/bind.ts';
import { systemClock, systemTimers } from '../../process/time/clock.ts';
import { eventually } from '../../test/support/eventually.ts';
import { machineLoad } from '../../test/support/machine-load.ts';
import { ManualClock } from '../../test/support/manual-clock.ts';
import { reflectionMethods } from '../reflection/reflection.ts';
import { createGrpcServer, type GrpcServer, type GrpcServerOptions } from './server.ts';

const echoPath = '/test.Service/Echo';
const checkPath = '/grpc.health.v1.Health/Check';
const watchPath = '/grpc.health.v1.Health/Watch';
const echo: UnaryHandler = (request, reply) => reply.send(Uint8Array.from(request));

const cleanups: (() => unknown)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

interface Fixture {
  server: GrpcServer;
  health: Health;
  client: Client;
  port: number;
}

async function start(
  options: Partial<GrpcServerOptions> & { handler?: UnaryHandler } = {},
): Promise<Fixture> {
  const { handler = echo, ...rest } = options;
  const health = new Health();
  const server = createGrpcServer({
    unary: new Map([[echoPath, handler]]),
    health,
    clock: systemClock,
    timers: systemTimers,
    random: Math.random,
    shutdownGraceMs: 5_000,
    callsOf: () => ({ record: () => {} }),
    onFault: () => {},
    ...rest,
  });
  const { port } = await server.listen({ host: '127.0.0.1', port: 0 });
  const client = new Client(`127.0.0.1:${port}`, credentials.createInsecure(), {
    'grpc.max_send_message_length': -1,
  });
  cleanups.push(
    () => client.close(),
    () => server.shutdown(),
  );
  return { server, health, client, port };
}

const identity = (bytes: Buffer): Buffer => bytes;

function ask(client: Client, path: string, request: Uint8Array): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    client.makeUnaryRequest(path, identity, identity, Buffer.from(request), (error, reply) => {
      if (error === null) resolve(reply as Buffer);
      else reject(error);
    });
  });
}

async function failure(answer: Promise<unknown>): Promise<{ code: number; details: string }> {
  const error = await answer.then(
    (value) => expect.fail(`answered ${String(value)}`),
    (reason: unknown) => reason as ServiceError,
  );
  return { code: error.code, details: error.details };
}

const serviceNamed = (service: string): Uint8Array =>
  toBinary(HealthCheckRequestSchema, create(HealthCheckRequestSchema, { service }));

async function check(client: Client, service: string): Promise<ServingStatus> {
  return fromBinary(HealthCheckResponseSchema, await ask(client, checkPath, serviceNamed(service))).status;
}

/** A health watch, read one message at a time. */
class WatchReader {
  readonly call: ClientReadableStream<Buffer>;
  readonly #got: (ServingStatus | ServiceError)[] = [];
  #wake = (): void => {};

  constructor(client: Client, service: string) {
    this.call = client.makeServerStreamRequest(
      watchPath,
      identity,
      identity,
      Buffer.from(serviceNamed(service)),
    );
    this.call.on('data', (bytes: Buffer) => this.#push(fromBinary(HealthCheckResponseSchema, bytes).status));
    this.call.on('error', (error) => this.#push(error as ServiceError));
  }

  #push(item: ServingStatus | ServiceError): void {
    this.#got.push(item);
    this.#wake();
  }

  async next(): Promise<ServingStatus | ServiceError> {
    while (this.#got.length === 0) {
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
    return this.#got.shift() as ServingStatus | ServiceError;
  }

  get unread(): number {
    return this.#got.length;
  }
}

describe('unary calls', () => {
  it('carry bytes there and back', async () => {
    const { client } = await start();
    expect(await ask(client, echoPath, Uint8Array.of(1, 2, 3))).toEqual(Buffer.of(1, 2, 3));
    expect(await ask(client, echoPath, new Uint8Array())).toEqual(Buffer.alloc(0));
  });

  it('carry an answer that comes later', async () => {
    const { client } = await start({
      handler: (_, reply) => setImmediate(() => reply.send(Uint8Array.of(7))),
    });
    expect(await ask(client, echoPath, Uint8Array.of(1))).toEqual(Buffer.of(7));
  });

  it('run side by side on one connection', async () => {
    const waiting: UnaryReply[] = [];
    const { client } = await start({
      handler: (request, reply) => {
        if (request[0] === 0) waiting.push(reply);
        else reply.send(Uint8Array.from(request));
      },
    });
    const slow = ask(client, echoPath, Uint8Array.of(0));
    expect(await ask(client, echoPath, Uint8Array.of(5))).toEqual(Buffer.of(5));
    waiting[0]?.send(Uint8Array.of(9));
    expect(await slow).toEqual(Buffer.of(9));
  });

  const messages: Record<string, { message: string; want: string }> = {
    'a plain text': {
      message: 'no rate limit configuration loaded',
      want: 'no rate limit configuration loaded',
    },
    'an empty text': { message: '', want: '' },
    'text beyond ASCII': { message: 'naïve 100 % ✓\n', want: 'naïve 100 % ✓\n' },
    'a lone surrogate': { message: 'a\ud800b', want: 'a\ufffdb' },
    'a text too long for a trailer': { message: 'x'.repeat(100_000), want: `${'x'.repeat(1024)}...` },
  };
  for (const [name, { message, want }] of Object.entries(messages)) {
    it(`fail with ${name} unchanged`, async () => {
      const { client } = await start({
        handler: (_, reply) => reply.fail({ code: GrpcCode.UNKNOWN, message }),
      });
      expect(await failure(ask(client, echoPath, Uint8Array.of(1)))).toEqual({
        code: Status.UNKNOWN,
        details: want,
      });
    });
  }

  it('answer INTERNAL without the reason when the handler throws, and continue', async () => {
    const faults: unknown[] = [];
    const { client } = await start({
      handler: (request, reply) => {
        if (request[0] === 1) throw new Error('secret inside');
        reply.send(Uint8Array.from(request));
      },
      onFault: (method, error) => faults.push([method, (error as Error).message]),
    });
    const want = { code: Status.INTERNAL, details: 'internal error' };
    expect(await failure(ask(client, echoPath, Uint8Array.of(1)))).toEqual(want);
    expect(await ask(client, echoPath, Uint8Array.of(2))).toEqual(Buffer.of(2));
    expect(faults).toEqual([['Echo', 'secret inside']]);
  });

  it('keep the first answer of a handler that answers and then throws', async () => {
    const calls: string[] = [];
    const { client } = await start({
      handler: (_, reply) => {
        reply.send(Uint8Array.of(4));
        throw new Error('late');
      },
      callsOf: (method) => ({ record: () => calls.push(method) }),
    });
    expect(await ask(client, echoPath, Uint8Array.of(1))).toEqual(Buffer.of(4));
    expect(calls).toEqual(['Echo']);
  });

  it('take a message of 4 MiB and reject one that is longer', async () => {
    const { client } = await start({
      handler: (request, reply) => reply.send(Uint8Array.of(request.length >> 20)),
    });
    const limit = 4 * 1024 * 1024;
    expect(await ask(client, echoPath, new Uint8Array(limit))).toEqual(Buffer.of(4));
    const refused = await failure(ask(client, echoPath, new Uint8Array(limit + 1)));
    expect(refused.code).toBe(Status.RESOURCE_EXHAUSTED);
    expect(refused.details).toContain(String(limit));
    expect(await ask(client, echoPath, Uint8Array.of(1))).toEqual(Buffer.of(0));
  });

  it('answer UNIMPLEMENTED for an unknown method', async () => {
    const { client } = await start();
    const { code } = await failure(ask(client, '/test.Service/Nothing', Uint8Array.of(1)));
    expect(code).toBe(Status.UNIMPLEMENTED);
  });

  it('are observed with their method and time, failed ones too', async () => {
    const clock = new ManualClock();
    const calls: [string, number][] = [];
    const { client } = await start({
      clock,
      handler: (request, reply) => {
        clock.ms += 25;
        if (request[0] === 1) throw new Error('x');
        reply.fail({ code: GrpcCode.UNKNOWN, message: 'x' });
      },
      callsOf: (method) => ({ record: (durationMs) => calls.push([method, durationMs]) }),
    });
    await failure(ask(client, echoPath, Uint8Array.of(1)));
    await failure(ask(client, echoPath, Uint8Array.of(2)));
    await failure(ask(client, checkPath, serviceNamed('nobody')));
    await ask(client, '/grpc.health.v1.Health/List', new Uint8Array());
    expect(calls).toEqual([
      ['Echo', 25],
      ['Echo', 25],
      ['Check', 0],
      ['List', 0],
    ]);
  });

  it('survive a caller that goes away before the answer', async () => {
    const replies: UnaryReply[] = [];
    const arrived = new Promise<void>((resolve) => {
      cleanups.push(resolve);
    });
    const { client } = await start({
      handler: (request, reply) => {
        if (request[0] === 1) {
          replies.push(reply);
          void Promise.resolve().then(() => cleanups[0]?.());
        } else reply.send(Uint8Array.of(2));
      },
    });
    const cancelled = new Promise<number>((resolve) => {
      const call = client.makeUnaryRequest(echoPath, identity, identity, Buffer.of(1), (error) =>
        resolve(error?.code ?? -1),
      );
      void arrived.then(() => call.cancel());
    });
    expect(await cancelled).toBe(Status.CANCELLED);
    await ask(client, echoPath, Uint8Array.of(0));
    replies[0]?.send(Uint8Array.of(9));
    expect(await ask(client, echoPath, Uint8Array.of(0))).toEqual(Buffer.of(2));
  });
});

describe('health', () => {
  it('follows the process under both names', async () => {
    const { client, health } = await start();
    for (const service of ['', 'ratelimit']) expect(await check(client, service)).toBe(ServingStatus.SERVING);
    health.set('redis', false);
    for (const service of ['', 'ratelimit']) {
      expect(await check(client, service)).toBe(ServingStatus.NOT_SERVING);
    }
    health.set('redis', true);
    expect(await check(client, '')).toBe(ServingStatus.SERVING);
  });

  it('knows no other service', async () => {
    const { client } = await start();
    const want = { code: Status.NOT_FOUND, details: 'unknown service' };
    expect(await failure(check(client, 'envoy.service.ratelimit.v3.RateLimitService'))).toEqual(want);
  });

  it('rejects a damaged request', async () => {
    const { client } = await start();
    const want = { code: Status.INTERNAL, details: 'cannot decode the request' };
    expect(await failure(ask(client, checkPath, Uint8Array.of(0x0a, 0x05)))).toEqual(want);
  });

  it('is listed', async () => {
    const { client, health } = await start();
    health.set('redis', false);
    const bytes = await ask(client, '/grpc.health.v1.Health/List', new Uint8Array());
    const { statuses } = fromBinary(HealthListResponseSchema, bytes);
    expect(Object.entries(statuses).map(([name, { status }]) => [name, status])).toEqual([
      ['', ServingStatus.NOT_SERVING],
      ['ratelimit', ServingStatus.NOT_SERVING],
    ]);
  });

  it('shows watchers of every change at once', async () => {
    const { client, health } = await start();
    const watch = new WatchReader(client, 'ratelimit');
    expect(await watch.next()).toBe(ServingStatus.SERVING);
    health.set('redis', false);
    expect(await watch.next()).toBe(ServingStatus.NOT_SERVING);
    health.set('config', false);
    health.set('config', true);
    health.set('redis', true);
    expect(await watch.next()).toBe(ServingStatus.SERVING);
    expect(watch.unread).toBe(0);
    watch.call.cancel();
    expect(((await watch.next()) as ServiceError).code).toBe(Status.CANCELLED);
  });

  it('keeps the watch of an unknown service open', async () => {
    const { client, health } = await start();
    const watch = new WatchReader(client, 'nobody');
    expect(await watch.next()).toBe(ServingStatus.SERVICE_UNKNOWN);
    health.set('redis', false);
    await check(client, '');
    expect(watch.unread).toBe(0);
    watch.call.cancel();
    await watch.next();
  });
});

describe('shutdown', () => {
  it('reports watchers, ends them and does not wait for them', async () => {
    const { client, server } = await start();
    const watches = ['', 'ratelimit', 'nobody'].map((service) => new WatchReader(client, service));
    for (const watch of watches) await watch.next();
    await server.shutdown();
    for (const watch of watches.slice(0, 2)) expect(await watch.next()).toBe(ServingStatus.NOT_SERVING);
    for (const watch of watches) {
      const end = (await watch.next()) as ServiceError;
      expect([end.code, end.details]).toEqual([Status.UNAVAILABLE, 'the server is shutting down']);
    }
  });

  it('answers calls that are running and takes no new connections', async () => {
    const replies: UnaryReply[] = [];
    const { client, server, port } = await start({
      handler: (_, reply) => {
        replies.push(reply);
      },
    });
    const running = ask(client, echoPath, Uint8Array.of(1));
    await eventually(() => expect(replies.length).toBe(1));
    let done = false;
    const shutdown = server.shutdown().then(() => {
      done = true;
    });
    const refused = await new Promise<string>((resolve) => {
      const socket = connectTcp(port, '127.0.0.1');
      socket.on('error', (error: NodeJS.ErrnoException) => resolve(error.code ?? ''));
      socket.on('connect', () => resolve('connected'));
    });
    expect(refused).toBe('ECONNREFUSED');
    expect(done).toBe(false);
    replies[0]?.send(Uint8Array.of(8));
    expect(await running).toEqual(Buffer.of(8));
    await shutdown;
  });

  it('cuts calls that outlast the grace', async () => {
    const { client, server } = await start({ handler: () => {}, shutdownGraceMs: 50 });
    const stuck = failure(ask(client, echoPath, Uint8Array.of(1)));
    await ask(client, checkPath, serviceNamed(''));
    await server.shutdown();
    expect((await stuck).code).toBe(Status.UNAVAILABLE);
  });

  it('is not held up by idle connections, and may be asked twice', async () => {
    const { server, port } = await start({ shutdownGraceMs: 60_000 });
    const silent = connectTcp(port, '127.0.0.1');
    const idle = connectHttp2(`http://127.0.0.1:${port}`);
    silent.on('error', () => {});
    await Promise.all([
      new Promise((resolve) => silent.once('connect', resolve)),
      new Promise((resolve) => idle.once('remoteSettings', resolve)),
    ]);
    await Promise.all([server.shutdown(), server.shutdown()]);
    idle.destroy();
    silent.destroy();
  });
});

describe('listen', () => {
  it('fails with the address when the port is taken', async () => {
    const { port, health } = await start();
    const other = createGrpcServer({
      unary: new Map(),
      health,
      clock: systemClock,
      timers: systemTimers,
      random: Math.random,
      shutdownGraceMs: 0,
      callsOf: () => ({ record: () => {} }),
      onFault: () => {},
    });
    const error = await other.listen({ host: '127.0.0.1', port }).catch((reason: unknown) => reason);
    expect(error).toBeInstanceOf(BindError);
    expect((error as BindError).message).toBe(
      `cannot listen on 127.0.0.1:${port}: address already in use (EADDRINUSE)`,
    );
    await other.shutdown();
  });
});

describe('damaged connections', () => {
  it('do no harm to others', async () => {
    const { client, port } = await start();
    for (const bytes of [
      'GET / HTTP/1.1\r\n\r\n',
      '\x00\x01\x02',
      'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\xff\xff\xff\xff',
    ]) {
      await new Promise((resolve) => {
        const socket = connectTcp(port, '127.0.0.1', () => socket.end(Buffer.from(bytes, 'latin1')));
        socket.on('error', resolve).on('close', resolve).resume();
      });
    }
    expect(await ask(client, echoPath, Uint8Array.of(3))).toEqual(Buffer.of(3));
  });

  it('get an answer for requests that are no gRPC', async () => {
    const { client, port } = await start();
    const session = connectHttp2(`http://127.0.0.1:${port}`);
    const answerTo = (headers: Record<string, string>): Promise<unknown> =>
      new Promise((resolve) => {
        const stream = session.request({
          ':method': 'POST',
          ':path': echoPath,
          'content-type': 'application/grpc',
          ...headers,
        });
        stream.on('response', (got) => resolve([got[':status'], got['grpc-status'], got['grpc-message']]));
        stream.on('error', () => resolve('reset'));
        stream.resume().end();
      });
    expect(await answerTo({ 'content-type': 'text/html' })).toEqual([
      415,
      '3',
      'invalid gRPC request content-type "text/html"',
    ]);
    expect(await answerTo({ ':method': 'GET' })).toEqual([
      405,
      '13',
      'Received a HEADERS frame with :method "GET" which should be POST',
    ]);
    expect(await answerTo({ 'grpc-timeout': 'soon' })).toEqual([400, '13', 'malformed grpc-timeout: "soon"']);
    expect(await answerTo({ ':path': '/%zz' })).toEqual([200, '12', 'malformed method name: "/%25zz"']);
    for (const path of ['/caf\u00e9', '/a b', `/${'x'.repeat(8000)}`]) {
      expect(await answerTo({ ':path': path })).toEqual(
        expect.toSatisfy((got) => got === 'reset' || (got as unknown[])[1] === '12'),
      );
    }
    session.destroy();
    expect(await ask(client, echoPath, Uint8Array.of(3))).toEqual(Buffer.of(3));
  });
});

describe('abandoned calls', () => {
  it('are those whose deadline passed, and those that were cancelled', async () => {
    const replies: UnaryReply[] = [];
    const calls: string[] = [];
    const { client } = await start({
      handler: (_, reply) => {
        replies.push(reply);
      },
      callsOf: (method) => ({ record: () => calls.push(method) }),
    });
    const call = (options: { deadline?: number }) => {
      const ended = Promise.withResolvers<number>();
      const made = client.makeUnaryRequest(echoPath, identity, identity, Buffer.of(1), options, (error) =>
        ended.resolve(error?.code ?? 0),
      );
      return { made, ended: ended.promise };
    };
    const [expired, cancelled] = [call({ deadline: Date.now() + 300 * machineLoad() }), call({})];
    await eventually(() => expect(replies.length).toBe(2));
    cancelled.made.cancel();
    expect(await Promise.all([expired.ended, cancelled.ended])).toEqual([
      Status.DEADLINE_EXCEEDED,
      Status.CANCELLED,
    ]);
    await eventually(() => expect(replies.map(({ abandoned }) => abandoned)).toEqual([true, true]));
    await eventually(() => expect(calls).toEqual(['Echo', 'Echo']));
  });

  it('get DEADLINE_EXCEEDED from the server if the caller waits on', async () => {
    const { port } = await start({ handler: () => {} });
    const session = connectHttp2(`http://127.0.0.1:${port}`);
    const stream = session.request({
      ':method': 'POST',
      ':path': echoPath,
      'content-type': 'application/grpc',
      'grpc-timeout': '30m',
    });
    stream.end(Buffer.of(0, 0, 0, 0, 0));
    const got = await new Promise<Record<string, unknown>>((resolve) => stream.on('response', resolve));
    expect([got['grpc-status'], got['grpc-message']]).toEqual(['4', 'context deadline exceeded']);
    session.destroy();
  });
});

describe('a unary method', () => {
  it.each([
    [0, 'cardinality violation: received no request message'],
    [2, 'cardinality violation: received more than one request message'],
  ])('is not called with %s messages', async (count, details) => {
    const { client } = await start({ handler: () => expect.fail('reached') });
    const answer = new Promise((resolve, reject) => {
      const call = client.makeClientStreamRequest(echoPath, identity, identity, (error, reply) => {
        if (error === null) resolve(reply);
        else reject(error);
      });
      for (let sent = 0; sent < count; sent++) call.write(Buffer.of(sent));
      call.end();
    });
    expect(await failure(answer)).toEqual({ code: Status.INTERNAL, details });
  });
});

describe('reflection', () => {
  /** Returns the listed names, or the status that ends the stream. */
  function listServices(client: Client, version: string): Promise<string[] | number> {
    const path = `/grpc.reflection.${version}.ServerReflection/ServerReflectionInfo`;
    const call = client.makeBidiStreamRequest(path, identity, identity);
    const question = create(ServerReflectionRequestSchema, {
      messageRequest: { case: 'listServices', value: '' },
    });
    return new Promise((resolve) => {
      call.on('error', (error: ServiceError) => resolve(error.code));
      call.on('data', (bytes: Buffer) => {
        const { messageResponse } = fromBinary(ServerReflectionResponseSchema, bytes);
        if (messageResponse.case !== 'listServicesResponse') return;
        resolve(messageResponse.value.service.map(({ name }) => name));
        call.end();
      });
      call.write(Buffer.from(toBinary(ServerReflectionRequestSchema, question)));
    });
  }

  it.each(['v1', 'v1alpha'])('reports in version %s what is served, when it is on', async (version) => {
    const { client } = await start({ further: reflectionMethods });
    expect(await listServices(client, version)).toEqual([
      'grpc.health.v1.Health',
      'grpc.reflection.v1.ServerReflection',
      'grpc.reflection.v1alpha.ServerReflection',
      'test.Service',
    ]);
  });

  it('is unknown when it is not', async () => {
    const { client } = await start();
    expect(await listServices(client, 'v1')).toBe(Status.UNIMPLEMENTED);
  });
});
