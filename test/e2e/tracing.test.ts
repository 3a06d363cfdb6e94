/** Limiters whose spans go to a receiver of OTLP, over both of its protocols. */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { describeWithServer } from '../support/describe-with-server.ts';
import { eventually } from '../support/eventually.ts';
import { redisProgram } from '../support/find-server.ts';
import { freePort } from '../support/free-port.ts';
import { LimiterClient } from '../support/limiter-client.ts';
import { type LimiterProcess, startLimiter } from '../support/limiter-process.ts';
import { OtlpReceiver } from '../support/otlp-receiver.ts';
import { type RedisServer, startRedis } from '../support/redis-server.ts';

const folder = mkdtempSync(join(tmpdir(), 'weir-tracing-'));
mkdirSync(join(folder, 'config'));
writeFileSync(
  join(folder, 'config/t.yaml'),
  'domain: t\ndescriptors:\n  - key: k\n    rate_limit: { unit: year, requests_per_unit: 2 }\n',
);
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const path = 'envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit';
const cleanups: (() => Promise<void> | void)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

async function startTraced(port: number, env: Record<string, string> = {}): Promise<LimiterProcess> {
  const limiter = await startLimiter({
    env: {
      RUNTIME_ROOT: folder,
      BACKEND_TYPE: 'memory',
      TRACING_ENABLED: 'true',
      OTEL_EXPORTER_OTLP_ENDPOINT: `http://127.0.0.1:${port}`,
      OTEL_BSP_SCHEDULE_DELAY: '50',
      ...env,
    },
  });
  cleanups.push(() => limiter.stop());
  return limiter;
}

async function receiverOf(protocol: 'http' | 'grpc'): Promise<OtlpReceiver> {
  const receiver = await OtlpReceiver[protocol]();
  cleanups.push(() => receiver.close());
  return receiver;
}

function client(limiter: LimiterProcess): LimiterClient {
  const one = new LimiterClient(limiter.ports.grpc);
  cleanups.push(() => one.close());
  return one;
}

function json(
  limiter: LimiterProcess,
  headers: Record<string, string> = {},
  domain = 't',
): Promise<Response> {
  return fetch(`http://127.0.0.1:${limiter.ports.http}/json`, {
    method: 'POST',
    headers,
    body: JSON.stringify({ domain, descriptors: [{ entries: [{ key: 'k', value: 'v' }] }] }),
  });
}

describe('spans of calls', () => {
  it.each(['http', 'grpc'] as const)('arrive over %s, with what the call was', async (protocol) => {
    const receiver = await receiverOf(protocol);
    const limiter = await startTraced(receiver.port, {
      TRACING_EXPORTER_PROTOCOL: protocol,
      TRACING_SERVICE_NAMESPACE: 'edge',
      TRACING_SERVICE_INSTANCE_ID: 'one',
      OTEL_RESOURCE_ATTRIBUTES: 'team=a,service.name=other',
      OTEL_EXPORTER_OTLP_HEADERS: 'x-key=secret',
    });
    const caller = client(limiter);
    for (let ask = 0; ask < 3; ask += 1) await caller.allowed('t', 'k', 'v');
    await caller.ask({ domain: '' }).catch(() => {});
    await eventually(() => expect(receiver.named(path)).toHaveLength(4));
    const spans = receiver.named(path);
    expect(spans[0]).toMatchObject({
      kind: 2,
      parentSpanId: '',
      status: 0,
      traceId: expect.stringMatching(/^[0-9a-f]{32}$/),
      attributes: {
        'rpc.system.name': 'grpc',
        'rpc.method': path,
        'rpc.response.status_code': 'OK',
        'weir.domain': 't',
        'weir.descriptors': 1,
        'weir.overall_code': 'OK',
      },
      resource: {
        'service.name': 'RateLimit',
        'service.namespace': 'edge',
        'service.instance.id': 'one',
        team: 'a',
      },
    });
    expect(spans[2]?.attributes).toMatchObject({ 'weir.overall_code': 'OVER_LIMIT' });
    expect(spans[3]).toMatchObject({ status: 2, attributes: { 'rpc.response.status_code': 'UNKNOWN' } });
    expect(spans.some((span) => 'rpc.grpc.status_code' in span.attributes)).toBe(false);
    expect(new Set(spans.map(({ traceId }) => traceId)).size).toBe(4);
    if (protocol === 'http') {
      expect(receiver.requests[0]).toMatchObject({
        path: '/v1/traces',
        headers: { 'content-type': 'application/x-protobuf', 'x-key': 'secret' },
      });
    }
    expect(limiter.program.output).not.toContain('secret');
  });

  // rpc-attributes.test.ts has the other values.
  it('are named as OTEL_SEMCONV_STABILITY_OPT_IN says', async () => {
    const receiver = await receiverOf('http');
    const limiter = await startTraced(receiver.port, { OTEL_SEMCONV_STABILITY_OPT_IN: 'http,rpc/old' });
    await client(limiter).allowed('t', 'k', 'v');
    await eventually(() => expect(receiver.named(path)).toHaveLength(1));
    const attributes = receiver.named(path)[0]?.attributes ?? {};
    expect(attributes).toMatchObject({
      'rpc.system': 'grpc',
      'rpc.service': path.split('/')[0],
      'rpc.method': 'ShouldRateLimit',
      'rpc.response.status_code': 'OK',
    });
    for (const name of ['rpc.system.name', 'rpc.grpc.status_code'])
      expect(attributes).not.toHaveProperty([name]);
  });

  it('belong to the trace of their caller, by W3C or B3, and follow its decision', async () => {
    const receiver = await receiverOf('http');
    const limiter = await startTraced(receiver.port, {
      TRACING_SAMPLING_RATE: '0',
      TRACING_BAGGAGE_ATTRIBUTES: 'tenant',
    });
    const trace = (digit: string): string => digit.repeat(32);
    const span = (digit: string): string => digit.repeat(16);
    await json(limiter);
    await json(limiter, { traceparent: `00-${trace('a')}-${span('a')}-00` });
    await json(limiter, {
      traceparent: `00-${trace('b')}-${span('b')}-01`,
      tracestate: 'x=y',
      baggage: 'tenant=a%20b,user=hidden',
    });
    await json(limiter, { b3: `${trace('c')}-${span('c')}-1` });
    await json(limiter, { 'X-B3-TraceId': span('d'), 'X-B3-SpanId': span('e'), 'X-B3-Sampled': '1' }, '');
    await eventually(() => expect(receiver.named('POST /json')).toHaveLength(3));
    expect(receiver.named('POST /json')).toMatchObject([
      {
        kind: 2,
        traceId: trace('b'),
        parentSpanId: span('b'),
        traceState: 'x=y',
        attributes: {
          'baggage.tenant': 'a b',
          'http.request.method': 'POST',
          'http.response.status_code': 429,
          'http.route': '/json',
          'weir.domain': 't',
        },
      },
      { traceId: trace('c'), parentSpanId: span('c') },
      {
        traceId: '0'.repeat(16) + span('d'),
        parentSpanId: span('e'),
        attributes: { 'http.response.status_code': 400 },
      },
    ]);
    expect(JSON.stringify(receiver.spans)).not.toContain('hidden');
  });

  it('are all exported at the end', async () => {
    const receiver = await receiverOf('http');
    const limiter = await startTraced(receiver.port, {
      OTEL_BSP_SCHEDULE_DELAY: '3600000',
      TRACING_SERVICE_NAME: 'gate',
      OTEL_PROPAGATORS: 'none',
    });
    await client(limiter).allowed('t', 'k', 'v');
    await json(limiter, { traceparent: `00-${'a'.repeat(32)}-${'b'.repeat(16)}-00` });
    await limiter.stop();
    expect(receiver.spans).toMatchObject([
      { name: path, resource: { 'service.name': 'gate' } },
      { name: 'POST /json', parentSpanId: '' },
    ]);
  });
});

describe('without a receiver', () => {
  it('decisions continue, each change is one line, and the end comes nevertheless', async () => {
    const port = await freePort();
    // The exporter tries again for so long.
    const limiter = await startTraced(port, { OTEL_EXPORTER_OTLP_TIMEOUT: '200' });
    const caller = client(limiter);
    const lines = (text: string): number => limiter.program.output.split(text).length - 1;
    await eventually(async () => {
      await caller.allowed('t', 'k', 'v');
      expect(lines('Cannot export traces')).toBe(1);
    });
    expect(limiter.program.output).toContain(`it can" url="http://127.0.0.1:${port}`);
    for (let ask = 0; ask < 500; ask += 1) expect(await caller.allowed('t', 'k', 'v')).toBe(false);
    expect(lines('Cannot export traces')).toBe(1);
    expect(lines('OpenTelemetry warns')).toBe(0);

    const receiver = await OtlpReceiver.http({ port });
    cleanups.push(() => receiver.close());
    await eventually(async () => {
      await caller.allowed('t', 'k', 'v');
      expect(lines('Exporting traces again')).toBe(1);
    });
    await receiver.close();
    await caller.allowed('t', 'k', 'v');
    await limiter.stop();
  });
});

describe('what OpenTelemetry has to say', () => {
  it('is logged as it reads its settings, and OTEL_LOG_LEVEL changes nothing of that', async () => {
    const receiver = await receiverOf('http');
    const limiter = await startTraced(receiver.port, {
      OTEL_BSP_MAX_QUEUE_SIZE: 'many',
      OTEL_EXPORTER_OTLP_TIMEOUT: '-5',
      OTEL_LOG_LEVEL: 'info',
      LOG_FORMAT: 'json',
      DISABLE_STATS: 'true',
    });
    await client(limiter).allowed('t', 'k', 'v');
    await eventually(() => expect(receiver.named(path)).toHaveLength(1));
    const written = limiter.program.output.split('\n').filter((line) => line !== '');
    const problems = written
      .map((line) => JSON.parse(line))
      .filter((line) => line['@message'] === 'OpenTelemetry warns')
      .map(({ problem }) => problem);
    expect(problems).toEqual(
      expect.arrayContaining([
        expect.stringContaining('OTEL_EXPORTER_OTLP_TIMEOUT is invalid'),
        expect.stringContaining("Unknown value 'many' for OTEL_BSP_MAX_QUEUE_SIZE"),
      ]),
    );
  });

  it('of spans that found no room is counted', async () => {
    const receiver = await receiverOf('http');
    const limiter = await startTraced(receiver.port, { OTEL_BSP_MAX_QUEUE_SIZE: '1' });
    const callers = Array.from({ length: 8 }, () => client(limiter));
    await eventually(async () => {
      await Promise.all(callers.map((caller) => caller.allowed('t', 'k', 'v')));
      const stats = await (await fetch(`http://127.0.0.1:${limiter.ports.debug}/stats`)).text();
      const [, dropped] = /^ratelimit\.tracing\.spans_dropped: (\d+)$/m.exec(stats) ?? [];
      expect(Number(dropped)).toBeGreaterThan(0);
    });
  });
});

describeWithServer('spans of the store', redisProgram, (program) => {
  let redis: RedisServer;
  beforeAll(async () => {
    redis = await startRedis({ path: program });
  });
  afterAll(() => redis.stop());

  it('stand for batches of each thread, with links to their calls', async () => {
    const receiver = await receiverOf('http');
    const limiter = await startTraced(receiver.port, {
      BACKEND_TYPE: 'redis',
      REDIS_SOCKET_TYPE: 'tcp',
      REDIS_URL: `127.0.0.1:${redis.port}`,
      LIMITER_WORKERS: '2',
    });
    const callers = Array.from({ length: 8 }, () => client(limiter));
    const calls = 40;
    for (let round = 0; round < calls / 8; round += 1) {
      await Promise.all(callers.map((caller) => caller.allowed('t', 'k', 'v')));
    }
    await eventually(() => expect(receiver.named(path)).toHaveLength(calls));
    const batches = receiver.named('Redis Pipeline Execution');
    const ids = receiver.named(path).map(({ traceId, spanId }) => `${traceId} ${spanId}`);
    const linked = batches.flatMap(({ links }) => links.map(({ traceId, spanId }) => `${traceId} ${spanId}`));
    // What is rejected is looked at once more, for reservations that have expired.
    expect([...new Set(linked)].sort()).toEqual(ids.sort());
    for (const batch of batches) {
      expect(batch).toMatchObject({
        kind: 3,
        status: 0,
        attributes: {
          'db.system.name': 'redis',
          'db.operation.batch.size': batch.links.length,
          'weir.calls': batch.links.length,
          'weir.store': 'store',
        },
      });
      expect(`${batch.traceId} ${batch.parentSpanId}`).toBe(
        `${batch.links[0]?.traceId} ${batch.links[0]?.spanId}`,
      );
    }
    const instances = new Set(receiver.spans.map(({ resource }) => resource['service.instance.id']));
    expect([...instances]).toEqual([
      expect.stringMatching(/^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/),
    ]);
  });
});
