import { Agent, request as httpRequest, type IncomingHttpHeaders } from 'node:http';
import { connect, type Socket } from 'node:net';
import { create, fromBinary, toBinary } from '@bufbuild/protobuf';
import { afterEach, describe, expect, it } from 'vitest';
import {
  RateLimitResponse_Code as Code,
  type RateLimitRequest,
  RateLimitRequestSchema,
  RateLimitResponseSchema,
} from '../../gen/envoy/service/ratelimit/v3/rls_pb.ts';
import {
  type CallerGate,
  GrpcCode,
  severalAuthorizations,
  type UnaryReply,
} from '../../process/grpc/handlers.ts';
import { Health } from '../../process/grpc/health.ts';
import { BindError } from '../../process/net/bind.ts';
import { ConnectionMemory } from '../../process/net/connection-memory.ts';
import { systemTimers } from '../../process/time/clock.ts';
import { eventually } from '../../test/support/eventually.ts';
import { ScriptedBudgets } from '../../test/support/scripted-budgets.ts';
import { tooLargeRequests } from '../../test/support/too-large-requests.ts';
import type { OmittedParts } from '../decide/messages.ts';
import { checkWhole, defaultRequestLimits, type RequestLimits } from '../decide/request-bounds.ts';
import { decodeRateLimitRequest } from '../decide/wire-codec.ts';
import { budgetEndpoints } from '../reservations/budget-endpoints.ts';
import { ExcessResponses, type TooLargeOptions } from '../service/over-without-limit.ts';
import { rejectSized, type ShouldRateLimit } from '../service/should-rate-limit.ts';
import { ApiListener } from './listener.ts';

const excess = new ExcessResponses({
  shadowMode: false,
  onGlobalShadow: () => {},
});

const cleanups: (() => unknown)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

const decision = (overallCode: Code): Uint8Array =>
  toBinary(RateLimitResponseSchema, create(RateLimitResponseSchema, { overallCode }));

interface Fixture {
  listener: ApiListener;
  port: number;
  health: Health;
  asked: RateLimitRequest[];
  faults: unknown[];
  tooLarge: string[];
  refused: string[];
}

interface StartOptions {
  answer?: (reply: UnaryReply) => void;
  maxBodyBytes?: number;
  closeGraceMs?: number;
  limits?: Partial<RequestLimits>;
  connectionMemory?: ConnectionMemory;
  gate?: CallerGate;
  tooLarge?: Partial<TooLargeOptions>;
}

async function start(options: StartOptions = {}): Promise<Fixture> {
  const answer = options.answer ?? ((reply) => reply.send(decision(Code.OK)));
  const asked: RateLimitRequest[] = [];
  const faults: unknown[] = [];
  const tooLarge: string[] = [];
  const refused: string[] = [];
  const health = new Health();
  const reading = {
    bounds: { ...defaultRequestLimits, ...options.limits },
    tooLarge: tooLargeRequests({
      onTooLarge: (error, origin) => {
        expect(`${origin?.listener} ${origin?.peer}`).toMatch(/^HTTP 127\.0\.0\.1:\d+$/);
        tooLarge.push(error.message);
      },
      ...options.tooLarge,
    }),
    onLongTexts: () => {},
    onInvalidUtf8Values: () => {},
    onFault: (error: unknown) => void faults.push(error),
  };
  const shouldRateLimit: ShouldRateLimit = (bytes: Uint8Array, reply: UnaryReply, leftOut?: OmittedParts) => {
    try {
      checkWhole({ ...decodeRateLimitRequest(bytes, reading.bounds), leftOut });
    } catch (error) {
      rejectSized(error, reply, reading);
      return;
    }
    asked.push(fromBinary(RateLimitRequestSchema, bytes));
    answer(reply);
  };
  const listener = new ApiListener({
    shouldRateLimit,
    bounds: reading.bounds,
    tooLarge: reading.tooLarge,
    health,
    maxBodyBytes: options.maxBodyBytes ?? 100_000,
    gate: options.gate,
    closeGraceMs: options.closeGraceMs ?? 5_000,
    connections: options.connectionMemory && {
      maxConnections: 100,
      connectionMemory: options.connectionMemory,
      changed: () => {},
      rejected: (reason) => refused.push(reason),
    },
    onJsonRequest: () => {},
    onApiRequest: () => {},
    decide: () => Promise.reject(new Error('not asked here')),
    routes: budgetEndpoints({ ...reading, budgets: new ScriptedBudgets(), maxBodyBytes: 100_000 }),
    excess,
    onFault: (error) => faults.push(error),
  });
  const { port } = await listener.listen({ host: '127.0.0.1', port: 0 });
  cleanups.push(() => listener.close());
  return { listener, port, health, asked, faults, tooLarge, refused };
}

interface Answer {
  status: number;
  headers: IncomingHttpHeaders;
  body: string;
}

interface Sent {
  method?: string;
  path?: string;
  body?: string | Uint8Array;
  agent?: Agent;
}

function send(port: number, { method = 'POST', path = '/json', body = '', agent }: Sent): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const headers = { 'Content-Length': Buffer.byteLength(body) };
    const request = httpRequest(
      { port, host: '127.0.0.1', method, path, headers, agent: agent ?? false },
      (response) => {
        let text = '';
        response.setEncoding('utf8').on('data', (chunk: string) => {
          text += chunk;
        });
        response.on('end', () =>
          resolve({ status: response.statusCode ?? 0, headers: response.headers, body: text }),
        );
        response.on('error', reject);
      },
    );
    request.on('error', reject);
    request.end(body);
  });
}

/** Sends bytes unchanged and returns everything until the other side closes the connection. */
function raw(port: number, ...parts: (string | Uint8Array)[]): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket: Socket = connect(port, '127.0.0.1', () => {
      for (const part of parts) socket.write(part);
    });
    let text = '';
    socket.on('data', (chunk) => {
      text += chunk.toString('latin1');
    });
    socket.on('error', reject);
    socket.on('close', () => resolve(text));
  });
}

const badRequest = {
  status: 400,
  body: 'Bad Request\n',
  headers: { 'content-type': 'text/plain; charset=utf-8', 'x-content-type-options': 'nosniff' },
};

const ask = { domain: 'd', descriptors: [{ entries: [{ key: 'k', value: 'v' }] }] };

describe('/json', () => {
  it('answers 200 with the decision', async () => {
    const { port, asked } = await start();
    const answer = await send(port, { body: JSON.stringify(ask) });
    expect(answer).toMatchObject({
      status: 200,
      body: '{"overallCode":"OK"}',
      headers: { 'content-type': 'application/json', 'content-length': '20' },
    });
    expect(asked).toHaveLength(1);
    expect(asked[0]).toMatchObject({
      domain: 'd',
      descriptors: [{ entries: [{ key: 'k', value: 'v' }] }],
      hitsAddend: 0,
    });
  });

  it('answers 429 when over limit', async () => {
    const { port } = await start({ answer: (reply) => reply.send(decision(Code.OVER_LIMIT)) });
    const answer = await send(port, { body: JSON.stringify(ask) });
    expect(answer).toMatchObject({
      status: 429,
      body: '{"overallCode":"OVER_LIMIT"}',
      headers: { 'content-type': 'application/json' },
    });
  });

  it('takes any method', async () => {
    const { port } = await start();
    for (const method of ['GET', 'PUT', 'DELETE', 'PATCH', 'OPTIONS', 'PROPFIND']) {
      const { status } = await send(port, { method, body: JSON.stringify(ask) });
      expect([method, status]).toEqual([method, 200]);
    }
    const head = await send(port, { method: 'HEAD', body: JSON.stringify(ask) });
    expect(head).toMatchObject({ status: 200, body: '' });
  });

  it('answers on a connection that is kept', async () => {
    const { port } = await start();
    const agent = new Agent({ keepAlive: true, maxSockets: 1 });
    cleanups.push(() => agent.destroy());
    for (let i = 0; i < 3; i++) {
      const { headers } = await send(port, { body: JSON.stringify(ask), agent });
      expect(headers.connection).toBe('keep-alive');
    }
  });

  it('rejects an empty body', async () => {
    const { port, asked } = await start();
    expect(await send(port, { method: 'GET' })).toMatchObject(badRequest);
    expect(asked).toEqual([]);
  });

  it('names what was wrong in a header', async () => {
    const { port } = await start();
    const answer = await send(port, { body: '{"doman\\u00fc":1}' });
    expect(answer).toMatchObject(badRequest);
    expect(answer.headers['weir-error']).toBe(
      'cannot decode message envoy.service.ratelimit.v3.RateLimitRequest from JSON: key "doman?" is unknown',
    );
  });

  it('bounds what it says of a bad request', async () => {
    const { port } = await start();
    const answer = await send(port, { body: `{"${'x'.repeat(10_000)}":1}` });
    expect(answer).toMatchObject(badRequest);
    expect(answer.headers['weir-error']).toHaveLength(259);
  });

  it('answers 400 for errors of the service and of the store', async () => {
    const message = 'rate limit domain must not be empty';
    for (const code of [GrpcCode.UNKNOWN, GrpcCode.NOT_FOUND, GrpcCode.UNAVAILABLE]) {
      const { port, faults } = await start({ answer: (reply) => reply.fail({ code, message }) });
      const answer = await send(port, { body: '{}' });
      expect(answer).toMatchObject(badRequest);
      expect(answer.headers['weir-error']).toBe(message);
      expect(faults).toEqual([]);
    }
  });

  const faultyAnswers: Record<string, (reply: UnaryReply) => void> = {
    'a handler that throws': () => {
      throw new Error('secret inside');
    },
    'an internal error': (reply) => reply.fail({ code: GrpcCode.INTERNAL, message: 'secret inside' }),
    'a response without a decision': (reply) => reply.send(decision(Code.UNKNOWN)),
    'a response that cannot be decoded': (reply) => reply.send(Uint8Array.of(0x0a, 0xff)),
  };
  for (const [name, answer] of Object.entries(faultyAnswers)) {
    it(`answers 500 for ${name}, without the reason, and continues`, async () => {
      const { port } = await start({ answer });
      for (let i = 0; i < 2; i++) {
        const got = await send(port, { body: JSON.stringify(ask) });
        expect(got).toMatchObject({ status: 500, body: 'Internal Server Error\n' });
        expect(JSON.stringify(got.headers)).not.toContain('secret');
      }
    });
  }

  it('reports what was thrown', async () => {
    const { port, faults } = await start({
      answer: () => {
        throw new Error('secret inside');
      },
    });
    await send(port, { body: JSON.stringify(ask) });
    expect(faults.map(String)).toEqual(['Error: secret inside']);
  });
});

describe('requests beyond their bounds', () => {
  const descriptor = { entries: [{ key: 'k', value: 'v' }] };
  const cases: [string, unknown, string][] = [
    [
      'descriptors',
      { domain: 'd', descriptors: new Array(4).fill(descriptor) },
      'a request may have 3 descriptors (REQUEST_MAX_DESCRIPTORS), this one has 4',
    ],
    [
      'entries',
      { domain: 'd', descriptors: [{}, { entries: new Array(3).fill({}) }] },
      'a descriptor may have 2 entries (REQUEST_MAX_ENTRIES), descriptor 1 has 3',
    ],
    [
      'bytes',
      { domain: 'd', descriptors: new Array(20).fill(descriptor) },
      'a request may have 300 bytes (REQUEST_MAX_BYTES), this one has 790',
    ],
  ];
  const limits = { maxDescriptors: 3, maxEntries: 2, maxTextBytes: 20, maxBytes: 300 };

  const over = { status: 429, headers: { 'retry-after': '1', 'content-type': 'application/json' } };

  it.each(cases)('are answered with 429 for too many %s', async (_, body, reason) => {
    const { port, tooLarge } = await start({ limits });
    const answer = await send(port, { body: JSON.stringify(body) });
    expect(answer).toMatchObject(over);
    expect(JSON.parse(answer.body)).toMatchObject({ overallCode: 'OVER_LIMIT' });
    expect([answer.headers['weir-error'], tooLarge]).toEqual([reason, [reason]]);
  });

  it.each(cases)('are answered with 400 for too many %s if that is set', async (_, body, reason) => {
    const { port, tooLarge } = await start({ limits, tooLarge: { answer: 'error' } });
    const answer = await send(port, { body: JSON.stringify(body) });
    expect(answer).toMatchObject(badRequest);
    expect([answer.headers['weir-error'], tooLarge]).toEqual([reason, [reason]]);
  });

  it('are answered by the bytes of the body, too', async () => {
    const { port, tooLarge } = await start({ limits, maxBodyBytes: 400 });
    const chunk = `190\r\n${' '.repeat(400)}\r\n`;
    const head = 'POST /json HTTP/1.1\r\nHost: x\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n';
    expect(await raw(port, head, chunk, '0\r\n\r\n')).toMatch(/^HTTP\/1\.1 429 /);
    expect(tooLarge).toEqual(['a request may have 300 bytes (REQUEST_MAX_BYTES), this one has 400']);
    expect(await raw(port, head, chunk, chunk, '0\r\n\r\n')).toMatch(/^HTTP\/1\.1 429 /);
    expect(tooLarge[1]).toBe('the body is longer than 400 bytes (HTTP_MAX_BODY_BYTES)');
  });
});

describe('bodies over the limit', () => {
  const tooLong = { status: 429, headers: { 'retry-after': '1' } };
  const body = '{"overallCode":"OVER_LIMIT","responseHeadersToAdd":[{"key":"Retry-After","value":"1"}]}';

  it('are rejected by their announced length', async () => {
    const { port, asked, tooLarge: reported } = await start({ maxBodyBytes: 1000 });
    const answer = await send(port, { body: ' '.repeat(1001) });
    expect(answer).toMatchObject({ ...tooLong, body });
    const reason = 'the body is longer than 1000 bytes (HTTP_MAX_BODY_BYTES)';
    expect([answer.headers['weir-error'], reported, asked]).toEqual([reason, [reason], []]);
  });

  it('are 413 if requests beyond the bounds are errors', async () => {
    const { port } = await start({ maxBodyBytes: 1000, tooLarge: { answer: 'error' } });
    const answer = await send(port, { body: ' '.repeat(1001) });
    expect(answer).toMatchObject({ status: 413, body: 'Request Entity Too Large\n' });
    expect(answer.headers['weir-error']).toBe('the body is longer than 1000 bytes');
  });

  it('are taken up to the last byte', async () => {
    const { port } = await start({ maxBodyBytes: 1000 });
    expect(await send(port, { body: JSON.stringify(ask).padEnd(1000) })).toMatchObject({ status: 200 });
  });

  it('are rejected in chunks, and the sender of many gets to read the answer', async () => {
    const { port } = await start({ maxBodyBytes: 1000 });
    const chunk = Buffer.concat([Buffer.from('10000\r\n'), Buffer.alloc(0x10000, 0x20), Buffer.from('\r\n')]);
    const answer = await raw(
      port,
      'POST /json HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n',
      ...Array.from({ length: 200 }, () => chunk),
      '0\r\n\r\n',
    );
    expect(answer).toMatch(/^HTTP\/1\.1 429 /);
    expect(answer).toContain(body);
  });

  it('are answered although the sender never sends what it announced', async () => {
    const { port } = await start({ maxBodyBytes: 1000 });
    const answer = await raw(port, 'POST /json HTTP/1.1\r\nHost: x\r\nContent-Length: 5000000\r\n\r\nabc');
    expect(answer).toMatch(/^HTTP\/1\.1 429 /);
  });
});

describe('bodies that are not complete', () => {
  it('are rejected when what they hold is needed, the longest first', async () => {
    const connectionMemory = new ConnectionMemory({ maxBytes: 100_000, timers: systemTimers });
    const { port, asked } = await start({ connectionMemory });
    const begin = async (
      bytes: number,
      length = 90_000,
    ): Promise<{ socket: Socket; answer: Promise<string> }> => {
      const before = connectionMemory.bytes;
      const socket = connect({ port, host: '127.0.0.1' });
      cleanups.push(() => socket.destroy());
      let text = '';
      const answer = new Promise<string>((resolve) => {
        socket.on('data', (chunk) => {
          text += chunk.toString();
        });
        socket.on('close', () => resolve(text));
      });
      socket.write(`POST /json HTTP/1.1\r\nHost: a\r\nContent-Length: ${length}\r\n\r\n${' '.repeat(bytes)}`);
      await eventually(() => expect(connectionMemory.bytes).not.toBe(before));
      return { socket, answer };
    };
    const [small, large] = [await begin(10_000, 20_000), await begin(30_000)];
    await begin(20_000);
    large.socket.write(' '.repeat(60_000 - 2));
    large.socket.end('{}');
    const answer = await large.answer;
    expect(answer).toContain('HTTP/1.1 503 Service Unavailable');
    expect(answer).toContain('Connection: close');
    expect(answer).toContain('Weir-Error: unfinished requests use all of CONNECTIONS_MAX_BYTES');
    expect(connectionMemory.bytes).toBeLessThan(100_000);
    small.socket.write(JSON.stringify(ask).padStart(10_000));
    await eventually(() => expect(asked).toHaveLength(1));
  });

  it('take memory for what came, in however small pieces', async () => {
    const connectionMemory = new ConnectionMemory({ maxBytes: 10_000_000, timers: systemTimers });
    const { port } = await start({ connectionMemory });
    const socket = connect({ port, host: '127.0.0.1' });
    cleanups.push(() => socket.destroy());
    socket.write('POST /json HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n');
    socket.write('6\r\n      \r\n'.repeat(1_000));
    await eventually(() => expect(connectionMemory.bytes).toBeGreaterThan(5_000));
    expect(connectionMemory.bytes).toBeLessThan(20_000);
    socket.destroy();
    await eventually(() => expect(connectionMemory.bytes).toBe(0));
  });

  it('are rejected in more than 1,000 pieces and one for every 16 bytes, and end their connection', async () => {
    const connectionMemory = new ConnectionMemory({ maxBytes: 10_000_000, timers: systemTimers });
    const { port, asked, refused } = await start({ connectionMemory });
    const begin = 'POST /json HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n';
    const post = async (pieces: string): Promise<string> => {
      const socket = connect({ port, host: '127.0.0.1' });
      cleanups.push(() => socket.destroy());
      let text = '';
      socket.on('data', (chunk) => {
        text += chunk.toString();
      });
      socket.on('error', () => {});
      socket.write(begin + pieces);
      await eventually(() => expect(text).toContain('\r\n\r\n'));
      if (text.includes('Connection: close')) await eventually(() => expect(socket.closed).toBe(true));
      return text;
    };
    const body = JSON.stringify(ask);
    const last = `${body.length.toString(16)}\r\n${body}\r\n0\r\n\r\n`;
    expect(await post('1\r\n \r\n'.repeat(990) + last)).toContain('200 OK');
    expect(await post(`10\r\n${' '.repeat(16)}\r\n`.repeat(3_000) + last)).toContain('200 OK');
    const answer = await post('1\r\n \r\n'.repeat(1_100));
    expect(answer).toContain('HTTP/1.1 400 Bad Request');
    expect(answer).toContain(
      'Weir-Error: the body arrives in more than 1000 pieces and one for every 16 bytes',
    );
    expect(asked).toHaveLength(2);
    expect(refused).toEqual(['too_many_pieces']);
    expect(connectionMemory.bytes).toBe(0);
  });
});

describe('callers that have to identify themselves', () => {
  const messages = ['who?', 'not you', 'too often'];
  const codes = [GrpcCode.UNAUTHENTICATED, GrpcCode.PERMISSION_DENIED, GrpcCode.RESOURCE_EXHAUSTED];
  const shown: string[] = [];
  /** Admits `good` and rejects all others with the status that their token selects from the list above. */
  const gate: CallerGate = {
    admit: (_connection, authorization) => {
      shown.push(authorization);
      if (authorization === 'good')
        return { rejected: undefined, name: 'a', rejection: () => undefined, hasDomain: () => true };
      const place = Number(authorization) || 0;
      return { rejected: { code: codes[place]!, message: messages[place]! } };
    },
  };
  const head = (authorization: string, rest = ''): string =>
    `POST /json HTTP/1.1\r\nHost: x\r\nAuthorization: ${authorization}\r\n${rest}`;
  const body = JSON.stringify(ask);

  it.each([
    [401, 0, 'www-authenticate', 'Bearer error="invalid_token"'],
    [403, 1, 'weir-error', 'not you'],
    [503, 2, 'retry-after', '1'],
  ])(
    'get their %i before they send a body, on a connection that continues',
    async (status, shows, name, value) => {
      const { port, asked } = await start({ gate });
      const socket = connect(port, '127.0.0.1');
      cleanups.push(() => socket.destroy());
      let text = '';
      socket.on('data', (chunk) => {
        text += chunk.toString('latin1');
      });
      socket.write(head(String(shows), `Content-Length: ${body.length}\r\n\r\n`));
      await eventually(() => expect(text.toLowerCase()).toContain(`http/1.1 ${status} `));
      expect(text.toLowerCase()).toContain(`\r\n${name}: ${value.toLowerCase()}\r\n`);
      expect(asked).toHaveLength(0);
      text = '';
      socket.write(body);
      socket.write(head('good', `Content-Length: ${body.length}\r\n\r\n${body}`));
      await eventually(() => expect(text).toMatch(/^HTTP\/1\.1 200 /));
      expect(asked).toHaveLength(1);
    },
  );

  it('are rejected with the end of the connection if the body is too long, or its length is unknown', async () => {
    const { port } = await start({ gate, maxBodyBytes: 1000 });
    const chunk = Buffer.concat([Buffer.from('10000\r\n'), Buffer.alloc(0x10000, 0x20), Buffer.from('\r\n')]);
    const chunks = Array.from({ length: 200 }, () => chunk);
    const coded = await raw(port, head('no', 'Transfer-Encoding: chunked\r\n\r\n'), ...chunks, '0\r\n\r\n');
    const announced = await raw(port, head('no', 'Content-Length: 5000000\r\n\r\nabc'));
    for (const answer of [coded, announced]) {
      expect(answer).toMatch(/^HTTP\/1\.1 401 /);
      expect(answer).toContain('\r\nConnection: close\r\n');
      expect(answer).toMatch(/Unauthorized\n$/);
    }
  });

  it('are not believed if they say it twice', async () => {
    const { port, asked } = await start({ gate });
    shown.length = 0;
    const twice = head('good', 'Authorization: good\r\nConnection: close\r\nContent-Length: 0\r\n\r\n');
    expect(await raw(port, twice)).toMatch(/^HTTP\/1\.1 401 /);
    expect([shown, asked]).toEqual([[severalAuthorizations], []]);
  });
});

describe('/healthcheck', () => {
  it('follows health, for any method', async () => {
    const { port, health } = await start();
    for (const method of ['GET', 'POST', 'DELETE']) {
      const answer = await send(port, { method, path: '/healthcheck?x', body: 'ignored' });
      expect(answer).toMatchObject({
        status: 200,
        body: 'OK',
        headers: { 'content-type': 'text/plain; charset=utf-8' },
      });
    }
    health.set('sigterm', false);
    const answer = await send(port, { method: 'GET', path: '/healthcheck' });
    expect(answer).toMatchObject({ status: 500, body: '', headers: { 'content-length': '0' } });
  });
});

describe('/livez', () => {
  it('answers 200 whatever the health', async () => {
    const { port, health } = await start();
    health.set('sigterm', false);
    const answer = await send(port, { method: 'GET', path: '/livez' });
    expect(answer).toMatchObject({ status: 200, body: 'OK' });
  });
});

describe('other paths', () => {
  it('are not found', async () => {
    const { port } = await start();
    for (const path of ['/', '/json/', '/jsonx', '/JSON', '/stats']) {
      const answer = await send(port, { path, body: JSON.stringify(ask) });
      expect(answer).toMatchObject({ ...badRequest, status: 404, body: '404 page not found\n' });
    }
  });

  it('are redirected when a segment is empty', async () => {
    const { port } = await start();
    const answer = await send(port, { path: '//json?x=1', body: JSON.stringify(ask) });
    expect(answer).toMatchObject({ status: 301, body: '', headers: { location: '/json?x=1' } });
  });

  it('are rejected when damaged', async () => {
    const { port } = await start();
    expect(await send(port, { path: '/%zz' })).toMatchObject(badRequest);
  });
});

describe('paths of /v1', () => {
  it.each(['/v1/%zz', '/v1//check', '/v1/./check?x=//', '/v1/../json', '/v1/forward-authx'])(
    'are a problem if there are none such: %s',
    async (path) => {
      const { port, faults } = await start();
      const { status, headers, body } = await send(port, { path, body: '{}' });
      expect([status, headers['content-type'], headers.location]).toEqual([
        404,
        'application/problem+json',
        undefined,
      ]);
      expect(JSON.parse(body).detail).toMatch(/there are \/v1\/.*\/v1\/check/);
      expect(faults).toEqual([]);
    },
  );

  it('are read with what is encoded in them', async () => {
    const { port } = await start();
    expect((await send(port, { path: '/v1/%63heck', body: '{}' })).status).toBe(415);
  });
});

describe('damaged requests', () => {
  const bytes: Record<string, { sent: (string | Uint8Array)[]; want: RegExp }> = {
    'no HTTP at all': { sent: ['\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03'], want: /^HTTP\/1\.1 400 / },
    'a request line without a version': { sent: ['GET\r\n\r\n'], want: /^HTTP\/1\.1 400 / },
    'a request without a host': { sent: ['GET /json HTTP/1.1\r\n\r\n'], want: /^HTTP\/1\.1 400 / },
    'two different lengths': {
      sent: ['POST /json HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}'],
      want: /^HTTP\/1\.1 400 /,
    },
    'a chunk that is no chunk': {
      sent: ['POST /json HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n'],
      want: /^HTTP\/1\.1 400 /,
    },
    'a header that is too long': {
      sent: [`GET /json HTTP/1.1\r\nHost: x\r\nX: ${'y'.repeat(33_000)}\r\n\r\n`],
      want: /^HTTP\/1\.1 431 /,
    },
  };
  for (const [name, { sent, want }] of Object.entries(bytes)) {
    it(`are answered: ${name}`, async () => {
      const { port } = await start();
      expect(await raw(port, ...sent)).toMatch(want);
      expect(await send(port, { body: JSON.stringify(ask) })).toMatchObject({ status: 200 });
    });
  }

  it('leave nothing behind when the sender hangs up in the middle of a body', async () => {
    const { port, asked, faults } = await start();
    await new Promise<void>((resolve) => {
      const socket = connect(port, '127.0.0.1', () => {
        socket.write('POST /json HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{"dom', () =>
          socket.destroy(),
        );
      });
      socket.on('close', () => resolve());
    });
    expect(await send(port, { body: JSON.stringify(ask) })).toMatchObject({ status: 200 });
    expect(asked).toHaveLength(1);
    expect(faults).toEqual([]);
  });
});

describe('listen', () => {
  it('fails with the address when the port is taken', async () => {
    const { port, health } = await start();
    const other = new ApiListener({
      shouldRateLimit: () => {},
      bounds: defaultRequestLimits,
      tooLarge: tooLargeRequests(),
      health,
      maxBodyBytes: 1,
      closeGraceMs: 0,
      onJsonRequest: () => {},
      onApiRequest: () => {},
      decide: () => Promise.reject(new Error('not asked here')),
      routes: new Map(),
      excess,
      onFault: () => {},
    });
    const error = await other.listen({ host: '127.0.0.1', port }).catch((reason: unknown) => reason);
    expect(error).toBeInstanceOf(BindError);
    expect((error as BindError).message).toBe(
      `cannot listen on 127.0.0.1:${port}: address already in use (EADDRINUSE)`,
    );
    await other.close();
  });
});

describe('close', () => {
  it('answers what is in flight, says that its connection ends, and takes no new ones', async () => {
    const replies: UnaryReply[] = [];
    const { listener, port } = await start({ answer: (reply) => replies.push(reply), closeGraceMs: 60_000 });
    const agent = new Agent({ keepAlive: true });
    cleanups.push(() => agent.destroy());
    const running = send(port, { body: JSON.stringify(ask), agent });
    await eventually(() => expect(replies.length).toBe(1));
    const closed = listener.close();
    await expect(send(port, {})).rejects.toThrow('ECONNREFUSED');
    replies[0]?.send(decision(Code.OK));
    expect(await running).toMatchObject({ status: 200, headers: { connection: 'close' } });
    await closed;
  });

  it('is announced in each response, while the port is still open', async () => {
    const replies: UnaryReply[] = [];
    const { listener, port } = await start({ answer: (reply) => replies.push(reply) });
    const agent = new Agent({ keepAlive: true });
    cleanups.push(() => agent.destroy());
    const before = await send(port, { path: '/healthcheck', agent });
    const running = send(port, { body: JSON.stringify(ask), agent });
    await eventually(() => expect(replies.length).toBe(1));
    listener.announceEnd();
    replies[0]?.send(decision(Code.OK));
    const after = await send(port, { path: '/healthcheck', agent });
    const connections = [before, await running, after].map(({ headers }) => headers.connection);
    expect(connections).toEqual(['keep-alive', 'close', 'close']);
  });

  it('ends idle connections at once, used or not, and may be asked twice', async () => {
    const { listener, port } = await start({ closeGraceMs: 60_000 });
    const agent = new Agent({ keepAlive: true });
    cleanups.push(() => agent.destroy());
    await send(port, { body: JSON.stringify(ask), agent });
    const unused = connect(port, '127.0.0.1');
    await new Promise((resolve) => unused.once('connect', resolve));
    await send(port, { path: '/healthcheck' });
    const ended = new Promise((resolve) => unused.once('close', resolve));
    unused.resume();
    await Promise.all([listener.close(), listener.close()]);
    await ended;
  });

  it('answers a request that was half sent, and says that its connection ends', async () => {
    const { listener, port } = await start({ closeGraceMs: 60_000 });
    const socket = connect(port, '127.0.0.1');
    let answer = '';
    socket.on('data', (chunk) => {
      answer += chunk.toString();
    });
    socket.write('GET /healthcheck HTTP/1.1\r\nHos');
    await send(port, { path: '/healthcheck' });
    const closed = listener.close();
    socket.write('t: x\r\n\r\n');
    await closed;
    await expect
      .poll(() => answer)
      .toMatch(/^HTTP\/1\.1 200 OK\r\n(?:.*\r\n)*Connection: close\r\n(?:.*\r\n)*\r\nOK$/);
  });

  it('cuts requests that outlast the grace', async () => {
    const { listener, port } = await start({ answer: () => {}, closeGraceMs: 50 });
    const stuck = send(port, { body: JSON.stringify(ask) });
    const halfSent = raw(port, 'POST /json HTTP/1.1\r\nHost: x\r\n').catch(() => 'reset');
    await send(port, { path: '/healthcheck' });
    await listener.close();
    await expect(stuck).rejects.toThrow('socket hang up');
    await halfSent;
  });
});
